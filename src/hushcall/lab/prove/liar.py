"""A server that answers anything, in any order, by any clock: dice come in, bytes leave as if from the network.

It stands where the HTTP client's connections stand, so that everything of the phone is the real one, down to the code
that reads answers off the wire. It keeps every request, which is all that a server ever gets.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from hushcall.mechanisms.schemes import SCHEMES
from hushcall.numbers import NANP
from hushcall.phone.reporting.ledger import Limits
from hushcall.protocol.blocklist import iso
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, HELD

DAY = 86_400
PROBLEMS = ("wrong-phase", "unknown-round", "unknown-ticket", "already-announced", "different-report", "busy", "odd")
AREA_IN_CLEAR, WHOLE = (
    next(name for name, scheme in SCHEMES.items() if scheme.one_value and scheme.items.bucketed is bucketed)
    for bucketed in (True, False)
)
"""The two mechanisms that a phone agrees to unless it is told otherwise."""
OTHER = next(name for name in SCHEMES if name not in Limits().mechanisms.split())
"""One that it does not."""
MECHANISMS = (*[AREA_IN_CLEAR] * 16, *[WHOLE] * 4, *SCHEMES, "odd")


@dataclass(frozen=True)
class Request:
    """What a server gets of one request, and when by the phone's clock."""

    at: int
    method: str
    path: str
    body: bytes
    named: bool  # whether it carries a token


@dataclass
class Answer:
    """What urllib3 would hand over."""

    status: int
    data: bytes
    headers: dict[str, str] = field(default_factory=dict)

    def read(self, _most: int) -> bytes:
        """The whole body: a lie is never streamed."""
        return self.data

    def release_conn(self) -> None:
        """As urllib3 calls it; there is no connection."""

    def close(self) -> None:
        """As urllib3 calls it; there is no connection."""


@dataclass
class Liar:
    """One lying server. ``script`` is shown instead of anything made up, where a named attack wants it."""

    dice: random.Random
    now: int = 0
    script: dict[str, Any] | None = None
    requests: list[Request] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    last: int = 0
    kept: dict[int, dict[str, Any]] = field(default_factory=dict)
    announced: tuple[int, int] = (0, 0)  # the round and the bucket that the phone spoke about last

    def request(self, method: str, url: str, body: bytes | None, headers: dict[str, str], **_: Any) -> Answer:
        """As ``urllib3.PoolManager.request``: everything that was asked is kept, then lied to."""
        path = url.partition("//")[2].partition("/")[2]
        self.requests.append(Request(self.now, method, path, body or b"", "Authorization" in headers))
        if self.dice.random() < 0.02 and self.script is None:
            return Answer(self.dice.choice((200, 404, 500, 302)), self.dice.randbytes(20))
        if method == "GET":
            self.shown = self.script or self._round()
            return _json(200, self.shown)
        if self.dice.random() < 0.1 and self.script is None:
            return _json(409, {"type": f"urn:hushcall:problem:{self.dice.choice(PROBLEMS)}", "detail": "no"})
        if method == "POST":
            self.announced = int(path.split("/")[2]), int(json.loads(body or b"{}").get("bucket", 0))
            known = self.script is not None or self.dice.random() < 0.95
            return _json(201, {"ticket": self.dice.randbytes(16).hex() if known else "odd"})
        return Answer(self.dice.choice((200, 201)), b"")

    def _round(self) -> dict[str, Any]:
        """A document that may be anything, and mostly is one that a phone would act on."""
        dice = self.dice
        step = dice.choice((*[1] * 6, 0, 0, -1, -7, 50))
        asked_back = dice.random() < 0.5  # what was announced is called in: elsewhere there is nothing to gain
        self.last = self.announced[0] if asked_back else max(0, min(self.last + step, 2**62))
        moment = dice.choice((self.now, self.now, self.now, 0, 4_102_444_800 - DAY))
        times = {"opens": moment - 3600, "collects": moment, "closes": moment + 3600, "server_time": moment + 3600}
        fresh = self._terms()
        agreed = self.kept.setdefault(self.last, fresh) if dice.random() < 0.95 else fresh  # mostly the same again
        mechanism = agreed["profile"]["mechanism"]
        states = (*[ANNOUNCING] * 6, COLLECTING, COLLECTING, HELD, CLOSED, "odd")
        state = COLLECTING if asked_back and dice.random() < 0.8 else dice.choice(states)
        return {
            **{name: iso(max(0, value)) for name, value in times.items()},
            "round": self.last,
            "state": state,
            **agreed,
            "buckets": None if state == ANNOUNCING and dice.random() < 0.9 else self._buckets(mechanism),
            "upload_bytes": dice.choice((None, None, 3, 4, 64)) if dice.random() < 0.95 else "odd",
        }

    def _terms(self) -> dict[str, Any]:
        """What a phone joins a round for."""
        dice = self.dice
        return {
            "seed": dice.choice(("00", "11")) * 32,
            "plan": NANP.name if dice.random() < 0.97 else "elsewhere-2026",
            "window": dice.choice((1, 7, 7, 7, 366, 366)) if dice.random() < 0.95 else 0,
            "profile": {
                "mechanism": dice.choice(MECHANISMS),
                "epsilon": dice.choice((0.5, 4.0, 4.0, 4.0, 4.0, 8.0)) if dice.random() < 0.95 else -1,
            },
        }

    def _buckets(self, mechanism: str) -> Any:
        dice = self.dice
        named = mechanism if mechanism in (AREA_IN_CLEAR, WHOLE) else AREA_IN_CLEAR
        made = plain(dice.choice((4.0, 4.0, 4.0, 8.0, 0.5)), dice.choice((1, 3, 4, 5, 5, 5, 7, 9)), named)
        if dice.random() < 0.1:
            made |= {dice.choice(tuple(made)): dice.choice((0, 3, "odd", None))}
        terms = {"runs": True, "report_bytes": dice.choice((3, 3, 4, -1, "odd")), "parameters": made}
        skipped = dice.random() < 0.3
        return {} if skipped else {str(area): terms for area in (0, self.announced[1], *CALLERS)}


def plain(epsilon: float, bits: int, mechanism: str = AREA_IN_CLEAR) -> dict[str, Any]:
    """Parameters as a round document holds them."""
    width = NANP.suffix_bits + (NANP.area_bits if mechanism == WHOLE else 0)
    return {"mechanism": mechanism, "epsilon": epsilon, "bits": bits, "item_bits": width}


CALLERS = (202, 212, 303)
"""The area codes of the real callers: their buckets run, so that there is something to attack."""


def _json(status: int, value: Any) -> Answer:
    return Answer(status, json.dumps(value).encode())
