"""Moves rounds on, from state to state of :mod:`~hushcall.protocol.states`.

Each step is one transaction that checks the round's state first: killed anywhere and run again, twice or by two
servers at once, the result is the same. It also checks that its worker still leads (``term``): one that was suspended
comes back with an old clock, and must not write. ``now`` is in unix seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.decoding.task import Backend
from hushcall.mechanisms import parameters
from hushcall.mechanisms.profiles import Profile
from hushcall.protocol.randomness import ByteSource, os_entropy
from hushcall.protocol.round_document import Schedule
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
from hushcall.server import anonymity
from hushcall.server.db import leases, partitions, schema
from hushcall.server.db.leases import Term
from hushcall.server.db.rows import DAY_SECONDS, RoundRow, existing_round, lock_round, newest_round
from hushcall.server.db.store import Store
from hushcall.server.rounds import holding
from hushcall.server.rounds.jobs import RoundJobs, earlier_under_way
from hushcall.server.rounds.round_data import forget_passed, forget_uploads, set_round
from hushcall.server.settings import RoundSettings, Settings

Seen = tuple[int, RoundState]
"""A round, and the state in which somebody saw it."""


@dataclass
class Rounds:
    """``publish`` moves a decoded round to published. ``term`` is this worker's time as the leader.

    Outside of it a step is an operator's own, and takes decode jobs from the processes that hold them.
    """

    store: Store
    settings: Settings
    publish: Callable[[int, int], bool]
    term: Term
    backend: Callable[[], Backend]
    rand: ByteSource = os_entropy
    beat: Callable[[], None] = lambda: None  # called at each job
    note: Callable[..., None] = field(default=lambda *_, **__: None)  # the log

    def newest(self) -> RoundRow | None:
        with self.store.read() as connection:
            return newest_round(connection)

    def advance(self, now: int, *, force: bool = False, seen: Seen | None = None) -> list[str]:
        """Do everything that is due, oldest round first. With ``force`` the next step of the newest round is due.

        Only the step that was next at the call is forced, and none if the newest round is no longer as ``seen``: of two
        operators who force at once one moves it.
        """
        forced = self._forced(seen) if force else {}
        done: list[str] = []
        trouble: Exception | None = None
        try:
            if not self.settings.round.keep_reports:
                holding.forget_held(self.store, self.term, now)
        except Exception as error:
            trouble = error
        table = schema.rounds.c
        unfinished = sa.select(table.id).where(table.state.not_in(sorted(RESTS))).order_by(table.id)
        for (round_id,) in self.store.rows(unfinished):
            try:
                done += self._advance_one(round_id, now, forced.get(round_id))
            except Exception as error:  # an allowlist that cannot be read, a decoder that died: the next round goes on
                trouble = trouble or error
        newest = self.newest()
        newest = newest and self._bring_back(newest.id, now)
        over = newest is not None and newest.phase not in TAKES_UPLOADS
        as_seen = newest is not None and forced.get(newest.id) == newest.state
        if newest is None or (over and (now >= newest.next or (as_seen and not done))):
            done.append(f"round {self.open(now)} opened")
        if trouble is not None:
            raise trouble
        return done

    def _forced(self, seen: Seen | None) -> dict[int, RoundState]:
        """The rounds to force, and out of which state: all of them if the newest is as it was seen."""
        with self.store.read() as connection:
            newest = newest_round(connection)
            if newest is None or seen not in (None, (newest.id, newest.state)):
                return {}
            table = schema.rounds.c
            movable = table.state.not_in(sorted(RESTS)) | (table.id == newest.id)
            rows = connection.execute(sa.select(table.id, table.state).where(movable))
            return {row.id: RoundState(row.state) for row in rows}

    def _advance_one(self, round_id: int, now: int, forced: RoundState | None) -> list[str]:
        done: list[str] = []
        for _ in range(5):  # at most as many steps as there are states
            row = self._bring_back(round_id, now)
            if not (row.deadline is None or now >= row.deadline or (row.state == forced and not done)):
                break
            if not self._step(row, now):
                break  # another server or operator was first, or decoders elsewhere have the remaining jobs
            with self.store.read() as connection:
                state = existing_round(connection, round_id).state
            done.append(f"round {round_id} is {state}")
            self.note("round moved", round=round_id, state=state)
        return done

    def _step(self, row: RoundRow, now: int) -> bool:
        """Whether this call moved the round."""
        steps = {ANNOUNCING: self.start_collecting, COLLECTING: self.close, DECODED: self.publish}
        if row.state == CLOSED:
            return self.learn(row.id)
        return row.state in steps and steps[row.state](row.id, now)

    def open(self, now: int) -> int:
        """Open the next round. One that is open already stays."""
        settings, profile = self.settings.round, self.settings.profile
        keys = anonymity.new_keys(settings.relay) if profile.anonymous else None
        with self._write("open round") as connection:
            newest = newest_round(connection)
            if newest is not None and newest.phase in TAKES_UPLOADS:
                return newest.id
            timing = timing_of(settings, newest, now)
            round_id, profile = numbered(settings, newest, timing.opens, profile)
            row = {
                "id": round_id,
                "state": ANNOUNCING,
                "reason": "",
                "profile": json.dumps(profile.to_plain(), sort_keys=True),
                "plan": settings.chosen_plan().name,
                "window": self.settings.window_days,
                "call_days": self.settings.window_days,
                "seed": self.rand(SEED_BYTES),
                "secret": self.rand(SEED_BYTES),
                **asdict(timing),
            }
            self.store.insert_new(connection, schema.rounds, [row], key=("id",))
            partitions.make(connection, round_id)
            if keys:
                schedule = Schedule(timing.opens, timing.collects, timing.closes)
                key_rounds = anonymity.GATEWAY_DAYS * profile.rounds_per_day
                anonymity.insert(self.store, connection, round_id, schedule, keys, self.rand, key_rounds)
        self.note("round opened", round=round_id)
        return round_id

    def start_collecting(self, round_id: int, now: int) -> bool:
        with self.store.read() as connection:  # the slow part first, so that its result is remembered …
            _planned_buckets(connection, round_id)
        with self._write("announcing to collecting") as connection:
            row = lock_round(connection, round_id)
            if row is None or row.state != ANNOUNCING:
                return False
            planned = _planned_buckets(connection, round_id)  # … and the last few announcements cost next to nothing
            self.store.insert_new(connection, schema.buckets, planned, key=("bucket",))
            anonymity.count_anonymity_set(connection, round_id)
            announced = sum(bucket["users"] for bucket in planned)
            set_round(connection, round_id, state=COLLECTING, announced=announced, **asdict(collecting_from(row, now)))
        return True

    def close(self, round_id: int, now: int | None = None) -> bool:
        with self._write("collecting to closed") as connection:
            row = lock_round(connection, round_id)
            if row is None or row.state != COLLECTING:
                return False
            rejected = holding.refused_uploads(connection, round_id)
            reason = holding.reason_to_hold(connection, row, self.settings.guard)
            state = {"state": HELD, "held_from": CLOSED, "reason": reason} if reason else {"state": CLOSED}
            closes = row.closes if now is None else min(row.closes, max(now, row.collects))  # by hand, early
            set_round(connection, round_id, **state, rejected=rejected, closes=closes)
        return True

    def learn(self, round_id: int) -> bool:
        """Closed → decoded: seal the tallies, decode them, then forget who announced what, and what was reported."""
        if earlier_under_way(self.term.leases, round_id):
            return False
        if not self._jobs_done(round_id, by_force=self.term.lease is None):
            return False  # other processes hold jobs: the next turn looks again
        with self._write("closed to decoded") as connection:
            row = lock_round(connection, round_id)
            if row is None or row.state != CLOSED:
                return False
            leases.forget_round(connection, round_id)
            values: dict[str, Any] = {"state": DECODED}
            if not self.settings.round.keep_reports:
                forget_uploads(connection, round_id)
                forget_passed(connection, row)
                values["secret"] = b""
            set_round(connection, round_id, **values)
        self.store.scrub()
        return True

    def help(self) -> None:
        """Take jobs of the oldest closed round. The leader moves it on when all are done."""
        table = schema.rounds.c
        query = sa.select(table.id).where(table.state == CLOSED).order_by(table.id).limit(1)
        for (round_id,) in self.store.rows(query):
            self._jobs_done(round_id, by_force=False)

    def _jobs_done(self, round_id: int, *, by_force: bool) -> bool:
        settings = (self.settings.hints, self.settings.round.keep_reports)
        return RoundJobs(self.term, round_id, self.backend, *settings, by_force, self.beat).run()

    def _bring_back(self, round_id: int, now: int) -> RoundRow:
        """A round whose deadlines are brought back first, if a clock was ahead when they were set."""
        with self.store.read() as connection:
            row = existing_round(connection, round_id)
        if brought_back(row, now) is None:
            return row
        with self._write("bring back") as connection:
            row = existing_round(connection, round_id, locked=True)
            if times := brought_back(row, now):
                set_round(connection, round_id, **asdict(times))
                self.note("deadlines brought back: the clock was ahead", round=round_id)
            return existing_round(connection, round_id)

    @contextmanager
    def _write(self, name: str) -> Iterator[Connection]:
        """A transaction in which a leader that was overtaken changes nothing."""
        with self.store.write(name) as connection:
            self.term.fence(connection)
            yield connection


def _planned_buckets(connection: Connection, round_id: int) -> list[dict[str, Any]]:
    from hushcall.mechanisms.bucket_setup import open_bucket  # brings scipy and numba: see round_data.py

    row, table = existing_round(connection, round_id), schema.announcements.c
    anonymous = sa.func.sum(sa.case((table.device < 0, 1), else_=0))
    counts = sa.select(table.bucket, sa.func.count(), anonymous).where(table.round == round_id)
    announced = connection.execute(counts.group_by(table.bucket).order_by(table.bucket)).all()
    planned = []
    for bucket, users, nameless in announced:
        seed = bucket_seed(row.seed, bucket)
        aggregator = open_bucket(row.profile, row.plan, users, seed, buckets=len(announced))
        plain = json.dumps(parameters.to_plain(aggregator.mechanism)) if aggregator else None
        values = {"users": users, "runs": aggregator is not None, "parameters": plain}
        values["anonymous"] = int(nameless) if row.profile.anonymous else None
        planned.append({"round": round_id, "bucket": bucket, **values})
    return planned


@dataclass(frozen=True)
class Timing:
    """When a round's phases begin and end, in unix seconds. ``next`` is when the following round opens."""

    opens: int
    collects: int
    closes: int
    next: int


