"""The round document: what a server says about its current round.

A server sends ``RoundInfo.to_plain()``, and a client reads it with ``from_plain()``. The client trusts none of it with
its budget. The parameters of a bucket are plain values here: ``mechanisms.parameters`` builds a mechanism of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hushcall import checks
from hushcall.errors import InvalidMessage, InvalidParameter, InvalidToken
from hushcall.protocol.anonymity.ohttp import KeyConfig
from hushcall.protocol.anonymity.tokens import TokenKey
from hushcall.protocol.blocklist import iso, unix
from hushcall.protocol.exact import epsilon_value
from hushcall.protocol.seeds import SEED_BYTES, report_seed, ticket_bytes
from hushcall.protocol.states import RoundState

MAX_WINDOW_DAYS = 366
MAX_ROUND = 999_999_999
"""Of an id, as addresses have it."""
MAX_UPLOAD, MIN_UPLOAD = 65_536, 3
"""Bytes of an upload. The least is a report of the subspace mechanism. It is sent where no bucket runs."""
_PHASES = ("opens", "collects", "closes")
_TIMES = (*_PHASES, "server_time")


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the phases of an anonymous round begin and end, as it was planned when the round opened (unix seconds).

    It is signed. The document's own times are not: they follow a server that is late.
    """

    opens: int
    collects: int
    closes: int

    def __post_init__(self) -> None:
        if not self.opens <= self.collects <= self.closes:
            raise InvalidParameter("opens, collects, closes", "follow each other", self)

    @property
    def middle(self) -> int:
        """When tokens are not issued any more, and are redeemed."""
        return (self.opens + self.collects) // 2

    @property
    def shortest_phase(self) -> int:
        """Seconds of the shortest time in which clients ask for a token, announce, or report."""
        return min(self.middle - self.opens, self.collects - self.middle, self.closes - self.collects)


@dataclass(frozen=True, slots=True)
class AnonymityInfo:
    """How to report anonymously in one round: the token key, the gateway's key, the relay ("" if there is none), when.

    It is signed with the document. A server with a separate key or times for one client could tell that client's
    reports apart, and would be detected. ``schedule`` is None from an older server.
    """

    token_key: TokenKey
    gateway: KeyConfig
    relay: str
    schedule: Schedule | None = None

    def to_plain(self) -> dict[str, str]:
        times = {} if self.schedule is None else {name: iso(getattr(self.schedule, name)) for name in _PHASES}
        return {
            "token_key": self.token_key.to_bytes().hex(),
            "gateway": self.gateway.to_bytes().hex(),
            "relay": self.relay,
            **times,
        }

    @classmethod
    def from_plain(cls, plain: Any) -> AnonymityInfo:
        try:
            key, gateway = (bytes.fromhex(plain[name]) for name in ("token_key", "gateway"))
            times = [unix(plain[name]) for name in _PHASES] if "opens" in plain else None
            schedule = None if times is None else Schedule(*times)
            info = cls(TokenKey.from_bytes(key), KeyConfig.from_bytes(gateway), plain["relay"], schedule)
        except (KeyError, TypeError, ValueError, OverflowError, InvalidMessage, InvalidToken):
            raise InvalidParameter("anonymous", "hold a token key, a gateway and a relay", plain) from None
        if info.relay and not (isinstance(info.relay, str) and info.relay.startswith(("http://", "https://"))):
            raise InvalidParameter("relay", "be an address", info.relay)
        return info


