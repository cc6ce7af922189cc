"""Phones before a server that dies: some speak by name, some with a blind token and through a relay.

They are the library's transports, with the two calls of a round. A phone that was not answered asks for the same again,
byte for byte: what it wishes the issuer to sign follows from seed, round and place.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from hushcall.anonymity import tokens
from hushcall.errors import InvalidParameter
from hushcall.phone.reporting.nameless import NamelessTransport
from hushcall.phone.reporting.transport import HttpTransport
from hushcall.privacy.coins import seeded
from hushcall.protocol.round_document import RoundInfo


def _put(transport: HttpTransport, round_: int, ticket: str, report: bytes) -> int:
    """Hand a report in; the status of the answer that says yes, which tells whether it was new to the server."""
    path = f"/v1/rounds/{round_}/reports/{ticket}"
    return transport._ask("PUT", path, report, "application/octet-stream").status


@dataclass
class Named:
    """A phone that shows its token."""

    url: str
    token: str
    pool: Any

    def __post_init__(self) -> None:
        self.line = HttpTransport(self.url, self.token, _soon, self.pool)

    def announce(self, shown: RoundInfo, bucket: int) -> str:
        """Its ticket."""
        return self.line.announce(shown.round, bucket)

    def put(self, round_: int, ticket: str, report: bytes) -> int:
        """Hand in the report; the answer's status."""
        return _put(self.line, round_, ticket, report)


@dataclass
class Nameless(Named):
    """A phone that has a blind token signed by name, and does everything else without, through the relay."""

    seed: str = ""
    _hidden: NamelessTransport | None = None
    _round: int = 0

    def announce(self, shown: RoundInfo, bucket: int) -> str:
        """Its ticket. A token that it has is not asked for again."""
        if self._round != shown.round or self._hidden is None:
            terms = shown.anonymity
            if terms is None:
                raise InvalidParameter("round", "take part without a name", shown.round)
            coins = seeded(f"{self.seed} {shown.round}".encode())
            wished = tokens.wish(terms.token_key, shown.seed, coins)
            signed = self.line.issue(shown.round, tokens.write_request(terms.token_key, wished))
            token = tokens.token_of(terms.token_key, wished, signed)
            self._hidden = NamelessTransport(self.url, terms, token, coins=coins, sleep=_soon, pool=self.pool)
            self._round = shown.round
        return self._hidden.announce(shown.round, bucket)

    def put(self, round_: int, ticket: str, report: bytes) -> int:
        """Hand in the report; the answer's status."""
        if self._hidden is None:
            raise InvalidParameter("phone", "have announced", round_)
        return _put(self._hidden, round_, ticket, report)


def _soon(_: float) -> None:
    time.sleep(0.05)
