"""Numbers on the published list and in the findings of rounds, and why each is listed or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidNumber
from hushcall.formats.ranges import Range
from hushcall.protocol.blocklist import Entry
from hushcall.protocol.imported import Imported
from hushcall.protocol.items import OPEN
from hushcall.protocol.numbers import NANP, NumberingPlan, plan_named
from hushcall.protocol.states import HAS_FINDINGS, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.rows import AllowedRow, AppealRow, HitterRow, buckets_of, newest_round, round_of, typed
from hushcall.server.db.store import Store
from hushcall.server.http.public_cache import PublishedList
from hushcall.server.publishing import exclusions
from hushcall.server.publishing.exclusions import Exclusions, read_exclusions
from hushcall.server.rounds.round_data import rounds_within
from hushcall.server.settings import Settings
from hushcall.server.web.rendering import Bucket

T = TypeVar("T")
PAGE = 50
_LETTERS = re.compile(r"[^\d\s()+./-]")


@dataclass(frozen=True)
class Slice(Generic[T]):
    rows: Sequence[T]
    page: int
    pages: int

    @classmethod
    def of(cls, rows: Sequence[T], page: int) -> Slice[T]:
        """That page, or the last one."""
        return cls.read(len(rows), lambda count, start: rows[start : start + count], page)

    @classmethod
    def read(cls, count: int, read: Callable[[int, int], Sequence[T]], page: int) -> Slice[T]:
        """The same of rows that are read by number and place."""
        pages = max(-(-count // PAGE), 1)
        page = min(max(page, 1), pages)
        return cls(read(PAGE, (page - 1) * PAGE), page, pages)


@dataclass(frozen=True)
class Search:
    """A page of the entries that match a query. ``number`` is set where the query is a complete number."""

    query: str
    number: str = ""
    problem: str = ""
    entries: tuple[Entry, ...] = ()
    total: int = 0
    page: int = 1
    pages: int = 1


def search(published: PublishedList, query: str, page: int = 1) -> Search:
    """Entries that begin with the query's digits, in any notation. An empty query finds all."""
    text = query.strip()
    if _LETTERS.search(text):
        return Search(text, problem="Type a number, or its first digits.")
    plan = plan_named(published.header.plan)
    code, max_digits = str(plan.country_code), plan.max_digits
    digits = _national_digits(text, plan)
    if digits is None or len(digits) > max_digits:
        length = f"at most {max_digits}" if plan.lengths else str(max_digits)
        return Search(text, problem=f"The list holds numbers of country code +{code}, with {length} digits.")
    entry = published.index.find(f"+{code}{digits}")
    if entry or len(digits) == max_digits:
        try:
            number = str(plan.parse(f"+{code}{digits}"))
        except InvalidNumber as error:
            return Search(text, problem=f"No phone has this number: its {error.field} must {error.rule}.")
        return Search(text, number, entries=(entry,) if entry else (), total=1 if entry else 0)
    places = published.index.starting(f"+{code}{digits}")
    part = Slice.of(places, page)
    entries = tuple(published.index.entries(part.rows))
    return Search(text, entries=entries, total=len(places), page=part.page, pages=part.pages)


def _national_digits(text: str, plan: NumberingPlan) -> str | None:
    """The national digits of a number or its beginning, in any notation. None for another country's."""
    digits, code = re.sub(r"\D", "", text), str(plan.country_code)
    if text.startswith("+") or (digits.startswith("00") and plan.national_prefix):
        digits = digits.removeprefix("00")
        return digits.removeprefix(code) if digits.startswith(code) or not digits else None
    if plan.national_prefix:
        return digits.removeprefix(plan.national_prefix)
    return digits.removeprefix(code) if plan is NANP else digits


@dataclass(frozen=True)
class Hitter:
    """A number that a round found. ``rounds`` counts all rounds that found it."""

    row: HitterRow
    rounds: int
    verdict: str


@dataclass(frozen=True)
class Findings:
    round: int
    hitters: tuple[Hitter, ...]
    total: int
    page: int = 1
    pages: int = 1


@dataclass(frozen=True)
class Verdicts:
    published: PublishedList | None
    rule: Exclusions
    has_lookup: bool
    window_rounds: int

    def words(self, number: str, newest: int | None, *, published: bool) -> str:
        """``newest`` is the newest round that found the number, ``published`` whether such a round is."""
        reasons = (
            (self.entry(number) is not None, "listed"),
            ((why := self.rule.reason(number)) is not None, f"off: {why}"),
            (not published, "not yet: its round is not published"),
            (not self._in_window(newest), "off: not seen within the window"),
            (self.has_lookup, "off: by your lookup command"),
        )
        return next((words for holds, words in reasons if holds), "off: not in the published version")

    def entry(self, number: str) -> Entry | None:
        if self.published is None:
            return None
        return (
            self.published.found_ranges.around(number) if number.endswith(OPEN) else self.published.index.find(number)
        )

    def _in_window(self, newest: int | None) -> bool:
        if newest is None:
            return False
        return self.published is None or newest > self.published.round - self.window_rounds


