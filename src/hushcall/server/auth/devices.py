"""Devices and operators: enrolment, invite codes, and bearer tokens.

A token is 256 random bits, shown once and stored hashed. A fast hash is enough: nobody can guess 256 bits. A revoked
token is refused from the next request on.
"""

from __future__ import annotations

import hashlib
import hmac
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter, NotFound
from hushcall.protocol.proof_of_work import NONCE_BYTES, proves
from hushcall.protocol.randomness import ByteSource, os_entropy, read
from hushcall.protocol.states import PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.rows import AdminRow, lock_round, typed
from hushcall.server.db.store import Store
from hushcall.server.problems import Problem
from hushcall.server.settings import EnrolSettings

DEVICE, ADMIN, INVITE = "hcd_", "hca_", "hci_"
"""Prefixes by which a person, or a scanner for leaked secrets, recognises a token."""
_TOKEN_BYTES = 32
_PROOF_SECONDS = 3600
"""Longer than any challenge is valid."""
_SCRUB_MS = 5000
"""For so long a deletion waits for readers of SQLite's write-ahead log, to empty it."""
_NAME_DIGITS = 12
"""Hexadecimal digits that name an invite code."""
SCOPES = ("read", "lists", "rounds", "devices")
"""What an operator's token may do: look; allow and appeal; move and hold rounds; enrol, invite and revoke."""
SLOT_SECONDS = 600
"""A challenge is given out for so long, and accepted for as long again."""


def new_token(prefix: str, rand: ByteSource) -> str:
    return prefix + read(rand, _TOKEN_BYTES).hex()


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="replace")).digest()


@dataclass(frozen=True)
class Admin:
    id: int
    note: str
    scopes: frozenset[str]
    token_hash: bytes

    @classmethod
    def of(cls, row: AdminRow) -> Admin:
        return cls(row.id, row.note, frozenset(row.scopes.split(",")), bytes(row.token_hash))

    def need(self, scope: str) -> None:
        if scope not in self.scopes:
            raise Problem("forbidden", f"This needs the scope '{scope}'.")


def admin_row(store: Store, which: sa.ColumnElement[bool]) -> AdminRow | None:
    return next(iter(typed(AdminRow, store.rows(sa.select(schema.admins).where(which)))), None)


@dataclass(frozen=True)
class Invite:
    """An invite code. ``name`` is the beginning of its hash, which enrols nobody. ``made`` is in unix seconds."""

    name: str
    uses_left: int
    note: str
    made: int


@dataclass(frozen=True)
class Device:
    id: int
    enrolled: int
    revoked: int | None


