"""Decides about announcements and reports, and stores them: one transaction per batch.

Nothing is answered before it is on disk. Every upload is idempotent: a retry gets the same answer, and something else
in its place is refused. A device takes part once per round, by name or with a token.
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
from hushcall.mechanisms.mechanism import Mechanism, report_bytes
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.items import WHOLE
from hushcall.protocol.round_document import upload_bytes
from hushcall.protocol.seeds import TICKET_BYTES, about_hundred, report_seed, ticket_bytes, ticket_text
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HAS_FINDINGS
from hushcall.protocol.wire import COVER, strip
from hushcall.server import anonymity
from hushcall.server.anonymity import Redeemer, is_token, participant_of
from hushcall.server.db import schema
from hushcall.server.db.rows import DeviceRow, RoundRow, buckets_of, existing_round, lock_round, typed
from hushcall.server.db.store import Store
from hushcall.server.problems import Problem


@dataclass(frozen=True, slots=True)
class Announce:
    """A device's announcement of a bucket. ``token`` is the hash of its token, or a whole blind token."""

    token: bytes
    round: int
    bucket: int


@dataclass(frozen=True, slots=True)
class Upload:
    token: bytes
    round: int
    ticket: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """Status 201 the first time, 200 for a retry."""

    status: int
    body: dict[str, Any] = field(default_factory=dict)


# Built once: building the statements for every batch took a third of a small commit's time.
_ANNOUNCEMENTS, _REPORTS = schema.announcements.c, schema.reports.c
_TICKETS: sa.BindParameter[Any] = sa.bindparam("tickets", expanding=True)
_ROUNDS: sa.BindParameter[Any] = sa.bindparam("rounds", expanding=True)
_NEWEST = sa.select(sa.func.max(schema.rounds.c.id))
_DEVICES = sa.select(schema.devices).where(schema.devices.c.token_hash.in_(sa.bindparam("tokens", expanding=True)))
_PARTICIPANTS = sa.select(_ANNOUNCEMENTS.round, _ANNOUNCEMENTS.device, _ANNOUNCEMENTS.bucket, _ANNOUNCEMENTS.ticket)
_BY_DEVICE = _PARTICIPANTS.where(
    _ANNOUNCEMENTS.round.in_(_ROUNDS), _ANNOUNCEMENTS.device.in_(sa.bindparam("devices", expanding=True))
)
_BY_TICKET = _PARTICIPANTS.where(_ANNOUNCEMENTS.ticket.in_(_TICKETS))
_BY_TICKET_AND_ROUND = _BY_TICKET.where(_ANNOUNCEMENTS.round.in_(_ROUNDS))
_STORED = sa.select(_REPORTS.ticket, _REPORTS.body).where(_REPORTS.ticket.in_(_TICKETS))
_STORED_IN_ROUND = _STORED.where(_REPORTS.round.in_(_ROUNDS))


def ticket_for(secret: bytes, device: int) -> bytes:
    """A device's ticket: unpredictable without the round's secret, the same for every retry and worker."""
    return hmac.digest(secret, device.to_bytes(8, "big"), "sha256")[:TICKET_BYTES]


@dataclass(frozen=True)
class Decided:
    """The mechanisms of a round by bucket (None where it is skipped), and the length to which uploads are padded.

    ``hundreds``: those of reports about hundreds.
    """

    mechanisms: dict[int, Mechanism | None]
    hundreds: dict[int, Mechanism] = field(default_factory=dict)

    @cached_property
    def upload_bytes(self) -> int:
        return upload_bytes(report_bytes(mechanism) for mechanism in self.mechanisms.values() if mechanism is not None)


