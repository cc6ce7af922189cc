"""The server's half of the subspace mechanism: b-bit reports come in, every number above the noise leaves.

A report supports the affine subspace {x : A·x = y}. ``walsh`` counts C(x), the reports that support x, for all 2²⁴
suffixes at once: n·2^b + 24·2²⁴ steps instead of n·10⁷. C(x) of a number that nobody holds is exactly Binomial(n,
2^−b), so the decision needs no calibration (``decision``).

Tallies come in two forms. *Sparse* keeps the reports, a few bytes each: what a bucket or a day is stored as. *Dense*
keeps one integer per number: what shards of a large round add up. Either decodes to the same counts, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.errors import InvalidTally
from hushcall.learn import tally_codec as files
from hushcall.learn import walsh
from hushcall.learn.decision import HeavyHitter, Rule, Support, lies_over
from hushcall.learn.feed.report_arrays import ReportArrays
from hushcall.learn.feed.shake256 import report_rows
from hushcall.learn.gate import all_of_them_found
from hushcall.learn.learner import InOnePart, Progress, Reported, bodies, matrix, quiet, refuse, valid_suffixes
from hushcall.learn.local_hashing import read_values, same_maker
from hushcall.learn.subspace_tuning import bits_for, law_of
from hushcall.numbers import NumberingPlan
from hushcall.profiles import Profile
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.report.one_response import least_bits
from hushcall.report.subspace import Subspace

DENSE_FROM = 1_000_000
"""Buckets with more users are tallied into one integer per number: 64 MB, however many reports there are."""


@dataclass(frozen=True)
class SparseTally:
    """The reports themselves: the matrix and the value of each."""

    made_by: bytes
    rows: NDArray[np.uint64] = field(repr=False)
    values: NDArray[np.uint32] = field(repr=False)

    @property
    def count(self) -> int:
        """n, the reports in it."""
        return len(self.values)

    def merge(self, other: SparseTally) -> SparseTally:
        """The rows of both, one behind the other; made by other parameters, they are refused."""
        same_maker(self.made_by, other.made_by)
        return SparseTally(
            self.made_by,
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.values, other.values]),
        )

    def to_bytes(self) -> bytes:
        """In canonical order, versioned and checksummed."""
        order = np.lexsort((self.values, *self.rows.T[::-1]))
        return files.pack(self.made_by, {"rows": self.rows[order], "values": self.values[order]})


@dataclass(frozen=True)
class DenseTally:
    """One integer per number: the Walsh spectrum of the counts, or, where that is cheaper, the counts themselves."""

    made_by: bytes
    cells: NDArray[np.int32] = field(repr=False)
    count: int

    def merge(self, other: DenseTally) -> DenseTally:
        """Both together: the cells add up."""
        same_maker(self.made_by, other.made_by)
        return DenseTally(self.made_by, self.cells + other.cells, self.count + other.count)

    def to_bytes(self) -> bytes:
        """The cells as they are, versioned and checksummed: a flipped byte is noticed."""
        count = np.array([self.count], dtype=np.int64)
        return files.pack(self.made_by, {"cells": self.cells, "count": count})


AnyTally: TypeAlias = SparseTally | DenseTally


class EveryNumberTested:
    """What both modes share: one law and one rule, and with them the chance of a find and of a wrong listing."""

    mechanism: Subspace
    level: float
    tolerance: int

    @property
    def spectrum(self) -> int | None:
        """The bits of an item."""
        return self.mechanism.item_bits

    @property
    def hypotheses(self) -> int:
        """How many numbers are tested together: the error level covers all of them."""
        raise NotImplementedError

    @cached_property
    def made_by(self) -> bytes:
        """Names the parameters in a tally's header: a tally of others is refused."""
        return files.fingerprint(self.mechanism)

    @property
    def setting(self) -> str:
        """b, the bits of a report, for tables."""
        return f"b={self.mechanism.bits}"

    def rule(self, tau: float) -> Rule:
        """Family-wise over every number that is tested."""
        return Rule(tau, self.level, self.hypotheses, tolerance=self.tolerance)

    def law(self, reports: int) -> Support:
        """P and q of the support."""
        return law_of(self.mechanism, reports)

    def tally(self, reports: Iterable[Reported]) -> SparseTally:
        """Collect each report's matrix rows and value: all that a sealed tally holds."""
        return collect(self.mechanism, self.made_by, reports)

    def tally_arrays(self, round_seed: bytes, reports: ReportArrays) -> SparseTally:
        """Collect the reports of arrays: no object per report."""
        values = read_values(bodies(self.mechanism, reports.bodies))
        for place in np.flatnonzero(values >= self.mechanism.size)[:1]:
            refuse(self.mechanism, [reports.bodies[place].tobytes()], np.ones(1, np.bool_))
        rows = report_rows(reports.seeds(round_seed), self.mechanism.bits, self.mechanism.item_bits)
        return SparseTally(self.made_by, rows, values)

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        """The exact chance that enough reports support a number."""
        law = self.law(users)
        needed = self.rule(tau).least(law)
        return lambda holders: law.power(holders, needed)

    def wrong(self, users: int, tau: float) -> float:
        """The chance that noise reaches the threshold, times all the numbers it could happen to."""
        law, rule = self.law(users), self.rule(tau)
        return law.p_value(rule.least(law)) * rule.hypotheses


