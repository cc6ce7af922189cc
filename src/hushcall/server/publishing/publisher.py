"""Publishes signed versions of the list with deltas and exports, and the operator's corrections of it.

A draft is made outside of any transaction, because the operator's lookup may take a minute. Publishing it is one
transaction under the publishing lock. It first checks that no other version was published, and that the same numbers
are appealed and allowed as in the draft. Identical sightings give identical bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from tuf.api.metadata import TargetFile

from hushcall.errors import HushcallError
from hushcall.formats.blocklists import WRITERS, writer_named
from hushcall.formats.phoneblock import Change, changes_between
from hushcall.protocol import blocklist, round_commitment
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader, Sighting
from hushcall.protocol.items import OPEN
from hushcall.protocol.numbers import NumberingPlan
from hushcall.protocol.ranges import RANGES_TARGET, RangeList, number_or_range, range_of
from hushcall.protocol.states import DECODED, PUBLISHED
from hushcall.server.db import list_entries, schema
from hushcall.server.db.list_entries import Lines
from hushcall.server.db.rows import RoundRow, existing_round, lock_round, newest_round, round_rows
from hushcall.server.db.store import PublishedFiles, Store, put_files
from hushcall.server.publishing import exclusions, imports, ranges
from hushcall.server.publishing.exclusions import kept_off_by_operators, never_listed
from hushcall.server.publishing.imports import Importer
from hushcall.server.rounds import round_status
from hushcall.server.rounds.round_data import ListSpan, list_span
from hushcall.server.settings import Settings
from hushcall.server.signing import signer
from hushcall.server.signing.keys import KeyRing

ATTEMPTS = 5
IN_ONE_WRITE = 20_000
"""A version with more changed lines is stored in parts, so that no upload waits for it."""
ROOM = 10
"""Such a version leaves version numbers free for those that are published before it."""
SIGNED_EXPORTS = 10_000
"""Numbers of the largest list of which all formats are signed, unless they are named."""


class Overtaken(HushcallError):
    """Other servers published first, at every attempt."""


class _Stale(Exception):
    """Another list was published or staged meanwhile."""


@dataclass(frozen=True)
class _Draft:
    """An unpublished version without its entries, what it changes, and the numbers that operators keep off it.

    ``staged`` lines are stored already. Of these, ``changes`` holds the lines that they replace.
    """

    before: Blocklist | None
    after: Blocklist
    span: ListSpan
    entries: int
    kept_off: frozenset[str]
    changes: dict[str, Lines] = field(default_factory=dict)
    news: list[Change] = field(default_factory=list)
    staged: int = 0
    targets: dict[str, bytes | TargetFile] = field(default_factory=dict)
    sha256: str = ""
    ranges: RangeList | None = None

    @property
    def old_version(self) -> int:
        return self.before.version if self.before else 0


@dataclass
class Publisher:
    """``ring`` reads the online keys at each use, so that a rotation needs no restart.

    ``fence`` refuses a round's list from a worker that no longer leads.
    """

    store: Store
    settings: Settings
    ring: Callable[[], KeyRing]
    fence: Callable[[Connection], None]

    def publish(self, round_id: int, now: int) -> bool:
        """Decoded → published, with the round's findings in the list. False where another server was first."""
        return self._publish(round_id, now)

    def republish(self, now: int) -> bool:
        """Publishes a new version between rounds, after a correction. False where nothing has changed.

        Imported numbers are corrected too, apart from the list.
        """
        corrected = Importer(self.store, self.settings, self.ring).republish(now)
        return self._publish(None, now) or corrected

    def refresh(self, now: int) -> bool:
        """Renews signatures that are about to expire. False where there are none."""
        with self.store.write("refresh signatures") as connection:
            self.store.lock_publishing(connection)
            changed = signer.refresh(PublishedFiles(connection), self.ring(), _moment(now))
            put_files(connection, changed)
        return bool(changed)

    def leap(self, now: int, beyond: int) -> None:
        """After a restore: publishes the current list again, with its version raised by ``beyond``.

        Subscribers get all changes again, because they may know a version that was lost.
        """
        with self.store.write("leap") as connection:
            self.store.lock_publishing(connection)
            newest, targets = _newest(connection), None
            if newest is not None:
                before, entries = newest
                round_id = sa.select(schema.versions.c.round).where(schema.versions.c.version == before.version)
                number = connection.execute(round_id).scalar_one()
                after = replace(before, version=before.version + 1 + beyond, round=number)
                rounds_per_day = existing_round(connection, number).profile.rounds_per_day
                span = ListSpan(0, _rule(connection) or 0, rounds_per_day)  # no entry is decided anew
                published = ranges.published(connection)
                draft = _Draft(
                    before, after, span, entries, frozenset(), ranges=published if published.entries else None
                )
                draft = self._complete(connection, draft)
                targets = draft.targets | imports.signed(connection)
                self._record(connection, draft)
                connection.execute(sa.update(schema.changes).values(version=after.version))
            changed = signer.publish(PublishedFiles(connection), self.ring(), targets, _moment(now), beyond)
            put_files(connection, changed)

    def _publish(self, round_id: int | None, now: int) -> bool:
        for _ in range(ATTEMPTS):
            with suppress(_Stale):
                if (draft := self._draft(round_id)) is None:
                    return False
                if (published := self._put(draft, round_id, now)) is not None:
                    return published
        raise Overtaken(f"other servers published the list first, {ATTEMPTS} times in a row: try again")

    def _put(self, draft: _Draft, round_id: int | None, now: int) -> bool | None:
        """None where the list, or what operators say of it, has changed since the draft."""
        with self.store.write("publish a list" if round_id is None else "decoded to published") as connection:
            self.store.lock_publishing(connection)
            if round_id is not None:
                self.fence(connection)
                row = lock_round(connection, round_id)
                if row is None or row.state != DECODED:
                    return False
            stored = list_entries.staged(connection, draft.after.version) if draft.staged else 0
            if (_newest_version(connection), stored) != (draft.old_version, draft.staged):
                return None
            if _corrected(connection, draft.kept_off):
                return None  # during the lookup
            targets = draft.targets | imports.signed(connection)
            changed = signer.publish(PublishedFiles(connection), self.ring(), targets, _moment(now))
            put_files(connection, changed)
            self._record(connection, draft)
            if round_id is not None:
                update = sa.update(schema.rounds).where(schema.rounds.c.id == round_id)
                connection.execute(update.values(state=PUBLISHED))
        return True

    def _draft(self, round_id: int | None) -> _Draft | None:
        """The next version. None where the list would be the same."""
        with self.store.read() as connection:
            kept_off = kept_off_by_operators(connection)  # read first, so that a later change is noticed
            included = schema.rounds.c.state == PUBLISHED
            if round_id is not None:
                included |= schema.rounds.c.id == round_id
            row, newest = newest_round(connection, included), _newest(connection)
            if row is None:
                return None
            before, entries = newest or (None, 0)
            after, span = self._next(before, row), list_span(connection, row, self.settings.list)
            candidates, everything = self._candidates(connection, before, after, span, included, round_id)
            in_file = exclusions.read_exclusions(connection, self.settings.list, row.plan).in_file
            candidates |= _listed(connection, sorted(in_file))
            looked_up = sorted(candidates)
            if round_id is not None and self.settings.list.allow_command and not everything:
                looked_up = sorted(candidates.union(connection.execute(_recent(included, after, span)).scalars()))
            listed = None if round_id is not None or before is None else _listed(connection, sorted(candidates))
            never = never_listed(connection, self.settings.list, row.plan, looked_up, listed)
            candidates |= never
            draft = _Draft(before, after, span, entries, kept_off)
            for numbers in list_entries.chunks(sorted(candidates)):
                draft = self._with_lines(connection, draft, included, numbers, never)
            next_ranges = ranges.next_ranges(
                connection, self.settings.list, row.plan, after, span, included, corrected=round_id is None
            )
            if row.profile.hundreds or next_ranges.entries:
                draft = replace(draft, ranges=next_ranges)
            same = (
                not draft.changes and not draft.staged and next_ranges.entries == ranges.published(connection).entries
            )
        if round_id is None and before and same and replace(after, version=before.version) == before:
            return None
        with self.store.read() as connection:
            return self._complete(connection, draft)

    def _with_lines(
        self,
        connection: Connection,
        draft: _Draft,
        included: sa.ColumnElement[bool],
        numbers: Sequence[str],
        never: Collection[str],
    ) -> _Draft:
        """The draft with what changes of these numbers."""
        old = list_entries.among(connection, numbers) if draft.before else {}
        new = self._entries(connection, draft, included, numbers, never)
        lines = {number: entry.line() for number, entry in new.items()}
        pairs = ((number, (old.get(number), lines.get(number))) for number in numbers)
        changes = {number: pair for number, pair in pairs if pair[0] != pair[1]}
        before = draft.before and _with(draft.before, (old.get(number) for number in changes))
        after = replace(draft.after, entries=tuple(entry for number, entry in new.items() if number in changes))
        news = changes_between(before, after)
        draft = replace(draft, entries=draft.entries + len(new) - len(old))
        if not draft.staged:
            changes, news = draft.changes | changes, draft.news + news
            if len(changes) <= IN_ONE_WRITE:
                return replace(draft, changes=changes, news=news)
        return self._stage(draft, changes, {change.phone: change for change in news})

    def _stage(self, draft: _Draft, changes: dict[str, Lines], news: dict[str, Change]) -> _Draft:
        """Stores new lines in parts. ``changes`` and ``news`` of the draft become what is left to do."""
        version, table, staged = draft.old_version + ROOM, schema.changes, draft.staged
        if not staged:
            draft = replace(draft, after=replace(draft.after, version=version), changes={}, news=[])
            self._clean(version)
        draft.changes.update({number: (b"", None) for number, (before, _) in changes.items() if before is not None})
        draft.news.extend(news.pop(number) for number, (_, after) in changes.items() if after is None)
        for part in list_entries.chunks([(number, pair) for number, pair in changes.items() if pair[1] is not None]):
            numbers = [number for number, _ in part]
            with self.store.write("stage a list") as connection:
                self.store.lock_publishing(connection)
                if _newest_version(connection) != draft.old_version:
                    raise _Stale
                try:
                    list_entries.stage(connection, version, dict(part))
                except sa.exc.IntegrityError:
                    raise _Stale from None
                span = table.c.number.between(numbers[0], numbers[-1])
                known = set(connection.execute(sa.select(table.c.number).where(span)).scalars())
                fresh = [_change(news[number], version) for number in numbers if number not in known]
                if fresh:
                    connection.execute(sa.insert(table), fresh)
            draft.news.extend(news[number] for number in numbers if number in known)
            staged += len(part)
        return replace(draft, staged=staged)

    def _clean(self, version: int) -> None:
        """Deletes in parts what a publication staged that was not finished."""
        left = True
        while left:
            with self.store.write("unstage a list") as connection:
                self.store.lock_publishing(connection)
                left = list_entries.unstage(connection, version, limit=list_entries.CHUNK)

    def _candidates(
        self,
        connection: Connection,
        before: Blocklist | None,
        after: Blocklist,
        span: ListSpan,
        included: sa.ColumnElement[bool],
        round_id: int | None,
    ) -> tuple[set[str], bool]:
        """The numbers whose entries may change, and whether these are all.

        These are what the round found, what lost a sighting to the window, what came or went, and what is listed and
        kept off.
        """
        table, current = schema.hitters.c, sa.select(schema.entries.c.number).where(list_entries.CURRENT)
        recent = _recent(included, after, span)
        row = newest_round(connection, schema.rounds.c.id == before.round) if before else None
        if before is None or row is None or before.header != after.header or _rule(connection) != span.block:
            return set(connection.execute(recent.union(current)).scalars()), True
        first, past = before.round - list_span(connection, row, self.settings.list).window, after.round - span.window
        touched = (table.round == round_id) | ((table.round > first) & (table.round <= past))
        statements = (
            sa.select(table.number).where(touched).distinct(),
            recent.except_(current),
            current.except_(recent),
            current.where(schema.entries.c.number.in_(exclusions.KEPT_OFF)),
        )
        return {number for statement in statements for number in connection.execute(statement).scalars()}, False

    def _entries(
        self,
        connection: Connection,
        draft: _Draft,
        included: sa.ColumnElement[bool],
        numbers: Sequence[str],
        never: Collection[str],
    ) -> dict[str, Entry]:
        """Those of the numbers that are on the new version."""
        query = sa.select(schema.hitters, schema.rounds.c.opens).join(schema.rounds)
        span = draft.span
        sightings = (
            Sighting(
                *(r.number, r.round, r.opens, r.estimate, r.low, r.high, r.p_value, r.length, r.strict, r.hinted),
                span.other_lengths.get(r.round, 0),
            )
            for r in connection.execute(query.where(included, schema.hitters.c.number.in_(numbers)))
        )
        entries = blocklist.listed(sightings, draft.after.round, span.window, never, span.block, span.rounds_per_day)
        return {entry.number: entry for entry in entries}

    def _deltas(self, draft: _Draft) -> int:
        """Versions back to which there are deltas: those of two days at least, where a day has several rounds."""
        deltas, rounds_per_day = self.settings.list.deltas, draft.span.rounds_per_day
        return max(deltas, 2 * rounds_per_day) if deltas and rounds_per_day > 1 else deltas

    def _next(self, before: Blocklist | None, newest: RoundRow) -> Blocklist:
        window, profile = newest.window_days, newest.profile  # the round's own, which its phones know
        header = ListHeader(
            *(profile.mechanism, profile.epsilon, profile.tau, profile.level, newest.plan_name, window),
            block_days=blocklist.OLDER_CLIENTS_WARN if profile.warn_level else self.settings.list.block_days,
        )
        return Blocklist((before.version if before else 0) + 1, newest.id, newest.closes, header, ())

    def _complete(self, connection: Connection, draft: _Draft) -> _Draft:
        """The draft with its targets and digest."""
        after, version = draft.after, draft.old_version
        head, size, digest = _head(draft), 0, hashlib.sha256()
        staged = after.version if draft.staged else 0
        for line in chain([head], list_entries.lines(connection, version, draft.changes, staged)):
            digest.update(line)
            size += len(line)
        sha256 = digest.hexdigest()
        targets: dict[str, bytes | TargetFile] = {signer.LIST: signer.list_info(size, sha256, after.version)}
        table = schema.versions.c
        kept = sa.select(table.version, table.sha256).where(
            table.version >= after.version - self._deltas(draft), table.data.is_not(None)
        )
        for row in connection.execute(kept).all() if after.version == version + 1 else ():  # else it is no step
            if list_entries.touched(connection, row.version, version) + len(draft.changes) > max(
                draft.entries, IN_ONE_WRITE
            ):
                continue  # no smaller than the list
            step = list_entries.changed(connection, row.version, version)
            net = {n: (step.get(n, pair)[0], pair[1]) for n, pair in draft.changes.items()}
            net = {n: pair for n, pair in {**step, **net}.items() if pair[0] != pair[1]}
            data = blocklist.delta_of(row.version, head, (row.sha256, sha256), net)
            path = f"delta-{row.version}-{after.version}.jsonl"
            targets[path] = TargetFile.from_data(path, data, ["sha256"])
        names, range_entries = self.settings.list.exports, () if draft.ranges is None else draft.ranges.entries
        if names and (names != ["all"] or draft.entries <= SIGNED_EXPORTS):
            body = list_entries.lines(connection, version, draft.changes, staged)
            complete = replace(Blocklist.from_bytes(b"".join([head, *body])), ranges=range_entries)
            blocked = complete.to_block()  # none of these files can say "warn"
            writers = WRITERS.values() if names == ["all"] else [writer_named(name) for name in names]
            targets |= {f"exports/{writer.filename}": writer.write(blocked) for writer in writers}
        if draft.ranges is not None:
            targets[RANGES_TARGET] = draft.ranges.to_bytes()
        named = max(round_commitment.NAMED_ROUNDS, round_commitment.NAMED_DAYS * draft.span.rounds_per_day)
        targets[round_commitment.ROUNDS_TARGET] = _rounds(connection, after.round, named)
        return replace(draft, targets=targets, sha256=sha256)

    def _record(self, connection: Connection, draft: _Draft) -> None:
        after, table, keep = draft.after, schema.versions.c, max(self._deltas(draft), signer.KEPT_VERSIONS - 1)
        list_entries.unstage(connection, after.version, but=after.version if draft.staged else 0)
        list_entries.put(connection, after.version, draft.changes, keep)
        row = {"version": after.version, "round": after.round, "made": after.made, "entries": draft.entries}
        values = {"sha256": draft.sha256, "data": _head(draft), "block_rounds": draft.span.block}
        connection.execute(sa.insert(schema.versions).values(**row, **values))
        connection.execute(sa.update(schema.versions).where(table.version < after.version - keep).values(data=None))
        for news in list_entries.chunks(draft.news):
            changed = schema.changes.c.number.in_([change.phone for change in news])
            connection.execute(sa.delete(schema.changes).where(changed))
            connection.execute(sa.insert(schema.changes), [_change(change, after.version) for change in news])


