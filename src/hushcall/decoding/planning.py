"""What a mechanism would find with so many users, such a budget and so much spam."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

from hushcall.decoding.hints import Hints
from hushcall.decoding.window import MANY_NUMBERS, tiers
from hushcall.mechanisms.aggregator import Aggregator, PoolingAggregator
from hushcall.mechanisms.bucket_setup import aggregator_of, open_bucket
from hushcall.mechanisms.decision import POWER
from hushcall.mechanisms.mechanism import report_bytes
from hushcall.mechanisms.parameters import about_hundreds
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
    ``hundreds`` per cent of the clients are asked about hundreds of numbers. ``in_hundred`` is the count that makes a
    hundred a range where it is spread over all numbers. Others report numbers: counts are of all clients.
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
    hundreds: int = 0
    in_hundred: int | None = None


def outlook(profile: Profile, users: int, spam: int, buckets: int = 1, plan: NumberingPlan = NANP) -> Outlook:
    """What to expect of a bucket (without buckets: a round) of ``users`` clients, ``spam`` of which hold one number."""
    aggregator, smallest = _opened(profile, users, buckets, plan), smallest_bucket(profile, buckets, plan)
    promised = (profile.mechanism, profile.epsilon, users)
    if aggregator is None:
        return Outlook(*promised, False, "", None, smallest, None, 0.0, profile.in_the_clear)
    share, longest = (100 - profile.hundreds) / 100, max(profile.windows)
    chance = _thinned(aggregator.chance(math.floor(users * share), profile.tau), share)
    in_window = over(aggregator, longest).chance(math.floor(users * longest * share), profile.tau)
    chance_in_window = _thinned(in_window, share)
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
        *_by_rule(aggregator.pooling, users, profile.tau, share),
        profile.hundreds,
        _in_hundred(profile, aggregator, users, buckets, plan) if profile.hundreds else None,
    )


def _thinned(chance: Callable[[int], float], share: float) -> Callable[[int], float]:
    """The same as a function of all holders, of whom that share is asked."""
    return lambda holders: chance(math.floor(holders * share))


def _in_hundred(
    profile: Profile, numbers: Aggregator[Any], users: int, buckets: int, plan: NumberingPlan
) -> int | None:
    """With numbers that have as many holders as noise lets one of a hundred seem to have, every second time."""
    hundreds = aggregator_of(profile, plan, about_hundreds(numbers.mechanism, plan), buckets).pooling
    if hundreds is None or numbers.pooling is None:
        return None
    asked = users * profile.hundreds // 100
    law, beside = hundreds.law(asked), numbers.pooling.law(users - asked)
    busiest = bisect_left(range(beside.reports), True, key=lambda count: beside.p_value(count) <= 0.5 / 100)
    most = MANY_NUMBERS * beside.interval(busiest)[1] * law.reports / max(beside.reports, 1)
    many = bisect_left(range(law.reports), True, key=lambda count: law.interval(count)[0] > most)
    threshold = max(many, hundreds.rule(profile.tau).least(law))
    return smallest_found(_thinned(partial(law.power, threshold=threshold), profile.hundreds / 100), users)


def _by_rule(
    aggregator: PoolingAggregator[Any] | None, users: int, tau: float, share: float
) -> tuple[int | None, int | None]:
    """The smallest counts that are found in a round where a hint names the number, and that pass the blocking rule."""
    if aggregator is None:
        return None, None
    law, hints = aggregator.law(math.floor(users * share)), Hints(frozenset(range(HINTS)))
    warning = hints.rules(aggregator.rule(tau), aggregator.numbers, 1)
    rules = next(rule for rule, _, hinted in warning if hinted), aggregator.strict_rule(tau)
    chances = (_thinned(partial(law.power, threshold=rule.least(law)), share) for rule in rules)
    hinted, blocked = (smallest_found(chance, users) for chance in chances)
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
        share = (100 - profile.hundreds) / 100
        if aggregator is None:
            return False
        chance = over(aggregator, rounds).chance(math.floor(users * rounds * share), profile.tau)
        return _thinned(chance, share)(holders) >= POWER

    spent_on_counts = profile.epsilon_olh * profile.spec.counts_apart
    low = min(sum(epsilon <= spent_on_counts for epsilon in EPSILONS), len(EPSILONS) - 1)
    if not finds(EPSILONS[-1]):
        return None
    return EPSILONS[bisect_left(EPSILONS, True, lo=low, hi=len(EPSILONS) - 1, key=finds)], rounds


SHARE = 0.1
"""Of the phones, those that a busy spammer reaches in a day, for :func:`needed`."""


@lru_cache(maxsize=32)
def needed(profile: Profile, plan: NumberingPlan = NANP, share: float = SHARE) -> int | None:
    """The fewest phones that find a caller who reaches this share of them a day, in the longest window.

    With 90 % power. None: a million are too few. Short rounds are computed as days: they have 0.97 of their power.
    """
    daily, about_numbers = _daily(profile), (100 - profile.hundreds) / 100
    days = max(daily.windows)

    def find(users: int) -> bool:
        aggregator = _opened(daily, users, 1, plan)
        if aggregator is None:
            return False
        chance = over(aggregator, days).chance(math.floor(users * days * about_numbers), profile.tau)
        return _thinned(chance, about_numbers)(math.floor(users * days * share)) >= POWER

    high = next((1 << power for power in range(MAX_USERS.bit_length()) if find(1 << power)), None)
    return None if high is None else bisect_left(range(high), True, lo=high // 2 + 1, key=find)


def _daily(profile: Profile) -> Profile:
    """The same with rounds of a day."""
    days = sorted({max(length // profile.rounds_per_day, 1) for length in profile.windows})
    return replace(profile, windows=tuple(days), rounds_per_day=1, place=0)


@lru_cache(maxsize=32)
def needed_in_words(profile: Profile, plan: NumberingPlan = NANP) -> str:
    """How many phones a server needs, for a household."""
    daily = _daily(profile)
    count, days = needed(daily, plan), max(daily.windows)
    where = "in one area code" if profile.bucketed else "in all"
    within = "on that day" if days == 1 else f"within {days} days"
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


ROUND_HOURS = (1, 3, 6, 24)
"""Shorter than six hours, anonymous phones have no phase of an hour (``--min-phase``)."""
CLOSES_SHARE = 0.95
"""Of a round's length, when it closes: its list follows."""
SPREAD_DAYS = 8


