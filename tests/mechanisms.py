"""One of each mechanism over a small domain, as the suite over all of them runs it."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushcall.learn import theory
from hushcall.learn.comparators.prefix_extending import PrefixExtendingLearner
from hushcall.learn.comparators.rappor import RapporLearner
from hushcall.learn.comparators.tree_histogram import TreeHistogramLearner
from hushcall.learn.local_hashing import LocalHashingLearner
from hushcall.learn.original_histogram import OriginalHistogramLearner
from hushcall.learn.subspace import SubspaceLearner
from hushcall.learn.succinct_histogram import SuccinctHistogramLearner
from hushcall.learn.whole_number import WholeNumberLearner
from hushcall.privacy.coins import seeded
from hushcall.report.local_hashing import LocalHashing
from hushcall.report.original_histogram import OriginalHistogram
from hushcall.report.prefix_extending import PrefixExtending
from hushcall.report.rappor import Rappor
from hushcall.report.subspace import Subspace, WholeNumber
from hushcall.report.succinct_histogram import SuccinctHistogram
from hushcall.report.tree_histogram import TreeHistogram

BITS = 10
SMALL = range(1 << BITS)
SUFFIXES = range(2_000_000, 10_000_000)
KEEP = theory.best_keep(Fraction(6), 600, 150)


@dataclass(frozen=True)
class Case:
    """``make`` builds a learner from a 32-byte seed; ``items`` are what phones hold in the suite."""

    name: str
    make: Callable[[bytes], Any]
    items: range


def histogram(kind: str, list_size: int = 0) -> Callable[[bytes], Any]:
    def make(seed: bytes) -> SuccinctHistogramLearner:
        keep = KEEP if kind == "tuned" else None
        chosen = SuccinctHistogram.with_budget(kind, 12.0, 3.0, channels=16, seed=seed, keep=keep)
        return SuccinctHistogramLearner(chosen, SUFFIXES, list_size)

    return make


CASES = [
    Case("sh-basic", histogram("basic"), SUFFIXES),
    Case("sh-extended", histogram("extended"), SUFFIXES),
    Case("sh-tuned", histogram("tuned"), SUFFIXES),
    Case("sh-extended, list", histogram("extended", list_size=20), SUFFIXES),
    Case(
        "sh-original",
        lambda seed: OriginalHistogramLearner(OriginalHistogram(30.0, channels=16, seed=seed), range(10**10)),
        range(2_022_000_000, 2_029_999_999),
    ),
    Case("olh", lambda _: LocalHashingLearner(LocalHashing(4.0, item_bits=BITS), SMALL), SMALL),
    Case("subspace, b = 5", lambda _: SubspaceLearner(Subspace(4.0, 5, BITS), SMALL), SMALL),
    Case("subspace, b = 8", lambda _: SubspaceLearner(Subspace(4.0, 8, BITS), SMALL), SMALL),
    Case("subspace, 24 bits", lambda _: SubspaceLearner(Subspace(4.0, 6), SUFFIXES), SUFFIXES),
    Case("whole-number", lambda _: WholeNumberLearner(WholeNumber(6.0, 8), SUFFIXES, areas=4), SUFFIXES),
    Case("pem", lambda _: PrefixExtendingLearner(PrefixExtending(4.0, 5, 5, BITS), SMALL, k=3), SMALL),
    Case("treehist", lambda _: TreeHistogramLearner(TreeHistogram(6.0, 5, 5, BITS), SMALL), SMALL),
    Case("rappor", lambda _: RapporLearner(Rappor(4.0, item_bits=BITS), SMALL), SMALL),
]


def reports_of(learner: Any, items: list[int], seed: bytes) -> list[tuple[bytes, bytes]]:
    """Every phone's report by the real phone code, with reproducible coins."""
    coins = seeded(seed)
    return [(public, learner.mechanism.privatise(item, public, coins)) for item in items for public in [coins(32)]]
