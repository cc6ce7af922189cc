"""Who may speak: devices with a token each, and operators with tokens that allow no more than they need.

Tokens are shown once and stored hashed. A revoked device is refused from the next request on.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.privacy.coins import ByteSource, os_entropy, read
from hushcall.server.access.tokens import ADMIN, DEVICE, INVITE, new_token, token_hash
from hushcall.server.db import schema
from hushcall.server.db.rows import AdminRow, typed
from hushcall.server.db.store import Store
from hushcall.server.problems import Problem

_PROOF_SECONDS = 3600
"""For longer than any challenge is good."""
_NAME = 12
"""Hexadecimal digits that name an invite code."""
SCOPES = ("read", "lists", "rounds", "devices")
"""What an operator's token may do: look; allow and appeal; move and hold rounds; enrol, invite and revoke."""


@dataclass(frozen=True)
class Admin:
    """An operator who was recognised."""

    id: int
    note: str
    scopes: frozenset[str]

    def need(self, scope: str) -> None:
        """Refuse what this token is not for."""
        if scope not in self.scopes:
            raise Problem("forbidden", f"This needs the scope '{scope}'.")


@dataclass(frozen=True)
class Invite:
    """An invite code that was made. ``name`` is the beginning of its hash: it enrols nobody."""

    name: str
    uses_left: int
    note: str
    made: int


@dataclass(frozen=True)
class Device:
    """A device, as operators see it."""

    id: int
    enrolled: int
    revoked: int | None


