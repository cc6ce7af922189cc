"""The keys behind anonymous rounds: one RSA key per round for tokens, one X25519 key for the gateway.

Made when a round opens, before its transaction: a key takes a tenth of a second. The token's secret goes with the
round's other secrets; its public half stays, so that a late token is told from a stranger's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import gmpy2
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy.engine import Connection

from hushcall.anonymity import hpke
from hushcall.anonymity.blind_rsa import EXPONENT, PublicKey, SecretKey
from hushcall.anonymity.ohttp import KeyConfig
from hushcall.anonymity.tokens import KEY_BITS, TokenKey
from hushcall.privacy.coins import ByteSource
from hushcall.protocol.anonymity import AnonymityTerms
from hushcall.server.db import schema
from hushcall.server.db.store import Store

GATEWAY_ID = 1


@dataclass(frozen=True, slots=True)
class TokenSecret:
    """The two primes of a round's key, as they are stored."""

    p: int
    q: int

    @classmethod
    def generate(cls) -> TokenSecret:
        """A new one, by OpenSSL and its entropy."""
        made = rsa.generate_private_key(EXPONENT, KEY_BITS).private_numbers()
        return cls(made.p, made.q)

    @classmethod
    def from_bytes(cls, data: bytes) -> TokenSecret:
        """The two halves of the bytes."""
        half = len(data) // 2
        return cls(int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big"))

    def to_bytes(self) -> bytes:
        """Both primes, equally long, most significant byte first."""
        size = KEY_BITS // 16
        return self.p.to_bytes(size, "big") + self.q.to_bytes(size, "big")

    @property
    def key(self) -> TokenKey:
        """The public half, as phones are told it."""
        return TokenKey(PublicKey(self.p * self.q))


@lru_cache(maxsize=4)
def signing_key(secret: bytes) -> SecretKey:
    """What signs. GMP's ``powmod_sec`` takes the same time whatever the exponent, and a seventh of Python's."""
    made = TokenSecret.from_bytes(secret)
    return SecretKey(made.key.public, made.p, made.q, _power)


def _power(base: int, exponent: int, modulus: int) -> int:
    return int(gmpy2.powmod_sec(base, exponent, modulus))


def new_round(store: Store, relay: str, coins: ByteSource) -> dict[str, Any]:
    """The row of a round that is about to open, but for its number."""
    secret = TokenSecret.generate()
    return {
        "token_secret": secret.to_bytes(),
        "token_key": secret.key.to_bytes(),
        "key_id": secret.key.key_id,
        "gateway": gateway_key(store, coins)[0].to_bytes(),
        "relay": relay,
    }


def terms_of(connection: Connection, round_id: int) -> AnonymityTerms | None:
    """What phones are told; None where the round takes named reports only."""
    table = schema.anonymity
    row = connection.execute(sa.select(table).where(table.c.round == round_id)).first()
    if row is None:
        return None
    return AnonymityTerms(
        TokenKey.from_bytes(bytes(row.token_key)), KeyConfig.from_bytes(bytes(row.gateway)), row.relay
    )


def round_of_key(connection: Connection, key_id: bytes) -> int | None:
    """Which round a token's key belongs to."""
    table = schema.anonymity.c
    found = connection.execute(sa.select(table.round).where(table.key_id == key_id)).scalar()
    return None if found is None else int(found)


def gateway_key(store: Store, coins: ByteSource) -> tuple[KeyConfig, bytes]:
    """The gateway's configuration and secret key: made at the first call, the same for every worker."""
    table = schema.gateway_keys
    query = sa.select(table.c.secret).where(table.c.id == GATEWAY_ID)
    found = store.rows(query)
    if not found:
        with store.write("gateway key") as connection:
            row = {"id": GATEWAY_ID, "secret": hpke.generate_key(coins)}
            store.insert_new(connection, table, [row], key=("id",))
        found = store.rows(query)
    secret = bytes(found[0].secret)
    return KeyConfig(GATEWAY_ID, hpke.public_key(secret)), secret


def count_crowd(connection: Connection, round_id: int) -> None:
    """Write down how many take part without a name: the crowd that each of them has against the server."""
    rows, keys = schema.announcements.c, schema.anonymity
    crowd = sa.select(sa.func.count()).where(rows.round == round_id, rows.device < 0).scalar_subquery()
    connection.execute(sa.update(keys).where(keys.c.round == round_id).values(crowd=crowd))


def crowd_of(connection: Connection, round_id: int) -> int | None:
    """How many that were; None while they are still coming, and for a round by name."""
    table = schema.anonymity.c
    return connection.execute(sa.select(table.crowd).where(table.round == round_id)).scalar()


def forget(connection: Connection, round_id: int) -> None:
    """Drop who asked for a token, and the key that could make more."""
    connection.execute(sa.delete(schema.issued).where(schema.issued.c.round == round_id))
    keys = schema.anonymity
    connection.execute(sa.update(keys).where(keys.c.round == round_id).values(token_secret=b""))
