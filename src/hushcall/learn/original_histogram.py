"""The server's half of the original succinct histogram (SH-Server), with its own frequency oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numba import prange
from numpy.typing import NDArray

from hushcall.learn import tally_codec as files
from hushcall.learn.channels import bad_symbols, channel_sums, decode_hard
from hushcall.learn.compiled import kernel
from hushcall.learn.decision import HeavyHitter, Support, judge
from hushcall.learn.learner import InOnePart, Progress, Reported, matrix, quiet, refuse
from hushcall.learn.local_hashing import same_maker
from hushcall.learn.succinct_histogram import channels
from hushcall.learn.theory import reconstruction_probability
from hushcall.numbers import NumberingPlan
from hushcall.privacy.coins import ONE
from hushcall.profiles import Profile
from hushcall.protocol.items import DIGITS
from hushcall.report.original_histogram import ROW_BYTES, OriginalHistogram, row_hash


@dataclass(frozen=True)
class OriginalTally:
    """Sums per channel and position, and sums and counts per row of the oracle's projection."""

    made_by: bytes
    sums: NDArray[np.int32] = field(repr=False)
    rows: NDArray[np.int32] = field(repr=False)
    count: int

    def merge(self, other: OriginalTally) -> OriginalTally:
        """Both together: everything adds up."""
        same_maker(self.made_by, other.made_by)
        return OriginalTally(self.made_by, self.sums + other.sums, self.rows + other.rows, self.count + other.count)

    def to_bytes(self) -> bytes:
        """Channel sums and rows, versioned and checksummed: a flipped byte is noticed."""
        count = np.array([self.count], dtype=np.int64)
        return files.pack(self.made_by, {"count": count, "rows": self.rows, "sums": self.sums})


@dataclass(frozen=True)
class OriginalHistogramLearner(InOnePart[OriginalTally]):
    """The baseline's server. ``domain`` holds the items that exist."""

    mechanism: OriginalHistogram
    domain: range
    tolerance: int = 0
    list_size = 0  # hard decoding only

    @cached_property
    def made_by(self) -> bytes:
        """Names the parameters in a tally's header: a tally of others is refused."""
        return files.fingerprint(self.mechanism)

    def tally(self, reports: Iterable[Reported]) -> OriginalTally:
        """Sum up every channel and every row."""
        chosen, plain = self.mechanism, [report for _, report in reports]
        bodies = matrix(chosen, plain)
        symbols, oracle = (
            bodies[:, : chosen.total_channels],
            bodies[:, chosen.total_channels :].astype(np.int64),
        )
        rows, signs = oracle[:, 0] << 8 | oracle[:, 1], oracle[:, ROW_BYTES]
        bad = bad_symbols(symbols, chosen.code.length, zero_allowed=False)
        refuse(chosen, plain, bad | (rows >= chosen.rows) | (signs > 1))
        seen = np.bincount(rows * 2 + signs, minlength=2 * chosen.rows).reshape(chosen.rows, 2)
        by_row = (seen[:, 1] - seen[:, 0]).astype(np.int32)
        return OriginalTally(self.made_by, channel_sums(symbols, chosen.code.length), by_row, len(plain))

    def from_bytes(self, data: bytes) -> OriginalTally:
        """Read a tally back; one of other parameters is an :class:`InvalidTally`."""
        chosen = self.mechanism
        sums = (chosen.total_channels, chosen.code.length)
        arrays = files.shaped(files.unpack(self.made_by, data), sums=sums, rows=(chosen.rows,), count=(1,))
        signs, rows = (arrays[name].astype(np.int32) for name in ("sums", "rows"))
        return OriginalTally(self.made_by, signs, rows, int(arrays["count"][0]))

    def law(self, reports: int) -> Support:
        """A report agrees with its holder's item with odds p = e^ε/(e^ε+1), with any other item with ½."""
        return Support(reports, self.mechanism.randomiser.keep / ONE, 0.5)

    def agreements(self, tally: OriginalTally, items: Sequence[int]) -> NDArray[np.int64]:
        """C(x): reports whose sign is the sign of x in their row, (n + Σ_r S_r·Φ[r, x]) / 2."""
        filled = np.flatnonzero(tally.rows)
        hashes = [row_hash(self.mechanism.seed, int(row)) for row in filled]
        a = np.array([h.a for h in hashes], dtype=np.uint64)
        b = np.array([h.b for h in hashes], dtype=np.uint64)
        sums = tally.rows[filled].astype(np.int64)
        return (tally.count + _correlate(a, b, sums, np.asarray(items, dtype=np.uint64))) // 2

    def estimate(self, tally: OriginalTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ = c·Σ_r S_r·Φ[r, x] = (C − n/2)/(p − ½)."""
        counts = self.agreements(tally, items).astype(np.float64)
        return np.asarray(self.law(tally.count).estimate(counts))

    def candidates(self, tally: OriginalTally) -> list[int]:
        """Γ before filtering: what any channel spells, found or noise."""
        return decode_hard(tally.sums, self.mechanism.code, self.mechanism.item_bits, self.domain)

    def find(self, tally: OriginalTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        """The candidates whose estimate is above τ (or η·n, for the original's own threshold)."""
        items = self.candidates(tally)
        return judge(self.law(tally.count), items, self.agreements(tally, items), tau, self.tolerance)

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        """Spelled out in one of T rounds, and counted above τ."""
        chosen, law = self.mechanism, self.law(users)
        needed = self.tolerance + law.without(self.tolerance).needed(tau)

        def found(holders: int) -> float:
            once = reconstruction_probability(chosen.randomiser, users, holders, chosen.code, chosen.item_bits)
            return (1 - (1 - once) ** chosen.rounds) * law.power(holders, needed)

        return found

    @property
    def setting(self) -> str:
        """T and K, rounds and channels, for tables."""
        return f"T={self.mechanism.rounds} K={self.mechanism.channels}"


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> OriginalHistogramLearner:
    """The learner of a whole round; it has no gate."""
    mechanism = OriginalHistogram(
        profile.epsilon, profile.repetitions, channels(profile, users), seed, item_bits=DIGITS.bits(plan)
    )
    return resume(profile, plan, mechanism, buckets)


def resume(
    profile: Profile,
    plan: NumberingPlan,
    mechanism: OriginalHistogram,
    buckets: int,
) -> OriginalHistogramLearner:
    """With the parameters that the phones were given."""
    return OriginalHistogramLearner(mechanism, whole_numbers(plan), profile.tolerance)


def whole_numbers(plan: NumberingPlan) -> range:
    """From the lowest to the highest ten digits that can be dialled."""
    lowest, highest = plan.area_codes[0], plan.area_codes[-1]
    return range(lowest * plan.suffixes + plan.first_suffix, (highest + 1) * plan.suffixes)


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