@dataclass(frozen=True)
class SubspaceLearner(EveryNumberTested, InOnePart[AnyTally]):
    """The decoder of one bucket. ``buckets`` is how many are decided together: the error level covers all of them."""

    mechanism: Subspace
    domain: range
    level: float = 1e-3
    buckets: int = 1
    tolerance: int = 0
    areas = 1

    def __post_init__(self) -> None:
        checks.whole("item_bits", self.mechanism.item_bits, 1, 28)
        checks.whole("buckets", self.buckets, 1)

    @property
    def hypotheses(self) -> int:
        """Every number of every bucket."""
        return len(self.domain) * self.buckets

    def compact(self, tally: AnyTally, users: int) -> AnyTally:
        """The dense form for large buckets: its size does not grow with them."""
        return tally if self.grows(users) or isinstance(tally, DenseTally) else self.dense(tally)

    def grows(self, users: int) -> bool:
        """The reports themselves do, and one integer per number does not."""
        return users <= DENSE_FROM

    def from_bytes(self, data: bytes) -> AnyTally:
        """Read a tally back, sparse or dense."""
        arrays = files.unpack(self.made_by, data)
        if "cells" in arrays:
            files.shaped(arrays, cells=(1 << self.mechanism.item_bits,), count=(1,))
            return DenseTally(self.made_by, arrays["cells"].astype(np.int32), int(arrays["count"][0]))
        return sparse(self.made_by, arrays, self.mechanism)

    def dense(self, tally: SparseTally) -> DenseTally:
        """The dense form. Its kind depends on b alone, so that all shards of a round agree."""
        cells = np.zeros(1 << self.mechanism.item_bits, dtype=np.int32)
        add = walsh.count_members if self._counts_directly else walsh.accumulate
        add(cells, tally.rows.astype(np.uint32), tally.values)
        return DenseTally(self.made_by, cells, tally.count)

    @property
    def _counts_directly(self) -> bool:
        return 2 * self.mechanism.bits > self.mechanism.item_bits

    def support(self, tally: AnyTally) -> NDArray[np.int32]:
        """C(x) of all 2^item_bits numbers."""
        if isinstance(tally, SparseTally):
            return walsh.support(tally.rows.astype(np.uint32), tally.values, self.mechanism.item_bits)
        if self._counts_directly:
            return tally.cells
        counts = tally.cells.copy()
        walsh.transform(counts)
        counts >>= self.mechanism.bits
        return counts

    def estimate(self, tally: AnyTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ = (C − n/g)/(p − 1/g)."""
        return np.asarray(self.law(tally.count).estimate(self.supports(tally, items).astype(np.float64)))

    def find(self, tally: AnyTally, tau: float = 0.0, progress: Progress = quiet) -> list[HeavyHitter]:
        """Every number of the domain that is significant and above τ, largest first."""
        if tally.count == 0:
            return []
        rule, law = self.rule(tau), self.law(tally.count)
        counts = self.support(tally)
        items = walsh.at_least(counts, rule.least(law), self.domain.start, self.domain.stop)
        return rule.decide(law.hitter(int(item), int(counts[item]), tolerance=self.tolerance) for item in items)

    def in_area(self, tally: AnyTally, area: int) -> AnyTally:
        """The tally itself: a bucket is one area code."""
        checks.whole("area", area, 0, 0)
        return tally

    def supports(self, tally: AnyTally, items: Sequence[int]) -> NDArray[np.int64]:
        """C(x) of a few given numbers."""
        if isinstance(tally, SparseTally):
            return few_supports(tally, items)
        return self.support(tally)[np.asarray(items, dtype=np.int64)].astype(np.int64)

    def candidates(self, tally: AnyTally, p_value: float) -> list[HeavyHitter]:
        """Every number whose p-value is at most that: what a decision over many buckets starts from."""
        law = self.law(tally.count)
        counts = self.support(tally)
        items = walsh.at_least(counts, law.threshold(p_value, 1), self.domain.start, self.domain.stop)
        return [law.hitter(int(item), int(counts[item])) for item in items]


def open_bucket(profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int) -> SubspaceLearner | None:
    """With the b that finds the smallest numbers; None where not even a number that all phones hold would be found.

    Both are asked of the longest window: it is what finds the smallest numbers, and what a small bucket is run for.
    """
    learner = partial(_learner, profile, plan, buckets=buckets)
    hypotheses, most = len(valid_suffixes(plan)) * buckets, users * max(profile.windows)
    return settled(profile, most, hypotheses, lambda bits: learner(Subspace(profile.epsilon, bits, plan.suffix_bits)))


def resume(profile: Profile, plan: NumberingPlan, mechanism: Subspace, buckets: int) -> SubspaceLearner:
    """With the b that the phones were given."""
    return _learner(profile, plan, mechanism, buckets)


def _learner(profile: Profile, plan: NumberingPlan, mechanism: Subspace, buckets: int) -> SubspaceLearner:
    return SubspaceLearner(mechanism, valid_suffixes(plan), profile.share, buckets, profile.tolerance)


L = TypeVar("L", bound=EveryNumberTested)


def settled(profile: Profile, users: int, hypotheses: int, made: Callable[[int], L]) -> L | None:
    """The learner with the best b for so many reports in all, if it passes the gate."""
    longest = max(profile.windows)
    lies = lies_over(longest, profile.tolerance)
    bits = bits_for(users, profile.epsilon, hypotheses, profile.share, profile.tau, lies)
    learner = made(max(bits, least_bits(profile.epsilon)))  # phones take part in nothing less
    return learner if all_of_them_found(learner.law(users), learner.rule(profile.tau).over(longest)) else None


def collect(mechanism: Subspace, made_by: bytes, reports: Iterable[Reported]) -> SparseTally:
    """Parse reports and expand their matrices."""
    pairs = list(reports)
    plain = [report for _, report in pairs]
    values = read_values(matrix(mechanism, plain))
    refuse(mechanism, plain, values >= mechanism.size)
    for public, _ in pairs:
        checks.length("public", public, SEED_BYTES)
    seeds = np.frombuffer(b"".join(public for public, _ in pairs), np.uint8).reshape(len(pairs), SEED_BYTES)
    return SparseTally(made_by, report_rows(seeds, mechanism.bits, mechanism.item_bits), values)


def sparse(made_by: bytes, arrays: files.Arrays, mechanism: Subspace) -> SparseTally:
    """A sparse tally from the arrays of its file: b rows, and a value, for each report; none beyond the spectrum."""
    files.shaped(arrays, rows=(files.REPORTS, mechanism.bits), values=(files.REPORTS,))
    rows, values = arrays["rows"].astype(np.uint64), arrays["values"].astype(np.uint32)
    for name, found, bits in (("rows", rows, mechanism.item_bits), ("values", values, mechanism.bits)):
        if found.size and (most := int(found.max())) >> bits:
            raise InvalidTally(f"array {name}", f"have at most {bits} bits each", most)
    return SparseTally(made_by, rows, values)


def few_supports(tally: SparseTally, items: Sequence[int]) -> NDArray[np.int64]:
    """C(x) of a few given numbers, without touching the rest of the domain."""
    places = np.arange(tally.rows.shape[1], dtype=np.uint32)
    out = np.empty(len(items), dtype=np.int64)
    for place, item in enumerate(items):
        parities = np.bitwise_count(tally.rows & np.uint64(item)).astype(np.uint32) & np.uint32(1)
        hashed = (parities << places).sum(axis=1, dtype=np.uint32)
        out[place] = np.count_nonzero(hashed == tally.values)
    return out