def _change(change: Change, version: int) -> dict[str, Any]:
    return {"number": change.phone, "version": version, "votes": change.votes, "last_ms": change.last_activity_ms}


def _head(draft: _Draft) -> bytes:
    return blocklist.first_line(draft.after, draft.entries)


def _with(version: Blocklist, lines: Iterable[bytes | None]) -> Blocklist:
    """A version with some of its entries."""
    return replace(version, entries=tuple(Entry.from_line(line) for line in lines if line is not None))


def _recent(included: sa.ColumnElement[bool], after: Blocklist, span: ListSpan) -> sa.Select[str]:
    """The numbers found within the window."""
    table = schema.hitters.c
    query = sa.select(table.number).join(schema.rounds).distinct()
    return query.where(included, table.round > after.round - span.window)


def _listed(connection: Connection, numbers: Sequence[str]) -> set[str]:
    return {number for part in list_entries.chunks(numbers) for number in list_entries.among(connection, part)}


def _corrected(connection: Connection, kept_off: frozenset[str]) -> bool:
    """Whether operators have since corrected a number, or one in a range, that a round found."""
    numbers = sorted(kept_off ^ kept_off_by_operators(connection))
    changed = ((schema.hitters, numbers), (schema.ranges, sorted(set(map(range_of, numbers)))))
    return any(
        connection.execute(sa.select(table.c.number).where(table.c.number.in_(part)).limit(1)).first()
        for table, about in changed
        for part in list_entries.chunks(about)
    )


