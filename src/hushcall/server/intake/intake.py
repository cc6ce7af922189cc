"""The server, while a round is open: announcements and reports come in, rows leave, many of them in one commit.

Nothing is answered before it is on disk. One commit serves everything that arrived while the one before it was being
written, so the disk is never idle under load and never waited for twice. Every upload is idempotent: the same again is
told the same, and something else in its place is refused. A device has one voice a round, whatever it retries.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import HushcallError
from hushcall.mechanisms import parameters
from hushcall.protocol.items import WHOLE
from hushcall.protocol.states import ANNOUNCING, COLLECTING
from hushcall.protocol.tickets import TICKET_BYTES, ticket_text
from hushcall.server.anonymity.redeeming import Redeeming, is_token, ticket_of, voice_of
from hushcall.server.db import schema
from hushcall.server.db.rows import DeviceRow, RoundRow, buckets_of, typed
from hushcall.server.db.store import Store
from hushcall.server.problems import Problem


@dataclass(frozen=True, slots=True)
class Announce:
    """A device says which bucket its caller is in. ``token`` is the hash of its token, or a whole blind token."""

    token: bytes
    round: int
    bucket: int


@dataclass(frozen=True, slots=True)
class Upload:
    """A device sends its report."""

    token: bytes
    round: int
    ticket: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What the device is told: 201 the first time, 200 when it asks again."""

    status: int
    body: dict[str, Any] = field(default_factory=dict)


def ticket_for(secret: bytes, device: int) -> bytes:
    """A device's ticket: unpredictable without the round's secret, and the same whenever and wherever it is asked for.

    It only names the report's public seed, and every seed is equally private (``report.subspace``), so a server that
    picked tickets with bad intent would learn nothing from it.
    """
    return hmac.digest(secret, device.to_bytes(8, "big"), "sha256")[:TICKET_BYTES]


