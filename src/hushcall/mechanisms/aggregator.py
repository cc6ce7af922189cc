"""Aggregators: the interface of a mechanism's server side. Callers use nothing else, and never ask for a class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushcall.mechanisms.decision import HeavyHitter, Rule, Support
from hushcall.mechanisms.mechanism import Mechanism, OneResponse
from hushcall.mechanisms.tallies import Tally

if TYPE_CHECKING:
    from hushcall.mechanisms.report_arrays import ReportArrays

Reported: TypeAlias = tuple[bytes, bytes]
"""(the report's 32-byte public seed, the report)"""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with (steps done, steps in all) during long work."""
T = TypeVar("T", bound=Tally)


def quiet(done: int, total: int) -> None:
    """Shows no progress."""


class Aggregator(Protocol[T]):
    """Decodes the reports of one bucket."""

    mechanism: Mechanism
    """The client side, whose odds the law of the counts is made of."""
    domain: range
    """The items that exist. No other item is ever listed."""

    @property
    def setting(self) -> str:
        """The parameters chosen for this bucket's size, for tables."""

    @property
    def pooling(self) -> PoolingAggregator[T] | None:
        """The same aggregator, if the counts of several rounds add up. Otherwise None."""
        return None

    def tally(self, reports: Iterable[Reported]) -> T:
        """Sums up reports. A malformed one raises the parser's error; ingest has refused those before."""

    def tally_arrays(self, round_seed: bytes, reports: ReportArrays) -> T:
        """The same tally as :meth:`tally` from flat arrays, faster where the mechanism can."""
        return self.tally(reports.reported(round_seed))

    def compact(self, tally: T, users: int) -> T:
        """The form of a tally that merges best in a bucket of so many users. Often the tally itself."""
        return tally

    def grows(self, users: int) -> bool:
        """Whether that form grows with the number of reports."""
        return True

    def from_bytes(self, data: bytes) -> T:
        """Reads a tally of either form. One of other parameters is an :class:`InvalidTally`."""

    def estimate(self, tally: T, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ of each item: an unbiased estimate of its holders."""

    def find(self, tally: T, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        """The heavy hitters, largest first."""

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        """The probability that an item is listed among ``users`` reports, as a function of its holders."""

    def wrong(self, users: int, tau: float) -> float | None:
        """An upper bound on the expected number of listed items without a holder. None if no bound is known."""
        return None


class PoolingAggregator(Aggregator[T], Protocol[T]):
    """What windows ask of an aggregator whose counts add up over rounds. It tests every item of the domain.

    An item is the index of an area code above ``suffix_bits`` bits of suffix. In a bucket of one area code the index is
    0 and ``areas`` is 1.
    """

    mechanism: OneResponse
    areas: int

    @property
    def numbers(self) -> int:
        """How many items of the bucket are tested."""

    @property
    def suffix_bits(self) -> int: ...

    def law(self, reports: int) -> Support:
        """The law of an item's count among so many reports."""

    def rule(self, tau: float) -> Rule:
        """The rule by which one round lists a number."""

    def strict_rule(self, tau: float) -> Rule:
        """The rule of blocking. The same where there is one tier."""

    def over(self, rounds: int) -> Self:
        """The same aggregator with the tolerance of so many rounds."""

    def areas_of(self, part: int, parts: int) -> range:
        """The area codes that one of so many parts decodes."""

    def in_area(self, tally: T, area: int) -> T:
        """The same reports as reports of the suffixes of one area code."""

    def support(self, tally: T) -> NDArray[np.int32]:
        """C(x), the number of supporting reports, of all suffixes of one area code's tally."""

    def supports(self, tally: T, items: Sequence[int]) -> NDArray[np.int64]: ...

    def shares_updates(self, reports: int, areas: int) -> bool:
        """Whether :meth:`spectra` computes several area codes together, which needs all reports in one tally."""

    def spectra(self, tally: T, areas: Sequence[int]) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        """(area, counts, s) of each area code: the counts of every suffix times 2^s. The next step overwrites them."""