@dataclass(frozen=True)
class Corrections:
    """An operator's corrections: first a row in the log, then a new list.

    A server that is killed in between publishes the list when it starts again (``server.scheduler``). Each method
    returns whether the list changed.
    """

    store: Store
    plan: NumberingPlan
    publisher: Publisher

    def appeal(self, number: str, why: str, who: str, now: int) -> tuple[int, bool]:
        """Takes a number off the list while its appeal is open. Returns the appeal's id too."""
        entry = exclusions.appeal(self.store, self._plain(number), why, who, now)
        return entry, self.publisher.republish(now)

    def close(self, entry: int, why: str, now: int) -> bool:
        exclusions.close_appeal(self.store, entry, why, now)
        return self.publisher.republish(now)

    def allow(self, number: str, why: str, who: str, now: int) -> bool:
        """Takes a number off the list for good."""
        exclusions.allow(self.store, self._plain(number), why, who, now)
        return self.publisher.republish(now)

    def disallow(self, number: str, now: int) -> bool:
        """Takes a number off the allowlist. Rounds may list it again."""
        exclusions.disallow(self.store, self._plain(number))
        return self.publisher.republish(now)

    def _plain(self, number: str) -> str:
        return number_or_range(number, self.plan)


def _rounds(connection: Connection, newest: int, named: int = round_commitment.NAMED_ROUNDS) -> bytes:
    """The digests of the rounds behind a list. A phone compares them with the rounds that it saw (split view)."""
    rows = schema.rounds.c
    query = sa.select(schema.rounds).where(rows.id <= newest, rows.id > newest - named)
    digests = {}
    for row in round_rows(connection, query.order_by(rows.id)):
        document = round_status.info_of(connection, row, row.opens).to_plain()
        digests[row.id] = {
            part: round_commitment.digest(body) for part, body in round_commitment.parts(document).items()
        }
    return round_commitment.rounds_file(digests)


