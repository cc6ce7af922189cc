"""The server, last step: sightings come in, a signed version of the list leaves, with deltas and exports.

Drawing up a version takes a moment (a lookup of the operator's own may take a minute) and happens outside of any
transaction; putting it into force is one transaction, which first checks that nothing else was published meanwhile, and
that the same numbers are appealed and allowed as when it was drawn up. Who appeals or allows waits for that transaction
(``appeals``), so a correction is either in the list or finds it published. Identical sightings give identical bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import HushcallError
from hushcall.formats.blocklists import WRITERS, writer_named
from hushcall.formats.phoneblock import changes_between
from hushcall.protocol import blocklist, charter
from hushcall.protocol.blocklist import Blocklist, Sighting, Terms
from hushcall.protocol.states import DECODED, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow, newest_round, round_rows
from hushcall.server.db.store import PublishedFiles, Store, put_files
from hushcall.server.publishing.exclusions import corrected, never_listed
from hushcall.server.rounds import round_status
from hushcall.server.settings import Settings
from hushcall.server.signing import signer
from hushcall.server.signing.keys import KeyRing

ATTEMPTS = 5


class Overtaken(HushcallError):
    """Another server published first, again and again."""


@dataclass(frozen=True)
class _Draft:
    """A version that is not in force yet, the one that it was drawn up against, and whom operators kept off it."""

    before: Blocklist | None
    made: Blocklist
    data: bytes
    targets: dict[str, bytes]
    found: frozenset[str]
    corrected: frozenset[str]


@dataclass
class Publisher:
    """Makes versions of the list. ``ring`` reads the online keys anew each time: a rotation needs no restart."""

    store: Store
    settings: Settings
    ring: Callable[[], KeyRing]
    fence: Callable[[Connection], None] = lambda _: None  # a round's list is a step of the state machine

    def publish(self, round_id: int, now: int) -> None:
        """Decoded → published, with the round's findings in the list."""
        self._in_force(round_id, now)

    def republish(self, now: int) -> bool:
        """A new version without a new round, after an appeal or a change of the allowlist. False: nothing changed."""
        return self._in_force(None, now)

    def refresh(self, now: int) -> bool:
        """Sign anew what is about to expire. False: nothing was."""
        with self.store.write("refresh signatures") as connection:
            self.store.lock_publishing(connection)
            changed = signer.refresh(PublishedFiles(connection), self.ring(), _moment(now))
            put_files(connection, changed)
        return bool(changed)

    def leap(self, now: int, beyond: int) -> None:
        """After a restore: what is in force once more, with versions so much beyond those of the backup.

        Those who subscribe to changes are told all of them again: what they know may be of a version that was lost.
        """
        with self.store.write("leap") as connection:
            self.store.lock_publishing(connection)
            before, targets = newest_list(connection), None
            if before is not None:
                table = schema.versions.c
                newest = connection.execute(sa.select(table.round).order_by(table.version.desc()).limit(1)).scalar_one()
                made = replace(before, version=before.version + 1 + beyond, round=newest)
                data = made.to_bytes()
                targets = {signer.LIST: data, **self._exports(made), charter.ROUNDS_TARGET: _rounds(connection, newest)}
                self._record(connection, _Draft(before, made, data, targets, frozenset(), frozenset()))
                connection.execute(sa.update(schema.changes).values(version=made.version))
            changed = signer.leap(PublishedFiles(connection), self.ring(), targets, _moment(now), beyond)
            put_files(connection, changed)

    def _in_force(self, round_id: int | None, now: int) -> bool:
        for _ in range(ATTEMPTS):
            draft = self._draft(round_id)
            if draft is None:
                return False
            with self.store.write("publish a list" if round_id is None else "decoded to published") as connection:
                self.store.lock_publishing(connection)
                if round_id is not None:
                    self.fence(connection)
                    row = self.store.lock_round(connection, round_id)
                    if row is None or row.state != DECODED:
                        return False
                if _newest_version(connection) != draft.made.version - 1:
                    continue
                if corrected(connection, draft.found) != draft.corrected:
                    continue  # an appeal, say, that came while the lookup was asked
                changed = signer.publish(PublishedFiles(connection), self.ring(), draft.targets, _moment(now))
                put_files(connection, changed)
                self._record(connection, draft)
                if round_id is not None:
                    values = {"state": PUBLISHED}
                    connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == round_id).values(**values))
                return True
        raise Overtaken(f"the list was published by somebody else {ATTEMPTS} times in a row: try again")

    def _draft(self, round_id: int | None) -> _Draft | None:
        """The next version; None where it would be the same list once more."""
        with self.store.read() as connection:
            before = newest_list(connection)
            newest, sightings = self._sightings(connection, round_id)
            if newest is None:
                return None
            found = frozenset(one.number for one in sightings)
            known_off = corrected(connection, found)  # first: what comes later than this is noticed
            made = self._made(connection, round_id, before, newest, sightings)
            if round_id is None and before and blocklist.renumbered(made, before.version) == before:
                return None
            data = made.to_bytes()
            targets = {signer.LIST: data, **self._deltas(connection, made), **self._exports(made)}
            targets[charter.ROUNDS_TARGET] = _rounds(connection, made.round)
        return _Draft(before, made, data, targets, found, known_off)

    def _sightings(self, connection: Connection, round_id: int | None) -> tuple[RoundRow | None, list[Sighting]]:
        """The round that the list is of, and what was found within its window."""
        table, rows = schema.rounds.c, schema.hitters.c
        wanted = table.state == PUBLISHED if round_id is None else (table.state == PUBLISHED) | (table.id == round_id)
        newest = newest_round(connection, wanted)
        if newest is None:
            return None, []
        recent = sa.select(rows.number).where(rows.round > newest.id - newest.window)
        query = sa.select(schema.hitters, table.opens).join(schema.rounds).where(wanted, rows.number.in_(recent))
        return newest, [
            Sighting(r.number, r.round, r.opens, r.estimate, r.low, r.high, r.p_value, r.length)
            for r in connection.execute(query)
        ]

    def _made(
        self,
        connection: Connection,
        round_id: int | None,
        before: Blocklist | None,
        newest: RoundRow,
        sightings: list[Sighting],
    ) -> Blocklist:
        window = newest.window  # as phones were told
        known = None if round_id is not None or before is None else {entry.number for entry in before.entries}
        never = never_listed(connection, self.settings.list, newest.plan, {s.number for s in sightings}, known)
        entries = blocklist.listed(sightings, newest.id, window, never)
        profile = newest.profile
        terms = Terms(
            *(profile.mechanism, profile.epsilon, profile.tau, profile.level, newest.plan_name, window),
            block_days=self.settings.list.block_days,
        )
        return Blocklist((before.version if before else 0) + 1, newest.id, newest.closes, terms, entries)

    def _deltas(self, connection: Connection, made: Blocklist) -> dict[str, bytes]:
        table = schema.versions.c
        query = sa.select(table.version, table.data).where(
            table.version >= made.version - self.settings.list.deltas, table.data.is_not(None)
        )
        return {
            f"delta-{row.version}-{made.version}.jsonl": blocklist.delta(Blocklist.from_bytes(bytes(row.data)), made)
            for row in connection.execute(query)
        }

    def _exports(self, made: Blocklist) -> dict[str, bytes]:
        names = self.settings.list.exports
        blocked = made.to_block()  # none of these files can say "warn"
        writers = WRITERS.values() if names == ["all"] else [writer_named(name) for name in names]
        return {f"exports/{writer.filename}": writer.write(blocked) for writer in writers}

    def _record(self, connection: Connection, draft: _Draft) -> None:
        made, table = draft.made, schema.versions.c
        row = {"version": made.version, "round": made.round, "made": made.made, "entries": len(made.entries)}
        digest = blocklist.digest(draft.data)
        connection.execute(sa.insert(schema.versions).values(**row, sha256=digest, data=draft.data))
        stale = table.version < made.version - self.settings.list.deltas
        connection.execute(sa.update(schema.versions).where(stale).values(data=None))
        changed = [
            {"number": c.phone, "version": made.version, "votes": c.votes, "last_ms": c.last_activity_ms}
            for c in changes_between(draft.before, made)
        ]
        if changed:
            numbers = [row["number"] for row in changed]
            connection.execute(sa.delete(schema.changes).where(schema.changes.c.number.in_(numbers)))
            connection.execute(sa.insert(schema.changes), changed)


