"""An invented month of complaints like the paper's: the same size, weekly pattern and heavy tail.

The paper (Ucci, Perdisci, Lee and Ahamad, section 4.1 and the appendix on its data) gives the period, the total, the
busiest day, the share of valid numbers and the shape of three histograms, but no table. Every assumption about the rest
is a field of :class:`Settings`. Their values were chosen, for seed 2016, so that the paper's protocol finds as many
numbers as in the paper. With seed 1 F1 at ε_HH = 7 is 0.7 instead of 0.9: compare mechanisms over several seeds.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import phonenumbers
from numpy.typing import NDArray

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.protocol.numbers import NANP
from hushcall_lab.data.datasets import Calls

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """The month's assumptions. The first group is the paper's, the second is ours, calibrated to its text."""

    first: datetime.date = datetime.date(2016, 2, 17)
    days: int = 29  # "between Feb. 17th and Mar. 17th, for a total of 29 days": the last one is March 16
    complaints: int = 471_460
    valid: float = 0.95  # share of complaints with a valid ten-digit caller; only these are returned
    busiest: int = 23_188  # valid complaints on the busiest day

    # Complaints on Monday to Sunday against the best day; the FTC's data of February 2020.
    week: tuple[float, ...] = (0.85, 0.92, 0.96, 1.0, 0.91, 0.31, 0.16)
    restless: float = 0.06  # spread (of the logarithm) of a day around its weekday

    heavy_above: int = 143  # the paper's smallest τ
    heavy_pairs: int = 130  # (day, number) pairs above it in the month
    # Pareto's: the share of campaigns with a peak above x falls as x to the power of −1.35. With the ceiling below, the
    # exponent of counts above 100 is about 1.4.
    exponent: float = 1.35
    largest: int = 2_000  # complaints that one number can draw on the busiest day, and fewer on others
    campaigns: int = 2_000  # numbers that spam for days; the more, the smaller the smallest of them
    lifetime: float = 8.0  # mean days from a campaign's first to its last call (exponential, at least 2)
    unsteady: float = 0.25  # spread (of the logarithm) of a campaign's day around its smooth rise and fall
    body: float = 3.2  # all others: the share of numbers named k times a day falls as k to the power of −3.2
    body_largest: int = 20

    # Area codes that spam favours, the busiest first, and the shares of campaigns and of other callers with one.
    favoured: tuple[int, ...] = (800, 202, 888, 866, 877, 844, 855, 469, 210, 213, 305, 312, 404, 415, 512, 646, 702)
    favoured_campaigns: float = 0.35
    favoured_others: float = 0.1
    uneven: float = 0.65  # spread (of the logarithm) of all other area codes; the FTC's data of 2020
    neighbours: float = 0.2  # other callers who fake the area code of the phone that they call

    @property
    def total(self) -> int:
        return round(self.complaints * self.valid)


_PAPERS = Settings()


def synthesise(seed: int = 2016, settings: Settings = _PAPERS) -> Calls:
    """A month of valid complaints. The same seed and settings give the same month."""
    checks.whole("seed", seed, 0)
    world = np.random.default_rng(seed)
    sizes, weights = _days(world, settings)
    codes = _Codes(world, settings)
    spam = _campaigns(world, settings, weights)
    if (spam.sum(axis=0) > sizes).any():
        raise InvalidParameter("heavy_pairs", "leave room for other complaints on every day", settings.heavy_pairs)
    owners = codes.numbers(world, settings.favoured_campaigns, len(spam))
    days = range(settings.days)
    callers = [np.repeat(owners, spam[:, day]) for day in days]
    consumers = [world.choice(codes.domestic, size, p=codes.people) for size in sizes]
    for day in days:
        others = _others(world, settings, codes, consumers[day][len(callers[day]) :])
        shuffled = world.permutation(sizes[day])
        callers[day] = np.concatenate([callers[day], others])[shuffled]
        consumers[day] = consumers[day][shuffled]
    area, suffix = np.divmod(np.concatenate(callers), NANP.suffixes)
    problems = (("no valid number", settings.complaints - settings.total),)
    return Calls.of(
        settings.first, np.repeat(np.arange(settings.days), sizes), area, suffix, np.concatenate(consumers), problems
    )


def _days(world: np.random.Generator, settings: Settings) -> tuple[Integers, Floats]:
    """(valid complaints of each day, the same relative to the busiest). A power of the pattern gives the total."""
    weekdays = (settings.first.weekday() + np.arange(settings.days)) % 7
    pattern = np.array(settings.week)[weekdays] * world.lognormal(0, settings.restless, settings.days)
    pattern /= pattern.max()
    low, _ = _turning_point(lambda power: (pattern**power).sum() * settings.busiest > settings.total, 0.0, 64.0)
    weights = pattern**low
    sizes = np.floor(weights * settings.busiest).astype(np.int64)
    # Rounding left a few complaints over. Days that are not the busiest get one each.
    others = np.flatnonzero(sizes < settings.busiest)
    sizes[others[: settings.total - sizes.sum()]] += 1
    return sizes, weights


def _campaigns(world: np.random.Generator, settings: Settings, weights: Floats) -> Integers:
    count, days = settings.campaigns, settings.days
    # Evenly spread quantiles of each law, not independent draws: a month has few large campaigns, and would differ
    # much between seeds. Weyl's sequences (multiples of √2 and √3, modulo 1) do not follow the order of peaks.
    peak = ((np.arange(count) + world.random(count)) / count) ** (-1 / settings.exponent)
    late, long = (np.outer(np.sqrt([2, 3]), np.arange(count)) + world.random((2, 1))) % 1
    length = np.maximum(-settings.lifetime * np.log1p(-long), 2.0)
    # Campaigns begin before the month too, so that its first day is like any other.
    start = late * (length + days) - length
    age = (np.arange(days) + 0.5 - start[:, None]) / length[:, None]
    alive = (age > 0) & (age < 1)
    shape = np.where(alive, np.sin(np.pi * np.clip(age, 0, 1)), 0.0)
    volume = peak[:, None] * shape * world.lognormal(0, settings.unsteady, (count, days))

    def complaints(decades: float) -> Integers:
        scaled = volume * 10**decades
        # A smooth ceiling changes nothing far below it.
        return np.rint(scaled * (1 + (scaled / settings.largest) ** 4) ** -0.25 * weights).astype(np.int64)

    def too_few(decades: float) -> bool:
        return int((complaints(decades) > settings.heavy_above).sum()) < settings.heavy_pairs

    if too_few(6.0):
        raise InvalidParameter("campaigns", f"be enough for {settings.heavy_pairs} heavy pairs", count)
    return complaints(_turning_point(too_few, -6.0, 6.0)[1])


def _turning_point(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Two neighbouring values: the condition holds up to the first, and not from the second on."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _others(world: np.random.Generator, settings: Settings, codes: _Codes, consumers: NDArray[np.int64]) -> Integers:
    """One caller for each consumer. Most have one complaint that day, a few have more."""
    count = len(consumers)
    times = np.arange(1, settings.body_largest + 1)
    chance = times**-settings.body
    repeats = world.choice(times, count, p=chance / chance.sum())
    numbers = codes.numbers(world, settings.favoured_others, count)
    near = world.random(count) < settings.neighbours
    numbers[near] = consumers[near] * NANP.suffixes + numbers[near] % NANP.suffixes
    return np.repeat(numbers, repeats)[:count]


class _Codes:
    def __init__(self, world: np.random.Generator, settings: Settings) -> None:
        self.favoured = np.array(settings.favoured)
        rank = 1 / np.arange(2, len(self.favoured) + 2)
        self.preference = rank / rank.sum()
        self.domestic = np.array([area for area in NANP.area_codes if _domestic(area)])
        people = world.lognormal(0, settings.uneven, len(self.domestic))
        self.people = people / people.sum()

    def numbers(self, world: np.random.Generator, favoured: float, count: int) -> Integers:
        areas = np.where(
            world.random(count) < favoured,
            world.choice(self.favoured, count, p=self.preference),
            world.choice(self.domestic, count, p=self.people),
        )
        return areas * NANP.suffixes + world.integers(NANP.first_suffix, NANP.suffixes, count)


# fmt: off
_LATER = frozenset({  # area codes of the United States that opened after the month
    223, 227, 235, 274, 279, 283, 324, 326, 327, 329, 332, 341, 350, 353, 363, 369, 380, 445, 447, 448, 463,
    464, 472, 557, 564, 572, 582, 640, 645, 656, 659, 680, 686, 689, 726, 728, 730, 738, 743, 748, 771, 820,
    821, 826, 835, 838, 839, 840, 934, 943, 945, 948, 975, 983, 986,
})
# fmt: on


def _domestic(area: int) -> bool:
    """Whether people in the United States had this area code at home in 2016."""
    number = phonenumbers.parse(f"+1{area}2345678")
    kind = phonenumbers.number_type(number)
    return (
        area not in _LATER
        and phonenumbers.region_code_for_number(number) == "US"
        and kind == phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE
    )
