"""The server side of the original succinct histogram (SH-Server), with its own frequency oracle."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import prange
from numpy.typing import NDArray

from hushcall.mechanisms.aggregator import Progress, Reported, quiet
from hushcall.mechanisms.decision import HeavyHitter, Support, judge
from hushcall.mechanisms.kernels.compiled import kernel
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.report_arrays import matrix, refuse
from hushcall.mechanisms.succinct_histogram.server import bad_symbols, channel_sums, channels, decode_hard
from hushcall.mechanisms.succinct_histogram.theory import reconstruction_probability
from hushcall.protocol.numbers import NumberingPlan
from hushcall.protocol.randomness import ONE
from hushcall_lab.rivals.original_histogram.client import DIGITS, ROW_BYTES, OriginalHistogram, row_hash
from hushcall_lab.rivals.sums import SumAggregator, SumTally


@dataclass(frozen=True)
class OriginalHistogramAggregator(SumAggregator):
    """The baseline's server. ``domain`` holds the items that exist."""

    mechanism: OriginalHistogram
    domain: range
    tolerance: int = 0
    list_size = 0  # hard decoding only

    def tally(self, reports: Iterable[Reported]) -> SumTally:
        chosen = self.mechanism
        bodies = matrix(chosen, [report for _, report in reports])
        symbols, oracle = (bodies[:, : chosen.total_channels], bodies[:, chosen.total_channels :].astype(np.int64))
        rows, signs = oracle[:, 0] << 8 | oracle[:, 1], oracle[:, ROW_BYTES]
        bad = bad_symbols(symbols, chosen.code.length, zero_allowed=False)
        refuse(chosen, bodies, bad | (rows >= chosen.rows) | (signs > 1))
        signs_by_row = np.bincount(rows * 2 + signs, minlength=2 * chosen.rows).reshape(chosen.rows, 2)
        by_row = (signs_by_row[:, 1] - signs_by_row[:, 0]).astype(np.int32)
        sums, count = channel_sums(symbols, chosen.code.length), np.array([len(bodies)], dtype=np.int64)
        return SumTally(self.made_by, {"count": count, "rows": by_row, "sums": sums})

    def law(self, reports: int) -> Support:
        """A report agrees with its holder's item with odds p = e^ε/(e^ε+1), with any other item with ½."""
        return Support(reports, self.mechanism.randomiser.keep / ONE, 0.5)

    def agreements(self, tally: SumTally, items: Sequence[int]) -> NDArray[np.int64]:
        """C(x): reports whose sign is the sign of x in their row, (n + Σ_r S_r·Φ[r, x]) / 2."""
        filled = np.flatnonzero(tally.arrays["rows"])
        hashes = [row_hash(self.mechanism.seed, int(row)) for row in filled]
        a = np.array([h.a for h in hashes], dtype=np.uint64)
        b = np.array([h.b for h in hashes], dtype=np.uint64)
        sums = tally.arrays["rows"][filled].astype(np.int64)
        return (tally.count + _correlate(a, b, sums, np.asarray(items, dtype=np.uint64))) // 2

    def estimate(self, tally: SumTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ = c·Σ_r S_r·Φ[r, x] = (C − n/2)/(p − ½)."""
        counts = self.agreements(tally, items).astype(np.float64)
        return np.asarray(self.law(tally.count).estimate(counts))

    def candidates(self, tally: SumTally) -> list[int]:
        return decode_hard(tally.arrays["sums"], self.mechanism.code, self.mechanism.item_bits, self.domain)

    def find(self, tally: SumTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        items = self.candidates(tally)
        return judge(self.law(tally.count), items, self.agreements(tally, items), tau, self.tolerance)

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        chosen, law = self.mechanism, self.law(users)
        needed = self.tolerance + law.without(self.tolerance).needed(tau)

        def listed(holders: int) -> float:
            once = reconstruction_probability(chosen.randomiser, users, holders, chosen.code, chosen.item_bits)
            return (1 - (1 - once) ** chosen.rounds) * law.power(holders, needed)

        return listed

    @property
    def setting(self) -> str:
        return f"T={self.mechanism.rounds} K={self.mechanism.channels}"


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> OriginalHistogramAggregator:
    mechanism = OriginalHistogram(
        profile.epsilon, profile.repetitions, channels(profile, users), seed, item_bits=DIGITS.bits(plan)
    )
    return resume(profile, plan, mechanism, buckets)


def resume(
    profile: Profile, plan: NumberingPlan, mechanism: OriginalHistogram, buckets: int
) -> OriginalHistogramAggregator:
    return OriginalHistogramAggregator(mechanism, DIGITS.domain(plan), profile.tolerance)


@kernel(parallel=True)
def _correlate(
    a: NDArray[np.uint64], b: NDArray[np.uint64], sums: NDArray[np.int64], items: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Σ_r S_r·Φ[r, x] of every item: the sign is the top bit of the row's hash."""
    out = np.empty(len(items), dtype=np.int64)
    for place in prange(len(items)):
        item, total = items[place], 0
        for r in range(len(sums)):
            total += sums[r] if (a[r] * item + b[r]) >> np.uint64(63) else -sums[r]
        out[place] = total
    return out
