"""A phone's pass for one round: half-made when it joins, a token once the issuer has signed, gone when the round is.

What the issuer is asked is written down before it is asked, so a phone that crashes asks for the same again; the token
is written down before it is used, so it is used for one thing. Issuing falls into the first half of announcing and
redeeming into the second, each at a moment of its own: the two moments say nothing about each other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hushcall.anonymity import tokens
from hushcall.anonymity.blind_rsa import Blinding
from hushcall.anonymity.tokens import Wish
from hushcall.errors import InvalidParameter
from hushcall.phone.home.store import Store
from hushcall.phone.reporting.transport import Transport
from hushcall.privacy.coins import ByteSource
from hushcall.protocol.anonymity import AnonymityTerms
from hushcall.protocol.round_document import RoundInfo

TERMS = "anonymity.terms"
"""The setting with the newest terms that the server told: through its relay the phone asks for rounds."""


@runtime_checkable
class Hiding(Protocol):
    """A transport that can also get a token, and speak without a name."""

    def issue(self, round_: int, request: bytes) -> bytes:
        """The blind signature of a request; asked again, the same one is signed again."""

    def without_name(self, terms: AnonymityTerms, token: bytes = b"") -> Transport:
        """The same server, spoken to without a name."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The row of one round. ``token`` is empty until the issuer has signed."""

    round: int
    issue_at: int
    terms: AnonymityTerms
    wish: Wish
    token: bytes


def middle(info: RoundInfo) -> int:
    """When issuing ends and redeeming begins."""
    return (info.opens + info.collects) // 2


def prepare(store: Store, server: str, info: RoundInfo, issue_at: int, coins: ByteSource) -> None:
    """Make the pass's first half: part of the transaction that joins a round."""
    if info.anonymity is None:
        raise InvalidParameter("round", "take part without a name", info.round)
    wished = tokens.wish(info.anonymity.token_key, info.seed, coins)
    store.run(
        "INSERT INTO passes (server, round, issue_at, terms, input, blinded, inverse, token) VALUES (?,?,?,?,?,?,?,?)",
        *(server, info.round, issue_at, json.dumps(info.anonymity.to_plain()), wished.token_input),
        *(wished.blinding.blinded_msg, f"{wished.blinding.inv:x}", b""),
    )


def find(store: Store, server: str, round_: int) -> Pass | None:
    """The pass of a round; None where the phone takes part by name."""
    query = "SELECT issue_at, terms, input, blinded, inverse, token FROM passes WHERE server = ? AND round = ?"
    row = store.row(query, server, round_)
    if row is None:
        return None
    wish = Wish(row[2], Blinding(row[3], int(row[4], 16)))
    return Pass(round_, row[0], AnonymityTerms.from_plain(json.loads(row[1])), wish, row[5])


def get_token(store: Store, server: str, held: Pass, transport: Hiding) -> None:
    """Ask the issuer, check what it signed, and keep the token. Raises ``InvalidToken`` where it signed otherwise."""
    key = held.terms.token_key
    signed = transport.issue(held.round, tokens.write_request(key, held.wish))
    token = tokens.token_of(key, held.wish, signed)
    store.run("UPDATE passes SET token = ? WHERE server = ? AND round = ?", token, server, held.round)


def drop_before(store: Store, server: str, round_: int) -> None:
    """Passes of earlier rounds are good for nothing."""
    store.run("DELETE FROM passes WHERE server = ? AND round < ?", server, round_)


def round_source(store: Store, transport: Transport) -> Transport:
    """Whom to ask for the round: the relay where the phone knows one, so that asking tells the server nothing."""
    told = store.get(TERMS)
    if not told or not isinstance(transport, Hiding):
        return transport
    terms = AnonymityTerms.from_plain(json.loads(told))
    return transport.without_name(terms) if terms.relay else transport


def forget_terms(store: Store) -> None:
    """Ask the server directly next time: the gateway's key has changed."""
    store.put(TERMS, "")


def remember(store: Store, info: RoundInfo) -> None:
    """Keep the way to the relay. Whether everybody is told the same keys is :mod:`witness`'s to see."""
    plain = json.dumps(info.anonymity.to_plain()) if info.anonymity else ""
    if store.get(TERMS) != plain:
        store.put(TERMS, plain)
