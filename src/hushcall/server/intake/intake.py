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
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import HushcallError
from hushcall.mechanisms import parameters
from hushcall.protocol.items import WHOLE
from hushcall.protocol.round_document import upload_bytes
from hushcall.protocol.states import ANNOUNCING, COLLECTING
from hushcall.protocol.tickets import TICKET_BYTES, ticket_text
from hushcall.protocol.wire import COVER, strip
from hushcall.report.mechanism import report_bytes
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


# What every batch asks, written down once: to put it together again took a third of a small commit's time.
_SAID, _SENT = schema.announcements.c, schema.reports.c
_TICKETS: sa.BindParameter[Any] = sa.bindparam("tickets", expanding=True)
_ROUNDS: sa.BindParameter[Any] = sa.bindparam("rounds", expanding=True)
_NEWEST = sa.select(sa.func.max(schema.rounds.c.id))
_DEVICES = sa.select(schema.devices).where(schema.devices.c.token_hash.in_(sa.bindparam("tokens", expanding=True)))
_VOICE = sa.select(_SAID.round, _SAID.device, _SAID.bucket, _SAID.ticket)
_ANNOUNCED = _VOICE.where(_SAID.round.in_(_ROUNDS), _SAID.device.in_(sa.bindparam("devices", expanding=True)))
_KNOWN = _VOICE.where(_SAID.ticket.in_(_TICKETS))
_KNOWN_IN = _KNOWN.where(_SAID.round.in_(_ROUNDS))
_STORED = sa.select(_SENT.ticket, _SENT.body).where(_SENT.ticket.in_(_TICKETS))
_STORED_IN = _STORED.where(_SENT.round.in_(_ROUNDS))


def ticket_for(secret: bytes, device: int) -> bytes:
    """A device's ticket: unpredictable without the round's secret, and the same whenever and wherever it is asked for.

    It only names the report's public seed, and every seed is equally private (``report.subspace``), so a server that
    picked tickets with bad intent would learn nothing from it.
    """
    return hmac.digest(secret, device.to_bytes(8, "big"), "sha256")[:TICKET_BYTES]


@dataclass(frozen=True)
class Decided:
    """What was decided for a round: bucket → mechanism, None where it is skipped; and how long all uploads are."""

    mechanisms: dict[int, Any]

    @cached_property
    def upload_bytes(self) -> int:
        """The length of the longest report."""
        return upload_bytes(report_bytes(made) for made in self.mechanisms.values() if made is not None)


class Decisions:
    """What was decided for each bucket of a round: read once, since nothing in it changes while reports come in."""

    def __init__(self) -> None:
        self._known: dict[int, Decided] = {}

    def of(self, connection: Connection, round_id: int) -> Decided:
        """The decisions of a round."""
        if round_id not in self._known:
            rows = buckets_of(connection, round_id)
            made = {row.bucket: parameters.from_plain(row.plain) if row.runs else None for row in rows}
            self._known = {round_id: Decided(made)}
        return self._known[round_id]


