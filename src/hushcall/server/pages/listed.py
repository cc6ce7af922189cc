"""The published list as the pages search it: a version's bytes come in once, entries that match a search leave.

Searched as :mod:`hushcall.protocol.list_index` does it, which parses only what is shown: a hundred thousand entries
cost no more than ten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import sqlalchemy as sa

from hushcall.errors import InvalidNumber
from hushcall.formats.ranges import LEAST_OF_TEN, Ranges, ranges
from hushcall.numbers import NANP, NumberingPlan, plan_named
from hushcall.protocol.blocklist import Entry, Terms, terms_of, unix
from hushcall.protocol.list_index import ListIndex
from hushcall.server.db import schema
from hushcall.server.db.store import Store

PAGE = 50
_LETTERS = re.compile(r"[^\d\s()+./-]")


@dataclass(frozen=True)
class PublishedList:
    """One version, ready to be searched."""

    version: int
    made: int
    round: int
    terms: Terms
    index: ListIndex = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes) -> PublishedList:
        """The list of the bytes that this server signed."""
        head = json.loads(data[: data.find(b"\n")])
        terms = terms_of(head)
        return cls(head["version"], unix(head["made"]), head["round"], terms, ListIndex.of_entries(data))

    def __len__(self) -> int:
        return len(self.index)

    def find(self, number: str) -> Entry | None:
        """The entry of one number."""
        return self.index.find(number)

    @cached_property
    def ranges(self) -> Ranges:
        """The rented blocks that it shows; only entries that may be part of one are parsed."""
        near = self.index.entries(self.index.in_company(LEAST_OF_TEN))
        return ranges(entry for entry in near if self.terms.block(entry))


@dataclass(frozen=True)
class Slice:
    """One page of some rows."""

    rows: Sequence[Any]
    page: int
    pages: int

    @classmethod
    def of(cls, rows: Sequence[Any], page: int) -> Slice:
        """That page, or the last one there is."""
        pages = max(-(-len(rows) // PAGE), 1)
        page = min(max(page, 1), pages)
        return cls(rows[(page - 1) * PAGE : page * PAGE], page, pages)


@dataclass(frozen=True)
class Search:
    """What somebody looked for, and a page of what was found. ``number`` is set where it was one whole number."""

    asked: str
    number: str = ""
    problem: str = ""
    entries: tuple[Entry, ...] = ()
    total: int = 0
    page: int = 1
    pages: int = 1


def search(published: PublishedList, asked: str, page: int = 1) -> Search:
    """Look for a number, or for all that begin with some digits, in any notation; for nothing: everything."""
    text = asked.strip()
    if _LETTERS.search(text):
        return Search(text, problem="Type a number, or its first digits.")
    plan = plan_named(published.terms.plan)
    code, most = str(plan.country_code), plan.most_digits
    digits = _after_the_country_code(text, plan)
    if digits is None or len(digits) > most:
        return Search(text, problem=f"The list holds numbers of country code +{code}, with {_length(plan)} digits.")
    entry = published.find(f"+{code}{digits}")
    if entry or len(digits) == most:
        try:
            number = str(plan.parse(f"+{code}{digits}"))
        except InvalidNumber as error:
            return Search(text, problem=f"No phone has this number: its {error.field} must {error.rule}.")
        return Search(text, number, entries=(entry,) if entry else (), total=1 if entry else 0)
    places = published.index.starting(f"+{code}{digits}")
    part = Slice.of(places, page)
    entries = tuple(published.index.entries(part.rows))
    return Search(text, entries=entries, total=len(places), page=part.page, pages=part.pages)


def _after_the_country_code(text: str, plan: NumberingPlan) -> str | None:
    """The digits of a number or its beginning, however it is written; None for another country's."""
    digits, code = re.sub(r"\D", "", text), str(plan.country_code)
    if text.startswith("+") or (digits.startswith("00") and plan.national_prefix):
        digits = digits.removeprefix("00")
        return digits.removeprefix(code) if digits.startswith(code) or not digits else None
    if plan.national_prefix:
        return digits.removeprefix(plan.national_prefix)
    return digits.removeprefix(code) if plan is NANP else digits


def _length(plan: NumberingPlan) -> str:
    return f"at most {_spelled(plan.most_digits)}" if plan.lengths else _spelled(plan.most_digits)


def _spelled(count: int) -> str:
    return {8: "eight", 9: "nine", 10: "ten", 11: "eleven"}.get(count, str(count))


class Lists:
    """The version in force, read once a version and process."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, Lock()
        self._kept: PublishedList | None = None

    def newest(self) -> PublishedList | None:
        """The list; None before the first."""
        table = schema.versions.c
        version = self._store.rows(sa.select(sa.func.max(table.version)))[0][0]
        if version is None:
            return None
        with self._lock:  # one reads, the others wait for it
            if self._kept is None or self._kept.version != version:
                rows = self._store.rows(sa.select(table.data).order_by(table.version.desc()).limit(1))
                self._kept = PublishedList.from_bytes(bytes(rows[0].data))
            return self._kept
