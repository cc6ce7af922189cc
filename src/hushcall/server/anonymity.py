"""The server's side of anonymous rounds: keys, the issuer of blind tokens, and the check of tokens at the intake.

The issuer knows devices and never sees a token. The intake sees tokens and never devices. Neither can join the two.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import gmpy2
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidMessage, InvalidToken
from hushcall.protocol.anonymity import blind_rsa, hpke, ohttp, tokens
from hushcall.protocol.anonymity.blind_rsa import EXPONENT, PublicKey, SecretKey
from hushcall.protocol.anonymity.ohttp import Exchange, KeyConfig
from hushcall.protocol.anonymity.tokens import KEY_BITS, TokenKey
from hushcall.protocol.randomness import ByteSource, os_entropy
from hushcall.protocol.round_document import AnonymityInfo, Schedule
from hushcall.protocol.seeds import ticket_bytes
from hushcall.protocol.states import ANNOUNCING
from hushcall.server.db import schema
from hushcall.server.db.rows import DeviceRow, RoundRow, lock_round, typed
from hushcall.server.db.store import Store
from hushcall.server.problems import Problem

GATEWAY_DAYS = 30
"""The rounds of so many days have the same gateway key. The one before is accepted for as long."""


@dataclass(frozen=True, slots=True)
class TokenSecret:
    p: int
    q: int

    @classmethod
    def generate(cls) -> TokenSecret:
        """Primes from OpenSSL and its entropy, in a tenth of a second."""
        key = rsa.generate_private_key(EXPONENT, KEY_BITS).private_numbers()
        return cls(key.p, key.q)

    @classmethod
    def from_bytes(cls, data: bytes) -> TokenSecret:
        half = len(data) // 2
        return cls(int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big"))

    def to_bytes(self) -> bytes:
        size = KEY_BITS // 16
        return self.p.to_bytes(size, "big") + self.q.to_bytes(size, "big")

    @property
    def key(self) -> TokenKey:
        return TokenKey(PublicKey(self.p * self.q))


@lru_cache(maxsize=4)
def signing_key(secret: bytes) -> SecretKey:
    """The signing key over GMP's ``powmod_sec``, whose time does not depend on the exponent: a seventh of Python's."""
    primes = TokenSecret.from_bytes(secret)
    return SecretKey(primes.key.public, primes.p, primes.q, lambda *powmod: int(gmpy2.powmod_sec(*powmod)))


def new_keys(relay: str) -> dict[str, Any]:
    """A part of the row of a round that is about to open. It takes a while: call it outside a transaction."""
    secret = TokenSecret.generate()
    return {
        "token_secret": secret.to_bytes(),
        "token_key": secret.key.to_bytes(),
        "key_id": secret.key.key_id,
        "relay": relay,
    }


def insert(
    store: Store,
    connection: Connection,
    round_id: int,
    schedule: Schedule,
    keys: dict[str, Any],
    rand: ByteSource,
    key_rounds: int = GATEWAY_DAYS,
) -> None:
    """Store what a round that opens has for anonymous participants. A new gateway key is made when it is time.

    ``key_rounds`` have the same one.
    """
    gateway = _gateway_of_round(store, connection, round_id, rand, key_rounds)
    row = {"round": round_id, "gateway": gateway.to_bytes(), **asdict(schedule), **keys}
    store.insert_new(connection, schema.anonymity, [row], key=("round",))


def _gateway_of_round(
    store: Store, connection: Connection, round_id: int, rand: ByteSource, key_rounds: int
) -> KeyConfig:
    """The gateway key of a round. Those that the last rounds did not have are deleted."""
    table, rounds = schema.gateway_keys, schema.anonymity.c
    key_id = 1 + round_id // key_rounds % 255
    recent = sa.select(rounds.gateway).where(rounds.round >= round_id - key_rounds)
    used = {KeyConfig.from_bytes(bytes(row.gateway)).key_id for row in connection.execute(recent)}
    connection.execute(sa.delete(table).where(table.c.id.not_in({key_id, *used})))
    store.insert_new(connection, table, [{"id": key_id, "secret": hpke.generate_key(rand)}], key=("id",))
    secret = connection.execute(sa.select(table.c.secret).where(table.c.id == key_id)).scalar_one()
    return KeyConfig(key_id, hpke.public_key(bytes(secret)))


def parameters_of(connection: Connection, round_id: int) -> AnonymityInfo | None:
    """What clients need to take part anonymously. None where the round takes named reports only."""
    table = schema.anonymity
    row = connection.execute(sa.select(table).where(table.c.round == round_id)).first()
    if row is None:
        return None
    schedule = None if row.opens is None else Schedule(row.opens, row.collects, row.closes)
    key, gateway = TokenKey.from_bytes(bytes(row.token_key)), KeyConfig.from_bytes(bytes(row.gateway))
    return AnonymityInfo(key, gateway, row.relay, schedule)


@dataclass
class GatewayKeys:
    """The gateway's keys, newest first, the same for every worker. The first is made when it is first needed."""

    store: Store
    rand: ByteSource
    clock: Callable[[], float] = time.monotonic
    _secrets: dict[int, bytes] = field(default_factory=dict)
    _read_at: float = -math.inf

    def configs(self) -> list[KeyConfig]:
        self._read()
        return [KeyConfig(key_id, hpke.public_key(secret)) for key_id, secret in self._secrets.items()]

    def opened(self, message: bytes) -> tuple[bytes, Exchange]:
        if message[:1] and message[0] not in self._secrets and self.clock() >= self._read_at + 1:
            self._read()  # at most once a second, whatever strangers send
        secret = self._secrets.get(message[0] if message else 0)
        if secret is None:
            raise InvalidMessage("key", "be a present one of the gateway", message[:1].hex())
        return ohttp.decapsulate_request(KeyConfig(message[0], hpke.public_key(secret)), secret, message)

    def _read(self) -> None:
        self._read_at = self.clock()
        table, rounds = schema.gateway_keys, schema.anonymity.c
        newest = self.store.rows(sa.select(rounds.gateway).order_by(rounds.round.desc()).limit(1))
        current = KeyConfig.from_bytes(bytes(newest[0].gateway)).key_id if newest else 1
        rows = self.store.rows(sa.select(table))
        if not rows:
            with self.store.write("gateway key") as connection:
                row = {"id": 1, "secret": hpke.generate_key(self.rand)}
                self.store.insert_new(connection, table, [row], key=("id",))
            rows = self.store.rows(sa.select(table))
        ordered = sorted(rows, key=lambda row: row.id != current)
        self._secrets = {row.id: bytes(row.secret) for row in ordered}