@dataclass
class Intake:
    """The one place where uploads become rows. ``worker`` names the process in its counters."""

    store: Store
    worker: str
    most_refused: int = 1 << 30
    patience: float = 10.0  # seconds that a batch waits for the database: phones give up after 30
    silenced: set[tuple[int, int]] = field(default_factory=set)  # (round, device) that is not listened to any more
    decisions: Decisions = field(default_factory=Decisions)
    redeeming: Redeeming = field(default_factory=Redeeming)

    def accept(self, asked: Sequence[Announce | Upload]) -> list[Answer | Problem]:
        """Decide about a batch in one transaction; durable when it returns. The n-th answer is to the n-th upload."""
        refused: Counter[tuple[int, str]] = Counter()
        by_device: Counter[tuple[int, int]] = Counter()
        with self.store.write("intake", self.patience) as connection:
            batch = _Batch(self.store, connection, self.decisions, self.redeeming, asked)
            answers: list[Answer | Problem] = []
            for one in asked:
                try:
                    device = batch.voice(one)
                except Problem as problem:
                    answers.append(problem)
                    continue
                if (one.round, device) in self.silenced:
                    answers.append(Problem("too-many", "This device was refused too often in this round."))
                    continue
                try:
                    answers.append(
                        batch.announce(one, device) if isinstance(one, Announce) else batch.report(one, device)
                    )
                except Problem as problem:
                    # Only enrolled devices are counted: strangers must not be able to have a round held.
                    known = batch.knows(one.round)
                    refused[one.round if known else 0, problem.name] += 1
                    by_device[one.round if known else 0, device] += 1
                    answers.append(problem)
            batch.write()
            self.store.add_counts(connection, self.worker, refused)
            self._silence(connection, by_device)
            return batch.settle(asked, answers) if self.store.postgres else answers

    def _silence(self, connection: Connection, refused: Counter[tuple[int, int]]) -> None:
        """Count by device, over all workers, and stop listening to those over their share in a round.

        A device that sends junk is one voice, however much it sends: the guard counts devices. Another worker learns
        of it when the device is refused there too.
        """
        newest = max(self.silenced, default=(0, 0))[0]
        self.silenced = {known for known in self.silenced if known[0] >= newest - 1}
        for (round_id, device), count in sorted(refused.items()):
            if round_id:
                key = {"round": round_id, "device": device}
                if self.store.add_one(connection, schema.refusals, key, count) >= self.most_refused:
                    self.silenced.add((round_id, device))


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
        self.newest = connection.execute(_NEWEST).scalar() or 0
        for round_id in sorted({one.round for one in asked if one.round <= self.newest}):
            if row := store.lock_round(connection, round_id, share=True):
                self.rounds[round_id] = row
        tokens = {one.token for one in asked if not is_token(one.token)}
        rows = connection.execute(_DEVICES, {"tokens": list(tokens)})
        self.devices = {bytes(row.token_hash): row for row in typed(DeviceRow, rows)}
        self.announced: dict[tuple[int, int], tuple[int, bytes]] = {}
        self.tickets: dict[bytes, tuple[int, int, int]] = {}
        self.bodies: dict[bytes, bytes] = {}
        self.new_announcements: list[dict[str, Any]] = []
        self.new_reports: list[dict[str, Any]] = []
        self._read_announcements([one for one in asked if isinstance(one, Announce)])
        self._read_reports([one for one in asked if isinstance(one, Upload)])

    def _read_announcements(self, asked: Sequence[Announce]) -> None:
        devices = {found for one in asked if (found := self._id(one.token)) is not None}
        if devices:
            wanted = {"rounds": list({one.round for one in asked}), "devices": list(devices)}
            for row in self.connection.execute(_ANNOUNCED, wanted):
                self.announced[row.round, row.device] = row.bucket, bytes(row.ticket)

    def _read_reports(self, asked: Sequence[Upload]) -> None:
        tickets = {one.ticket for one in asked}
        if not tickets:
            return
        known, stored = _KNOWN, _STORED
        wanted: dict[str, list[Any]] = {"tickets": list(tickets)}
        if self.store.postgres:  # rounds say which partitions to look at; SQLite would look through all of a round
            known, stored = _KNOWN_IN, _STORED_IN
            wanted["rounds"] = list({one.round for one in asked})
        for row in self.connection.execute(known, wanted):
            self.tickets[bytes(row.ticket)] = row.round, row.device, row.bucket
        for ticket, body in self.connection.execute(stored, wanted):
            self.bodies[bytes(ticket)] = bytes(body)

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
            if not _same(before, asked.body):
                raise Problem("different-report" if device > 0 else "token-spent")
            return Answer(200)
        if row.state != COLLECTING:
            raise Problem("wrong-phase", f"The round is {row.state}; reports are taken while it is {COLLECTING}.")
        decided = self.decisions.of(self.connection, asked.round)
        mechanism = decided.mechanisms[bucket]
        if mechanism is None or asked.body.startswith(COVER):
            return Answer(201)  # cover: answered like a report, thrown away unread, and as welcome the next time
        body = strip(asked.body, report_bytes(mechanism), decided.upload_bytes)
        try:
            mechanism.parse(body)
        except HushcallError as error:
            raise Problem(
                "malformed-report", f"{getattr(error, 'field', 'report')} must {getattr(error, 'rule', 'be valid')}."
            ) from None
        self.bodies[asked.ticket] = body
        self.new_reports.append({"ticket": asked.ticket, "round": asked.round, "bucket": bucket, "body": body})
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
                elif one.ticket in self.bodies and not _same(self.bodies[one.ticket], one.body):
                    answers[place] = Problem(twice or "different-report")
        return answers


def _same(stored: bytes, body: bytes) -> bool:
    """Whether an upload is the stored report again, with or without its padding."""
    return body.startswith(stored) and not any(body[len(stored) :])


def _ticket(asked: Announce, ticket: bytes, status: int) -> Answer:
    return Answer(status, {"round": asked.round, "bucket": asked.bucket, "ticket": ticket_text(ticket)})


def _buckets(row: RoundRow) -> Container[int]:
    """What can be announced in this round."""
    return row.plan.area_index if row.profile.bucketed else {WHOLE}
