"""How well a list matches the truth: the paper's counts and scores, and what a blocklist blocks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

WINDOW = 7
"""Days after which a number that is not seen again leaves the list."""


def f1(found: Set[int], truth: Set[int]) -> float:
    """2PR/(P + R): the paper's F1-score; 0 where nothing right was found.

    >>> f1({1, 2, 3}, {2, 3, 4, 5})
    0.5714285714285714
    """
    return Scores.of(found, truth).f1


@dataclass(frozen=True)
class Scores:
    """True, false and undetected heavy hitters (Ucci et al., section 4.3)."""

    true: float
    false: float
    undetected: float

    @classmethod
    def of(cls, found: Set[int], truth: Set[int]) -> Scores:
        """Detections against the numbers that really are above τ."""
        return cls(len(found & truth), len(found - truth), len(truth - found))

    @classmethod
    def total(cls, scores: Sequence[Scores]) -> Scores:
        """The sum over several days: scores of a month are scores of these sums, not means of days."""
        return cls(sum(s.true for s in scores), sum(s.false for s in scores), sum(s.undetected for s in scores))

    @property
    def precision(self) -> float:
        """Share of the detections that are right; 1 where there are none."""
        return self.true / (self.true + self.false) if self.true + self.false else 1.0

    @property
    def recall(self) -> float:
        """Share of the heavy hitters that are found; 1 where there are none."""
        return self.true / (self.true + self.undetected) if self.true + self.undetected else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where nothing is right."""
        return 2 * self.true / (2 * self.true + self.false + self.undetected) if self.true else 0.0


def blocking_rates(listed: Sequence[Set[int]], calls: Sequence[Mapping[int, int]], window: int = WINDOW) -> list[float]:
    """CBR of each day from ``window`` on: the share of its calls from numbers detected on the ``window`` days before.

    ``listed[d]`` are day d's detections, ``calls[d]`` how often each number called on day d.

    >>> blocking_rates([{7}, set(), set()], [{7: 5}, {7: 3, 8: 1}, {8: 2}], window=1)
    [0.75, 0.0]
    """
    rates = []
    for day in range(window, len(calls)):
        blocked = set().union(*listed[day - window : day])
        total = sum(calls[day].values())
        rates.append(sum(count for number, count in calls[day].items() if number in blocked) / total if total else 0.0)
    return rates


def relative_blocking(private: Sequence[float], plain: Sequence[float]) -> float:
    """Median CBR over median CBR*: what privacy costs a blocklist; 0 where even the plain list blocks nothing."""
    best = statistics.median(plain) if plain else 0.0
    return statistics.median(private) / best if best else 0.0


def days_to_listing(listed: Sequence[Set[int]], heavy: Sequence[Set[int]]) -> list[int]:
    """For each number that is ever heavy: days from the first time it is until it is first listed (never: left out)."""
    first_heavy: dict[int, int] = {}
    first_listed: dict[int, int] = {}
    for day, (now, detected) in enumerate(zip(heavy, listed, strict=True)):
        for number in now:
            first_heavy.setdefault(number, day)
        for number in detected:
            first_listed.setdefault(number, day)
    return [first_listed[n] - day for n, day in first_heavy.items() if n in first_listed and first_listed[n] >= day]
