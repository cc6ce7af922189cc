"""What a server says about taking part without a name: the round's token key, its gateway's key, and the relay.

Part of a round's document. Everybody must be told the same: a server with a key of its own for one phone could tell
that phone's reports from the rest. So the digest of these terms is published under the list's root (:data:`TARGET`),
and a phone compares it with what it was told (``phone.screening.same_keys``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hushcall.anonymity.ohttp import KeyConfig
from hushcall.anonymity.tokens import TokenKey
from hushcall.errors import InvalidMessage, InvalidParameter, InvalidToken

TARGET = "anonymity.json"
"""The signed file that names the digests: {"rounds": {"12": "…"}}."""
KEPT_ROUNDS = 60


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

    def digest(self) -> str:
        """SHA-256 of the terms, by which everybody can compare them."""
        return hashlib.sha256(json.dumps(self.to_plain(), sort_keys=True).encode()).hexdigest()


def write_digests(digests: Mapping[int, str]) -> bytes:
    """The signed file: the newest rounds' digests."""
    newest = sorted(digests)[-KEPT_ROUNDS:]
    return json.dumps({"rounds": {str(round_id): digests[round_id] for round_id in newest}}).encode() + b"\n"


def read_digests(data: bytes) -> dict[int, str]:
    """Read such a file back."""
    try:
        return {int(round_id): str(digest) for round_id, digest in json.loads(data)["rounds"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidParameter(TARGET, "name the digests of rounds", f"{len(data)} bytes") from None