@dataclass(frozen=True)
class Wait:
    """What rounds of so many hours buy. None: never.

    A number is listed so many hours after its first call if it goes on calling. ``least_calls``: how many phones it has
    to call to be listed if it calls on one day only. ``phones`` of the bucket report in one round.
    """

    round_hours: int
    phones: int
    listed_hours: float | None
    least_calls: int | None


def waits(profile: Profile, users: int, spam: int, buckets: int = 1, plan: NumberingPlan = NANP) -> list[Wait]:
    """For a number that calls ``spam`` phones a day, evenly, from any hour on. ``profile`` has rounds of a day."""
    rows = []
    for hours in ROUND_HOURS[2:] if profile.anonymous else ROUND_HOURS:

        def listed(calls: int, start: int, days: int) -> float | None:
            even = [(start + place / 2, calls / 48) for place in range(48 * days)]
            return listed_at(profile, users, even, hours, buckets, plan)  # noqa: B023

        after = [(listed(spam, start, SPREAD_DAYS) or math.inf) - start for start in range(0, 24, 3)]
        mean = sum(after) / len(after)
        least = bisect_left(range(users), True, key=lambda calls: listed(calls, 0, 1) is not None)
        known = (mean if math.isfinite(mean) else None, least if least < users else None)
        rows.append(Wait(hours, users * hours // 24, *known))
    return rows


def best_hours(rows: Sequence[Wait], spam: int) -> int:
    """The longest round that lists a number at most a tenth later than the best one. A day, where none does.

    If rounds of some lengths list it after one day of calls, only these are asked: the reports of a day are in one
    round of a day, and in the hours of two days.
    """
    at_once = [row for row in rows if row.least_calls is not None and row.least_calls <= spam]
    times = {row.round_hours: row.listed_hours for row in at_once or rows if row.listed_hours is not None}
    return max((hours for hours, time in times.items() if time <= 1.1 * min(times.values())), default=ROUND_HOURS[-1])


def listed_at(
    profile: Profile,
    users: int,
    calls: Sequence[tuple[float, float]],
    round_hours: int,
    buckets: int = 1,
    plan: NumberingPlan = NANP,
) -> float | None:
    """The hour, from a midnight on, of the list that warns of a number, for reports as many as can be expected.

    ``calls`` are (hour, how many phones), the earliest first. Each phone reports the number in the round that it draws
    next, of the day of the call or of the day after it.
    """
    rounds = 24 // round_hours
    by_round = _reports_by_round(calls, round_hours)
    needed = [
        _needed(replace(profile.timed(rounds), place=place), users // rounds, buckets, plan)
        for place in (0, rounds - 1)
    ]
    total = [0.0, *accumulate(by_round)]
    for place in range(len(by_round)):
        for length, holders in needed[place % rounds == rounds - 1]:
            if total[place + 1] - total[max(place + 1 - length, 0)] >= holders:
                return (place + CLOSES_SHARE) * round_hours
    return None


def _reports_by_round(calls: Sequence[tuple[float, float]], round_hours: int) -> list[float]:
    rounds = 24 // round_hours
    today, tomorrow = [0.0] * (SPREAD_DAYS * 3 * rounds), 0
    for hour, phones in calls:
        tomorrow = (int(hour // 24) + 1) * rounds
        opened = math.ceil(hour % 24 / round_hours)  # rounds of its day that were open before it
        for place in range(tomorrow - rounds + opened, tomorrow):
            today[place] += phones / rounds
        for place in range(tomorrow, tomorrow + rounds):
            today[place] += phones * opened / rounds**2
    return today[: tomorrow + rounds * SPREAD_DAYS]


@lru_cache(maxsize=1 << 12)
def _needed(profile: Profile, users: int, buckets: int, plan: NumberingPlan) -> list[tuple[int, float]]:
    """(rounds, reports of one number that a warning takes in them), by window. Nothing where the bucket is skipped."""
    aggregator = _opened(profile, users, buckets, plan)
    if aggregator is None or aggregator.pooling is None:
        return []
    pooling, law = aggregator.pooling, aggregator.pooling.law(users)
    rule = pooling.rule(profile.tau)
    decisions = tiers([(age, law) for age in range(profile.reach)], profile.windows, rule, rule, pooling.numbers)
    noise = {decision.length: decision.length * users * law.q for decision in decisions}
    return [(each.length, (each.least() - noise[each.length]) / (law.p - law.q)) for each in decisions]
