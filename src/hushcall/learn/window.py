"""The server, over several rounds: a bucket's sealed tallies come in, what a day, two, four or a week show leaves.

:func:`scan` is what a server calls for each bucket (and part of it) at every publication::

    rounds = [Sealed(round_id, mechanism, sealed_bytes), …]        # of one bucket; any order, gaps allowed
    scan(profile, plan, rounds, newest=round_id, buckets=how_many_buckets) -> [HeavyHitter, …]

``profile.windows`` are the lengths, in rounds: the window of length L holds the rounds newest − L + 1 … newest that are
there. A round in which the bucket was skipped, or that was discarded, is simply not given. Each length is one decision
at ``profile.share`` of the error level (``pooled``), with ``profile.tolerance`` lies for each of its rounds, since who
lies does so in every round; a number is returned once, with the shortest length that finds it (``hitter.length``), with
that window's estimate, interval and p-value.
``windows = (1,)`` is the daily decision. ``profile.reach`` says how many rounds of sealed tallies a server must keep.
Whole-number rounds are scanned in ``parts`` (``profile.scheme.parts``), as they are decoded. Pure: the same bytes in
any order give the same findings.

Cost: rounds are added up once, from the newest to the oldest, and all lengths whose counts fit a word together are read
off one transform (``pile``). A length that could list nothing, whatever the reports said, is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hushcall.errors import InvalidParameter
from hushcall.learn import walsh
from hushcall.learn.bucket_setup import learner_of
from hushcall.learn.decision import HeavyHitter, Rule
from hushcall.learn.learner import Progress, quiet
from hushcall.learn.pile import Pile
from hushcall.learn.pooled import PooledSupport, Span
from hushcall.learn.whole_number import part_of, updates_are_shared
from hushcall.learn.whole_spectrum import SUFFIX_BITS
from hushcall.numbers import NumberingPlan
from hushcall.profiles import Profile
from hushcall.report.mechanism import Mechanism


@dataclass(frozen=True)
class Sealed:
    """One round of a bucket, as a server keeps it: what its phones were given, and the bytes of the tally."""

    round: int
    mechanism: Mechanism
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Past:
    """One round of a bucket, read back. ``age`` is 0 for the newest."""

    age: int
    learner: Any
    tally: Any


def scan(
    profile: Profile,
    plan: NumberingPlan,
    rounds: Iterable[Sealed],
    newest: int,
    buckets: int = 1,
    part: int = 0,
    parts: int = 1,
    progress: Progress = quiet,
) -> list[HeavyHitter]:
    """Everything that the bucket's rounds show, largest first. ``buckets`` are decided together at one level."""
    given = sorted(rounds, key=lambda one: -one.round)
    if any(one.round > newest for one in given) or len({one.round for one in given}) < len(given):
        raise InvalidParameter("rounds", f"be different ones up to {newest}", [one.round for one in given])
    given = [one for one in given if newest - one.round < profile.reach]
    past = []
    for one in given:
        learner = learner_of(profile, plan, one.mechanism, buckets)
        past.append(Past(newest - one.round, learner, learner.from_bytes(one.data)))
    return find_in_rounds(profile, past, part, parts, progress)


def find_in_rounds(
    profile: Profile, past: Sequence[Past], part: int = 0, parts: int = 1, progress: Progress = quiet
) -> list[HeavyHitter]:
    """Everything that these rounds of a bucket show, largest first: what every decoder of a bucket ends in."""
    if profile.scheme.pools:
        return find_in_windows(past, profile.windows, profile.tau, part, parts, progress)
    # Rounds of the others do not add up, and their profiles have no window but the day.
    return [hitter for one in past for hitter in one.learner.find_part(one.tally, profile.tau, part, parts)]


def find_in_windows(
    past: Sequence[Past],
    windows: Sequence[int] = (1,),
    tau: float = 0.0,
    part: int = 0,
    parts: int = 1,
    progress: Progress = quiet,
) -> list[HeavyHitter]:
    """Every number that some window finds, once, with the shortest that does; largest first.

    The learners bring level (of one window), hypotheses and tolerance.
    """
    held, chosen = decisions(past, windows, tau)
    if not chosen:
        return []
    first = held[0].learner
    found: dict[int, HeavyHitter] = {}
    todo = part_of(first.areas, part, parts)
    one_round = len(held) == 1 and updates_are_shared(held[0].tally.count, first.mechanism.bits, len(todo))
    for done, some in enumerate(_shared(held[0], chosen[0], todo) if one_round else _piled(held, chosen, todo), 1):
        for hitter in some:
            found.setdefault(hitter.item, hitter)
        progress(done, len(todo))
    return _largest_first(found)


