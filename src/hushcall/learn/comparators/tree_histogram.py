"""The server's half of TreeHist: one-bit reports come in, the numbers that rise above the noise at every level leave.

Each level has a count sketch. Reports add ±1 at their row and column; one Walsh-Hadamard transform per row
turns the sums into signed bucket counts. C(x), the reports that agree with prefix x, is (n + Σ_rows
sign(x)·bucket(x))/2: a holder's report agrees with probability p = e^ε/(e^ε+1), any other with ½ over the
choice of the hash functions. The server descends from the shortest prefixes, keeps the nodes that are above
the noise, and lets the last level, which is half of all phones, decide (Bassily, Nissim, Stemmer and Thakurta
2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.learn import tally_codec as files
from hushcall.learn import walsh
from hushcall.learn.comparators.outlook import described, staged_chance
from hushcall.learn.comparators.splitting import best, check_domain, extend, judge, pieces, roots, scaled, shares
from hushcall.learn.decision import HeavyHitter, Rule, Support
from hushcall.learn.gate import more_than_tau
from hushcall.learn.learner import InOnePart, Progress, Reported, matrix, quiet, refuse, valid_suffixes
from hushcall.learn.local_hashing import same_maker
from hushcall.numbers import NumberingPlan
from hushcall.privacy.coins import ONE
from hushcall.profiles import Profile
from hushcall.report.tree_histogram import COLUMN_PIECE, LEVEL_PIECE, ROW_PIECE, TreeHistogram


@dataclass(frozen=True)
class TreeTally:
    """Sums per level, row and column, and how many reports each level has."""

    made_by: bytes
    sums: NDArray[np.int32] = field(repr=False)
    sizes: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many reports went in."""
        return int(self.sizes.sum())

    def merge(self, other: TreeTally) -> TreeTally:
        """Both together: everything adds up."""
        same_maker(self.made_by, other.made_by)
        return TreeTally(self.made_by, self.sums + other.sums, self.sizes + other.sizes)

    def to_bytes(self) -> bytes:
        """Sums and sizes per level, versioned and checksummed: a flipped byte is noticed."""
        return files.pack(self.made_by, {"sizes": self.sizes, "sums": self.sums})