def count_anonymity_set(connection: Connection, round_id: int) -> None:
    rows, keys = schema.announcements.c, schema.anonymity
    size = sa.select(sa.func.count()).where(rows.round == round_id, rows.device < 0).scalar_subquery()
    connection.execute(sa.update(keys).where(keys.c.round == round_id).values(crowd=size))


def anonymity_set_of(connection: Connection, round_id: int) -> int | None:
    """The size of the anonymity set. None while the round announces, and for a round with named reports only."""
    table = schema.anonymity.c
    return connection.execute(sa.select(table.crowd).where(table.round == round_id)).scalar()


def forget(connection: Connection, round_id: int) -> None:
    """Delete which devices got a token, and the key that could sign more. The public key stays."""
    connection.execute(sa.delete(schema.issued).where(schema.issued.c.round == round_id))
    keys = schema.anonymity
    connection.execute(sa.update(keys).where(keys.c.round == round_id).values(token_secret=b""))


@dataclass
class Issuer:
    """Signs blinded messages, one per device and round. ``rand`` blinds the key against timing attacks.

    A device that announced by name gets no token. It is locked while this is decided, and while its announcement is.
    """

    store: Store
    rand: ByteSource = os_entropy

    def issue(self, device_token: bytes, round_id: int, request: bytes) -> bytes:
        """The blind signature for the device with this token hash, once it is on disk that the device asked.

        The same request is signed again, since the client may have crashed. Another one is refused.
        """
        try:
            with self.store.write("issue a token") as connection:
                device = self._device(connection, device_token)
                row, secret = self._secret(connection, round_id)
                blinded = tokens.read_request(TokenKey(signing_key(secret).public), request)
                if announced_by_name(connection, round_id, device.id):
                    raise Problem("already-announced", "This device announced by name in this round.")
                self._record(connection, row, device, hashlib.sha256(blinded).digest())
            return blind_rsa.blind_sign(signing_key(secret), blinded, self.rand)
        except InvalidToken as error:
            raise Problem("bad-request", f"{error.field} must {error.rule}.") from None

    def _device(self, connection: Connection, device_token: bytes) -> DeviceRow:
        query = sa.select(schema.devices).with_for_update(key_share=True)
        row = connection.execute(query.where(schema.devices.c.token_hash == device_token)).first()
        if row is None:
            raise Problem("unknown-token")
        if row.revoked is not None:
            raise Problem("revoked")
        return typed(DeviceRow, [row])[0]

    def _secret(self, connection: Connection, round_id: int) -> tuple[RoundRow, bytes]:
        row = lock_round(connection, round_id, share=True)
        if row is None:
            raise Problem("unknown-round")
        keys = schema.anonymity.c
        secret = connection.execute(sa.select(keys.token_secret).where(keys.round == round_id)).scalar()
        if secret is None:
            raise Problem("not-anonymous")
        if row.state != ANNOUNCING or not secret:
            raise Problem("wrong-phase", f"The round is {row.state}; tokens are issued while it is {ANNOUNCING}.")
        return row, bytes(secret)

    def _record(self, connection: Connection, row: RoundRow, device: DeviceRow, digest: bytes) -> None:
        table = schema.issued.c
        query = sa.select(table.blinded).where(table.round == row.id, table.device == device.id)
        if connection.execute(query).first() is None:
            if device.took_part(row):
                raise Problem("already-issued", TOOK_PART)
            values = {"round": row.id, "device": device.id, "blinded": digest}
            self.store.insert_new(connection, schema.issued, [values], key=("round", "device"))
            take_part(connection, row, [device.id])
        if bytes(connection.execute(query).scalar_one()) != digest:
            raise Problem("already-issued")


