"""One of each mechanism over a small domain, as the suite over all of them runs it."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushcall.mechanisms.local_hashing.client import LocalHashing
from hushcall.mechanisms.local_hashing.server import LocalHashingAggregator
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.subspace.server import SubspaceAggregator
from hushcall.mechanisms.succinct_histogram import theory
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.mechanisms.succinct_histogram.server import SuccinctHistogramAggregator
from hushcall.protocol.randomness import seeded
from hushcall_lab.rivals.original_histogram.client import OriginalHistogram
from hushcall_lab.rivals.original_histogram.server import OriginalHistogramAggregator
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.prefix_extending.server import PrefixExtendingAggregator
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram
from hushcall_lab.rivals.tree_histogram.server import TreeHistogramAggregator

BITS = 10
SMALL = range(1 << BITS)
SUFFIXES = range(2_000_000, 10_000_000)
KEEP = theory.best_keep(Fraction(6), 600, 150)


@dataclass(frozen=True)
class Case:
    """``make`` builds a aggregator from a 32-byte seed; ``items`` are what phones hold in the suite."""

    name: str
    make: Callable[[bytes], Any]
    items: range


def histogram(kind: str, list_size: int = 0) -> Callable[[bytes], Any]:
    def make(seed: bytes) -> SuccinctHistogramAggregator:
        keep = KEEP if kind == "tuned" else None
        chosen = SuccinctHistogram.with_budget(kind, 12.0, 3.0, channels=16, seed=seed, keep=keep)
        return SuccinctHistogramAggregator(chosen, SUFFIXES, list_size)

    return make


CASES = [
    Case("sh-basic", histogram("basic"), SUFFIXES),
    Case("sh-extended", histogram("extended"), SUFFIXES),
    Case("sh-tuned", histogram("tuned"), SUFFIXES),
    Case("sh-extended, list", histogram("extended", list_size=20), SUFFIXES),
    Case(
        "sh-original",
        lambda seed: OriginalHistogramAggregator(OriginalHistogram(30.0, channels=16, seed=seed), range(10**10)),
        range(2_022_000_000, 2_029_999_999),
    ),
    Case("olh", lambda _: LocalHashingAggregator(LocalHashing(4.0, item_bits=BITS), SMALL), SMALL),
    Case("subspace, b = 5", lambda _: SubspaceAggregator(Subspace(4.0, 5, BITS), SMALL), SMALL),
    Case("subspace, b = 8", lambda _: SubspaceAggregator(Subspace(4.0, 8, BITS), SMALL), SMALL),
    Case("subspace, 24 bits", lambda _: SubspaceAggregator(Subspace(4.0, 6), SUFFIXES), SUFFIXES),
    Case("whole-number", lambda _: SubspaceAggregator(WholeNumber(6.0, 8), SUFFIXES, areas=4), SUFFIXES),
    Case("pem", lambda _: PrefixExtendingAggregator(PrefixExtending(4.0, 5, 5, BITS), SMALL, k=3), SMALL),
    Case("treehist", lambda _: TreeHistogramAggregator(TreeHistogram(6.0, 5, 5, BITS), SMALL), SMALL),
]


def reports_of(aggregator: Any, items: list[int], seed: bytes) -> list[tuple[bytes, bytes]]:
    """Every phone's report by the real phone code, with reproducible coins."""
    rand = seeded(seed)
    return [(public, aggregator.mechanism.privatise(item, public, rand)) for item in items for public in [rand(32)]]
