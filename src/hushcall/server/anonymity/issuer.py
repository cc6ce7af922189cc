"""The issuer: a named device's blinded message comes in, a blind signature leaves; one per device and round.

It knows devices and never sees a token. What it writes down is that a device has asked, and a hash of what it asked
for: the same again is signed again (the phone may have crashed), anything else is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.anonymity import blind_rsa, tokens
from hushcall.errors import InvalidToken
from hushcall.privacy.coins import ByteSource, os_entropy
from hushcall.protocol.states import ANNOUNCING
from hushcall.server.anonymity.round_keys import signing_key
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.problems import Problem


@dataclass
class Issuer:
    """Signs over a store. Coins hide the key from whoever measures time; they change no signature."""

    store: Store
    coins: ByteSource = os_entropy

    def issue(self, device_token: bytes, round_id: int, request: bytes) -> bytes:
        """The blind signature for the device with this hash of a token, once it is on disk who asked."""
        with self.store.write("issue a token") as connection:
            device = self._device(connection, device_token)
            secret = self._secret(connection, round_id)
            blinded = self._blinded(secret, request)
            self._one_each(connection, round_id, device, hashlib.sha256(blinded).digest())
        return self._signed(secret, blinded)

    def _device(self, connection: Connection, device_token: bytes) -> int:
        query = sa.select(schema.devices.c.id, schema.devices.c.revoked)
        row = connection.execute(query.where(schema.devices.c.token_hash == device_token)).first()
        if row is None:
            raise Problem("unknown-token")
        if row.revoked is not None:
            raise Problem("revoked")
        return int(row.id)

    def _secret(self, connection: Connection, round_id: int) -> bytes:
        row = self.store.lock_round(connection, round_id, share=True)
        if row is None:
            raise Problem("unknown-round")
        keys = schema.anonymity.c
        secret = connection.execute(sa.select(keys.token_secret).where(keys.round == round_id)).scalar()
        if secret is None:
            raise Problem("not-anonymous")
        if row.state != ANNOUNCING or not secret:
            raise Problem("wrong-phase", f"The round is {row.state}; tokens are issued while it is {ANNOUNCING}.")
        return bytes(secret)

    def _blinded(self, secret: bytes, request: bytes) -> bytes:
        try:
            return tokens.read_request(tokens.TokenKey(signing_key(secret).public), request)
        except InvalidToken as error:
            raise Problem("bad-request", f"{error.field} must {error.rule}.") from None

    def _one_each(self, connection: Connection, round_id: int, device: int, asked: bytes) -> None:
        row = {"round": round_id, "device": device, "blinded": asked}
        self.store.insert_new(connection, schema.issued, [row], key=("round", "device"))
        table = schema.issued.c
        query = sa.select(table.blinded).where(table.round == round_id, table.device == device)
        if bytes(connection.execute(query).scalar_one()) != asked:
            raise Problem("already-issued")

    def _signed(self, secret: bytes, blinded: bytes) -> bytes:
        try:
            return blind_rsa.blind_sign(signing_key(secret), blinded, self.coins)
        except InvalidToken as error:
            raise Problem("bad-request", f"{error.field} must {error.rule}.") from None