class Decisions:
    """The decided mechanisms of the last round that was read. They do not change while reports are collected."""

    def __init__(self) -> None:
        self._by_round: dict[int, Decided] = {}

    def of(self, connection: Connection, round_id: int) -> Decided:
        if round_id not in self._by_round:
            row, rows = existing_round(connection, round_id), buckets_of(connection, round_id)
            mechanisms = {each.bucket: parameters.from_plain(each.plain) if each.runs else None for each in rows}
            running = {bucket: mechanism for bucket, mechanism in mechanisms.items() if mechanism is not None}
            asked = running if row.profile.hundreds else {}
            hundreds = {bucket: parameters.about_hundreds(each, row.plan) for bucket, each in asked.items()}
            self._by_round = {round_id: Decided(mechanisms, hundreds)}
        return self._by_round[round_id]


@dataclass
class Intake:
    """Stores uploads. ``worker`` names the process in its counters.

    A device that was refused ``max_refused`` times in a round is ignored for the rest of it.
    """

    store: Store
    worker: str
    max_refused: int = 1 << 30
    timeout_seconds: float = 10.0
    silenced: set[tuple[int, int]] = field(default_factory=set)  # (round, device)
    decisions: Decisions = field(default_factory=Decisions)
    redeemer: Redeemer = field(default_factory=Redeemer)

    def accept(self, uploads: Sequence[Announce | Upload]) -> list[Answer | Problem]:
        """Decide about a batch in one transaction. The answers are in the order of the uploads, and durable."""
        refused: Counter[tuple[int, str]] = Counter()
        by_device: Counter[tuple[int, int]] = Counter()
        with self.store.write("intake", self.timeout_seconds) as connection:
            batch = _Batch(self.store, connection, self.decisions, self.redeemer, uploads)
            answers: list[Answer | Problem] = []
            for upload in uploads:
                try:
                    device = batch.participant(upload)
                except Problem as problem:  # not counted: strangers must not be able to have a round held
                    answers.append(problem)
                    continue
                if (upload.round, device) in self.silenced:
                    answers.append(Problem("too-many", "This device was refused too often in this round."))
                    continue
                try:
                    answers.append(batch.answer(upload, device))
                except Problem as problem:
                    row = batch.rounds.get(upload.round)
                    over = row is None or row.phase in HAS_FINDINGS  # its rows are forgotten: late ones would stay
                    refused[0 if over else upload.round, problem.name] += 1
                    by_device[0 if over else upload.round, device] += 1
                    answers.append(problem)
            batch.write()
            self.store.add_counts(connection, self.worker, refused)
            self._silence(connection, by_device)
            return batch.settle(uploads, answers) if self.store.postgres else answers

    def _silence(self, connection: Connection, refused: Counter[tuple[int, int]]) -> None:
        """Count refusals by device, over all workers, and ignore devices beyond the limit."""
        newest = max(self.silenced, default=(0, 0))[0]
        self.silenced = {(round_id, device) for round_id, device in self.silenced if round_id >= newest - 1}
        for (round_id, device), count in sorted(refused.items()):
            if round_id:
                key = {"round": round_id, "device": device}
                if self.store.add_one(connection, schema.refusals, key, count) >= self.max_refused:
                    self.silenced.add((round_id, device))


