"""The server's heart: what time it is comes in, rounds move on.

::

    announcing ──► collecting ──► closed ──► decoded ──► published
         └────────────┴─────────────┴───────────┘
                     held  (by an operator, or by a guard at the close)

Each arrow is one transaction that checks where the round is before it moves it: killed anywhere and run again, twice or
by two servers at once, the result is the same. ``now`` is an argument everywhere; the scheduler brings the clock.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.numbers import NANP
from hushcall.privacy.coins import ByteSource, os_entropy
from hushcall.profiles import Profile
from hushcall.protocol.seeds import SEED_BYTES, bucket_seed
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.rounds import decoding
from hushcall.server.settings import Settings

USUAL = 7
"""How many rounds back "usual" is."""


@dataclass
class Rounds:
    """The state machine over a store. ``publish`` is called with a decoded round and moves it to published."""

    store: Store
    settings: Settings
    publish: Callable[[int, int], None]
    coins: ByteSource = os_entropy
    pool: Callable[[], Executor | None] = lambda: None
    beat: Callable[[], None] = lambda: None
    note: Callable[..., None] = field(default=lambda *_, **__: None)  # the log

    def newest(self) -> Any:
        """The round that phones see."""
        rows = self.store.rows(sa.select(schema.rounds).order_by(schema.rounds.c.id.desc()).limit(1))
        return rows[0] if rows else None

    def open(self, now: int) -> int:
        """Open the next round at ``now``, with the settings of today; the one that is open already stays."""
        settings = self.settings.round
        with self.store.write("open round") as connection:
            newest = connection.execute(sa.select(schema.rounds).order_by(schema.rounds.c.id.desc()).limit(1)).first()
            if newest is not None and (newest.held_from or newest.state) in ("announcing", "collecting"):
                return int(newest.id)
            number, opens, length = (newest.id + 1 if newest else 1), now, settings.period
            if newest is not None and now > newest.next:
                opens, length = _slot(newest.next, now, settings.period, settings.announce)
            row = {
                "id": number,
                "state": "announcing",
                "reason": "",
                "profile": json.dumps(settings.chosen_profile().to_plain(), sort_keys=True),
                "plan": NANP.name,
                "window": self.settings.list.window,
                "seed": self.coins(SEED_BYTES),
                "secret": self.coins(SEED_BYTES),
                "opens": opens,
                "collects": opens + round(length * settings.announce),
                "closes": opens + round(length * (settings.announce + settings.collect)),
                "next": opens + length,
            }
            self.store.insert_new(connection, schema.rounds, [row], key=("id",))
        self.note("round opened", round=number)
        return number

    def advance(self, now: int, *, force: bool = False) -> list[str]:
        """Do everything that is due, oldest round first; with ``force`` the next step of the newest round is due."""
        done: list[str] = []
        trouble: Exception | None = None
        for row in self._unfinished():
            try:
                done += self._advance_one(row.id, now, force=force)
            except Exception as error:  # an allowlist that cannot be read, a decoder that died: others go on
                trouble = trouble or error
        newest = self.newest()
        over = newest is not None and (newest.held_from or newest.state) not in ("announcing", "collecting")
        if newest is None or (over and (now >= newest.next or (force and not done))):
            done.append(f"round {self.open(now)} opened")
        if trouble is not None:
            raise trouble
        return done

    def _advance_one(self, number: int, now: int, *, force: bool) -> list[str]:
        done: list[str] = []
        for _ in range(5):  # at most as many steps as there are states
            state = self._state(number)
            if state == "announcing" and self._due(number, "collects", now, force and not done):
                self.decide(number, now)
            elif state == "collecting" and self._due(number, "closes", now, force and not done):
                self.close(number, now)
            elif state == "closed":
                self.learn(number)
            elif state == "decoded":
                self.publish(number, now)
            else:
                break
            done.append(f"round {number} is {self._state(number)}")
            self.note("round moved", round=number, state=self._state(number))
        return done

    def decide(self, number: int, now: int) -> None:
        """Announcing → collecting: count every bucket, decide which ones run, and with which parameters."""
        with self.store.read() as connection:  # the slow part first, so that its result is remembered …
            self._plan(connection, number)
        with self.store.write("announcing to collecting") as connection:
            row = self.store.lock_round(connection, number)
            if row is None or row.state != "announcing":
                return
            sizes, planned = self._plan(connection, number)  # … and the last few announcements cost next to nothing
            self.store.insert_new(connection, schema.buckets, planned, key=("bucket",))
            late = max(now - row.collects, 0)  # phones get their full time to report, even if we overslept
            connection.execute(
                sa.update(schema.rounds)
                .where(schema.rounds.c.id == number)
                .values(
                    state="collecting",
                    announced=sum(sizes.values()),
                    collects=min(row.collects, now) + late,
                    closes=row.closes + late,
                    next=max(row.next, row.closes + late),
                )
            )

    def _plan(self, connection: Connection, number: int) -> tuple[dict[int, int], list[dict[str, Any]]]:
        from hushcall.learn.bucket_setup import open_bucket  # see learning.py

        row = connection.execute(sa.select(schema.rounds).where(schema.rounds.c.id == number)).one()
        profile, table = Profile.from_plain(json.loads(row.profile)), schema.announcements.c
        counts = sa.select(table.bucket, sa.func.count().label("users")).where(table.round == number)
        sizes = {r.bucket: r.users for r in connection.execute(counts.group_by(table.bucket).order_by(table.bucket))}
        planned = []
        for bucket, users in sizes.items():
            seed = bucket_seed(bytes(row.seed), bucket)
            learner = open_bucket(profile, NANP, users, seed, buckets=len(sizes))
            plain = json.dumps(parameters.to_plain(learner.mechanism)) if learner else None
            planned.append(
                {"round": number, "bucket": bucket, "users": users, "runs": learner is not None, "parameters": plain}
            )
        return sizes, planned

    def close(self, number: int, now: int | None = None) -> None:
        """Collecting → closed, or held where a guard says that something is off."""
        with self.store.write("collecting to closed") as connection:
            row = self.store.lock_round(connection, number)
            if row is None or row.state != "collecting":
                return
            table = schema.counters.c
            query = sa.select(sa.func.coalesce(sa.func.sum(table.value), 0)).where(table.round == number)
            rejected = int(connection.execute(query).scalar_one())
            reason = self._guard(connection, row, rejected)
            state = {"state": "held", "held_from": "closed", "reason": reason} if reason else {"state": "closed"}
            closes = row.closes if now is None else min(row.closes, now)  # by hand, a round may close early
            connection.execute(
                sa.update(schema.rounds)
                .where(schema.rounds.c.id == number)
                .values(**state, rejected=rejected, closes=closes)
            )

    def _guard(self, connection: Connection, row: Any, rejected: int) -> str:
        """Why this round should be looked at before it is decoded; empty if it looks as usual."""
        guard, table = self.settings.guard, schema.rounds.c
        query = sa.select(sa.func.count()).where(schema.reports.c.round == row.id)
        uploads = row.announced + connection.execute(query).scalar_one()
        if rejected + uploads >= guard.least and rejected > guard.rejected * (rejected + uploads):
            return f"{rejected} of {rejected + uploads} uploads were refused, more than {guard.rejected:.0%}"
        before = connection.execute(
            sa.select(table.announced).where(table.id < row.id).order_by(table.id.desc()).limit(USUAL)
        ).scalars()
        usual = statistics.median(list(before) or [row.announced])
        if max(usual, row.announced) >= guard.least and not (
            usual / guard.devices <= row.announced <= usual * guard.devices
        ):
            return f"{row.announced} devices took part, usual are {usual:g}"
        return ""

    def learn(self, number: int) -> None:
        """Closed → decoded: seal the tallies, decode them, then forget who announced what, and what was reported.

        A tally of fewer than a million phones still holds each report by itself, and whoever has a ticket (from a
        proxy's log, say) could tell which one is its: only counts and checksums stay.
        """
        keep = self.settings.round.keep_reports
        decoding.seal(self.store, number, keep, self.beat)
        decoding.decode_round(self.store, number, self.pool(), max(2 * self.settings.round.decoders, 1), self.beat)
        with self.store.write("closed to decoded") as connection:
            row = self.store.lock_round(connection, number)
            if row is None or row.state != "closed":
                return
            values: dict[str, Any] = {"state": "decoded"}
            if not keep:
                self._forget(connection, number)
                values["secret"] = b""
            connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == number).values(**values))
        self.store.scrub()

    def _forget(self, connection: Connection, number: int) -> None:
        """Drop everything of a round that is about a phone."""
        connection.execute(sa.delete(schema.announcements).where(schema.announcements.c.round == number))
        connection.execute(sa.delete(schema.reports).where(schema.reports.c.round == number))
        connection.execute(sa.update(schema.tallies).where(schema.tallies.c.round == number).values(data=b""))

    def hold(self, number: int, reason: str) -> None:
        """Stop a round where it is."""
        with self.store.write("hold") as connection:
            row = self._existing(connection, number)
            if row.state in ("published", "held"):
                raise InvalidParameter("round", "be one that is still under way", f"{number}, {row.state}")
            values = {"state": "held", "held_from": row.state, "reason": reason}
            connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == number).values(**values))

    def release(self, number: int) -> None:
        """Let a held round go on."""
        with self.store.write("release") as connection:
            row = self._existing(connection, number)
            if row.state != "held":
                raise InvalidParameter("round", "be held", f"{number}, {row.state}")
            values = {"state": row.held_from, "held_from": None, "reason": ""}
            connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == number).values(**values))

    def discard(self, number: int, reason: str) -> None:
        """End a held round for good: nothing is decoded, everything about phones is dropped, the list learns nothing.

        It counts as published without a finding.
        """
        with self.store.write("discard") as connection:
            row = self._existing(connection, number)
            if row.state != "held":
                raise InvalidParameter("round", "be held", f"{number}, {row.state}")
            self._forget(connection, number)
            connection.execute(sa.delete(schema.hitters).where(schema.hitters.c.round == number))
            values = {"state": "published", "held_from": None, "reason": f"discarded: {reason}", "secret": b""}
            connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == number).values(**values))
        self.store.scrub()

    def _existing(self, connection: Connection, number: int) -> Any:
        row = self.store.lock_round(connection, number)
        if row is None:
            raise InvalidParameter("round", "be one of this server", number)
        return row

    def _unfinished(self) -> list[Any]:
        query = sa.select(schema.rounds.c.id).where(schema.rounds.c.state.not_in(["published", "held"]))
        return list(self.store.rows(query.order_by(schema.rounds.c.id)))

    def _state(self, number: int) -> str:
        return str(self.store.rows(sa.select(schema.rounds.c.state).where(schema.rounds.c.id == number))[0].state)

    def _due(self, number: int, deadline: str, now: int, force: bool) -> bool:
        column = schema.rounds.c[deadline]
        return force or now >= self.store.rows(sa.select(column).where(schema.rounds.c.id == number))[0][0]


def _slot(due: int, now: int, period: int, announce: float) -> tuple[int, int]:
    """(opening, length) of a round that opens late: in the rhythm of those before, and with time to announce.

    A server that slept into the announcing keeps the slot; one that slept through it opens now, and fits the phases
    into what is left of the slot, or, where that is less than half, into the next one too.
    """
    opens = due + (now - due) // period * period
    if now < opens + period * announce:
        return opens, period
    left = opens + period - now
    return now, left if 2 * left >= period else left + period