def timing_of(settings: RoundSettings, newest: RoundRow | None, now: int) -> Timing:
    opens, length_seconds = now, settings.period_seconds
    if settings.rounds_per_day > 1 and (newest is None or now >= newest.next):  # no round crosses midnight (UTC)
        opens, length_seconds = late_slot(now - now % length_seconds, now, length_seconds, settings.announce)
    elif newest is not None and now > newest.next:
        opens, length_seconds = late_slot(newest.next, now, length_seconds, settings.announce)
    collects = opens + round(length_seconds * settings.announce)
    closes = opens + round(length_seconds * (settings.announce + settings.collect))
    return Timing(opens, collects, closes, opens + length_seconds)


def numbered(settings: RoundSettings, newest: RoundRow | None, opens: int, profile: Profile) -> tuple[int, Profile]:
    """The id of a round that opens then, and its profile. Of several rounds a day, ids count time: missed ones too."""
    if newest is None:
        round_id = 1
    elif newest.profile.rounds_per_day == profile.rounds_per_day > 1:
        round_id = newest.id + max(round((opens - newest.opens) / settings.period_seconds), 1)
    else:
        round_id = newest.id + 1
    place = min(opens % DAY_SECONDS // settings.period_seconds, profile.rounds_per_day - 1)
    return round_id, replace(profile, place=place)


def late_slot(due: int, now: int, period_seconds: int, announce: float) -> tuple[int, int]:
    """(opening, length in seconds) of a round that opens late. ``announce`` is the share of the period to announce in.

    A server that slept into the announcing keeps the slot of the rhythm. One that slept through it opens now, and fits
    the phases into what remains of the slot, or, where that is less than half, into the next one too.
    """
    opens = due + (now - due) // period_seconds * period_seconds
    if now < opens + period_seconds * announce:
        return opens, period_seconds
    remaining_seconds = opens + period_seconds - now
    return now, remaining_seconds + (0 if 2 * remaining_seconds >= period_seconds else period_seconds)


def collecting_from(row: RoundRow, now: int) -> Timing:
    """The moments of a round that starts to collect now: clients get their full time, even if the server overslept."""
    late_seconds = max(now - row.collects, 0)
    closes = row.closes + late_seconds
    collects = max(min(row.collects, now) + late_seconds, row.opens)  # a clock may have been set back since
    return Timing(row.opens, collects, closes, max(row.next, closes))


def brought_back(row: RoundRow, now: int) -> Timing | None:
    """The moments of a round whose phase begins again now. None unless it would last for more than twice its length.

    A clock that was ahead for a while may leave deadlines that are days away.
    """
    length_seconds = {
        ANNOUNCING: row.collects - row.opens,
        COLLECTING: row.closes - row.collects,
        PUBLISHED: row.next - row.opens,
    }.get(row.state)
    if length_seconds is None or row.deadline is None or row.deadline - now <= 2 * max(length_seconds, 1):
        return None
    shift = row.deadline - now - length_seconds
    return Timing(row.opens - shift, row.collects - shift, row.closes - shift, row.next - shift)
