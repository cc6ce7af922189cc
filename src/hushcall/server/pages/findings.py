"""What rounds found: buckets, heavy hitters with the reason why each is listed or not, and a number's history.

A verdict is worked out from what keeps numbers off the list today: appeals, the allowlist (table and file), protected
codes, the window. The operator's own lookup is not asked again: it may be slow, and its answer shows in the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.formats.ranges import Range
from hushcall.protocol.blocklist import Entry
from hushcall.protocol.states import HAS_FINDINGS, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.rows import AllowedRow, AppealRow, HitterRow, buckets_of, newest_round, typed
from hushcall.server.db.store import Store
from hushcall.server.pages.listed import PublishedList
from hushcall.server.publishing import appeals
from hushcall.server.publishing.exclusions import Exclusions, exclusions
from hushcall.server.service import Service

_SHOWN = ("estimate", "low", "high", "p_value", "length")


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
    length: int  # over how many rounds
    implausible: bool
    days: int
    listed: bool
    verdict: str


@dataclass(frozen=True)
class Findings:
    """A page of what a round found, the largest first."""

    round: int
    hitters: tuple[Hitter, ...]
    total: int
    page: int = 1
    pages: int = 1


@dataclass(frozen=True)
class Verdicts:
    """Why each number is listed, or is not: what is published, and what keeps numbers off today."""

    published: PublishedList | None
    rule: Exclusions
    has_lookup: bool

    def words(self, number: str, seen: int | None, *, published: bool) -> str:
        """In a few words. ``seen`` is the newest round that found it, ``published`` whether one that did is."""
        reasons = (
            (self.entry(number) is not None, "listed"),
            (bool(why := self.rule.why_not(number)), f"off: {why}"),
            (not published, "not yet: its round is not published"),
            (not self._in_window(seen), "off: not seen within the window"),
            (self.has_lookup, "off: by your lookup command"),
        )
        return next((words for holds, words in reasons if holds), "off: not in the published version")

    def entry(self, number: str) -> Entry | None:
        """The published entry of a number."""
        return self.published.find(number) if self.published else None

    def _in_window(self, seen: int | None) -> bool:
        if seen is None:
            return False
        return self.published is None or seen > self.published.round - self.published.terms.window


def verdicts(connection: Connection, service: Service, published: PublishedList | None) -> Verdicts:
    """What the tables and the allow file say now."""
    settings = service.settings.list
    return Verdicts(published, exclusions(connection, settings, service.plan), bool(settings.allow_command))


def oldest_round(store: Store) -> int:
    """The first round that there is: not always 1, since a restore moves rounds up."""
    return int(store.rows(sa.select(sa.func.min(schema.rounds.c.id)))[0][0] or 1)


def buckets(store: Store, round_id: int | None = None) -> tuple[int, tuple[Bucket, ...]]:
    """The buckets of a round; by default of the newest that was decided. Round 0: none was yet."""
    with store.read() as connection:
        if round_id is None:
            round_id = connection.execute(sa.select(sa.func.max(schema.buckets.c.round))).scalar() or 0
        rows = schema.hitters.c
        query = sa.select(rows.bucket, sa.func.count()).where(rows.round == round_id).group_by(rows.bucket)
        counts = {row[0]: int(row[1]) for row in connection.execute(query)}
        return round_id, tuple(
            Bucket(one.bucket, one.users, one.runs, counts.get(one.bucket, 0) if one.bucket else sum(counts.values()))
            for one in buckets_of(connection, round_id)
        )


def hitters(
    service: Service, published: PublishedList | None, round_id: int | None = None, page: int = 1, most: int = 15
) -> Findings | None:
    """What a round found; by default the newest that is decoded. None: there is no such round."""
    table, rows = schema.rounds.c, schema.hitters.c
    with service.store.read() as connection:
        done = table.state.in_(sorted(HAS_FINDINGS)) | table.held_from.in_(sorted(HAS_FINDINGS))
        row = newest_round(connection, done if round_id is None else table.id == round_id)
        if row is None:
            return None
        total = int(connection.execute(sa.select(sa.func.count()).where(rows.round == row.id)).scalar_one())
        pages = max(-(-total // most), 1)
        page = min(max(page, 1), pages)
        query = sa.select(schema.hitters).where(rows.round == row.id).order_by(rows.estimate.desc(), rows.number)
        shown = typed(HitterRow, connection.execute(query.limit(most).offset((page - 1) * most)))
        days = _days(connection, [each.number for each in shown])
        judge = verdicts(connection, service, published)
    made = []
    for each in shown:
        words = judge.words(each.number, row.id, published=row.state == PUBLISHED)
        listed = judge.entry(each.number) is not None
        values = (each.estimate, each.low, each.high, each.p_value, each.length, each.implausible)
        made.append(Hitter(each.number, each.bucket, *values, days.get(each.number, 1), listed, words))
    return Findings(row.id, tuple(made), total, page, pages)


def _days(connection: Connection, numbers: list[str]) -> Mapping[str, int]:
    rows = schema.hitters.c
    query = sa.select(rows.number, sa.func.count()).where(rows.number.in_(numbers)).group_by(rows.number)
    return {row[0]: int(row[1]) for row in connection.execute(query)}


@dataclass(frozen=True)
class Seen:
    """One round that found a number."""

    round: int
    opens: int
    state: str
    estimate: float
    low: float
    high: float
    p_value: float
    length: int


@dataclass(frozen=True)
class Story:
    """All that is known about one number."""

    number: str
    entry: Entry | None
    blocks: bool  # once it is listed: otherwise phones only warn
    verdict: str
    seen: tuple[Seen, ...]  # newest first
    appeals: tuple[AppealRow, ...]
    allowed: AllowedRow | None
    block: Range | None  # the rented block that it lies in

    @property
    def open_appeal(self) -> AppealRow | None:
        """The appeal that keeps it off the list now."""
        return next((one for one in self.appeals if one.closed is None), None)


def story(service: Service, published: PublishedList | None, number: str) -> Story:
    """The history of a number of the plan."""
    rows, table = schema.hitters.c, schema.rounds.c
    with service.store.read() as connection:
        seen = typed(
            Seen,
            connection.execute(
                sa.select(rows.round, table.opens, table.state, *(rows[name] for name in _SHOWN))
                .join(schema.rounds)
                .where(rows.number == number)
                .order_by(rows.round.desc())
            ),
        )
        judge = verdicts(connection, service, published)
    log = appeals.appeals(service.store, number)
    allowed = next(iter(appeals.allowlist(service.store, number)), None)
    entry = judge.entry(number)
    if entry is None and not seen and not log and allowed is None and number not in judge.rule.in_file:
        words = "never found by any round"
    else:
        was_published = any(one.state == PUBLISHED for one in seen) or not seen
        words = judge.words(number, seen[0].round if seen else None, published=was_published)
    blocks = published is not None and entry is not None and published.terms.block(entry)
    around = published.ranges.around(number) if published else None
    return Story(number, entry, blocks, words, tuple(seen), tuple(log), allowed, around)
