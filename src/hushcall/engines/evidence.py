"""What an engine is given and gives back: one part of one bucket, over a window of rounds, and its heavy hitters.

Evidence travels to other processes and machines, so it holds addresses and parameters rather than reports; it can be
worked on twice, or by two workers at once, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeVar

from hushcall.learn.decision import HeavyHitter
from hushcall.learn.learner import Learner
from hushcall.learn.window import Past, find_in_rounds
from hushcall.profiles import Profile

T = TypeVar("T")
R = TypeVar("R")


class Piece(Protocol):
    """Some of a bucket's reports, to be tallied by any worker."""

    def tally(self) -> Any:
        """These reports, summed up."""


class Evidence(Protocol):
    """Everything that decoding one part of a bucket takes."""

    @property
    def key(self) -> tuple[int, int, int]:
        """(round, bucket, part): what findings are sorted and told apart by."""

    @property
    def profile(self) -> Profile:
        """What decides: windows and τ."""

    @property
    def parts(self) -> int:
        """In how many parts the bucket is decoded."""

    @property
    def learner(self) -> Learner[Any]:
        """The server's half of what the phones of the newest round were given."""

    def past(self, tallies: Sequence[Any] | None = None) -> list[Past]:
        """The bucket's reports in each round of the window, the newest, which is decided, first.

        ``tallies`` are the rounds' sums, where others made them of the :meth:`pieces`.
        """

    def pieces(self) -> Sequence[Sequence[Piece]]:
        """By round, newest first, what can be tallied apart and then added up; nothing where that does not pay."""


@dataclass(frozen=True)
class Findings:
    """What one part of a bucket gave. ``reports`` are the newest round's."""

    key: tuple[int, int, int]
    reports: int
    hitters: tuple[HeavyHitter, ...]


def find(evidence: Evidence, tallies: Sequence[Any] | None = None) -> Findings:
    """Decode one part on this processor. Pure but for reading the evidence, unless its sums are given."""
    past, profile = evidence.past(tallies), evidence.profile
    hitters = find_in_rounds(profile, past, evidence.key[2], evidence.parts)
    return Findings(evidence.key, past[0].tally.count, tuple(hitters))


class Engine(Protocol):
    """One way to work through evidence. Results come in any order, each as soon as it is there."""

    @property
    def width(self) -> int:
        """How many parts of a bucket are worked on at a time: more would repeat what they share, and find the same."""

    def find(self, evidence: Iterable[Evidence]) -> Iterator[Findings]:
        """Decode every part; findings come in whatever order they are ready, each with its key."""

    def close(self) -> None:
        """Let go of processes and connections."""


def merged(parts: Iterable[Any], nothing: Any, *, grows: bool = True) -> Any:
    """The sum of many tallies. Those that grow are added to one of their own size: n·log n bytes moved, not n².

    Where a sum is as large as a part, each is added as it comes, so that two exist at a time.
    """
    if not grows:
        rest = iter(parts)
        return reduce(lambda total, part: total.merge(part), rest, next(rest, nothing))
    waiting: list[tuple[int, Any]] = []
    for part in parts:
        size, tally = 1, part
        while waiting and waiting[-1][0] <= size:
            other, before = waiting.pop()
            size, tally = size + other, before.merge(tally)
        waiting.append((size, tally))
    total = waiting.pop()[1] if waiting else nothing
    while waiting:
        total = waiting.pop()[1].merge(total)
    return total
