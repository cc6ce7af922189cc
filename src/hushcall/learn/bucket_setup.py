"""The server, when a bucket's size is known: a profile and a size come in, the bucket's parameters leave, or "skip".

Everything that depends on n is decided here, and nowhere else: the gate, K, the tuned odds, b.
"""

from __future__ import annotations

from typing import Any

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.learn import occupancy, subspace_tuning, theory
from hushcall.learn.comparators.outlook import Rival
from hushcall.learn.comparators.prefix_extending import PrefixExtendingLearner
from hushcall.learn.comparators.rappor import RapporLearner
from hushcall.learn.comparators.tree_histogram import TreeHistogramLearner
from hushcall.learn.learner import Learner
from hushcall.learn.original_histogram import OriginalHistogramLearner
from hushcall.learn.subspace import SubspaceLearner
from hushcall.learn.succinct_histogram import SuccinctHistogramLearner
from hushcall.learn.whole_number import WholeNumberLearner
from hushcall.numbers import NumberingPlan
from hushcall.profiles import HISTOGRAMS, RIVALS, Profile
from hushcall.report.mechanism import Mechanism
from hushcall.report.original_histogram import OriginalHistogram
from hushcall.report.prefix_extending import PrefixExtending
from hushcall.report.rappor import Rappor
from hushcall.report.subspace import Subspace, WholeNumber
from hushcall.report.succinct_histogram import SuccinctHistogram
from hushcall.report.tree_histogram import TreeHistogram


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int = 1
) -> Learner[Any] | None:
    """The learner of a bucket with that many users (its ``mechanism`` goes to the phones); None: skip, spend nothing.

    ``buckets`` is how many are decided together. A histogram's bucket runs where more than τ phones report; a subspace
    bucket where some count within reach could be found at all.
    """
    checks.whole("users", users, 0)
    domain = range(plan.first_suffix, plan.suffixes)
    if users == 0:
        return None
    if profile.mechanism == "subspace":
        hypotheses = len(domain) * buckets
        bits = subspace_tuning.bits_for(users, profile.epsilon, hypotheses, profile.level, profile.tau)
        mechanism = Subspace(profile.epsilon, bits)
        if not subspace_tuning.worth_running(users, mechanism, hypotheses, profile.level, profile.tau):
            return None
        return SubspaceLearner(mechanism, domain, profile.level, buckets)
    if profile.mechanism in RIVALS:
        return open_rival(profile, users, domain, seed)
    if profile.mechanism in HISTOGRAMS:
        return _open_histogram(profile, users, seed, domain)
    return open_round(profile, plan, users, seed)


def learner_of(profile: Profile, plan: NumberingPlan, mechanism: Mechanism, buckets: int = 1) -> Learner[Any]:
    """The learner of a bucket that was opened before, from the mechanism that its phones were given.

    A server that is upgraded between opening and decoding may choose other parameters today; the reports have these.
    """
    domain = range(plan.first_suffix, plan.suffixes)
    if isinstance(mechanism, WholeNumber):
        return WholeNumberLearner(mechanism, domain, len(plan.area_codes), profile.level)
    if isinstance(mechanism, Subspace):
        return SubspaceLearner(mechanism, domain, profile.level, buckets)
    if isinstance(mechanism, SuccinctHistogram):
        return SuccinctHistogramLearner(mechanism, domain, profile.list_size)
    if isinstance(mechanism, OriginalHistogram):
        return OriginalHistogramLearner(mechanism, _whole_numbers(plan))
    if isinstance(mechanism, PrefixExtending):
        return PrefixExtendingLearner(mechanism, domain)
    if isinstance(mechanism, TreeHistogram):
        return TreeHistogramLearner(mechanism, domain)
    raise InvalidParameter("mechanism", "find numbers by itself", mechanism.name)


def open_rival(
    profile: Profile, users: int, domain: range, seed: bytes, candidates: tuple[int, ...] = (2_000_000,)
) -> Rival | None:
    """The learner of a rival, behind the histograms' gate: PEM seeks the ten largest, RAPPOR among ``candidates``."""
    if not occupancy.worth_running(users, profile.tau):
        return None
    if profile.mechanism == "pem":
        return PrefixExtendingLearner(PrefixExtending(profile.epsilon), domain)
    if profile.mechanism == "treehist":
        return TreeHistogramLearner(TreeHistogram(profile.epsilon, seed=seed), domain)
    return RapporLearner(Rappor(profile.epsilon, seed=seed), domain, candidates)


def open_round(profile: Profile, plan: NumberingPlan, users: int, seed: bytes) -> Learner[Any] | None:
    """The learner of a round without buckets: the number is reported whole. None: too few phones to find anything."""
    checks.whole("users", users, 1)
    if profile.mechanism == "whole-number":
        domain, areas = range(plan.first_suffix, plan.suffixes), len(plan.area_codes)
        bits = subspace_tuning.bits_for(users, profile.epsilon, len(domain) * areas, profile.level, profile.tau)
        mechanism = WholeNumber(profile.epsilon, bits)
        if not subspace_tuning.worth_running(users, mechanism, len(domain) * areas, profile.level, profile.tau):
            return None
        return WholeNumberLearner(mechanism, domain, areas, profile.level)
    channels = max(occupancy.channels_for(users, max(profile.tau, 1), profile.rounds), profile.least_channels)
    original = OriginalHistogram(profile.epsilon, profile.rounds, channels, seed)
    return OriginalHistogramLearner(original, _whole_numbers(plan))


def _whole_numbers(plan: NumberingPlan) -> range:
    """From the lowest to the highest ten digits that can be dialled."""
    lowest, highest = plan.area_codes[0], plan.area_codes[-1]
    return range(lowest * plan.suffixes + plan.first_suffix, (highest + 1) * plan.suffixes)


def _open_histogram(profile: Profile, users: int, seed: bytes, domain: range) -> SuccinctHistogramLearner | None:
    if not occupancy.worth_running(users, profile.tau):
        return None
    # K beyond the collision rule costs bytes, no privacy, and keeps other callers out of a heavy hitter's channel: for
    # 150 of 300
    # holders at ε_HH = 8.8 the rule's K = 8 finds 62 %, K = 64 finds 71 %, and more channels add nothing.
    channels = max(occupancy.channels_for(users, max(profile.tau, 1), profile.rounds), profile.least_channels)
    kind = profile.mechanism.removeprefix("sh-")
    keep = None
    if kind == "tuned":
        keep = theory.best_keep(profile.epsilon_hh / profile.rounds, users, max(profile.tau, 1))
    mechanism = SuccinctHistogram.with_budget(
        kind,
        profile.epsilon_hh,
        profile.epsilon_olh,
        rounds=profile.rounds,
        channels=channels,
        seed=seed,
        accounting=profile.accounting,
        keep=keep,
    )
    return SuccinctHistogramLearner(mechanism, domain, profile.list_size)
