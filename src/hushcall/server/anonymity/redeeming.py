"""The intake's side of tokens: is this a token of that round, and whose voice is it? Knows tokens, never devices.

A token stands for a device that exists for one round: its number is made of the ticket and lies below zero, where no
enrolled device is. The table's keys (one voice per round, one report per ticket) then refuse double spending as they
refuse a device that speaks twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from hushcall.anonymity import tokens
from hushcall.errors import InvalidToken
from hushcall.protocol.anonymity import AnonymityTerms
from hushcall.server.anonymity import round_keys
from hushcall.server.db.rows import RoundRow
from hushcall.server.problems import Problem


def is_token(credential: bytes) -> bool:
    """Whether somebody came with a blind token; a device comes with the 32 bytes of a hash."""
    return len(credential) == tokens.TOKEN_BYTES


def ticket_of(token: bytes) -> bytes:
    """The ticket that the token stands for."""
    return bytes.fromhex(tokens.ticket_of(token))


def voice_of(token: bytes) -> int:
    """The device that the token is, for one round."""
    return -1 - int.from_bytes(ticket_of(token)[:7], "big")


@dataclass
class Redeeming:
    """Checks tokens; a round's terms are read once, since they never change."""

    _known: dict[int, AnonymityTerms | None] = field(default_factory=dict)

    def check(self, connection: Connection, row: RoundRow, token: bytes) -> None:
        """Refuse what is no token of this round, and say why: too late, or not ours."""
        if row.id not in self._known:
            self._known = {row.id: round_keys.terms_of(connection, row.id)}
        terms = self._known[row.id]
        if terms is None:
            raise Problem("not-anonymous")
        try:
            tokens.check(terms.token_key, row.seed, token)
        except InvalidToken:
            made_for = round_keys.round_of_key(connection, tokens.key_id_of(token))
            raise Problem("foreign-token" if made_for in (None, row.id) else "expired-token") from None