class Decisions:
    """The mechanism of each bucket of a round: read once, since nothing in it changes while reports come in."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, Any]] = {}

    def of(self, connection: Connection, round_id: int) -> dict[int, Any]:
        """Bucket → mechanism, None where the bucket is skipped."""
        if round_id not in self._known:
            rows = buckets_of(connection, round_id)
            made = {row.bucket: parameters.from_plain(row.plain) if row.runs else None for row in rows}
            self._known = {round_id: made}
        return self._known[round_id]


@dataclass
class Intake:
    """The one place where uploads become rows. ``worker`` names the process in its counters."""

    store: Store
    worker: str
    decisions: Decisions = field(default_factory=Decisions)
    redeeming: Redeeming = field(default_factory=Redeeming)

    def accept(self, asked: Sequence[Announce | Upload]) -> list[Answer | Problem]:
        """Decide about a batch in one transaction; durable when it returns. The n-th answer is to the n-th upload."""
        refused: Counter[tuple[int, str]] = Counter()
        with self.store.write("intake") as connection:
            batch = _Batch(self.store, connection, self.decisions, self.redeeming, asked)
            answers: list[Answer | Problem] = []
            for one in asked:
                try:
                    device = batch.voice(one)
                except Problem as problem:
                    answers.append(problem)
                    continue
                try:
                    answers.append(
                        batch.announce(one, device) if isinstance(one, Announce) else batch.report(one, device)
                    )
                except Problem as problem:
                    # Only enrolled devices are counted: strangers must not be able to have a round held.
                    refused[one.round if batch.knows(one.round) else 0, problem.name] += 1
                    answers.append(problem)
            batch.write()
            self.store.add_counts(connection, self.worker, refused)
            return batch.settle(asked, answers) if self.store.postgres else answers


class _Batch:
    """What a batch needs to know, read in as few queries as there are tables; and what it is going to write."""

    def __init__(
        self,
        store: Store,
        connection: Connection,
        decisions: Decisions,
        redeeming: Redeeming,
        asked: Sequence[Announce | Upload],
    ) -> None:
        self.store, self.connection, self.decisions, self.redeeming = store, connection, decisions, redeeming
        self.rounds: dict[int, RoundRow] = {}
        self.newest = connection.execute(sa.select(sa.func.max(schema.rounds.c.id))).scalar() or 0
        for round_id in sorted({one.round for one in asked if one.round <= self.newest}):
            if row := store.lock_round(connection, round_id, share=True):
                self.rounds[round_id] = row
        tokens = {one.token for one in asked if not is_token(one.token)}
        query = sa.select(schema.devices).where(schema.devices.c.token_hash.in_(tokens))
        self.devices = {bytes(row.token_hash): row for row in typed(DeviceRow, connection.execute(query))}
        self.announced: dict[tuple[int, int], tuple[int, bytes]] = {}
        self.tickets: dict[bytes, tuple[int, int, int]] = {}
        self.bodies: dict[bytes, bytes] = {}
        self.new_announcements: list[dict[str, Any]] = []
        self.new_reports: list[dict[str, Any]] = []
        self._read_announcements([one for one in asked if isinstance(one, Announce)])
        self._read_reports([one for one in asked if isinstance(one, Upload)])

    def _read_announcements(self, asked: Sequence[Announce]) -> None:
        table = schema.announcements.c
        devices = {found for one in asked if (found := self._id(one.token)) is not None}
        if devices:
            query = sa.select(table.round, table.device, table.bucket, table.ticket)
            query = query.where(table.round.in_({one.round for one in asked}), table.device.in_(devices))
            for row in self.connection.execute(query):
                self.announced[row.round, row.device] = row.bucket, bytes(row.ticket)

    def _read_reports(self, asked: Sequence[Upload]) -> None:
        tickets = {one.ticket for one in asked}
        if not tickets:
            return
        table, rows = schema.announcements.c, schema.reports.c
        query = sa.select(table.round, table.device, table.bucket, table.ticket).where(table.ticket.in_(tickets))
        for row in self.connection.execute(query):
            self.tickets[bytes(row.ticket)] = row.round, row.device, row.bucket
        for stored in self.connection.execute(sa.select(rows.ticket, rows.body).where(rows.ticket.in_(tickets))):
            self.bodies[bytes(stored.ticket)] = bytes(stored.body)

    def _id(self, token: bytes) -> int | None:
        """Whose voice this would be, unchecked; None where nobody has this token."""
        if is_token(token):
            return voice_of(token)
        row = self.devices.get(token)
        return None if row is None else row.id

    def voice(self, one: Announce | Upload) -> int:
        """Whose voice this is: an enrolled device's, or that of a token which is one of this round."""
        if not is_token(one.token):
            return self._device(one.token)
        voice, ticket = voice_of(one.token), ticket_of(one.token)
        stored = self.announced.get((one.round, voice), (0, b""))[1] == ticket or ticket in self.tickets
        if not stored:  # what is stored was checked when it came
            self.redeeming.check(self.connection, self.round(one.round), one.token)
        return voice

    def _device(self, token: bytes) -> int:
        row = self.devices.get(token)
        if row is None:
            raise Problem("unknown-token")
        if row.revoked is not None:
            raise Problem("revoked")
        return row.id

    def knows(self, round_id: int) -> bool:
        """Whether there is such a round."""
        return round_id in self.rounds

    def round(self, round_id: int) -> RoundRow:
        """The round's row; refuses one that is not there, and says whether it may come yet."""
        if round_id > self.newest:
            raise Problem("future-round" if self.newest else "no-round")
        if round_id not in self.rounds:
            raise Problem("unknown-round")
        return self.rounds[round_id]

    def announce(self, asked: Announce, device: int) -> Answer:
        """Give out a ticket, or the same one again."""
        row = self.round(asked.round)
        if before := self.announced.get((asked.round, device)):
            if before[0] != asked.bucket:
                raise Problem("already-announced" if device > 0 else "token-spent")
            return _ticket(asked, before[1], 200)
        if row.state != ANNOUNCING:
            raise Problem("wrong-phase", f"The round is {row.state}; announcements are taken while it is {ANNOUNCING}.")
        if asked.bucket not in _buckets(row):
            raise Problem("wrong-bucket")
        ticket = ticket_for(row.secret, device) if device > 0 else ticket_of(asked.token)
        self.announced[asked.round, device] = asked.bucket, ticket
        self.new_announcements.append(
            {"round": asked.round, "device": device, "bucket": asked.bucket, "ticket": ticket}
        )
        return _ticket(asked, ticket, 201)

    def report(self, asked: Upload, device: int) -> Answer:
        """Take a report in, or recognise it."""
        row = self.round(asked.round)
        round_id, owner, bucket = self.tickets.get(asked.ticket, (0, 0, 0))
        if (round_id, owner) != (asked.round, device):
            raise Problem("unknown-ticket")
        if (before := self.bodies.get(asked.ticket)) is not None:
            if before != asked.body:
                raise Problem("different-report" if device > 0 else "token-spent")
            return Answer(200)
        if row.state != COLLECTING:
            raise Problem("wrong-phase", f"The round is {row.state}; reports are taken while it is {COLLECTING}.")
        mechanism = self.decisions.of(self.connection, asked.round)[bucket]
        if mechanism is None:
            raise Problem("bucket-skipped")
        try:
            mechanism.parse(asked.body)
        except HushcallError as error:
            raise Problem(
                "malformed-report", f"{getattr(error, 'field', 'report')} must {getattr(error, 'rule', 'be valid')}."
            ) from None
        self.bodies[asked.ticket] = asked.body
        self.new_reports.append({"ticket": asked.ticket, "round": asked.round, "bucket": bucket, "body": asked.body})
        return Answer(201)

    def write(self) -> None:
        """All new rows; what another worker wrote meanwhile stays as it is."""
        self.store.insert_new(self.connection, schema.announcements, self.new_announcements, key=("round", "device"))
        self.store.insert_new(self.connection, schema.reports, self.new_reports, key=("ticket",))

    def settle(self, asked: Sequence[Announce | Upload], answers: list[Answer | Problem]) -> list[Answer | Problem]:
        """Where two workers had the same device at once, one of them lost: let it answer with what is stored."""
        if not (self.new_announcements or self.new_reports):
            return answers
        self._read_announcements([one for one in asked if isinstance(one, Announce)])
        self._read_reports([one for one in asked if isinstance(one, Upload)])
        for place, (one, answer) in enumerate(zip(asked, answers, strict=True)):
            if isinstance(answer, Answer) and answer.status == 201:
                twice = "token-spent" if is_token(one.token) else ""
                if isinstance(one, Announce):
                    device = self._id(one.token)
                    if device is not None and self.announced[one.round, device][0] != one.bucket:
                        answers[place] = Problem(twice or "already-announced")
                elif self.bodies[one.ticket] != one.body:
                    answers[place] = Problem(twice or "different-report")
        return answers


def _ticket(asked: Announce, ticket: bytes, status: int) -> Answer:
    return Answer(status, {"round": asked.round, "bucket": asked.bucket, "ticket": ticket_text(ticket)})


def _buckets(row: RoundRow) -> Container[int]:
    """What can be announced in this round."""
    return row.plan.area_index if row.profile.bucketed else {WHOLE}