@dataclass
class Devices:
    """``rand`` makes secrets, ``numbers`` device ids: so a simulation repeats its devices without guessable tokens."""

    store: Store
    rand: ByteSource = os_entropy
    numbers: ByteSource = os_entropy

    def enrol(
        self,
        mode: str,
        now: int,
        *,
        invite: str = "",
        by_operator: bool = False,
        per_minute: int | None = None,
        proof: bytes | None = None,
    ) -> tuple[int, str]:
        """Enrol a device, in one transaction: a refused request has used up nothing. Returns its id and its token.

        Invite code and proof of work are checked before the minute's limit: strangers without cannot use that up.
        """
        if mode == "operator" and not by_operator:
            raise Problem("enrolment-closed", "Here the operator enrols devices.")
        token = new_token(DEVICE, self.rand)
        with self.store.write("enrol") as connection:
            if mode == "invite" and not by_operator:
                self._use_invite(connection, invite)
            if proof is not None:
                self._use_proof(connection, proof, now)
            if per_minute is not None:
                self._charge(connection, per_minute, now)
            device = self._new_id()
            row = {"id": device, "token_hash": token_hash(token), "enrolled": now}
            connection.execute(sa.insert(schema.devices).values(**row))
        return device, token

    def _use_invite(self, connection: Connection, invite: str) -> None:
        table = schema.invites.c
        code = (table.code_hash == token_hash(invite)) & (table.uses_left > 0)
        used = connection.execute(sa.update(schema.invites).where(code).values(uses_left=table.uses_left - 1))
        if used.rowcount != 1:
            detail = "This invite code is unknown or used up." if invite else "There is no invite code."
            raise Problem("enrolment-closed", detail)

    def _use_proof(self, connection: Connection, proof: bytes, now: int) -> None:
        table = schema.proofs.c
        connection.execute(sa.delete(schema.proofs).where(table.at < now - _PROOF_SECONDS))
        if connection.execute(sa.select(table.at).where(table.proof == proof)).first() is not None:
            raise Problem("work-needed", "This answer was given before.")
        connection.execute(sa.insert(schema.proofs).values(proof=proof, at=now))

    def _charge(self, connection: Connection, per_minute: int, now: int) -> None:
        minute, second = divmod(now, 60)
        connection.execute(sa.delete(schema.limits).where(schema.limits.c.minute < minute))
        if self.store.add_one(connection, schema.limits, {"name": "enrol", "minute": minute}) > per_minute:
            raise Problem("too-many", retry_after=60 - second)

    def enrol_many(self, count: int, now: int) -> list[tuple[int, str]]:
        devices = [(self._new_id(), new_token(DEVICE, self.rand)) for _ in range(count)]
        with self.store.write("enrol many") as connection:
            rows = [{"id": device, "token_hash": token_hash(token), "enrolled": now} for device, token in devices]
            connection.execute(sa.insert(schema.devices), rows)
        return devices

    def _new_id(self) -> int:
        """A random id of 52 bits, so that nobody who enrols learns how many did before."""
        return (int.from_bytes(read(self.numbers, 7), "big") >> 4) + 1

    def revoke(self, device: int, now: int) -> None:
        """Revoke a device. Its earlier reports stay: nobody can tell which they are."""
        self._revoke("device", schema.devices, device, now)

    def delete(self, device: int) -> None:
        """Delete a device with every row that names it: announcements, their reports, tokens, refusals, the log's.

        A sealed tally may hold what it reported: nobody can tell which report that is. The open rounds are locked, so
        that no upload of the device is stored meanwhile.
        """
        ours, rows = schema.announcements.c, (schema.announcements, schema.issued, schema.refusals)
        tickets = sa.select(ours.ticket).where(ours.device == device)
        unfinished = sa.select(schema.rounds.c.id).where(schema.rounds.c.state != PUBLISHED)
        with self.store.write("delete device") as connection:
            locked = sa.select(schema.devices.c.id).where(schema.devices.c.id == device).with_for_update()
            connection.execute(locked)  # before the rounds, as when a token is issued
            for round_id in connection.scalars(unfinished.order_by(schema.rounds.c.id)).all():
                lock_round(connection, round_id)
            connection.execute(sa.delete(schema.reports).where(schema.reports.c.ticket.in_(tickets)))
            for table in rows:
                connection.execute(sa.delete(table).where(table.c.device == device))
            named = schema.audit.c.about == f"device {device}"
            connection.execute(sa.update(schema.audit).where(named).values(about="a deleted device"))
            if connection.execute(sa.delete(schema.devices).where(schema.devices.c.id == device)).rowcount != 1:
                raise NotFound("device", "exist", device, f"There is no device {device}.")
        self.store.scrub(_SCRUB_MS)

    def delete_own(self, token: str) -> None:
        """Delete the device of a token, also a revoked one."""
        rows = self.store.rows(sa.select(schema.devices.c.id).where(schema.devices.c.token_hash == token_hash(token)))
        if not rows:
            raise Problem("unknown-token")
        self.delete(rows[0].id)

    def invite(self, uses: int, note: str, now: int) -> str:
        code = new_token(INVITE, self.rand)
        with self.store.write("invite") as connection:
            row = {"code_hash": token_hash(code), "uses_left": uses, "note": note, "made": now}
            connection.execute(sa.insert(schema.invites).values(**row))
        return code

    def invites(self) -> list[Invite]:
        table = schema.invites
        rows = self.store.rows(sa.select(table).order_by(table.c.made.desc(), table.c.code_hash))
        return [Invite(_name(row.code_hash), row.uses_left, row.note, row.made) for row in rows]

    def revoke_invite(self, name: str) -> None:
        """Revoke an invite code. Devices that enrolled with it stay."""
        table = schema.invites.c
        with self.store.write("revoke invite") as connection:
            hashes = connection.execute(sa.select(table.code_hash).where(table.uses_left > 0)).scalars()
            matching = [code_hash for code_hash in hashes if _name(code_hash) == name]
            if not matching:
                raise InvalidParameter("invite", "exist and not be used up", name)
            connection.execute(sa.update(schema.invites).where(table.code_hash.in_(matching)).values(uses_left=0))

    def devices(self, limit: int = 1000, after: int = 0) -> list[Device]:
        table = schema.devices.c
        query = sa.select(table.id, table.enrolled, table.revoked).where(table.id > after).order_by(table.id)
        return typed(Device, self.store.rows(query.limit(limit)))

    def new_admin(self, scopes: frozenset[str], note: str, now: int) -> str:
        unknown = scopes - frozenset(SCOPES)
        if unknown or not scopes:
            raise InvalidParameter("scope", f"be some of {', '.join(SCOPES)}", ", ".join(sorted(unknown)))
        token = new_token(ADMIN, self.rand)
        row = {"token_hash": token_hash(token), "scopes": ",".join(sorted(scopes)), "note": note, "made": now}
        with self.store.write("new admin") as connection:
            connection.execute(sa.insert(schema.admins).values(**row))
        return token

    def revoke_admin(self, admin: int, now: int) -> None:
        self._revoke("token", schema.admins, admin, now)

    def _revoke(self, kind: str, table: sa.Table, row_id: int, now: int) -> None:
        with self.store.write(f"revoke {kind}") as connection:
            alive = (table.c.id == row_id) & table.c.revoked.is_(None)
            if connection.execute(sa.update(table).where(alive).values(revoked=now)).rowcount != 1:
                raise InvalidParameter(kind, "exist and not be revoked", row_id)

    def admin(self, token: str) -> Admin:
        row = admin_row(self.store, schema.admins.c.token_hash == token_hash(token))
        if row is None:
            raise Problem("unknown-token")
        if row.revoked is not None:
            raise Problem("revoked")
        return Admin.of(row)

    def admins(self) -> list[AdminRow]:
        return typed(AdminRow, self.store.rows(sa.select(schema.admins).order_by(schema.admins.c.id)))


