"""A day on a real server: calls come in, every phone takes its part in the round, and the round's figures leave.

Time is a clock that is moved by hand, for the phones and for the server: a day passes as fast as they work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hushcall.lab.live.fleet import Fleet, Operator
from hushcall.numbers import Number

DAY = 86_400


class HandClock(Protocol):
    """Unix seconds, when it is called; ``now`` sets them."""

    now: float

    def __call__(self) -> float:
        """What time it is."""


def play_day(
    operator: Operator,
    fleet: Fleet,
    clock: HandClock,
    calls: Sequence[Sequence[Number]],
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> dict[str, Any]:
    """One round from its opening to its list. The clock ends at the next round's opening."""

    def until(moment: int, what: str) -> None:
        clock.now = moment
        fleet.visit(lambda done, total: progress(what, done, total))

    fleet.hear(calls)
    operator.ask("POST", "/v1/admin/rounds/advance")
    fleet.forget_round()
    info = fleet.round
    until(info.collects - 1, "phones announce")  # at the last moment: whatever moment a phone drew has come
    clock.now = info.collects
    progress("buckets are decided", 0, 1)
    operator.ask("POST", "/v1/admin/rounds/advance")
    until(info.closes - 1, "phones report")
    clock.now = info.closes
    progress("numbers are learned", 0, 1)
    operator.ask("POST", "/v1/admin/rounds/advance")
    status: dict[str, Any] = operator.ask("GET", f"/v1/admin/rounds/{info.round}")
    clock.now = max(info.opens + DAY, clock.now)
    fleet.forget_round()
    return status
