"""Scores of a list against the truth, as in the paper, and the share of calls that it blocks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

WINDOW_DAYS = 7
"""A number that is not seen again leaves the list after so many days."""


@dataclass(frozen=True)
class Scores:
    true: float
    false: float
    undetected: float

    @classmethod
    def of(cls, found: Set[int], truth: Set[int]) -> Scores:
        return cls(len(found & truth), len(found - truth), len(truth - found))

    @classmethod
    def total(cls, scores: Sequence[Scores]) -> Scores:
        return cls(sum(s.true for s in scores), sum(s.false for s in scores), sum(s.undetected for s in scores))

    @property
    def precision(self) -> float:
        return self.true / (self.true + self.false) if self.true + self.false else 1.0

    @property
    def recall(self) -> float:
        return self.true / (self.true + self.undetected) if self.true + self.undetected else 1.0

    @property
    def f1(self) -> float:
        return 2 * self.true / (2 * self.true + self.false + self.undetected) if self.true else 0.0


def blocking_rates(
    listed: Sequence[Set[int]], calls: Sequence[Mapping[int, int]], window: int = WINDOW_DAYS
) -> list[float]:
    """CBR of each day from ``window`` on: the share of its calls from numbers detected in the ``window`` days before.

    ``listed[d]`` are day d's detections, ``calls[d]`` how often each number called on day d.

    >>> blocking_rates([{7}, set(), set()], [{7: 5}, {7: 3, 8: 1}, {8: 2}], window=1)
    [0.75, 0.0]
    """
    lists = [set().union(*listed[max(0, day - window + 1) : day + 1]) for day in range(len(calls))]
    return blocked_rates(lists, calls, window)


def blocked_rates(
    lists: Sequence[Set[int]], calls: Sequence[Mapping[int, int]], window: int = WINDOW_DAYS
) -> list[float]:
    """As :func:`blocking_rates`, of the list of each evening."""
    rates = []
    for day in range(window, len(calls)):
        total = sum(calls[day].values())
        stopped = sum(count for number, count in calls[day].items() if number in lists[day - 1])
        rates.append(stopped / total if total else 0.0)
    return rates


def relative_blocking(private: Sequence[float], plain: Sequence[float]) -> float:
    """Median CBR over median CBR*, the cost of privacy. 0 where even the plain list blocks nothing."""
    best = statistics.median(plain) if plain else 0.0
    return statistics.median(private) / best if best else 0.0
