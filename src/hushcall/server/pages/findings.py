"""What rounds found: buckets, heavy hitters with the reason why each is listed or not, and a number's history.

A verdict is worked out from what keeps numbers off the list today: appeals, the allowlist (table and file), protected
codes, the window. The operator's own lookup is not asked again: it may be slow, and its answer shows in the list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import HushcallError
from hushcall.numbers import NANP
from hushcall.protocol.blocklist import Entry
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.pages.listed import PublishedList
from hushcall.server.publishing import exclusions
from hushcall.server.settings import ListSettings

_DECODED = ("decoded", "published")


@dataclass(frozen=True)
class Bucket:
    """One area code of a round; ``code`` 0 is a round without buckets."""

    code: int
    users: int
    runs: bool
    found: int


@dataclass(frozen=True)
class Hitter:
    """A number that a round found; ``days`` counts the rounds that ever did."""

    number: str
    bucket: int
    estimate: float
    low: float
    high: float
    p_value: float
    days: int
    listed: bool
    verdict: str


@dataclass(frozen=True)
class Found:
    """A page of what a round found, the largest first."""

    round: int
    hitters: tuple[Hitter, ...]
    total: int
    page: int = 1
    pages: int = 1


@dataclass(frozen=True)
class Keep:
    """What keeps numbers off the list, as far as it is asked here."""

    appealed: frozenset[str]
    allowed: frozenset[str]
    in_file: frozenset[str]
    file_problem: str = ""
    has_lookup: bool = False

    def verdict(self, number: str, entry: Entry | None, *, published: bool, in_window: bool) -> str:
        """Why a number is listed, or why it is not."""
        reasons = (
            (entry is not None, "listed"),
            (number in self.appealed, "off: appealed"),
            (number in self.allowed, "off: on the allowlist"),
            (number in self.in_file, "off: in the allow file"),
            (exclusions.is_protected(NANP.parse(number)), "off: emergency or service code"),
            (not published, "not yet: its round is not published"),
            (not in_window, "off: not seen within the window"),
            (self.has_lookup, "off: by your lookup command"),
        )
        return next((words for holds, words in reasons if holds), "off: not in the published version")


def buckets(store: Store, number: int | None = None) -> tuple[int, tuple[Bucket, ...]]:
    """The buckets of a round; by default of the newest that was decided. Round 0: none was yet."""
    with store.read() as connection:
        if number is None:
            number = connection.execute(sa.select(sa.func.max(schema.buckets.c.round))).scalar() or 0
        table, rows = schema.buckets.c, schema.hitters.c
        query = sa.select(rows.bucket, sa.func.count()).where(rows.round == number).group_by(rows.bucket)
        found = {row[0]: int(row[1]) for row in connection.execute(query)}
        made = sa.select(table.bucket, table.users, table.runs).where(table.round == number).order_by(table.bucket)
        all_found = sum(found.values())
        return number, tuple(
            Bucket(r.bucket, r.users, r.runs, found.get(r.bucket, 0) if r.bucket else all_found)
            for r in connection.execute(made)
        )


def hitters(
    store: Store,
    settings: ListSettings,
    published: PublishedList | None,
    number: int | None = None,
    page: int = 1,
    most: int = 15,
) -> Found | None:
    """What a round found; by default the newest that is decoded. None: there is no such round."""
    table, rows = schema.rounds.c, schema.hitters.c
    with store.read() as connection:
        done = table.state.in_(_DECODED) | table.held_from.in_(_DECODED)
        query = sa.select(table.id, table.state).order_by(table.id.desc()).limit(1)
        row = connection.execute(query.where(done if number is None else table.id == number)).first()
        if row is None:
            return None
        total = int(connection.execute(sa.select(sa.func.count()).where(rows.round == row.id)).scalar_one())
        pages = max(-(-total // most), 1)
        page = min(max(page, 1), pages)
        shown = connection.execute(
            sa.select(schema.hitters)
            .where(rows.round == row.id)
            .order_by(rows.estimate.desc(), rows.number)
            .limit(most)
            .offset((page - 1) * most)
        ).all()
        numbers = [each.number for each in shown]
        days = _days(connection, numbers)
        keep = keeping(connection, settings, numbers)
    in_window = published is None or row.id > published.round - published.terms.window
    made = []
    for each in shown:
        entry = published.find(each.number) if published else None
        words = keep.verdict(each.number, entry, published=row.state == "published", in_window=in_window)
        values = (each.estimate, each.low, each.high, each.p_value)
        made.append(Hitter(each.number, each.bucket, *values, days.get(each.number, 1), entry is not None, words))
    return Found(row.id, tuple(made), total, page, pages)


def keeping(connection: Connection, settings: ListSettings, numbers: Collection[str]) -> Keep:
    """What keeps some of these numbers off the list."""
    wanted = list(numbers)
    appealed = sa.select(schema.appeals.c.number).where(
        schema.appeals.c.closed.is_(None), schema.appeals.c.number.in_(wanted)
    )
    allowed = sa.select(schema.allowed.c.number).where(schema.allowed.c.number.in_(wanted))
    in_file, problem = frozenset[str](), ""
    if settings.allow_file is not None:
        try:
            in_file = exclusions.read_allow_file(settings.allow_file)
        except HushcallError:
            problem = "the allow file cannot be read"
    return Keep(
        frozenset(connection.execute(appealed).scalars()),
        frozenset(connection.execute(allowed).scalars()),
        in_file,
        problem,
        bool(settings.allow_command),
    )


def _days(connection: Connection, numbers: list[str]) -> Mapping[str, int]:
    rows = schema.hitters.c
    query = sa.select(rows.number, sa.func.count()).where(rows.number.in_(numbers)).group_by(rows.number)
    return {row[0]: int(row[1]) for row in connection.execute(query)}


@dataclass(frozen=True)
class Story:
    """All that is known about one number."""

    number: str
    entry: Entry | None
    verdict: str
    seen: tuple[Any, ...]  # round, opens, state, estimate, low, high, p_value; newest first
    appeals: tuple[Any, ...]
    allowed: Any | None

    @property
    def open_appeal(self) -> Any | None:
        """The appeal that keeps it off the list now."""
        return next((one for one in self.appeals if one.closed is None), None)


def story(store: Store, settings: ListSettings, published: PublishedList | None, number: str) -> Story:
    """The history of a number of the plan."""
    rows, table = schema.hitters.c, schema.rounds.c
    with store.read() as connection:
        seen = connection.execute(
            sa.select(rows.round, table.opens, table.state, rows.estimate, rows.low, rows.high, rows.p_value)
            .join(schema.rounds)
            .where(rows.number == number)
            .order_by(rows.round.desc())
        ).all()
        log = schema.appeals
        appeals = connection.execute(sa.select(log).where(log.c.number == number).order_by(log.c.id.desc())).all()
        allowed = connection.execute(sa.select(schema.allowed).where(schema.allowed.c.number == number)).first()
        keep = keeping(connection, settings, [number])
    entry = published.find(number) if published else None
    if entry is None and not seen and not appeals and allowed is None and number not in keep.in_file:
        verdict = "never found by any round"
    else:
        newest = seen[0] if seen else None
        in_window = newest is not None and (
            published is None or newest.round > published.round - published.terms.window
        )
        was_published = any(one.state == "published" for one in seen) or not seen
        verdict = keep.verdict(number, entry, published=was_published, in_window=in_window)
    return Story(number, entry, verdict, tuple(seen), tuple(appeals), allowed)
