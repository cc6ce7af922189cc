"""What a row of the scheme table says about one mechanism. No numpy: the server's half is imported when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from hushcall.protocol.items import ItemCodec
from hushcall.report.mechanism import Mechanism


class Family(Enum):
    """How a mechanism finds numbers, which is how the lab simulates it quickly."""

    OURS = "ours"
    """Every number of the plan is tested on the reports that support it."""
    HISTOGRAM = "a succinct histogram"
    """Numbers are spelled out bit by bit on channels, and then counted."""
    RIVAL = "a rival"
    """Somebody else's way: the lab runs it phone by phone."""


@dataclass(frozen=True)
class Example:
    """A mechanism as small as an audit needs, and the ε that its paper charges for it, where there is one."""

    label: str
    mechanism: Mechanism
    paper: float | None = None


@dataclass(frozen=True)
class Scheme:
    """One mechanism: both halves, what of a number they talk about, and what else sets it apart."""

    name: str
    phone: type[Any]
    """The phone's half: a frozen value as ``report.mechanism`` describes it."""
    half: str
    """The module of the server's half, which offers what ``learn.learner.ServerHalf`` lists."""
    items: ItemCodec
    family: Family
    examples: Callable[[float], list[Example]]
    """For the audit: the mechanism at a budget, all ways it can be set up."""
    wire: str = ""
    """Its name in a bucket's parameters, where that is another: the histograms differ in their odds alone."""
    parts: int = 1
    """In how many parts a bucket is decoded: each is a job of its own."""
    counts_apart: bool = False
    """Whether a part of the budget (``epsilon_olh``) goes into counting what was found."""
    needs_candidates: bool = False
    """Whether it must be given the numbers to choose among: it can be planned with, and not run."""
    pools: bool = False
    """Whether the tallies of several rounds add up, so that windows of them can be decided together."""
    one_value: bool = False
    """Whether a report is one randomised value, so that its odds for any number can be shown exactly."""

    @property
    def wire_name(self) -> str:
        """As parameters on their way to a phone call it."""
        return self.wire or self.name

    @property
    def tolerates(self) -> bool:
        """Whether its decision can set some reports aside: the rivals decide as their papers do."""
        return self.family is not Family.RIVAL

    @property
    def bucketed(self) -> bool:
        """Whether area codes travel in the clear."""
        return self.items.bucketed

    @property
    def server(self) -> Any:
        """The server's half, imported now: it brings numpy, scipy and numba, which no phone has."""
        return import_module(self.half)
