"""Before anyone deploys: users, budget and spam volume come in, what each mechanism would find leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hushcall.learn import occupancy
from hushcall.learn.bucket_setup import open_bucket
from hushcall.learn.decision import lies_over
from hushcall.learn.gate import POWER
from hushcall.numbers import NANP, NumberingPlan
from hushcall.profiles import Profile
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.report.mechanism import report_bytes


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
    tolerance: int = 0
    window: int = 1
    """The longest window, and the fewest reports of one number, in all of it, that it finds with 90 % power."""
    in_window: int | None = None


def outlook(profile: Profile, users: int, spam: int, buckets: int = 1, plan: NumberingPlan = NANP) -> Outlook:
    """What to expect of a bucket (without buckets: a round) of ``users`` phones, ``spam`` of which hold one number."""
    learner = open_bucket(profile, plan, users, bytes(SEED_BYTES), buckets)
    least = smallest_bucket(profile, buckets, plan)
    if learner is None:
        return Outlook(
            profile.mechanism, profile.epsilon, users, False, "", None, least, None, 0.0, profile.in_the_clear
        )
    chance, longest = learner.chance(users, profile.tau), max(profile.windows)
    over_all = over(learner, longest).chance(users * longest, profile.tau)
    return Outlook(
        profile.mechanism,
        profile.epsilon,
        users,
        True,
        learner.setting,
        report_bytes(learner.mechanism),
        least,
        smallest_found(chance, users),
        chance(min(spam, users)),
        profile.in_the_clear,
        profile.tolerance,
        longest,
        smallest_found(over_all, users * longest) if longest > 1 else None,
    )


def over(learner: Any, rounds: int) -> Any:
    """The learner as it decides over so many rounds."""
    return learner if rounds == 1 else replace(learner, tolerance=lies_over(rounds, learner.tolerance))


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


def gate_probability(users: int) -> float:
    """U_{31,n}: the paper's chance that n phones with the same number show enough of its bits."""
    return occupancy.fill_probability(occupancy.REPAIRED_BITS, users)


EPSILONS = tuple(step / 10 for step in range(1, 161))


def smallest_epsilon(
    profile: Profile, users: int, rate: float, buckets: int = 1, plan: NumberingPlan = NANP
) -> tuple[float, int] | None:
    """(ε, over how many rounds) of the least budget that finds a spammer who reaches ``rate`` of all phones a round.

    With 90 % power, in the longest of the profile's windows; to a tenth, up to 16. None: no budget does, because there
    are too few phones. A larger ε finds all that a smaller one finds, so bisection ends at the least.
    """
    length = max(profile.windows)
    holders = math.floor(users * length * rate)

    def finds(epsilon: float) -> bool:
        learner = open_bucket(replace(profile, epsilon=epsilon), plan, users, bytes(SEED_BYTES), buckets)
        return learner is not None and over(learner, length).chance(users * length, profile.tau)(holders) >= POWER

    low, high = 0, len(EPSILONS) - 1
    while low < high and EPSILONS[low] <= profile.epsilon_olh * profile.scheme.counts_apart:
        low += 1
    if not finds(EPSILONS[high]):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(EPSILONS[middle]) else (middle + 1, high)
    return EPSILONS[low], length
