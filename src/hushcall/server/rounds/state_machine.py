"""The server's heart: what time it is comes in, rounds move on.

::

    announcing ──► collecting ──► closed ──► decoded ──► published
         └────────────┴─────────────┴───────────┘            ▲
                           held ── discarded ────────────────┘

A round is held by an operator, or by the guard at the close. Each arrow is one transaction that checks where the round
is before it moves it: killed anywhere and run again, twice or by two servers at once, the result is the same. Each
also checks, in that transaction, that its worker still leads (``term``): one that was held up comes with an old clock,
and must not write. ``now`` is an argument everywhere; the scheduler brings the clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.privacy.coins import ByteSource, os_entropy
from hushcall.protocol.seeds import SEED_BYTES, bucket_seed
from hushcall.protocol.states import (
    ANNOUNCING,
    CLOSED,
    COLLECTING,
    DECODED,
    HELD,
    PUBLISHED,
    RESTS,
    TAKES_UPLOADS,
    RoundState,
)
from hushcall.server.anonymity import round_keys
from hushcall.server.db import partitions, schema
from hushcall.server.db.leases import Term
from hushcall.server.db.rows import RoundRow, existing_round, newest_round
from hushcall.server.db.store import Store
from hushcall.server.rounds import guard, jobs, windows
from hushcall.server.rounds.timing import brought_back, collecting_from, timing_of
from hushcall.server.settings import Settings

Seen = tuple[int, RoundState]
"""A round, and the state in which somebody saw it."""

DASK_WIDTH = 64
"""Parts in a cluster's hands at a time: each holds a bucket's tallies in memory on its way."""


@dataclass
class Rounds:
    """The state machine over a store. ``publish`` is called with a decoded round and moves it to published.

    ``term`` is this worker's as the one that moves rounds: once it was overtaken, it writes nothing. Outside of one a
    step is an operator's own, and takes decode jobs from whoever has them.
    """

    store: Store
    settings: Settings
    publish: Callable[[int, int], None]
    term: Term
    coins: ByteSource = os_entropy
    pool: Callable[[], Executor | None] = lambda: None
    beat: Callable[[], None] = lambda: None  # at each job: for whoever watches
    note: Callable[..., None] = field(default=lambda *_, **__: None)  # the log

    def newest(self) -> RoundRow | None:
        """The round that phones see; None before the first."""
        with self.store.read() as connection:
            return newest_round(connection)

    def open(self, now: int) -> int:
        """Open the next round at ``now``, with the settings of today; the one that is open already stays."""
        settings = self.settings.round
        profile = self.settings.profile
        keys = round_keys.new_round(self.store, settings.relay, self.coins) if profile.anonymous else None
        with self._write("open round") as connection:
            newest = newest_round(connection)
            if newest is not None and newest.phase in TAKES_UPLOADS:
                return newest.id
            round_id = newest.id + 1 if newest else 1
            row = {
                "id": round_id,
                "state": ANNOUNCING,
                "reason": "",
                "profile": json.dumps(profile.to_plain(), sort_keys=True),
                "plan": settings.chosen_plan().name,
                "window": self.settings.list.window,
                "seed": self.coins(SEED_BYTES),
                "secret": self.coins(SEED_BYTES),
                **asdict(timing_of(settings, newest, now)),
            }
            self.store.insert_new(connection, schema.rounds, [row], key=("id",))
            partitions.make(connection, round_id)
            if keys:
                self.store.insert_new(connection, schema.anonymity, [{"round": round_id, **keys}], key=("round",))
        self.note("round opened", round=round_id)
        return round_id

    def advance(self, now: int, *, force: bool = False, seen: Seen | None = None) -> list[str]:
        """Do everything that is due, oldest round first; with ``force`` the next step of the newest round is due.

        What is forced is the step that was next when this was called: of two who force at once one moves the round, and
        the other finds it moved. ``seen`` is the newest round, and its state, that the caller decided upon, where that
        was a while ago: if it is another by now, nothing is forced.
        """
        forced = self._forced(seen) if force else {}
        done: list[str] = []
        trouble: Exception | None = None
        try:
            self.forget_held(now)
        except Exception as error:
            trouble = error
        for round_id in self._unfinished():
            try:
                done += self._advance_one(round_id, now, forced.get(round_id))
            except Exception as error:  # an allowlist that cannot be read, a decoder that died: others go on
                trouble = trouble or error
        newest = self.newest()
        newest = newest and self._in_time(newest.id, now)
        over = newest is not None and newest.phase not in TAKES_UPLOADS
        as_seen = newest is not None and forced.get(newest.id) == newest.state
        if newest is None or (over and (now >= newest.next or (as_seen and not done))):
            done.append(f"round {self.open(now)} opened")
        if trouble is not None:
            raise trouble
        return done

    def _forced(self, seen: Seen | None) -> dict[int, RoundState]:
        """Which rounds are to be forced out of which state: all of them where the newest is as it was seen."""
        with self.store.read() as connection:
            newest = newest_round(connection)
            if newest is None or seen not in (None, (newest.id, newest.state)):
                return {}
            table = schema.rounds.c
            wanted = table.state.not_in(sorted(RESTS)) | (table.id == newest.id)
            query = sa.select(table.id, table.state).where(wanted)
            return {row.id: RoundState(row.state) for row in connection.execute(query)}

    def _advance_one(self, round_id: int, now: int, forced: RoundState | None) -> list[str]:
        done: list[str] = []
        for _ in range(5):  # at most as many steps as there are states
            row = self._in_time(round_id, now)
            if not (row.deadline is None or now >= row.deadline or (row.state == forced and not done)):
                break
            if row.state not in self._steps:
                break
            self._steps[row.state](round_id, now)
            state = self._row(round_id).state
            if state == row.state:
                break  # decoders elsewhere have the rest of it in hand
            done.append(f"round {round_id} is {state}")
            self.note("round moved", round=round_id, state=state)
        return done

    @property
    def _steps(self) -> dict[RoundState, Callable[[int, int], None]]:
        """What leads on from each state."""
        return {
            ANNOUNCING: self.start_collecting,
            COLLECTING: self.close,
            CLOSED: lambda round_id, _: self.learn(round_id),
            DECODED: self.publish,
        }

    def start_collecting(self, round_id: int, now: int) -> None:
        """Announcing → collecting: count every bucket, decide which ones run, and with which parameters."""
        with self.store.read() as connection:  # the slow part first, so that its result is remembered …
            self._plan(connection, round_id)
        with self._write("announcing to collecting") as connection:
            row = self.store.lock_round(connection, round_id)
            if row is None or row.state != ANNOUNCING:
                return
            sizes, planned = self._plan(connection, round_id)  # … and the last few announcements cost next to nothing
            self.store.insert_new(connection, schema.buckets, planned, key=("bucket",))
            round_keys.count_crowd(connection, round_id)
            times = collecting_from(row, now)
            _set(connection, round_id, state=COLLECTING, announced=sum(sizes.values()), **asdict(times))

    def _plan(self, connection: Connection, round_id: int) -> tuple[dict[int, int], list[dict[str, Any]]]:
        from hushcall.learn.bucket_setup import open_bucket  # brings scipy and numba: see decoding.py

        row, table = existing_round(connection, round_id), schema.announcements.c
        counts = sa.select(table.bucket, sa.func.count().label("users")).where(table.round == round_id)
        sizes = {r.bucket: r.users for r in connection.execute(counts.group_by(table.bucket).order_by(table.bucket))}
        planned = []
        for bucket, users in sizes.items():
            seed = bucket_seed(row.seed, bucket)
            learner = open_bucket(row.profile, row.plan, users, seed, buckets=len(sizes))
            plain = json.dumps(parameters.to_plain(learner.mechanism)) if learner else None
            planned.append(
                {"round": round_id, "bucket": bucket, "users": users, "runs": learner is not None, "parameters": plain}
            )
        return sizes, planned

    def close(self, round_id: int, now: int | None = None) -> None:
        """Collecting → closed, or held where a guard says that something is off."""
        with self._write("collecting to closed") as connection:
            row = self.store.lock_round(connection, round_id)
            if row is None or row.state != COLLECTING:
                return
            rejected = guard.refused_uploads(connection, round_id)
            reason = guard.objection(connection, row, self.settings.guard)
            state = {"state": HELD, "held_from": CLOSED, "reason": reason} if reason else {"state": CLOSED}
            closes = row.closes if now is None else min(row.closes, max(now, row.collects))  # by hand, early
            _set(connection, round_id, **state, rejected=rejected, closes=closes)

    def learn(self, round_id: int) -> None:
        """Closed → decoded: seal the tallies, decode them, then forget who announced what, and what was reported.

        A tally of fewer than a million phones still holds each report by itself, and whoever has a ticket (from a
        proxy's log, say) could tell which one is its: it stays for the window (``rounds.windows``), and then only
        counts and checksums do.
        """
        if jobs.earlier_in_hand(self.term.leases, round_id) or not self._worked(
            round_id, by_force=self.term.lease is None
        ):
            return  # others have something in hand: the next turn looks again
        with self._write("closed to decoded") as connection:
            row = self.store.lock_round(connection, round_id)
            if row is None or row.state != CLOSED:
                return
            jobs.forget(connection, round_id)
            values: dict[str, Any] = {"state": DECODED}
            if not self.settings.round.keep_reports:
                self._forget_phones(connection, round_id)
                windows.forget_passed(connection, row)
                values["secret"] = b""
            _set(connection, round_id, **values)
        self.store.scrub()

    def help(self) -> None:
        """Decode along: take jobs of the oldest round that is closed. Whoever leads moves it on when all are done."""
        table = schema.rounds.c
        query = sa.select(table.id).where(table.state == CLOSED).order_by(table.id).limit(1)
        for (round_id,) in self.store.rows(query):
            self._worked(round_id)

    def _worked(self, round_id: int, *, by_force: bool = False) -> bool:
        settings = self.settings.round
        width = DASK_WIDTH if settings.dask else max(2 * settings.decoders, 1)
        return jobs.Work(self.term, round_id, self.pool, width, settings.keep_reports, by_force, self.beat).done()

    def _forget_phones(self, connection: Connection, round_id: int) -> None:
        """Drop which device announced what, and the reports as they came."""
        for table in partitions.TABLES:
            partitions.forget(connection, table, round_id)
        connection.execute(sa.delete(schema.refusals).where(schema.refusals.c.round == round_id))
        round_keys.forget(connection, round_id)

    def hold(self, round_id: int, reason: str) -> None:
        """Stop a round where it is."""
        with self.store.write("hold") as connection:
            row = self._existing(connection, round_id)
            if row.state in RESTS:
                raise InvalidParameter("round", "be one that is still under way", f"{round_id}, {row.state}")
            values = {"state": HELD, "held_from": row.state, "reason": reason}
            _set(connection, round_id, **values)

    def release(self, round_id: int) -> None:
        """Let a held round go on."""
        with self.store.write("release") as connection:
            row = self._existing(connection, round_id)
            if row.state != HELD:
                raise InvalidParameter("round", "be held", f"{round_id}, {row.state}")
            values = {"state": row.held_from, "held_from": None, "reason": ""}
            _set(connection, round_id, **values)

    def discard(self, round_id: int, reason: str) -> None:
        """End a held round for good: nothing is decoded, everything about phones is dropped, the list learns nothing.

        It counts as published without a finding.
        """
        with self.store.write("discard") as connection:
            row = self._existing(connection, round_id)
            if row.state != HELD:
                raise InvalidParameter("round", "be held", f"{round_id}, {row.state}")
            self._forget_phones(connection, round_id)
            jobs.forget(connection, round_id)
            connection.execute(sa.update(schema.tallies).where(schema.tallies.c.round == round_id).values(data=b""))
            connection.execute(sa.delete(schema.hitters).where(schema.hitters.c.round == round_id))
            values = {"state": PUBLISHED, "held_from": None, "reason": f"discarded: {reason}", "secret": b""}
            _set(connection, round_id, **values)
        self.store.scrub()

    def forget_held(self, now: int) -> None:
        """A held round forgets on time, like any other: who announced what goes when the next round opens.

        What it still needs to be decoded, its reports under their tickets, stays; whose they are cannot be told any
        more, since the secret that tickets come from goes too. A round that still takes uploads needs both.
        """
        if self.settings.round.keep_reports:
            return
        table = schema.rounds.c
        waits = (table.state == HELD) & table.held_from.not_in(sorted(TAKES_UPLOADS)) & (table.next <= now)
        query = sa.select(table.id).where(waits, sa.func.length(table.secret) > 0)
        for (round_id,) in self.store.rows(query):
            with self._write("forget a held round") as connection:
                row = self._existing(connection, round_id)
                if row.state == HELD:
                    partitions.forget(connection, schema.announcements, round_id)
                    connection.execute(sa.delete(schema.refusals).where(schema.refusals.c.round == round_id))
                    round_keys.forget(connection, round_id)
                    _set(connection, round_id, secret=b"")
            self.store.scrub()

    @contextmanager
    def _write(self, name: str) -> Iterator[Connection]:
        """A step of the state machine: a leader that was overtaken meanwhile changes nothing."""
        with self.store.write(name) as connection:
            self.term.fence(connection)
            yield connection

    def _existing(self, connection: Connection, round_id: int) -> RoundRow:
        row = self.store.lock_round(connection, round_id)
        if row is None:
            raise InvalidParameter("round", "be one of this server", round_id)
        return row

    def _unfinished(self) -> list[int]:
        query = sa.select(schema.rounds.c.id).where(schema.rounds.c.state.not_in(sorted(RESTS)))
        return [row.id for row in self.store.rows(query.order_by(schema.rounds.c.id))]

    def _in_time(self, round_id: int, now: int) -> RoundRow:
        """A round with deadlines within its length: those that a clock which was ahead has left are brought back."""
        row = self._row(round_id)
        if brought_back(row, now) is None:
            return row
        with self._write("bring back") as connection:
            row = self._existing(connection, round_id)
            if times := brought_back(row, now):
                _set(connection, round_id, **asdict(times))
                self.note("deadlines brought back: the clock was ahead", round=round_id)
        return self._row(round_id)

    def _row(self, round_id: int) -> RoundRow:
        with self.store.read() as connection:
            return existing_round(connection, round_id)


def _set(connection: Connection, round_id: int, **values: Any) -> None:
    connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == round_id).values(**values))