def _rounds(connection: Connection, newest: int) -> bytes:
    """The digests of the rounds behind a list: a phone that was shown another one sees it here."""
    rows = schema.rounds.c
    query = sa.select(schema.rounds).where(rows.id <= newest, rows.id > newest - charter.NAMED_ROUNDS)
    named = {}
    for row in round_rows(connection, query.order_by(rows.id)):
        document = round_status.info_of(connection, row, row.opens).to_plain()
        named[row.id] = {part: charter.digest(body) for part, body in charter.parts(document).items()}
    return charter.rounds_file(named)


def newest_list(connection: Connection) -> Blocklist | None:
    """The version in force, or None before the first."""
    table = schema.versions.c
    data = connection.execute(sa.select(table.data).order_by(table.version.desc()).limit(1)).scalar()
    return None if data is None else Blocklist.from_bytes(bytes(data))


def _newest_version(connection: Connection) -> int:
    return connection.execute(sa.select(sa.func.max(schema.versions.c.version))).scalar() or 0


def _moment(now: int) -> datetime:
    return datetime.fromtimestamp(now, UTC)


def history(store: Store, number: str) -> list[dict[str, Any]]:
    """In which rounds a number was found."""
    rows, table = schema.hitters.c, schema.rounds.c
    shown = (rows.estimate, rows.low, rows.high, rows.p_value, rows.length)
    query = sa.select(rows.round, table.opens, *shown).join(schema.rounds)
    return [dict(row._mapping) for row in store.rows(query.where(rows.number == number).order_by(rows.round))]