def verdicts(connection: Connection, settings: Settings, published: PublishedList | None) -> Verdicts:
    rule = read_exclusions(connection, settings.list, settings.round.chosen_plan())
    row = round_of(connection, published.round) if published else None
    rounds = rounds_within(connection, row, published.header.window_days) if row and published else 0
    return Verdicts(published, rule, bool(settings.list.allow_command), rounds)


def oldest_round(store: Store) -> int:
    """Not always 1, because a restore moves rounds up."""
    return int(store.rows(sa.select(sa.func.min(schema.rounds.c.id)))[0][0] or 1)


def buckets(store: Store, round_id: int | None = None) -> tuple[int, tuple[Bucket, ...]]:
    """The buckets of a round, by default of the newest with buckets. Round 0: no round has any."""
    with store.read() as connection:
        if round_id is None:
            round_id = connection.execute(sa.select(sa.func.max(schema.buckets.c.round))).scalar() or 0
        table = schema.hitters.c
        query = sa.select(table.bucket, sa.func.count()).where(table.round == round_id).group_by(table.bucket)
        counts = {row[0]: int(row[1]) for row in connection.execute(query)}
        return round_id, tuple(
            Bucket(row.bucket, row.users, row.runs, counts.get(row.bucket, 0) if row.bucket else sum(counts.values()))
            for row in buckets_of(connection, round_id)
        )


def hitters(
    store: Store,
    settings: Settings,
    published: PublishedList | None,
    round_id: int | None = None,
    page: int = 1,
    per_page: int = 15,
) -> Findings | None:
    """The findings of a round, by default of the newest decoded one. None: there is no such round."""
    both = sa.union_all(sa.select(schema.hitters), sa.select(schema.ranges)).subquery()
    table, rows = schema.rounds.c, both.c
    with store.read() as connection:
        decoded = table.state.in_(sorted(HAS_FINDINGS)) | table.held_from.in_(sorted(HAS_FINDINGS))
        round_ = newest_round(connection, decoded if round_id is None else table.id == round_id)
        if round_ is None:
            return None
        total = int(connection.execute(sa.select(sa.func.count()).where(rows.round == round_.id)).scalar_one())
        pages = max(-(-total // per_page), 1)
        page = min(max(page, 1), pages)
        query = sa.select(both).where(rows.round == round_.id).order_by(rows.estimate.desc(), rows.number)
        on_page = typed(HitterRow, connection.execute(query.limit(per_page).offset((page - 1) * per_page)))
        counts = _round_counts(connection, [row.number for row in on_page])
        verdict = verdicts(connection, settings, published)
    words = partial(verdict.words, newest=round_.id, published=round_.state == PUBLISHED)
    findings = [Hitter(row, counts.get(row.number, 1), words(row.number)) for row in on_page]
    return Findings(round_.id, tuple(findings), total, page, pages)


def _round_counts(connection: Connection, numbers: list[str]) -> Mapping[str, int]:
    counts = dict[str, int]()
    for rows in (schema.hitters.c, schema.ranges.c):
        query = sa.select(rows.number, sa.func.count()).where(rows.number.in_(numbers)).group_by(rows.number)
        counts |= {row[0]: int(row[1]) for row in connection.execute(query)}
    return counts


@dataclass(frozen=True)
class Story:
    number: str
    entry: Entry | None
    blocks: bool  # whether phones block it, or only warn
    verdict: str
    sightings: Sequence[Any]  # rows of the rounds that found it, newest first
    appeals: tuple[AppealRow, ...]
    allowed: AllowedRow | None
    block: Range | None  # the rented block around it
    imported: Imported | None


def story(
    store: Store, settings: Settings, published: PublishedList | None, number: str, named: Imported | None
) -> Story:
    source, table = schema.ranges if number.endswith(OPEN) else schema.hitters, schema.rounds.c
    rows = source.c
    figures = (rows.estimate, rows.low, rows.high, rows.p_value, rows.length, rows.strict, rows.hinted)
    query = (
        sa.select(rows.round, table.opens, table.state, *figures)
        .join(schema.rounds)
        .where(rows.number == number)
        .order_by(rows.round.desc())
    )
    with store.read() as connection:
        sightings = connection.execute(query).all()
        verdict = verdicts(connection, settings, published)
    log = exclusions.appeals(store, number)
    allowed = next(iter(exclusions.allowlist(store, number)), None)
    entry = verdict.entry(number)
    if entry is None and not sightings and not log and allowed is None and number not in verdict.rule.in_file:
        words = "never found by any round"
    else:
        was_published = any(row.state == PUBLISHED for row in sightings) or not sightings
        words = verdict.words(number, sightings[0].round if sightings else None, published=was_published)
    blocks = published is not None and entry is not None and published.header.block(entry)
    around = published.ranges.around(number) if published and not number.endswith(OPEN) else None
    return Story(number, entry, blocks, words, sightings, tuple(log), allowed, around, named)
