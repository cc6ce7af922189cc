"""What a server says about its current round: a JSON document comes in, a checked value leaves.

A phone trusts none of it with its budget: this is what the server *asks*; :mod:`ledger` decides what it gets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.privacy.exact import epsilon_value
from hushcall.protocol.blocklist import iso, unix
from hushcall.protocol.seeds import SEED_BYTES, report_seed

ANNOUNCING = "announcing"
COLLECTING = "collecting"
OVER = frozenset({"closed", "decoded", "published"})
STATES = frozenset({ANNOUNCING, COLLECTING, "held"}) | OVER
MOST_WINDOW = 366
_TICKET = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class RoundInfo:
    """One round. Times are unix seconds by the server's clock; ``buckets`` is None until they are decided."""

    round: int
    state: str
    opens: int
    collects: int
    closes: int
    server_time: int
    seed: bytes
    plan: str
    window: int
    mechanism: str
    epsilon: float
    buckets: Mapping[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        checks.whole("round", self.round, 0, (1 << 63) - 1)
        if self.state not in STATES:
            raise InvalidParameter("state", f"be one of {', '.join(sorted(STATES))}", self.state)
        if not self.opens <= self.collects <= self.closes:
            times = f"{iso(self.opens)}, {iso(self.collects)}, {iso(self.closes)}"
            raise InvalidParameter("opens, collects, closes", "follow each other", times)
        checks.length("seed", self.seed, SEED_BYTES)
        checks.whole("window", self.window, 1, MOST_WINDOW)
        epsilon_value("epsilon", self.epsilon)

    @classmethod
    def from_plain(cls, document: Any) -> RoundInfo:
        """Read the server's document; anything odd in it is an :class:`InvalidParameter`."""
        try:
            profile, buckets = document["profile"], document["buckets"]
            times = {name: unix(document[name]) for name in ("opens", "collects", "closes", "server_time")}
            if buckets is not None and not isinstance(buckets, dict):
                raise InvalidParameter("buckets", "be an object or null", type(buckets).__name__)
            return cls(
                round=document["round"],
                state=str(document["state"]),
                seed=bytes.fromhex(document["seed"]),
                plan=str(document["plan"]),
                window=document["window"],
                mechanism=str(profile["mechanism"]),
                epsilon=profile["epsilon"],
                buckets=buckets,
                **times,
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise InvalidParameter("round", "be a document as the protocol describes it", document) from None

    def public_for(self, ticket: str) -> bytes:
        """The public seed of the report for this ticket (32 hexadecimal digits)."""
        if not _TICKET.fullmatch(ticket):
            raise InvalidParameter("ticket", "be 32 hexadecimal digits", ticket)
        return report_seed(self.seed, bytes.fromhex(ticket))

    def parameters_of(self, bucket: int) -> Any:
        """The mechanism that reports of this bucket go through, in plain values; None where the bucket is skipped."""
        decision = (self.buckets or {}).get(str(bucket))
        if not isinstance(decision, dict) or decision.get("runs") is not True:
            return None
        return decision.get("parameters", {})