def find_among(past: Sequence[Past], windows: Sequence[int], tau: float, items: Sequence[int]) -> list[HeavyHitter]:
    """What :func:`find_in_windows` finds among a few given numbers, counted from the reports themselves."""
    held, chosen = decisions(past, windows, tau)
    tallies, found = [one.tally for one in held], dict[int, HeavyHitter]()
    for span in chosen:
        apart = _by_part(held, tallies, span, items)
        for row, item in enumerate(items):
            if hitter := span.verdict(item, [int(column[row]) for column in apart]):
                found.setdefault(item, hitter)
    return _largest_first(found)


def decisions(past: Sequence[Past], windows: Sequence[int], tau: float) -> tuple[list[Past], list[Span]]:
    """The rounds that hold reports, newest first, and the decisions over them that could list anything."""
    held = sorted((one for one in past if one.tally.count), key=lambda one: one.age)
    if not held:
        return [], []
    if len({(one.learner.domain, one.learner.areas, one.learner.mechanism.item_bits) for one in held}) > 1:
        raise InvalidParameter("rounds", "share one domain", "several")
    laws = [(one.age, one.learner.law(one.tally.count)) for one in held]
    found = spans(laws, windows, held[0].learner.rule(tau))
    return held, [span for span in found if span.least <= span.law.reports]


def _largest_first(found: Mapping[int, HeavyHitter]) -> list[HeavyHitter]:
    return sorted(found.values(), key=lambda hitter: (-hitter.estimate, hitter.item))


def _piled(held: Sequence[Past], chosen: Sequence[Span], todo: range) -> Iterator[list[HeavyHitter]]:
    """One area code after the other, its rounds added up in one pile."""
    first = held[0].learner
    # Without area codes in the clear, one area code at a time; else items as wide as the plan's.
    bits = SUFFIX_BITS if first.areas > 1 else first.mechanism.item_bits
    ends = [sum(one.age < span.length for one in held) for span in chosen]
    pile = Pile(bits, [(one.tally.count, one.learner.mechanism.bits) for one in held[: ends[-1]]], ends)
    for area in todo:
        yield list(_in_area(held[: ends[-1]], chosen, pile, area))


def _shared(one: Past, span: Span, todo: range) -> Iterator[list[HeavyHitter]]:
    """One large round of whole numbers: its updates are shared between area codes."""
    domain = one.learner.domain
    for area, counts, shift in one.learner.spectra(one.tally, todo):
        places = walsh.at_least(counts, span.least << shift, domain.start, domain.stop).tolist()
        verdicts = (span.verdict(area << SUFFIX_BITS | place, [int(counts[place]) >> shift]) for place in places)
        yield [hitter for hitter in verdicts if hitter]


def spans(laws: Sequence[tuple[int, Any]], windows: Sequence[int], rule: Rule) -> list[Span]:
    """The decisions to make, shortest first, for (age, law) of each round; a window that adds no round is left out."""
    out, seen = [], 0
    for length in windows:
        inside = [law for age, law in laws if age < length]
        if len(inside) > seen:
            seen = len(inside)
            out.append(Span(length, PooledSupport.of(inside), rule.over(len(inside))))
    return out


def _in_area(held: Sequence[Past], chosen: Sequence[Span], pile: Pile, area: int) -> Iterator[HeavyHitter]:
    """The findings of every window in one area code, the shortest window first."""
    local = [one.learner.in_area(one.tally, area) for one in held]
    tallied = [(one.learner, tally) for one, tally in zip(held, local, strict=True)]
    for place, places, counts in pile.at_least(tallied, [span.least for span in chosen], held[0].learner.domain):
        span = chosen[place]
        # Where the law has one part, its count is the one that is known.
        known = len(span.law.parts) == 1 or not places
        apart = [counts] if known else _by_part(held, local, span, places)
        for row, suffix in enumerate(places):
            if hitter := span.verdict(area << SUFFIX_BITS | suffix, [int(column[row]) for column in apart]):
                yield hitter


def _by_part(held: Sequence[Past], local: Sequence[Any], span: Span, places: Sequence[int]) -> list[Sequence[int]]:
    """The counts of a few numbers for each part of the law."""
    out = [np.zeros(len(places), dtype=np.int64) for _ in span.law.parts]
    for one, tally in zip(held, local, strict=True):
        if one.age >= span.length:
            continue
        law = one.learner.law(one.tally.count)
        which = next(i for i, part in enumerate(span.law.parts) if (part.p, part.q) == (law.p, law.q))
        out[which] += one.learner.supports(tally, places)
    return [column.tolist() for column in out]
