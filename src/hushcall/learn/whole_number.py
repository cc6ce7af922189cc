"""The server's half of whole-number mode: reports of all ten digits come in, heavy hitters of every area code leave.

With A = [A_hi | A_lo] and a number written as (t, σ), t the index of its area code: A·x = y exactly when A_lo·σ = y ⊕
A_hi·t. So every report is tallied into *every* area code with its value shifted by A_hi·t, and the 24-bit decoder of
``subspace`` runs unchanged on one area code after the other, in the memory of one. No announce phase, no bucket count:
nothing is in the clear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushcall.learn import tally_codec as files
from hushcall.learn import walsh
from hushcall.learn.decision import HeavyHitter, Rule, Support, above
from hushcall.learn.learner import Reported
from hushcall.learn.subspace import SparseTally, collect, few_supports, law_of
from hushcall.learn.theory import needed_support
from hushcall.report.subspace import WholeNumber

SUFFIX_BITS = 24
_LOW = np.uint64((1 << SUFFIX_BITS) - 1)


@dataclass(frozen=True)
class WholeNumberLearner:
    """The decoder of a whole round. ``domain`` holds the valid suffixes, ``areas`` how many area codes the plan has."""

    mechanism: WholeNumber
    domain: range
    areas: int
    level: float = 1e-3

    @cached_property
    def made_by(self) -> bytes:
        """Names the parameters."""
        return files.fingerprint(self.mechanism)

    def rule(self, tau: float) -> Rule:
        """Family-wise over every number of the plan."""
        return Rule(tau, self.level, len(self.domain) * self.areas)

    def tally(self, reports: Iterable[Reported]) -> SparseTally:
        """Collect the reports."""
        return collect(self.mechanism, self.made_by, reports)

    def from_bytes(self, data: bytes) -> SparseTally:
        """Read a tally back."""
        arrays = files.unpack(self.made_by, data)
        return SparseTally(self.made_by, arrays["rows"].astype(np.uint64), arrays["values"].astype(np.uint32))

    def law(self, reports: int) -> Support:
        """The noise is that of all reports, not of one bucket's: the price of this mode."""
        return law_of(self.mechanism, reports)

    def estimate(self, tally: SparseTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ of given numbers, as items of 33 bits."""
        return np.asarray(self.law(tally.count).estimate(few_supports(tally, items).astype(np.float64)))

    def in_area(self, tally: SparseTally, area: int) -> SparseTally:
        """The same reports as reports of suffixes of one area code: values shifted by A_hi·t."""
        high = np.bitwise_count((tally.rows >> np.uint64(SUFFIX_BITS)) & np.uint64(area)).astype(np.uint32)
        shift = ((high & np.uint32(1)) << np.arange(tally.rows.shape[1], dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
        return replace(tally, rows=tally.rows & _LOW, values=tally.values ^ shift)

    def find_in(self, tally: SparseTally, tau: float, areas: Iterable[int]) -> Iterator[list[HeavyHitter]]:
        """One area code after the other, so that a caller can show progress or stop early."""
        rule, law = self.rule(tau), self.law(tally.count)
        least = max(law.threshold(rule.level, rule.hypotheses), needed_support(law, tau))
        for area in areas:
            local = self.in_area(tally, area)
            counts = walsh.support(local.rows.astype(np.uint32), local.values, SUFFIX_BITS)
            places = walsh.at_least(counts, least, self.domain.start, self.domain.stop)
            yield rule.decide(law.hitter(area << SUFFIX_BITS | int(p), int(counts[p])) for p in places)

    def find(
        self, tally: SparseTally, tau: float = 0.0, progress: Callable[[int], None] = lambda _: None
    ) -> list[HeavyHitter]:
        """Every number of the plan that is significant and above τ, largest first."""
        found: list[HeavyHitter] = []
        if tally.count:
            for done, some in enumerate(self.find_in(tally, tau, range(self.areas)), 1):
                found += some
                progress(done)
        return above(found, tau)
