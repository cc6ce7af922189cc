"""Before anyone deploys: users, budget and spam volume come in, what each mechanism would find leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hushcall.learn import occupancy, subspace_tuning, theory
from hushcall.learn.bucket_setup import open_bucket
from hushcall.learn.comparators.outlook import rival_chance
from hushcall.learn.comparators.prefix_extending import PrefixExtendingLearner
from hushcall.learn.comparators.rappor import RapporLearner
from hushcall.learn.comparators.tree_histogram import TreeHistogramLearner
from hushcall.learn.learner import Learner
from hushcall.learn.original_histogram import OriginalHistogramLearner
from hushcall.learn.subspace import SubspaceLearner
from hushcall.learn.succinct_histogram import SuccinctHistogramLearner
from hushcall.learn.whole_number import WholeNumberLearner
from hushcall.numbers import NANP, NumberingPlan
from hushcall.profiles import Profile
from hushcall.report.hashing import SEED_BYTES
from hushcall.report.mechanism import report_bytes

POWER = subspace_tuning.POWER


@dataclass(frozen=True)
class Outlook:
    """What one mechanism buys. ``detectable`` is the smallest count found with 90 % power; None: no count would do."""

    mechanism: str
    epsilon: float
    users: int
    runs: bool
    parameters: str
    report_bytes: int | None
    smallest_bucket: int | None
    detectable: int | None
    found: float
    in_the_clear: str


def outlook(profile: Profile, users: int, spam: int, buckets: int = 1, plan: NumberingPlan = NANP) -> Outlook:
    """What to expect of a bucket (without buckets: a round) of ``users`` phones, ``spam`` of which hold one number."""
    learner = open_bucket(profile, plan, users, bytes(SEED_BYTES), buckets)
    least = smallest_bucket(profile, buckets, plan)
    if learner is None:
        return Outlook(
            profile.mechanism, profile.epsilon, users, False, "", None, least, None, 0.0, profile.in_the_clear
        )
    chance = chance_found(profile, learner, users)
    return Outlook(
        profile.mechanism,
        profile.epsilon,
        users,
        True,
        _parameters(learner),
        report_bytes(learner.mechanism),
        least,
        smallest_found(chance, users),
        chance(min(spam, users)),
        profile.in_the_clear,
    )


def chance_found(profile: Profile, learner: Learner[Any], users: int) -> Callable[[int], float]:
    """The probability that a number is listed, as a function of its holders among ``users`` reports."""
    if isinstance(learner, SubspaceLearner | WholeNumberLearner):
        law, rule = learner.law(users), learner.rule(profile.tau)
        needed = max(law.threshold(rule.level, rule.hypotheses), theory.needed_support(law, profile.tau))
        return lambda holders: law.power(holders, needed)
    if isinstance(learner, OriginalHistogramLearner):
        chosen, law = learner.mechanism, learner.law(users)
        needed = theory.needed_support(law, profile.tau)

        def original(holders: int) -> float:
            once = theory.reconstruction_probability(chosen.randomiser, users, holders, chosen.code, chosen.item_bits)
            return (1 - (1 - once) ** chosen.rounds) * law.power(holders, needed)

        return original
    if isinstance(learner, PrefixExtendingLearner | TreeHistogramLearner | RapporLearner):
        return rival_chance(learner, users, profile.tau)
    assert isinstance(learner, SuccinctHistogramLearner)  # noqa: S101  (open_bucket makes no others)
    histogram = learner.mechanism
    return lambda holders: theory.found_probability(histogram, users, holders, profile.tau)


def smallest_found(chance: Callable[[int], float], users: int, power: float = POWER) -> int | None:
    """The smallest count with that power."""
    if chance(users) < power:
        return None
    low, high = 0, users
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) >= power else (middle + 1, high)
    return low


MOST_USERS = 1 << 20


def smallest_bucket(profile: Profile, buckets: int = 1, plan: NumberingPlan = NANP) -> int | None:
    """The gate in phones: smaller buckets are told to skip, and spend nothing. None: no size up to a million runs."""

    def runs(size: int) -> bool:
        return open_bucket(profile, plan, size, bytes(SEED_BYTES), buckets) is not None

    high = 1
    while not runs(high):
        high *= 2
        if high > MOST_USERS:
            return None
    low = high // 2 + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if runs(middle) else (middle + 1, high)
    return low


def _parameters(learner: Learner[Any]) -> str:
    chosen: Any = learner.mechanism
    if isinstance(learner, SubspaceLearner | WholeNumberLearner):
        return f"b={chosen.bits}"
    if profile_groups := getattr(chosen, "groups", 0):
        return f"{profile_groups} groups" if profile_groups > 1 else "needs a list"
    return f"T={chosen.rounds} K={chosen.channels}"


def gate_probability(users: int) -> float:
    """U_{31,n}: the paper's chance that n phones with the same number show enough of its bits."""
    return occupancy.fill_probability(occupancy.REPAIRED_BITS, users)