@dataclass
class Devices:
    """Enrolment and tokens over a store: ``coins`` make secrets, ``numbers`` make devices' numbers.

    Two sources, so that a simulation can repeat its devices without handing out guessable tokens.
    """

    store: Store
    coins: ByteSource = os_entropy
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
        """A new device: its number and its token.

        The code and the proof of work are looked at before the minute's share is charged: strangers without either
        cannot use it up. All of it is one transaction, so whoever is refused has spent nothing.
        """
        if mode == "operator" and not by_operator:
            raise Problem("enrolment-closed", "Here the operator enrols devices.")
        token = new_token(DEVICE, self.coins)
        with self.store.write("enrol") as connection:
            if mode == "invite" and not by_operator:
                table = schema.invites.c
                code = (table.code_hash == token_hash(invite)) & (table.uses_left > 0)
                used = connection.execute(sa.update(schema.invites).where(code).values(uses_left=table.uses_left - 1))
                if used.rowcount != 1:
                    said = "This invite code is unknown or used up." if invite else "There is no invite code."
                    raise Problem("enrolment-closed", said)
            if proof is not None:
                self._take(connection, proof, now)
            if per_minute is not None:
                self._charge(connection, per_minute, now)
            device = self._new_id()
            row = {"id": device, "token_hash": token_hash(token), "enrolled": now}
            connection.execute(sa.insert(schema.devices).values(**row))
        return device, token

    def _take(self, connection: Connection, proof: bytes, now: int) -> None:
        """Each proof of work counts once; those whose challenge has passed are forgotten."""
        table = schema.proofs.c
        connection.execute(sa.delete(schema.proofs).where(table.at < now - _PROOF_SECONDS))
        if connection.execute(sa.select(table.at).where(table.proof == proof)).first() is not None:
            raise Problem("work-needed", "This answer was given before.")
        connection.execute(sa.insert(schema.proofs).values(proof=proof, at=now))

    def _charge(self, connection: Connection, per_minute: int, now: int) -> None:
        """Refuse the one too many of this minute, whichever worker it comes to."""
        minute, second = divmod(now, 60)
        connection.execute(sa.delete(schema.limits).where(schema.limits.c.minute < minute))
        if self.store.add_one(connection, schema.limits, {"name": "enrol", "minute": minute}) > per_minute:
            raise Problem("too-many", retry_after=60 - second)

    def enrol_many(self, count: int, now: int) -> list[tuple[int, str]]:
        """Many at once, for an operator that hands out devices."""
        made = [(self._new_id(), new_token(DEVICE, self.coins)) for _ in range(count)]
        with self.store.write("enrol many") as connection:
            rows = [{"id": device, "token_hash": token_hash(token), "enrolled": now} for device, token in made]
            connection.execute(sa.insert(schema.devices), rows)
        return made

    def _new_id(self) -> int:
        """What a device is known by: random, so that nobody who enrols learns how many did before.

        52 bits, which every reader of JSON can hold; among a million devices two meet once in ten thousand services,
        and then the later one is refused and asks again.
        """
        return (int.from_bytes(read(self.numbers, 7), "big") >> 4) + 1

    def revoke(self, device: int, now: int) -> None:
        """Take a device's voice away. What it reported before stays: nobody can tell what that was."""
        self._revoke("device", schema.devices, device, now)

    def invite(self, uses: int, note: str, now: int) -> str:
        """A code that enrols so many devices."""
        code = new_token(INVITE, self.coins)
        with self.store.write("invite") as connection:
            row = {"code_hash": token_hash(code), "uses_left": uses, "note": note, "made": now}
            connection.execute(sa.insert(schema.invites).values(**row))
        return code

    def invites(self) -> list[Invite]:
        """Every invite code that was ever made, newest first; the codes themselves are nowhere."""
        table = schema.invites
        rows = self.store.rows(sa.select(table).order_by(table.c.made.desc(), table.c.code_hash))
        return [Invite(bytes(row.code_hash).hex()[:_NAME], row.uses_left, row.note, row.made) for row in rows]

    def revoke_invite(self, name: str) -> None:
        """Let a code enrol nobody else. Devices that came with it stay: revoke them by their numbers."""
        table = schema.invites.c
        with self.store.write("revoke invite") as connection:
            hashes = connection.execute(sa.select(table.code_hash).where(table.uses_left > 0)).scalars()
            meant = [found for found in hashes if bytes(found).hex()[:_NAME] == name]
            if not meant:
                raise InvalidParameter("invite", "exist and not be used up", name)
            connection.execute(sa.update(schema.invites).where(table.code_hash.in_(meant)).values(uses_left=0))

    def devices(self, most: int = 1000, after: int = 0) -> list[Device]:
        """Devices by number, the first ones after a number: when each enrolled, and was revoked."""
        table = schema.devices.c
        query = sa.select(table.id, table.enrolled, table.revoked).where(table.id > after).order_by(table.id)
        return typed(Device, self.store.rows(query.limit(most)))

    def new_admin(self, scopes: frozenset[str], note: str, now: int) -> str:
        """A token for an operator."""
        unknown = scopes - frozenset(SCOPES)
        if unknown or not scopes:
            raise InvalidParameter("scope", f"be some of {', '.join(SCOPES)}", ", ".join(sorted(unknown)))
        token = new_token(ADMIN, self.coins)
        row = {"token_hash": token_hash(token), "scopes": ",".join(sorted(scopes)), "note": note, "made": now}
        with self.store.write("new admin") as connection:
            connection.execute(sa.insert(schema.admins).values(**row))
        return token

    def revoke_admin(self, admin: int, now: int) -> None:
        """Take an operator's token away."""
        self._revoke("token", schema.admins, admin, now)

    def _revoke(self, what: str, table: sa.Table, row_id: int, now: int) -> None:
        with self.store.write(f"revoke {what}") as connection:
            alive = (table.c.id == row_id) & table.c.revoked.is_(None)
            if connection.execute(sa.update(table).where(alive).values(revoked=now)).rowcount != 1:
                raise InvalidParameter(what, "exist and not be revoked", row_id)

    def admin(self, token: str) -> Admin:
        """Whose token this is, by its hash; a revoked or unknown one is a :class:`Problem`."""
        query = sa.select(schema.admins).where(schema.admins.c.token_hash == token_hash(token))
        row = next(iter(typed(AdminRow, self.store.rows(query))), None)
        if row is None:
            raise Problem("unknown-token")
        if row.revoked is not None:
            raise Problem("revoked")
        return Admin(row.id, row.note, frozenset(row.scopes.split(",")))

    def admins(self) -> list[AdminRow]:
        """Every operator's token that was ever made, by number; the tokens themselves are nowhere."""
        return typed(AdminRow, self.store.rows(sa.select(schema.admins).order_by(schema.admins.c.id)))

    def has_admin(self) -> bool:
        """Whether anybody operates this server yet."""
        return bool(self.store.rows(sa.select(schema.admins.c.id).limit(1)))