TOOK_PART = "This device took part in another round of this day."


def take_part(connection: Connection, row: RoundRow, devices: Collection[int]) -> None:
    """Record that devices take part on a round's day, where it has several rounds: none does in two of them."""
    if devices and row.profile.rounds_per_day > 1:
        table = schema.devices
        update = sa.update(table).where(table.c.id == sa.bindparam("device")).values(day=row.day)
        connection.execute(update, [{"device": device} for device in sorted(devices)])


def announced_by_name(connection: Connection, round_id: int, device: int) -> bool:
    table = schema.announcements.c
    query = sa.select(table.bucket).where(table.round == round_id, table.device == device)
    return connection.execute(query).first() is not None


def with_a_token(connection: Connection, round_id: int, devices: Collection[int]) -> frozenset[int]:
    """Which of these devices have a token for the round. They are locked until the transaction ends."""
    ids, table = schema.devices.c.id, schema.issued.c
    locked = sa.select(ids).where(ids.in_(devices)).order_by(ids).with_for_update(key_share=True)
    connection.execute(locked).all()
    query = sa.select(table.device).where(table.round == round_id, table.device.in_(devices))
    return frozenset(connection.execute(query).scalars())


def is_token(credential: bytes) -> bool:
    """Whether a credential is a blind token. A device's is a hash of 32 bytes."""
    return len(credential) == tokens.TOKEN_BYTES


def participant_of(token: bytes) -> int:
    """The participant that a token stands for in its round: a number below zero, where no enrolled device is.

    The tables' keys (one announcement per participant, one report per ticket) then refuse double spending.
    """
    return -1 - int.from_bytes(ticket_bytes(tokens.ticket_of_token(token))[:7], "big")


@dataclass
class Redeemer:
    """Checks tokens. A round's parameters never change, so those of the last round are kept."""

    _parameters: dict[int, AnonymityInfo | None] = field(default_factory=dict)

    def check(self, connection: Connection, row: RoundRow, token: bytes) -> None:
        if row.id not in self._parameters:
            self._parameters = {row.id: parameters_of(connection, row.id)}
        parameters = self._parameters[row.id]
        if parameters is None:
            raise Problem("not-anonymous")
        try:
            tokens.check(parameters.token_key, row.seed, token)
        except InvalidToken:
            keys = schema.anonymity.c
            query = sa.select(keys.round).where(keys.key_id == tokens.key_id_of(token))
            issued_for = connection.execute(query).scalar()
            raise Problem("foreign-token" if issued_for in (None, row.id) else "expired-token") from None
