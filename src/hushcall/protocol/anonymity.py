"""What a server says about taking part without a name: the round's token key, its gateway's key, and the relay.

Part of a round's document, of what is signed in it, and of what the next list names (:mod:`hushcall.protocol.charter`):
a server with a key of its own for one phone could tell that phone's reports from the rest, and is found out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hushcall.anonymity.ohttp import KeyConfig
from hushcall.anonymity.tokens import TokenKey
from hushcall.errors import InvalidMessage, InvalidParameter, InvalidToken


@dataclass(frozen=True, slots=True)
class AnonymityTerms:
    """How to take part without a name in one round. ``relay`` is empty where there is none."""

    token_key: TokenKey
    gateway: KeyConfig
    relay: str

    def to_plain(self) -> dict[str, str]:
        """As it stands in a round's document."""
        return {
            "token_key": self.token_key.to_bytes().hex(),
            "gateway": self.gateway.to_bytes().hex(),
            "relay": self.relay,
        }

    @classmethod
    def from_plain(cls, plain: Any) -> AnonymityTerms:
        """Read it back; anything odd is an :class:`InvalidParameter`."""
        try:
            key, gateway = (bytes.fromhex(plain[name]) for name in ("token_key", "gateway"))
            terms = cls(TokenKey.from_bytes(key), KeyConfig.from_bytes(gateway), plain["relay"])
        except (KeyError, TypeError, ValueError, InvalidMessage, InvalidToken):
            raise InvalidParameter("anonymous", "hold a token key, a gateway and a relay", plain) from None
        if terms.relay and not (isinstance(terms.relay, str) and terms.relay.startswith(("http://", "https://"))):
            raise InvalidParameter("relay", "be an address", terms.relay)
        return terms
