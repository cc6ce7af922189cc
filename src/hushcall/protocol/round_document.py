"""What a server says about its current round: the value, its one writer and its one reader.

A server makes a :class:`RoundInfo` of its rows and sends ``to_plain()``; a phone reads that back with ``from_plain()``.
A phone trusts none of it with its budget: this is what the server *asks*; ``terms`` and ``ledger`` of
``phone.reporting`` decide what it gets. How reports of a bucket are made stands here as plain values:
``mechanisms.parameters`` makes a mechanism of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.privacy.exact import epsilon_value
from hushcall.protocol.anonymity import AnonymityTerms
from hushcall.protocol.blocklist import iso, unix
from hushcall.protocol.seeds import SEED_BYTES, report_seed
from hushcall.protocol.states import RoundState
from hushcall.protocol.tickets import ticket_bytes

MOST_WINDOW = 366
MOST_UPLOAD, LEAST_UPLOAD = 65_536, 3
"""Bytes of an upload. The least is a report of the subspace mechanism: what is sent where no bucket runs."""
_TIMES = ("opens", "collects", "closes", "server_time")


@dataclass(frozen=True)
class RoundInfo:
    """One round. Times are unix seconds by the server's clock; ``buckets`` is None until they are decided.

    ``buckets`` holds those that run, by area code as text, each as :func:`bucket_terms` writes it; a bucket that is not
    there is skipped. ``upload_bytes`` is what every upload of the round is padded to, once buckets are decided; None
    from a server that knows no padding. ``profile``, ``tau`` and ``level`` are for people: a phone acts on none.
    ``document`` is what was read, for its signatures and for evidence.
    """

    round: int
    state: RoundState
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
    profile: str = ""
    tau: int | None = None
    level: float | None = None
    anonymity: AnonymityTerms | None = None
    crowd: int | None = None  # phones without a name, once announcing is over: what the server says, unchecked
    upload_bytes: int | None = None
    document: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.whole("round", self.round, 0, (1 << 63) - 1)
        try:
            object.__setattr__(self, "state", RoundState(self.state))
        except ValueError:
            raise InvalidParameter("state", f"be one of {', '.join(sorted(RoundState))}", self.state) from None
        if not self.opens <= self.collects <= self.closes:
            times = f"{iso(self.opens)}, {iso(self.collects)}, {iso(self.closes)}"
            raise InvalidParameter("opens, collects, closes", "follow each other", times)
        checks.length("seed", self.seed, SEED_BYTES)
        checks.whole("window", self.window, 1, MOST_WINDOW)
        epsilon_value("epsilon", self.epsilon)
        if self.crowd is not None:
            checks.whole("crowd", self.crowd, 0)
        if self.upload_bytes is not None:
            checks.whole("upload_bytes", self.upload_bytes, 1, MOST_UPLOAD)

    @property
    def cover_bytes(self) -> int:
        """How long what is sent in place of a report is: as long as the longest report of the round."""
        if self.upload_bytes is not None:
            return self.upload_bytes
        sizes = [one.get("report_bytes") for one in (self.buckets or {}).values() if isinstance(one, dict)]
        return upload_bytes(size for size in sizes if type(size) is int and 0 < size <= MOST_UPLOAD)

    def to_plain(self) -> dict[str, Any]:
        """The document, as ``GET /v1/rounds/current`` answers. The order of the keys is part of what is sent."""
        profile = {"name": self.profile, "mechanism": self.mechanism, "epsilon": self.epsilon}
        anonymous: dict[str, Any] = {} if self.anonymity is None else {"anonymous": self.anonymity.to_plain()}
        if self.crowd is not None:
            anonymous["crowd"] = self.crowd
        padding = {} if self.upload_bytes is None else {"upload_bytes": self.upload_bytes}
        return {
            "server_time": iso(self.server_time),
            "round": self.round,
            "state": self.state.value,
            "opens": iso(self.opens),
            "collects": iso(self.collects),
            "closes": iso(self.closes),
            "seed": self.seed.hex(),
            "plan": self.plan,
            "window": self.window,
            "profile": {**profile, "tau": self.tau, "level": self.level},
            "buckets": None if self.buckets is None else dict(self.buckets),
            **anonymous,
            **padding,
        }

    @classmethod
    def from_plain(cls, document: Any) -> RoundInfo:
        """Read the server's document; anything odd in what a phone acts on is an :class:`InvalidParameter`."""
        try:
            profile, buckets = document["profile"], document["buckets"]
            anonymous = document.get("anonymous")
            times = {name: unix(document[name]) for name in _TIMES}
            if buckets is not None and not isinstance(buckets, dict):
                raise InvalidParameter("buckets", "be an object or null", type(buckets).__name__)
            return cls(
                round=document["round"],
                state=document["state"],
                seed=bytes.fromhex(document["seed"]),
                plan=str(document["plan"]),
                window=document["window"],
                mechanism=str(profile["mechanism"]),
                epsilon=profile["epsilon"],
                buckets=buckets,
                profile=str(profile.get("name", "")),
                tau=profile.get("tau"),
                level=profile.get("level"),
                crowd=document.get("crowd"),
                anonymity=None if anonymous is None else AnonymityTerms.from_plain(anonymous),
                upload_bytes=document.get("upload_bytes"),
                document=document,
                **times,
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise InvalidParameter("round", "be a document as the protocol describes it", document) from None

    def public_for(self, ticket: str) -> bytes:
        """The public seed of the report for this ticket (32 hexadecimal digits)."""
        return report_seed(self.seed, ticket_bytes(ticket))

    def parameters_for(self, bucket: int) -> Mapping[str, Any] | None:
        """What reports of this bucket are made with, unchecked; None where the bucket is skipped."""
        terms = (self.buckets or {}).get(str(bucket))
        if not isinstance(terms, dict) or terms.get("runs") is not True:
            return None
        parameters: Mapping[str, Any] = terms.get("parameters", {})
        return parameters


def upload_bytes(reports: Iterable[int]) -> int:
    """What all uploads of a round are padded to, given how long the reports of its buckets are."""
    return max(reports, default=LEAST_UPLOAD)


def bucket_terms(report_bytes: int, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What the document says about a bucket that runs: how long its reports are, and how they are made."""
    return {"runs": True, "report_bytes": report_bytes, "parameters": dict(parameters)}
