"""A server that answers anything, in any order, at any time of its clock. It stands in for the HTTP connections."""

import json
import random
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from urllib3 import HTTPResponse

from hushcall.client.reporting.consent import Limits
from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.mechanisms.registry import MECHANISMS, spec_named
from hushcall.protocol.blocklist import iso
from hushcall.protocol.numbers import NANP
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, HELD

PROBLEMS = ("wrong-phase", "unknown-round", "unknown-ticket", "already-announced", "different-report", "busy", "odd")
AREA_IN_CLEAR, WHOLE = (
    next(name for name, spec in MECHANISMS.items() if spec.one_value and spec.items.bucketed is bucketed)
    for bucketed in (True, False)
)
"""The two mechanisms that a client agrees to by default."""
OTHER = next(name for name in MECHANISMS if name not in Limits().mechanisms.split())
NAMES = (*[AREA_IN_CLEAR] * 16, *[WHOLE] * 4, *MECHANISMS, "odd")
CALLERS = (202, 212, 303)
"""The area codes of the real callers. Their buckets run, so that there is something to attack."""


@dataclass(frozen=True)
class Request:
    """``at`` is a time of the client's clock. ``named``: it carries a token."""

    at: int
    method: str
    path: str
    body: bytes
    named: bool


def respond(status: int, data: bytes, kind: str = "") -> HTTPResponse:
    headers = {"Content-Type": kind} if kind else {}
    return HTTPResponse(BytesIO(data), status=status, headers=headers, preload_content=False)


def _json(status: int, value: Any) -> HTTPResponse:
    return respond(status, json.dumps(value).encode())


@dataclass
class Adversary:
    """One lying server. It shows ``script``, if there is one, instead of a document of its own."""

    rng: random.Random
    now: int = 0
    script: dict[str, Any] | None = None
    requests: list[Request] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    announced: tuple[int, int] = (0, 0)  # round and bucket of the client's last announcement
    _round: int = 0
    _terms: dict[int, dict[str, Any]] = field(default_factory=dict)

    def request(self, method: str, url: str, body: bytes | None, headers: dict[str, str], **_: Any) -> HTTPResponse:
        path = url.partition("//")[2].partition("/")[2]
        self.requests.append(Request(self.now, method, path, body or b"", "Authorization" in headers))
        if self.rng.random() < 0.02 and self.script is None:
            return respond(self.rng.choice((200, 404, 500, 302)), self.rng.randbytes(20))
        if method == "GET":
            self.shown = self.script or self._document()
            return _json(200, self.shown)
        if self.rng.random() < 0.1 and self.script is None:
            return _json(409, {"type": f"urn:hushcall:problem:{self.rng.choice(PROBLEMS)}", "detail": "no"})
        if method == "POST":
            self.announced = int(path.split("/")[2]), int(json.loads(body or b"{}").get("bucket", 0))
            valid = self.script is not None or self.rng.random() < 0.95
            return _json(201, {"ticket": self.rng.randbytes(16).hex() if valid else "odd"})
        return respond(self.rng.choice((200, 201)), b"")

    def _document(self) -> dict[str, Any]:
        """A round document that may be anything. Most of them make a client act."""
        rng = self.rng
        step = rng.choice((*[1] * 6, 0, 0, -1, -7, 50))
        calls_in = rng.random() < 0.5  # collects the announced round: elsewhere there is nothing to gain
        self._round = self.announced[0] if calls_in else max(0, min(self._round + step, 2**62))
        moment = rng.choice((self.now, self.now, self.now, 0, 4_102_444_800 - DAY))
        fresh = self._fresh_terms()
        terms = self._terms.setdefault(self._round, fresh) if rng.random() < 0.95 else fresh
        states = (*[ANNOUNCING] * 6, COLLECTING, COLLECTING, HELD, CLOSED, "odd")
        state = COLLECTING if calls_in and rng.random() < 0.8 else rng.choice(states)
        return {
            **_times(moment, moment + 3600),
            "round": self._round,
            "state": state,
            **terms,
            "buckets": None
            if state == ANNOUNCING and rng.random() < 0.9
            else self._buckets(terms["profile"]["mechanism"]),
            "upload_bytes": rng.choice((None, None, 3, 4, 64)) if rng.random() < 0.95 else "odd",
        }

    def _fresh_terms(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "seed": rng.choice(("00", "11")) * 32,
            "plan": NANP.name if rng.random() < 0.97 else "elsewhere-2026",
            "window": rng.choice((1, 7, 7, 7, 366, 366)) if rng.random() < 0.95 else 0,
            "profile": {
                "mechanism": rng.choice(NAMES),
                "epsilon": rng.choice((0.5, 4.0, 4.0, 4.0, 4.0, 8.0)) if rng.random() < 0.95 else -1,
            },
        }

    def _buckets(self, mechanism: str) -> Any:
        rng = self.rng
        name = mechanism if mechanism in (AREA_IN_CLEAR, WHOLE) else AREA_IN_CLEAR
        parameters = plain(rng.choice((4.0, 4.0, 4.0, 8.0, 0.5)), rng.choice((1, 3, 4, 5, 5, 5, 7, 9)), name)
        if rng.random() < 0.1:
            parameters |= {rng.choice(tuple(parameters)): rng.choice((0, 3, "odd", None))}
        bucket = {"runs": True, "report_bytes": rng.choice((3, 3, 4, -1, "odd")), "parameters": parameters}
        return {} if rng.random() < 0.3 else {str(area): bucket for area in (0, self.announced[1], *CALLERS)}


def _times(moment: int, server_time: int) -> dict[str, str]:
    times = {"opens": moment - 3600, "collects": moment, "closes": moment + 3600, "server_time": server_time}
    return {name: iso(max(0, value)) for name, value in times.items()}


def plain(epsilon: float, bits: int, mechanism: str = AREA_IN_CLEAR) -> dict[str, Any]:
    width = spec_named(mechanism).items.bits(NANP)
    return {"mechanism": mechanism, "epsilon": epsilon, "bits": bits, "item_bits": width}


def document(round_: int, state: str, now: int, *, skip: bool = False, **changes: Any) -> dict[str, Any]:
    """The round document of an honest server, unsigned. ``skip``: no bucket runs."""
    bucket = {"runs": True, "report_bytes": 3, "parameters": plain(4.0, 5)}
    announcing = state == ANNOUNCING
    return {
        **_times(now, now),
        "round": round_,
        "state": state,
        "seed": "22" * 32,
        "plan": NANP.name,
        "window": 7,
        "profile": {"mechanism": AREA_IN_CLEAR, "epsilon": 4.0},
        "buckets": None if announcing else {} if skip else {str(area): bucket for area in NANP.area_codes},
        "upload_bytes": None if announcing else 3,
        **changes,
    }
