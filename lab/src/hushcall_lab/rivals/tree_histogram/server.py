"""The server side of TreeHist (Bassily, Nissim, Stemmer and Thakurta 2017).

Each level has a count sketch, and one Walsh-Hadamard transform per row turns its sums into signed bucket counts. C(x),
the reports that agree with prefix x, is (n + Σ_rows sign(x)·bucket(x))/2. A holder's report agrees with probability
p = e^ε/(e^ε+1), any other with ½.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.mechanisms.aggregator import Progress, Reported, quiet
from hushcall.mechanisms.decision import HeavyHitter, Rule, Support, more_than_tau
from hushcall.mechanisms.kernels import walsh
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.report_arrays import matrix, refuse
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers import NumberingPlan
from hushcall.protocol.randomness import ONE
from hushcall_lab.rivals.splitting_server import StagedSearch, best, check_domain, judge, pieces, shares
from hushcall_lab.rivals.sums import SumAggregator, SumTally
from hushcall_lab.rivals.tree_histogram.client import COLUMN_PIECE, LEVEL_PIECE, ROW_PIECE, TreeHistogram


@dataclass(frozen=True)
class TreeHistogramAggregator(StagedSearch, SumAggregator):
    """At each level at most ``width`` nodes are extended, whose count ``noise`` empty nodes would reach in expectation.

    The leaves below them are listed if significant at ``level`` over all of them (Bonferroni) and above τ.
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

    def tally(self, reports: Iterable[Reported]) -> SumTally:
        pairs, chosen = list(reports), self.mechanism
        bodies = matrix(chosen, [report for _, report in pairs])
        bits = bodies[:, 0].astype(np.int64)
        refuse(chosen, bodies, bits > 1)
        seeds, inner = pieces([public for public, _ in pairs]), chosen.groups - 1
        levels = np.minimum(shares(seeds, LEVEL_PIECE, 2 * inner or 1), inner)
        rows, columns = shares(seeds, ROW_PIECE, chosen.rows), shares(seeds, COLUMN_PIECE, chosen.columns)
        sums = np.zeros((chosen.groups, chosen.rows, chosen.columns), dtype=np.int32)
        np.add.at(sums, (levels, rows, columns), (2 * bits - 1).astype(np.int32))
        sizes = np.bincount(levels, minlength=chosen.groups).astype(np.int64)
        return SumTally(self.made_by, {"sizes": sizes, "sums": sums})

    def law(self, reports: int) -> Support:
        return Support(reports, self.mechanism.randomiser.keep / ONE, 0.5)

    def counts(self, tally: SumTally, group: int, prefixes: NDArray[np.int64]) -> NDArray[np.int64]:
        columns = self.mechanism.columns
        total = np.full(len(prefixes), tally.sizes[group], dtype=np.int64)
        for row, function in enumerate(self.mechanism.sketch[group]):
            buckets = tally.arrays["sums"][group, row].copy()
            walsh.transform(buckets)
            words = prefixes.astype(np.uint64) * np.uint64(function.a) + np.uint64(function.b)
            hashed = (words >> np.uint64(64 - columns.bit_length())).astype(np.int64)
            total += np.where(hashed & columns, -1, 1) * buckets[hashed & (columns - 1)]
        return total // 2

    def extended(self, counts: NDArray[np.int64], reports: int) -> NDArray[np.int64]:
        top = best(counts, self.width)
        return top[counts[top] >= self.cut(reports, len(counts))]

    def cut(self, reports: int, nodes: int) -> int:
        return self.law(reports).threshold(self.noise / nodes, 1) if nodes > self.noise else 0

    def find(self, tally: SumTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        last = self.mechanism.groups - 1
        part, law, leaves = tally.size(last), self.law(tally.count), self.candidates(tally)
        if part == 0 or len(leaves) == 0:
            return []
        counts = self.counts(tally, last, leaves)
        threshold = Support(part, law.p, law.q).threshold(self.level, len(leaves))
        chosen = np.flatnonzero(counts >= threshold)
        return Rule(tau, self.level, len(leaves)).decide(
            judge(law, part, int(leaves[i]), int(counts[i])) for i in chosen
        )

    def stage(self, law: Support, nodes: int, *, last: bool) -> tuple[int, int]:
        cut = law.threshold(self.level, nodes) if last else self.cut(law.reports, nodes)
        return cut, int(self.noise) + 1


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> TreeHistogramAggregator | None:
    if not more_than_tau(users, profile.tau):
        return None
    return resume(profile, plan, TreeHistogram(profile.epsilon, seed=seed, item_bits=SUFFIX.bits(plan)), buckets)


def resume(profile: Profile, plan: NumberingPlan, mechanism: TreeHistogram, buckets: int) -> TreeHistogramAggregator:
    return TreeHistogramAggregator(mechanism, SUFFIX.domain(plan))
