"""What a mechanism would find with so many users, such a budget and so much spam."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from hushcall.decoding.hints import Hints
from hushcall.mechanisms.aggregator import Aggregator, PoolingAggregator
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.decision import POWER
from hushcall.mechanisms.mechanism import report_bytes
from hushcall.mechanisms.profiles import Profile
from hushcall.protocol.numbers import NANP, NumberingPlan
from hushcall.protocol.seeds import SEED_BYTES

MAX_USERS = 1 << 20
HINTS = 100
"""Numbers of one area code (of all of them, where nothing is in the clear) that hints name."""
EPSILONS = tuple(step / 10 for step in range(1, 161))


@dataclass(frozen=True)
class Outlook:
    """What one mechanism buys. ``detectable`` is the smallest count found with 90 % power; None: no count would do.

    ``window`` is the longest one, ``in_window`` the same count over all of it. ``found`` is the chance for the spam.
    ``hinted`` is the same count for a number that one of :data:`HINTS` names, ``blocked`` that of the blocking rule.
    """

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
    in_window: int | None = None
    hinted: int | None = None
    blocked: int | None = None


def outlook(profile: Profile, users: int, spam: int, buckets: int = 1, plan: NumberingPlan = NANP) -> Outlook:
    """What to expect of a bucket (without buckets: a round) of ``users`` clients, ``spam`` of which hold one number."""
    aggregator, smallest = _opened(profile, users, buckets, plan), smallest_bucket(profile, buckets, plan)
    promised = (profile.mechanism, profile.epsilon, users)
    if aggregator is None:
        return Outlook(*promised, False, "", None, smallest, None, 0.0, profile.in_the_clear)
    chance, longest = aggregator.chance(users, profile.tau), max(profile.windows)
    chance_in_window = over(aggregator, longest).chance(users * longest, profile.tau)
    return Outlook(
        *promised,
        True,
        aggregator.setting,
        report_bytes(aggregator.mechanism),
        smallest,
        smallest_found(chance, users),
        chance(min(spam, users)),
        profile.in_the_clear,
        profile.tolerance,
        longest,
        smallest_found(chance_in_window, users * longest) if longest > 1 else None,
        *_by_rule(aggregator.pooling, users, profile.tau),
    )


def _by_rule(aggregator: PoolingAggregator[Any] | None, users: int, tau: float) -> tuple[int | None, int | None]:
    """The smallest counts that are found in a round where a hint names the number, and that pass the blocking rule."""
    if aggregator is None:
        return None, None
    law, hints = aggregator.law(users), Hints(frozenset(range(HINTS)))
    warning = hints.rules(aggregator.rule(tau), aggregator.numbers, 1)
    rules = next(rule for rule, _, hinted in warning if hinted), aggregator.strict_rule(tau)
    hinted, blocked = (smallest_found(partial(law.power, threshold=rule.least(law)), users) for rule in rules)
    return hinted, blocked


def _opened(profile: Profile, users: int, buckets: int, plan: NumberingPlan) -> Aggregator[Any] | None:
    return open_bucket(profile, plan, users, bytes(SEED_BYTES), buckets)


def over(aggregator: Aggregator[Any], rounds: int) -> Aggregator[Any]:
    return aggregator.pooling.over(rounds) if aggregator.pooling else aggregator


def smallest_found(chance: Callable[[int], float], users: int) -> int | None:
    """The smallest count that is listed with 90 % power. None: no count is."""
    if chance(users) < POWER:
        return None
    return bisect_left(range(users), True, key=lambda count: chance(count) >= POWER)


def smallest_bucket(profile: Profile, buckets: int = 1, plan: NumberingPlan = NANP) -> int | None:
    """The gate in clients: smaller buckets are skipped, and spend nothing. None: no size up to a million runs."""

    def runs(users: int) -> bool:
        return _opened(profile, users, buckets, plan) is not None

    high = next((1 << power for power in range(MAX_USERS.bit_length()) if runs(1 << power)), None)
    return None if high is None else bisect_left(range(high), True, lo=high // 2 + 1, key=runs)


def smallest_epsilon(profile: Profile, users: int, rate: float, buckets: int = 1) -> tuple[float, int] | None:
    """(ε, over how many rounds) of the least budget that finds a spammer who reaches ``rate`` of all clients a round.

    With 90 % power, in the longest of the profile's windows; to a tenth, up to 16. None: there are too few clients. A
    larger ε finds all that a smaller one finds, so bisection ends at the least.
    """
    rounds = max(profile.windows)
    holders = math.floor(users * rounds * rate)

    def finds(epsilon: float) -> bool:
        aggregator = _opened(replace(profile, epsilon=epsilon), users, buckets, NANP)
        return aggregator is not None and over(aggregator, rounds).chance(users * rounds, profile.tau)(holders) >= POWER

    spent_on_counts = profile.epsilon_olh * profile.spec.counts_apart
    low = min(sum(epsilon <= spent_on_counts for epsilon in EPSILONS), len(EPSILONS) - 1)
    if not finds(EPSILONS[-1]):
        return None
    return EPSILONS[bisect_left(EPSILONS, True, lo=low, hi=len(EPSILONS) - 1, key=finds)], rounds


SHARE = 0.1
"""Of the phones, those that a busy spammer reaches in a round, for :func:`needed`."""


@lru_cache(maxsize=32)
def needed(profile: Profile, plan: NumberingPlan = NANP, share: float = SHARE) -> int | None:
    """The fewest phones that find a caller who reaches this share of them a round, in the longest window.

    With 90 % power. None: a million are too few.
    """
    rounds = max(profile.windows)

    def find(users: int) -> bool:
        aggregator = _opened(profile, users, 1, plan)
        holders = math.floor(users * rounds * share)
        return aggregator is not None and over(aggregator, rounds).chance(users * rounds, profile.tau)(holders) >= POWER

    high = next((1 << power for power in range(MAX_USERS.bit_length()) if find(1 << power)), None)
    return None if high is None else bisect_left(range(high), True, lo=high // 2 + 1, key=find)


@lru_cache(maxsize=32)
def needed_in_words(profile: Profile, plan: NumberingPlan = NANP) -> str:
    """How many phones a server needs, for a household."""
    count, rounds = needed(profile, plan), max(profile.windows)
    where = "in one area code" if profile.bucketed else "in all"
    within = "on that day" if rounds == 1 else f"within {rounds} days"
    if count is None:
        return "No number of phones is enough for this server to find a caller by itself."
    return (
        f"About {count:,} phones {where} are needed to find a caller who rings one phone in {1 / SHARE:.0f} every day, "
        f"{within}. Fewer phones find bolder callers only, or none. Until then a server can import what others publish."
    )


def in_words(profile: Profile, users: int, plan: NumberingPlan = NANP) -> str:
    """What so many phones find, for a household."""
    row = outlook(profile, users, users, plan=plan)
    where = "in one area code" if profile.bucketed else "in all"
    if not row.runs:
        few = f"{users:,} phones {where} are too few: they would report nothing, and learn nothing"
        return f"{few}. {row.smallest_bucket:,} must take part." if row.smallest_bucket else f"{few}."
    counts = [
        (row.detectable, "report the same caller on one day"),
        (row.in_window, f"reports name the caller within {row.window} days"),
    ]
    found = [f"{count:,} {what}" for count, what in counts if count is not None]
    if not found:
        return f"{users:,} phones {where} take part, and are too few to find any caller."
    return f"Of {users:,} phones {where}, a caller is found when {', or when '.join(found)}."