def newest_list(connection: Connection) -> Blocklist | None:
    data = list_entries.whole(connection, _newest_version(connection))
    return None if data is None else Blocklist.from_bytes(data)


def _newest(connection: Connection) -> tuple[Blocklist, int] | None:
    """The newest version without its entries, and how many these are."""
    head = list_entries.header(connection, _newest_version(connection))
    return None if head is None else blocklist.read_first_line(head)


def _rule(connection: Connection) -> int | None:
    """The rule of blocking that the newest version was made with."""
    versions = schema.versions.c
    return connection.execute(sa.select(versions.block_rounds).order_by(versions.version.desc()).limit(1)).scalar()


def _newest_version(connection: Connection) -> int:
    return connection.execute(sa.select(sa.func.max(schema.versions.c.version))).scalar() or 0


def _moment(now: int) -> datetime:
    return datetime.fromtimestamp(now, UTC)


def history(store: Store, number: str) -> list[dict[str, Any]]:
    source, table = schema.ranges if number.endswith(OPEN) else schema.hitters, schema.rounds.c
    rows = source.c
    columns = (rows.estimate, rows.low, rows.high, rows.p_value, rows.length, rows.strict, rows.hinted)
    query = sa.select(rows.round, table.opens, *columns).join(schema.rounds)
    return [dict(row._mapping) for row in store.rows(query.where(rows.number == number).order_by(rows.round))]