@dataclass(frozen=True)
class RoundInfo:
    """One round. Times are unix seconds by the server's clock, and ``window`` is in days.

    ``buckets`` is None until they are decided. It holds those that run, by area code as text, each as
    :func:`bucket_parameters` writes it. Other buckets are skipped. ``upload_bytes`` is the padded size of every upload,
    once buckets are decided. It is None from a server without padding. ``next`` is when the next round opens, None from
    an older server. ``profile``, ``tau`` and ``level`` are for
    people. ``document`` is the document that was read, for its signatures and for evidence.
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
    anonymity: AnonymityInfo | None = None
    crowd: int | None = None  # anonymous clients of all buckets, once announcing is over: in no signature
    upload_bytes: int | None = None
    next: int | None = None
    document: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.whole("round", self.round, 0, MAX_ROUND)
        try:
            object.__setattr__(self, "state", RoundState(self.state))
        except ValueError:
            raise InvalidParameter("state", f"be one of {', '.join(sorted(RoundState))}", self.state) from None
        if not self.opens <= self.collects <= self.closes:
            times = f"{iso(self.opens)}, {iso(self.collects)}, {iso(self.closes)}"
            raise InvalidParameter("opens, collects, closes", "follow each other", times)
        checks.length("seed", self.seed, SEED_BYTES)
        checks.whole("window", self.window, 1, MAX_WINDOW_DAYS)
        epsilon_value("epsilon", self.epsilon)
        if self.crowd is not None:
            checks.whole("crowd", self.crowd, 0)
        if self.upload_bytes is not None:
            checks.whole("upload_bytes", self.upload_bytes, 1, MAX_UPLOAD)
        if self.next is not None and self.next < self.closes:
            raise InvalidParameter("next", f"not be before closes, {iso(self.closes)}", iso(self.next))

    @property
    def window_days(self) -> int:
        return self.window

    @property
    def length_seconds(self) -> int:
        """From one round to the next. Of an older server's, until it closes."""
        return (self.closes if self.next is None else self.next) - self.opens

    @property
    def cover_bytes(self) -> int:
        """The length of a cover upload: that of the longest report of the round."""
        if self.upload_bytes is not None:
            return self.upload_bytes
        sizes = [bucket.get("report_bytes") for bucket in (self.buckets or {}).values() if isinstance(bucket, dict)]
        return upload_bytes(size for size in sizes if type(size) is int and 0 < size <= MAX_UPLOAD)

    def to_plain(self) -> dict[str, Any]:
        """The document, as ``GET /v1/rounds/current`` answers. The order of the keys matters."""
        profile = {"name": self.profile, "mechanism": self.mechanism, "epsilon": self.epsilon}
        anonymous: dict[str, Any] = {} if self.anonymity is None else {"anonymous": self.anonymity.to_plain()}
        if self.crowd is not None:
            anonymous["crowd"] = self.crowd
        padding: dict[str, Any] = {} if self.upload_bytes is None else {"upload_bytes": self.upload_bytes}
        if self.next is not None:
            padding["next"] = iso(self.next)
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
        """Reads the server's document. A bad value in any field that clients act on is an :class:`InvalidParameter`."""
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
                anonymity=None if anonymous is None else AnonymityInfo.from_plain(anonymous),
                upload_bytes=document.get("upload_bytes"),
                next=unix(document["next"]) if "next" in document else None,
                document=document,
                **times,
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise InvalidParameter("round", "be a document as the protocol describes it", document) from None

    def crowd_of(self, bucket: int) -> int | None:
        """The size of the anonymity set of a bucket that runs, or None where the server does not say it."""
        return _crowd((self.buckets or {}).get(str(bucket)))

    @property
    def least_crowd(self) -> int | None:
        sizes = [_crowd(bucket) for bucket in (self.buckets or {}).values()]
        return min((size for size in sizes if size is not None), default=None)

    def public_for(self, ticket: str) -> bytes:
        return report_seed(self.seed, ticket_bytes(ticket))

    def parameters_for(self, bucket: int) -> Mapping[str, Any] | None:
        """The mechanism's parameters for this bucket, unchecked. None if the bucket is skipped."""
        values = (self.buckets or {}).get(str(bucket))
        if not isinstance(values, dict) or values.get("runs") is not True:
            return None
        parameters: Mapping[str, Any] = values.get("parameters", {})
        return parameters

    def hundreds_of(self, bucket: int) -> int:
        """The per cent of this bucket's reports that are about hundreds. None are where the document does not say."""
        percent = (self.buckets or {}).get(str(bucket), {}).get("hundreds", 0)
        checks.whole("hundreds", percent, 0, 99)
        return int(percent)


def _crowd(values: Any) -> int | None:
    size = values.get("crowd") if isinstance(values, dict) else None
    return size if type(size) is int and size >= 0 else None


def upload_bytes(reports: Iterable[int]) -> int:
    return max(reports, default=MIN_UPLOAD)


def bucket_parameters(
    report_bytes: int, parameters: Mapping[str, Any], crowd: int | None = None, hundreds: int = 0
) -> dict[str, Any]:
    """``crowd``: the anonymous clients of the bucket, where the round takes blind tokens. It is signed.

    ``hundreds``: the per cent of reports that are about hundreds. Clients that do not know it report numbers only.
    """
    more = ({} if crowd is None else {"crowd": crowd}) | ({"hundreds": hundreds} if hundreds else {})
    return {"runs": True, "report_bytes": report_bytes, "parameters": dict(parameters), **more}