def _name(code_hash: bytes) -> str:
    return bytes(code_hash).hex()[:_NAME_DIGITS]


@dataclass(frozen=True)
class Enrolments:
    """Who may enrol. ``secret`` is the key of the challenges.

    Where a request seems to come from decides nothing: behind a proxy on this machine that adds no header, every
    stranger looks like its owner.
    """

    devices: Devices
    settings: EnrolSettings
    secret: Callable[[], bytes]

    def challenge(self, now: int) -> tuple[str, int]:
        """(text, bits) of the proof of work to give before enrolling: 0 bits where none is needed.

        Open enrolment needs it, or the consent of a command of the operator's own.
        """
        needs_work = self.settings.mode == "open" and not self.settings.command
        return self._text(now // SLOT_SECONDS), self.settings.work if needs_work else 0

    def enrol(self, invite: str, work: str, now: int) -> tuple[int, str]:
        """Enrol a device, if it may. Returns its id and its token."""
        mode = self.settings.mode
        if mode == "open" and self.settings.command and not _consents(self.settings.command, invite):
            raise Problem("enrolment-closed", "The operator's rule does not let this device in.")
        proof = self._checked(work, now, self.challenge(now)[1])
        return self.devices.enrol(mode, now, invite=invite, per_minute=self.settings.per_minute, proof=proof)

    def _checked(self, work: str, now: int, bits: int) -> bytes | None:
        """The proof of work, which counts once. None where none is needed."""
        if bits == 0:
            return None
        challenge, _, digits = work.partition(":")
        slot = now // SLOT_SECONDS
        current = challenge in (self._text(slot), self._text(slot - 1))
        try:
            nonce = bytes.fromhex(digits) if len(digits) == 2 * NONCE_BYTES else b""
        except ValueError:
            nonce = b""
        if not current or not proves(challenge.encode(), nonce, bits):
            raise Problem("work-needed")
        return work.encode()

    def _text(self, slot: int) -> str:
        return hmac.digest(self.secret(), b"hushcall: enrolment %d" % slot, "sha256")[:16].hex()


def _consents(command: list[str], invite: str) -> bool:
    """Run the operator's command with the client's code on its input. Exit status 0 consents."""
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own command
            command, input=f"{invite}\n", text=True, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
