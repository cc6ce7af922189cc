"""What an engine is given and gives back: one part of one bucket comes in, its heavy hitters leave.

Evidence travels to other processes and machines, so it holds addresses and parameters rather than reports; it can be
worked on twice, or by two workers at once, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hushcall.learn.decision import HeavyHitter
from hushcall.learn.learner import Learner

T = TypeVar("T")
R = TypeVar("R")


class Evidence(Protocol):
    """Everything that decoding one part of a bucket takes."""

    @property
    def key(self) -> tuple[int, int, int]:
        """(round, bucket, part): what findings are sorted and told apart by."""

    @property
    def learner(self) -> Learner[Any]:
        """The server's half of what the phones were given."""

    @property
    def tau(self) -> float:
        """The count above which a number is listed."""

    @property
    def parts(self) -> int:
        """In how many parts the bucket is decoded."""

    def tally(self) -> Any:
        """The bucket's reports, summed up."""


@dataclass(frozen=True)
class Findings:
    """What one part of a bucket gave."""

    key: tuple[int, int, int]
    reports: int
    hitters: tuple[HeavyHitter, ...]


def find(evidence: Evidence) -> Findings:
    """Decode one part on this processor. Pure but for reading the evidence."""
    tally = evidence.tally()
    hitters = evidence.learner.find_part(tally, evidence.tau, evidence.key[2], evidence.parts)
    return Findings(evidence.key, tally.count, tuple(hitters))


class Engine(Protocol):
    """One way to work through evidence. Results come in any order, each as soon as it is there."""

    def find(self, evidence: Iterable[Evidence]) -> Iterator[Findings]:
        """Decode every part; findings come in whatever order they are ready, each with its key."""

    def close(self) -> None:
        """Let go of processes and connections."""


def merged(parts: Iterable[Any], nothing: Any) -> Any:
    """The sum of many tallies, each added to one of its own size: n·log n bytes moved, not n²."""
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