class _Batch:
    """The rows that a batch of uploads needs, read with one query per table, and those that it will write."""

    def __init__(
        self,
        store: Store,
        connection: Connection,
        decisions: Decisions,
        redeemer: Redeemer,
        uploads: Sequence[Announce | Upload],
    ) -> None:
        self.store, self.connection, self.decisions, self.redeemer = store, connection, decisions, redeemer
        self.rounds: dict[int, RoundRow] = {}
        self.newest = connection.execute(_NEWEST).scalar() or 0
        for round_id in sorted({upload.round for upload in uploads if upload.round <= self.newest}):
            if row := lock_round(connection, round_id, share=True):
                self.rounds[round_id] = row
        hashes = {upload.token for upload in uploads if not is_token(upload.token)}
        rows = connection.execute(_DEVICES, {"tokens": list(hashes)})
        self.devices = {bytes(row.token_hash): row for row in typed(DeviceRow, rows)}
        self.announced: dict[tuple[int, int], tuple[int, bytes]] = {}
        self.with_token: set[tuple[int, int]] = set()  # (round, device)
        self.tickets: dict[bytes, tuple[int, int, int]] = {}
        self.bodies: dict[bytes, bytes] = {}
        self.new_announcements: list[dict[str, Any]] = []
        self.new_reports: list[dict[str, Any]] = []
        self._read(uploads)

    def _read(self, uploads: Sequence[Announce | Upload]) -> None:
        self._read_announcements([upload for upload in uploads if isinstance(upload, Announce)])
        self._read_reports([upload for upload in uploads if isinstance(upload, Upload)])

    def _read_announcements(self, uploads: Sequence[Announce]) -> None:
        devices = {device for upload in uploads if (device := self._id(upload.token)) is not None}
        for round_id in {upload.round for upload in uploads if upload.round in self.rounds}:
            named = [device for device in devices if device > 0]
            if named and self.rounds[round_id].profile.anonymous:  # first, because it locks them
                holders = anonymity.with_a_token(self.connection, round_id, named)
                self.with_token |= {(round_id, device) for device in holders}
        if devices:
            values = {"rounds": list({upload.round for upload in uploads}), "devices": list(devices)}
            for row in self.connection.execute(_BY_DEVICE, values):
                self.announced[row.round, row.device] = row.bucket, bytes(row.ticket)

    def _read_reports(self, uploads: Sequence[Upload]) -> None:
        tickets = {upload.ticket for upload in uploads}
        if not tickets:
            return
        announced, stored = _BY_TICKET, _STORED
        values: dict[str, list[Any]] = {"tickets": list(tickets)}
        if self.store.postgres:  # the round says which partition to read. SQLite would scan the whole round
            announced, stored = _BY_TICKET_AND_ROUND, _STORED_IN_ROUND
            values["rounds"] = list({upload.round for upload in uploads})
        for row in self.connection.execute(announced, values):
            self.tickets[bytes(row.ticket)] = row.round, row.device, row.bucket
        for ticket, body in self.connection.execute(stored, values):
            self.bodies[bytes(ticket)] = bytes(body)

    def _id(self, token: bytes) -> int | None:
        """The participant of a token, unchecked. None if no device has the token."""
        if is_token(token):
            return participant_of(token)
        row = self.devices.get(token)
        return None if row is None else row.id

    def participant(self, upload: Announce | Upload) -> int:
        if not is_token(upload.token):
            return self._device(upload.token)
        participant, ticket = participant_of(upload.token), ticket_bytes(tokens.ticket_of_token(upload.token))
        stored = self.announced.get((upload.round, participant), (0, b""))[1] == ticket or ticket in self.tickets
        if not stored:  # a stored token was checked when it was stored
            self.redeemer.check(self.connection, self._round(upload.round), upload.token)
        return participant

    def _device(self, token: bytes) -> int:
        row = self.devices.get(token)
        if row is None:
            raise Problem("unknown-token")
        if row.revoked is not None:
            raise Problem("revoked")
        return row.id

    def _round(self, round_id: int) -> RoundRow:
        if round_id > self.newest:
            raise Problem("future-round" if self.newest else "no-round")
        if round_id not in self.rounds:
            raise Problem("unknown-round")
        return self.rounds[round_id]

    def answer(self, upload: Announce | Upload, device: int) -> Answer:
        return self.announce(upload, device) if isinstance(upload, Announce) else self.report(upload, device)

    def announce(self, upload: Announce, device: int) -> Answer:
        row = self._round(upload.round)
        if before := self.announced.get((upload.round, device)):
            if before[0] != upload.bucket:
                raise Problem("already-announced" if device > 0 else "token-spent")
            return _ticket_answer(upload, before[1], 200)
        if row.state != ANNOUNCING:
            raise Problem("wrong-phase", f"The round is {row.state}; announcements are taken while it is {ANNOUNCING}.")
        if upload.bucket not in _buckets(row):
            raise Problem("wrong-bucket")
        if (upload.round, device) in self.with_token:
            raise Problem("already-issued", "This device has a token for this round, and takes part with it.")
        if device > 0 and self.devices[upload.token].took_part(row):
            raise Problem("already-announced", anonymity.TOOK_PART)
        ticket = ticket_for(row.secret, device) if device > 0 else ticket_bytes(tokens.ticket_of_token(upload.token))
        self.announced[upload.round, device] = upload.bucket, ticket
        self.new_announcements.append(
            {"round": upload.round, "device": device, "bucket": upload.bucket, "ticket": ticket}
        )
        return _ticket_answer(upload, ticket, 201)

    def report(self, upload: Upload, device: int) -> Answer:
        row = self._round(upload.round)
        round_id, owner, bucket = self.tickets.get(upload.ticket, (0, 0, 0))
        if (round_id, owner) != (upload.round, device):
            raise Problem("unknown-ticket")
        if (before := self.bodies.get(upload.ticket)) is not None:
            if not _same(before, upload.body):
                raise Problem("different-report" if device > 0 else "token-spent")
            return Answer(200)
        if row.state != COLLECTING:
            raise Problem("wrong-phase", f"The round is {row.state}; reports are taken while it is {COLLECTING}.")
        decided = self.decisions.of(self.connection, upload.round)
        mechanism = decided.mechanisms[bucket]
        if mechanism is None or upload.body.startswith(COVER):
            return Answer(201)  # cover traffic: answered like a report, and dropped
        body = strip(upload.body, report_bytes(mechanism), decided.upload_bytes)
        hundreds = decided.hundreds.get(bucket)
        # Older clients report numbers only, so such a report is taken whatever the seed says.
        says_so = hundreds is not None and body[1:2] == bytes([hundreds.kind])
        if hundreds and says_so and about_hundred(report_seed(row.seed, upload.ticket), row.profile.hundreds):
            bucket, mechanism = -bucket, hundreds
        try:
            mechanism.parse(body)
        except HushcallError as error:
            raise Problem(
                "malformed-report", f"{getattr(error, 'field', 'report')} must {getattr(error, 'rule', 'be valid')}."
            ) from None
        self.bodies[upload.ticket] = body
        self.new_reports.append({"ticket": upload.ticket, "round": upload.round, "bucket": bucket, "body": body})
        return Answer(201)

    def write(self) -> None:
        """Insert all new rows. Rows that another worker wrote meanwhile stay."""
        self.store.insert_new(self.connection, schema.announcements, self.new_announcements, key=("round", "device"))
        for round_id in {new["round"] for new in self.new_announcements}:
            named = [new["device"] for new in self.new_announcements if new["round"] == round_id and new["device"] > 0]
            anonymity.take_part(self.connection, self.rounds[round_id], named)
        self.store.insert_new(self.connection, schema.reports, self.new_reports, key=("ticket",))

    def settle(self, uploads: Sequence[Announce | Upload], answers: list[Answer | Problem]) -> list[Answer | Problem]:
        """Answer with what is stored, where another worker stored the same device's upload first."""
        if not (self.new_announcements or self.new_reports):
            return answers
        self._read(uploads)
        for place, (upload, answer) in enumerate(zip(uploads, answers, strict=True)):
            if isinstance(answer, Answer) and answer.status == 201:
                spent = "token-spent" if is_token(upload.token) else ""
                if isinstance(upload, Announce):
                    device = self._id(upload.token)
                    if device is not None and self.announced[upload.round, device][0] != upload.bucket:
                        answers[place] = Problem(spent or "already-announced")
                elif upload.ticket in self.bodies and not _same(self.bodies[upload.ticket], upload.body):
                    answers[place] = Problem(spent or "different-report")
        return answers


def _same(stored: bytes, body: bytes) -> bool:
    return body.startswith(stored) and not any(body[len(stored) :])


def _ticket_answer(upload: Announce, ticket: bytes, status: int) -> Answer:
    return Answer(status, {"round": upload.round, "bucket": upload.bucket, "ticket": ticket_text(ticket)})


def _buckets(row: RoundRow) -> Container[int]:
    return row.plan.area_index if row.profile.bucketed else {WHOLE}
