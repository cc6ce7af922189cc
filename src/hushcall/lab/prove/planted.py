"""Bugs planted in the phone, one at a time: each would break a promise, and the proof has to notice it.

A bug is what somebody could have written: a check left out, a memory not asked, coins that are fresh. What is planted
here is taken out again when the context ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from hushcall.errors import Refused
from hushcall.phone import visit
from hushcall.phone.calls import candidates
from hushcall.phone.reporting import ledger, participation, terms, transport
from hushcall.phone.visit import Visit
from hushcall.privacy.coins import seeded

Bug = Callable[[], Any]
_buffered = candidates.buffered


@contextmanager
def _endless_window() -> Iterator[None]:
    def year(store: Any, now: int, _days: int, horizon: int, **how: Any) -> list[str]:
        return _buffered(store, now, 366, horizon, **how)

    with patch.object(candidates, "buffered", year), patch.object(candidates, "prune", lambda *_: None):
        yield


def _other_bytes(self: Visit, row: Any) -> Any:
    line: Any = self.transport
    line.sends = getattr(line, "sends", 0) + 1  # every second one is another: the same in every run
    line.send(row.round, row.ticket, row.report[:-1] + bytes([row.report[-1] ^ line.sends & 1]))
    raise Refused("busy", 503, "as if the answer was lost")


def _nothing_instead(self: Visit, row: Any) -> None:
    if why := self._settle(row):
        participation.finished(self.store, row, participation.SKIPPED, why)


@contextmanager
def _token_everywhere() -> Iterator[None]:
    once = transport.HttpTransport._once

    def named(self: Any, method: str, path: str, body: bytes | None, kind: str) -> Any:
        pool, token = self._pool, self._token

        class Named:
            @staticmethod
            def request(*given: Any, headers: dict[str, str], **more: Any) -> Any:
                return pool.request(*given, headers={**headers, "Authorization": f"Bearer {token}"}, **more)

        self._pool = Named()
        try:
            return once(self, method, path, body, kind)
        finally:
            self._pool = pool

    with patch.object(transport.HttpTransport, "_once", named):
        yield


def _fresh() -> Callable[..., Any]:
    """Draws that no key repeats; the same ones whenever the bug is planted, or one run in a hundred would miss it."""
    stream = seeded(b"coins of the moment")
    return lambda *_: stream


BUGS: dict[str, Bug] = {
    "reported callers are forgotten": lambda: patch.object(candidates, "mark_reported", lambda *_: None),
    "old rounds are joined": lambda: patch.object(participation, "highest", lambda *_: -1),
    "joining ends no other round": lambda: patch.object(participation, "_unfinished", lambda _: []),
    "the caller is not looked at again": lambda: patch.object(Visit, "_sayable", lambda _self, row, _limits: row),
    "reports of a day are not counted": lambda: patch.object(ledger, "recorded_between", lambda *_: 0),
    "few bits are accepted": lambda: patch.object(terms, "weaker", lambda _: ""),
    "any mechanism is accepted": lambda: patch.object(terms, "objection", lambda *_: ""),
    "coins are fresh": lambda: patch.object(visit, "keyed", _fresh()),
    "a retry is made anew": lambda: patch.object(Visit, "_send", _other_bytes),
    "public requests carry the token": _token_everywhere,
    "made-up callers are not kept": lambda: patch.object(candidates, "make_up", lambda *_: None),
    "nothing is sent in a skipped bucket": lambda: patch.object(Visit, "_record", _nothing_instead),
    "the owner's window is not kept": _endless_window,
    "the caps are not asked": lambda: patch.object(ledger, "objection", lambda *_: ""),
}