@dataclass(frozen=True)
class TreeHistogramLearner(InOnePart[TreeTally]):
    """TreeHist's server.

    At each level, nodes are kept whose count would come up for ``noise`` empty nodes in expectation, and at
    most ``width`` of them. The leaves that this leads to are listed if significant at ``level`` over all of
    them (Bonferroni), and above τ.
    """

    mechanism: TreeHistogram
    domain: range
    noise: float = 16.0
    width: int = 1 << 10
    level: float = 0.05

    def __post_init__(self) -> None:
        check_domain(self.domain, self.mechanism.item_bits)
        checks.positive("noise", self.noise)
        checks.whole("width", self.width, 1, 1 << 20)
        checks.probability("level", self.level)

    @cached_property
    def made_by(self) -> bytes:
        """Names the parameters in a tally's header: a tally of others is refused."""
        return files.fingerprint(self.mechanism)

    def tally(self, reports: Iterable[Reported]) -> TreeTally:
        """Add every sign to its cell."""
        pairs, chosen = list(reports), self.mechanism
        plain = [report for _, report in pairs]
        bits = matrix(chosen, plain)[:, 0].astype(np.int64)
        refuse(chosen, plain, bits > 1)
        cut, inner = pieces([public for public, _ in pairs]), chosen.groups - 1
        levels = np.minimum(shares(cut, LEVEL_PIECE, 2 * inner or 1), inner)
        rows, columns = shares(cut, ROW_PIECE, chosen.rows), shares(cut, COLUMN_PIECE, chosen.columns)
        sums = np.zeros((chosen.groups, chosen.rows, chosen.columns), dtype=np.int32)
        np.add.at(sums, (levels, rows, columns), (2 * bits - 1).astype(np.int32))
        return TreeTally(self.made_by, sums, np.bincount(levels, minlength=chosen.groups).astype(np.int64))

    def from_bytes(self, data: bytes) -> TreeTally:
        """Read a tally back; one of other parameters is an :class:`InvalidTally`."""
        chosen = self.mechanism
        sums = (chosen.groups, chosen.rows, chosen.columns)
        arrays = files.shaped(files.unpack(self.made_by, data), sums=sums, sizes=(chosen.groups,))
        return TreeTally(self.made_by, arrays["sums"].astype(np.int32), arrays["sizes"].astype(np.int64))

    def law(self, reports: int) -> Support:
        """The odds of agreement: p of a holder, ½ of anybody else."""
        return Support(reports, self.mechanism.randomiser.keep / ONE, 0.5)

    def agreements(self, tally: TreeTally, level: int, prefixes: NDArray[np.int64]) -> NDArray[np.int64]:
        """C(x) of each prefix: reports whose sign agrees with its entry."""
        columns = self.mechanism.columns
        total = np.full(len(prefixes), tally.sizes[level], dtype=np.int64)
        for row, function in enumerate(self.mechanism.sketch[level]):
            buckets = tally.sums[level, row].copy()
            walsh.transform(buckets)
            words = prefixes.astype(np.uint64) * np.uint64(function.a) + np.uint64(function.b)
            hashed = (words >> np.uint64(64 - columns.bit_length())).astype(np.int64)
            total += np.where(hashed & columns, -1, 1) * buckets[hashed & (columns - 1)]
        return total // 2

    def estimate(self, tally: TreeTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ = n/n_last · (C − n_last/2)/(p − ½), from the last level's reports; 0 if it has none."""
        last = self.mechanism.groups - 1
        part = int(tally.sizes[last])
        if part == 0:
            return np.zeros(len(items))
        counts = self.agreements(tally, last, np.asarray(items, dtype=np.int64))
        return np.asarray(scaled(self.law(tally.count), part).estimate(counts.astype(np.float64)))

    def candidates(self, tally: TreeTally) -> NDArray[np.int64]:
        """The leaves below every node that was kept."""
        lengths, bits = self.mechanism.lengths, self.mechanism.item_bits
        nodes = roots(lengths[0], bits, self.domain)
        for level, (length, longer) in enumerate(pairwise(lengths)):
            counts = self.agreements(tally, level, nodes)
            kept = best(counts, self.width)
            kept = kept[counts[kept] >= self.cut(int(tally.sizes[level]), len(nodes))]
            nodes = extend(nodes[kept], length, longer, bits, self.domain)
        return nodes

    def cut(self, reports: int, nodes: int) -> int:
        """The count that ``noise`` of that many empty nodes reach in expectation."""
        return self.law(reports).threshold(self.noise / nodes, 1) if nodes > self.noise else 0

    def find(self, tally: TreeTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        """The leaves that are significant and above τ, largest first."""
        last = self.mechanism.groups - 1
        part, law, leaves = int(tally.sizes[last]), self.law(tally.count), self.candidates(tally)
        if part == 0 or len(leaves) == 0:
            return []
        counts = self.agreements(tally, last, leaves)
        least = Support(part, law.p, law.q).threshold(self.level, len(leaves))
        chosen = np.flatnonzero(counts >= least)
        return Rule(tau, self.level, len(leaves)).decide(
            judge(law, part, int(leaves[i]), int(counts[i])) for i in chosen
        )

    def stage(self, law: Support, nodes: int, *, last: bool) -> tuple[int, int]:
        """The leaves are tested, the nodes above them cut where a few are noise."""
        cut = law.threshold(self.level, nodes) if last else self.cut(law.reports, nodes)
        return cut, int(self.noise) + 1

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        """That every level keeps it."""
        return staged_chance(self, users, tau)

    @property
    def setting(self) -> str:
        """How many groups the phones are split into, for tables."""
        return described(self.mechanism.groups)


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> TreeHistogramLearner | None:
    """Behind the histograms' gate: the rival is not helped by a gate of its own."""
    if not more_than_tau(users, profile.tau):
        return None
    return TreeHistogramLearner(
        TreeHistogram(profile.epsilon, seed=seed, item_bits=plan.suffix_bits), valid_suffixes(plan)
    )


def resume(profile: Profile, plan: NumberingPlan, mechanism: TreeHistogram, buckets: int) -> TreeHistogramLearner:
    """With the parameters that the phones were given."""
    return TreeHistogramLearner(mechanism, valid_suffixes(plan))
