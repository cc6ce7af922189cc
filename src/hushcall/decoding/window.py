"""Decides what a bucket's rounds show together, for every window of its profile.

The window of length L holds the rounds newest − L + 1 … newest. Each length is one decision at ``profile.share`` of the
error level (``pooled``), with ``profile.tolerance`` lies for each of its days. Profiles with two tiers decide at
``profile.warn_share`` without tolerance, too. Groups of numbers share each level (``hints``). A number is found once,
with the shortest window that lists it and the shortest that may block it. A length that could list nothing, whatever
the reports said, is left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushcall.decoding.hints import NO_HINTS, Hints
from hushcall.decoding.pooled import PooledSupport, Span
from hushcall.decoding.task import BucketSpec, DecodeTask, Findings, RoundTally
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.aggregator import PoolingAggregator
from hushcall.mechanisms.decision import HeavyHitter, Rule, Support
from hushcall.mechanisms.kernels import walsh
from hushcall.mechanisms.tallies import PooledTally, SparseTally, Tally

Counted: TypeAlias = tuple["Decision", int, list[int]]
"""(decision, item, its count in each part of the law)"""


def decode(task: DecodeTask, sums: Sequence[Tally] | None = None) -> Findings:
    tallies, tau = task.tallies(sums), task.profile.tau
    if task.numbers is not None:
        hitters = find_hundreds(tallies, task.profile.windows, tau, task.numbers, task.bucket)
    elif task.profile.spec.pools:
        hitters = find_in_windows(tallies, task.profile.windows, tau, task.part, task.parts, task.hints)
    else:  # rounds of other mechanisms do not add up, and their profiles have no window but the day
        hitters = [hitter for entry in tallies for hitter in entry.aggregator.find(entry.tally, tau)]
    return Findings.of(task, tallies, hitters)


def find_in_windows(
    rounds: Sequence[RoundTally],
    windows: Sequence[int] = (1,),
    tau: float = 0.0,
    part: int = 0,
    parts: int = 1,
    hints: Hints = NO_HINTS,
) -> list[HeavyHitter]:
    """Every number that some window finds, once, with the shortest that does. The largest is first."""
    rounds, chosen = decisions(rounds, windows, tau, hints)
    if not chosen:
        return []
    newest = rounds[0]
    areas = newest.pooling.areas_of(part, parts)
    share = len(rounds) == 1 and newest.pooling.shares_updates(newest.tally.count, len(areas))
    return _hitters(_shared(newest, chosen[0], areas, hints) if share else _by_area(rounds, chosen, areas, hints))


def find_among(
    rounds: Sequence[RoundTally],
    windows: Sequence[int],
    tau: float,
    items: Sequence[int],
    hints: Hints = NO_HINTS,
    holds: Callable[[Decision, int, Sequence[int]], bool] = lambda *_: True,
) -> list[HeavyHitter]:
    """What :func:`find_in_windows` finds among a few given numbers, counted from the reports themselves.

    A window whose counts do not meet ``holds`` lists nothing.
    """
    rounds, chosen = decisions(rounds, windows, tau, hints)
    tallies = [entry.tally for entry in rounds]

    def counted() -> Iterator[Counted]:
        for decision in chosen:
            counts = _by_part(rounds, tallies, decision, items)
            for row, item in enumerate(items):
                of_item = [int(column[row]) for column in counts]
                if decision.passed(item, of_item) and holds(decision, item, of_item):
                    yield decision, item, of_item

    return _hitters(counted())


MANY_NUMBERS = 2
"""A hundred needs more than so many times the reports that its busiest number may have."""


def exceeds(asked: PooledSupport, counts: Sequence[int], others: PooledSupport, busiest: Sequence[int]) -> bool:
    """Whether a hundred's share of its reports is for sure above that multiple of its busiest number's."""

    def above(least: float, most: float) -> bool:
        return least * others.reports > MANY_NUMBERS * most * asked.reports

    # Bounds take time, and lie on either side of the estimates.
    estimates = asked.estimate(counts), max(others.estimate(busiest), 0.0)
    return above(*estimates) and above(asked.hitter(0, counts, 0).low, others.hitter(0, busiest, 0).high)


def find_hundreds(
    rounds: Sequence[RoundTally], windows: Sequence[int], tau: float, numbers: DecodeTask, bucket: BucketSpec
) -> list[HeavyHitter]:
    """The hundreds that some window finds and that no two of their numbers could explain.

    That is: the lower bound of the hundred's share of reports about hundreds is above :data:`MANY_NUMBERS` times the
    upper bound of every number's share of reports about ``numbers``, in the same rounds.
    """
    candidates = [hitter.item for hitter in find_in_windows(rounds, windows, tau)]
    if not candidates:
        return []
    ages = {entry.age_rounds for entry in rounds if entry.tally.count}
    others = [entry for entry in numbers.tallies() if entry.age_rounds in ages and entry.tally.count]

    def many_numbers(decision: Decision, item: int, counts: Sequence[int]) -> bool:
        inside = [entry for entry in others if entry.age_rounds < decision.length]
        first = bucket.items.number(item, -bucket.bucket, bucket.plan)
        if first is None or not inside:
            return False
        law = PooledSupport.of([entry.pooling.law(entry.tally.count) for entry in inside])
        suffixes = range(first.suffix, first.suffix + 10**bucket.items.open_digits)
        same_rounds = Decision((replace(decision.spans[0], law=law),))
        columns = _by_part(inside, [entry.tally for entry in inside], same_rounds, suffixes)
        busiest = max(zip(*columns, strict=True), key=law.estimate)
        return exceeds(decision.law, counts, law, busiest)

    return find_among(rounds, windows, tau, candidates, holds=many_numbers)


@dataclass(frozen=True)
class Decision:
    """All that is decided about the rounds of one length: for both tiers, and for every group of numbers."""

    spans: tuple[Span, ...]

    @property
    def length(self) -> int:
        return self.spans[0].length

    @property
    def law(self) -> PooledSupport:
        return self.spans[0].law

    def least(self, *, hinted: bool = False) -> int:
        """The smallest C that may list a number. With ``hinted``, one of the hints."""
        thresholds = [span.least for span in self.spans if hinted or span.among is None]
        return min(thresholds, default=self.law.reports + 1)

    def passed(self, item: int, counts: Sequence[int]) -> list[Span]:
        """The decisions that list a number, a warning's first."""
        about = (span for span in self.spans if span.among is None or item in span.among)
        return [span for span in about if span.lists(counts)]


def decisions(
    rounds: Sequence[RoundTally], windows: Sequence[int], tau: float, hints: Hints = NO_HINTS
) -> tuple[list[RoundTally], list[Decision]]:
    """The rounds that hold reports, newest first, and the decisions over them that could list anything."""
    rounds = sorted((entry for entry in rounds if entry.tally.count), key=lambda entry: entry.age_rounds)
    if not rounds:
        return [], []
    aggregators = [entry.pooling for entry in rounds]
    if len({(each.domain, each.areas, each.mechanism.item_bits) for each in aggregators}) > 1:
        raise InvalidParameter("rounds", "share one domain", "several")
    laws = [(entry.age_rounds, entry.pooling.law(entry.tally.count)) for entry in rounds]
    newest = aggregators[0]
    return rounds, tiers(laws, windows, newest.rule(tau), newest.strict_rule(tau), newest.numbers, hints)


def tiers(
    laws: Sequence[tuple[int, Support]],
    windows: Sequence[int],
    rule: Rule,
    strict: Rule,
    numbers: int,
    hints: Hints = NO_HINTS,
) -> list[Decision]:
    """The decisions of both tiers and of all groups, by length, shortest first. ``numbers`` are those of the bucket."""
    all_spans = [
        replace(span, rule=weighted, strict=tier == strict, among=items, hinted=hinted)
        for tier in dict.fromkeys((rule, strict))
        for span in spans(laws, windows, tier)
        for weighted, items, hinted in hints.rules(span.rule, numbers, span.length)
    ]
    possible = sorted((span for span in all_spans if span.least <= span.law.reports), key=lambda span: span.length)
    return [Decision(tuple(group)) for _, group in groupby(possible, key=lambda span: span.length)]


def spans(laws: Sequence[tuple[int, Support]], windows: Sequence[int], rule: Rule) -> list[Span]:
    """The decisions to make, shortest first, for (age, law) of each round. A window that adds no round is left out."""
    chosen, covered = list[Span](), 0
    for length in windows:
        inside = {age: law for age, law in laws if age < length}
        if len(inside) > covered:
            covered = len(inside)
            chosen.append(Span(length, PooledSupport.of(inside.values()), rule.over(inside)))
    return chosen


@dataclass
class Passed:
    """What the windows so far say of one number: the decision that lists it, and the lengths that would without hints.

    ``length``, ``strict`` and ``hinted`` are those of its :class:`HeavyHitter`.
    """

    span: Span
    counts: Sequence[int]
    strict: int = 0
    unaided: int = 0
    strict_unaided: int = 0

    def add(self, length: int, passed: Sequence[Span]) -> None:
        strict = [span for span in passed if span.strict]
        self.strict = self.strict or (length if strict else 0)
        self.unaided = self.unaided or (length if any(not span.hinted for span in passed) else 0)
        self.strict_unaided = self.strict_unaided or (length if any(not span.hinted for span in strict) else 0)

    @property
    def length(self) -> int:
        return self.span.length

    @property
    def hinted(self) -> int:
        return 2 if not self.unaided else int(self.strict != self.strict_unaided)

    def hitter(self, item: int) -> HeavyHitter:
        return replace(self.span.hitter(item, self.counts), strict=self.strict, hinted=self.hinted)


def passing(counted: Iterable[Counted]) -> dict[int, Passed]:
    """The listed numbers among counts that come with the shortest window first. Intervals take time, and come later."""
    listed = dict[int, Passed]()
    for decision, item, counts in counted:
        if passed := decision.passed(item, counts):
            listed.setdefault(item, Passed(passed[0], counts)).add(decision.length, passed)
    return listed


def _hitters(counted: Iterable[Counted]) -> list[HeavyHitter]:
    hitters = (passed.hitter(item) for item, passed in passing(counted).items())
    return sorted(hitters, key=lambda hitter: (-hitter.estimate, hitter.item))


def _hinted_places(hints: Hints, area: int, suffix_bits: int) -> NDArray[np.int64]:
    first, last = (bisect_left(hints.ordered, edge << suffix_bits) for edge in (area, area + 1))
    return np.array(hints.ordered[first:last], np.int64) & ((1 << suffix_bits) - 1)


def _shared(entry: RoundTally, decision: Decision, areas: range, hints: Hints) -> Iterator[Counted]:
    """One large round of whole numbers: its updates are shared between area codes."""
    aggregator = entry.pooling
    domain, bits = aggregator.domain, aggregator.suffix_bits
    for area, counts, shift in aggregator.spectra(entry.tally, areas):
        hinted = _hinted_places(hints, area, bits)
        places = walsh.at_least(counts, decision.least() << shift, domain.start, domain.stop)
        for place in np.union1d(places, hinted[counts[hinted] >= decision.least(hinted=True) << shift]).tolist():
            yield decision, area << bits | place, [int(counts[place]) >> shift]


def _by_area(rounds: Sequence[RoundTally], chosen: Sequence[Decision], areas: range, hints: Hints) -> Iterator[Counted]:
    """The counts of one area code after the other, in each those of the shortest window first."""
    newest = rounds[0].pooling
    ends = [sum(entry.age_rounds < decision.length for entry in rounds) for decision in chosen]
    rounds = rounds[: ends[-1]]
    sizes = [(entry.tally.count, entry.pooling.mechanism.bits) for entry in rounds]
    window_counts = WindowCounts(newest.suffix_bits, sizes, ends)
    thresholds = [(decision.least(), decision.least(hinted=True)) for decision in chosen]
    for area in areas:
        local = [entry.pooling.in_area(entry.tally, area) for entry in rounds]
        tallied = [(entry.pooling, tally) for entry, tally in zip(rounds, local, strict=True)]
        hinted = _hinted_places(hints, area, newest.suffix_bits)
        for window, places, sums in window_counts.at_least(tallied, thresholds, newest.domain, hinted):
            decision = chosen[window]
            # Where the law has one part, its count is the sum.
            single = len(decision.law.parts) == 1 or not places
            counts = [sums] if single else _by_part(rounds, local, decision, places)
            for row, suffix in enumerate(places):
                yield decision, area << newest.suffix_bits | suffix, [int(column[row]) for column in counts]


def _by_part(
    rounds: Sequence[RoundTally], local: Sequence[PooledTally], decision: Decision, places: Sequence[int]
) -> list[Sequence[int]]:
    counts = [np.zeros(len(places), dtype=np.int64) for _ in decision.law.parts]
    odds = [(part.p, part.q) for part in decision.law.parts]
    for entry, tally in zip(rounds, local, strict=True):
        if entry.age_rounds < decision.length:
            law = entry.pooling.law(entry.tally.count)
            counts[odds.index((law.p, law.q))] += entry.pooling.supports(tally, places)
    return [column.tolist() for column in counts]


WORD_BITS = 32
_TRANSFORM = 2
"""Updates a cell that a transform costs: between one and three were measured, by how busy the caches are."""


@dataclass(frozen=True)
class Field:
    """The bits of a cell that count what a window adds: the rounds from ``first`` to before ``last``."""

    window: int
    first: int
    last: int
    width: int


def fields_by_transform(sizes: Sequence[int], ends: Sequence[int], scale: int) -> list[list[Field]]:
    """Which windows share a transform: as many as fit a word, the shortest first.

    ``sizes`` are the reports of each round, ``ends`` how many rounds each window holds. Where a window does not fit,
    the next transform starts from all rounds so far.
    """
    transforms: list[list[Field]] = []
    used = WORD_BITS
    for window, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
        width = sum(sizes[first:last]).bit_length()
        if used + width <= WORD_BITS:
            transforms[-1].append(Field(window, first, last, width))
            used += width
        else:
            width = sum(sizes[:last]).bit_length()
            transforms.append([Field(window, 0, last, width)])
            used = scale + width
    return transforms


class WindowCounts:
    """C(x) of all x, in every window. Made once for a bucket, and used for one area code after the other.

    Rounds are added up from the newest to the oldest. What a window adds has bits of its own in every cell (a field),
    and a Walsh-Hadamard transform adds whole cells: one transform answers for all windows whose fields fit a word.
    Rounds of every b share a spectrum, each scaled to the largest. Where all subspaces are small, their members are
    counted one by one.
    """

    def __init__(self, bits: int, rounds: Sequence[tuple[int, int]], ends: Sequence[int]) -> None:
        """``rounds`` are (reports, b) of all that will be added, ``ends`` how many of them each window holds."""
        sizes = [n for n, _ in rounds]
        transformed = [(n, b) for n, b in rounds if 2 * b <= bits]
        scale = max((b for _, b in transformed), default=0)
        listing = sum(n << max(bits - b, 0) for n, b in transformed)
        summing = sum(n << b for n, b in transformed)
        summing += len(fields_by_transform(sizes, ends, scale)) * (_TRANSFORM << bits)
        fits = sum(sizes) << scale < 1 << WORD_BITS
        self.scale = scale if fits and summing < listing else 0
        self.transforms = fields_by_transform(sizes, ends, self.scale)
        self._base, self._top = _Sums(bits, self.scale), _Sums(bits, self.scale)

    def at_least(
        self,
        rounds: Sequence[tuple[PoolingAggregator[Any], Tally]],
        thresholds: Sequence[tuple[int, int]],
        domain: range,
        hinted: NDArray[np.int64],
    ) -> Iterator[tuple[int, list[int], list[int]]]:
        """(window, x, C(x)) of all x of the domain that reach each window's threshold, window by window.

        A window has a threshold for all x, and one for the ``hinted`` ones.
        """
        base, added = self._base, 0
        base.clear()
        for fields in self.transforms:
            lowest = [(*entry, 0) for entry in rounds[added : fields[0].last]]
            higher, added, place = [], fields[0].last, fields[0].width
            for field in fields[1:]:
                higher += [(*entry, place) for entry in rounds[field.first : field.last]]
                place += field.width
            sums = base
            if fields is self.transforms[-1]:
                base.add(lowest + higher)
            else:
                base.add(lowest)
                sums = self._top
                sums.copy(base)
                sums.add(higher)
            here = [thresholds[field.window] for field in fields]
            yield from self._read(sums.words(), fields, here, domain, hinted)

    def _read(
        self,
        words: NDArray[np.int32],
        fields: Sequence[Field],
        thresholds: Sequence[tuple[int, int]],
        domain: range,
        hinted: NDArray[np.int64],
    ) -> Iterator[tuple[int, list[int], list[int]]]:
        widths = [field.width for field in fields]
        limits = [threshold for threshold, _ in thresholds]
        places = walsh.some_at_least(words, self.scale, widths, limits, domain.start, domain.stop)
        more = hinted[~np.isin(hinted, places, assume_unique=True)]  # union1d takes 70 times as long for 100,000
        places = np.sort(np.concatenate([places, more]))
        lower = np.isin(places, hinted, assume_unique=True)
        cells, total = words[places].view(np.uint32) >> np.uint32(self.scale), np.zeros(len(places), np.int64)
        for field, (threshold, of_hinted) in zip(fields, thresholds, strict=True):
            total += cells & np.uint32((1 << field.width) - 1)
            cells = cells >> np.uint32(field.width)
            enough = total >= np.where(lower, of_hinted, threshold)
            yield field.window, places[enough].tolist(), total[enough].tolist()


class _Sums:
    """What was added up: a spectrum that waits for its transform, and counts that need none. Allocated when needed."""

    def __init__(self, bits: int, scale: int) -> None:
        self.bits, self.scale = bits, scale
        self.spectrum = self.listed = np.zeros(0, np.int32)

    def clear(self) -> None:
        self.spectrum.fill(0)
        self.listed.fill(0)

    def copy(self, other: _Sums) -> None:
        self.spectrum, self.listed = _copied(self.spectrum, other.spectrum), _copied(self.listed, other.listed)

    def add(self, rounds: Sequence[tuple[PoolingAggregator[Any], Tally, int]]) -> None:
        """More rounds: (aggregator, tally, the bit from which on it is counted). Those of equal b are added at once."""
        by_bits: dict[int, list[tuple[SparseTally, int]]] = {}
        for aggregator, tally, field in rounds:
            if isinstance(tally, SparseTally):
                by_bits.setdefault(aggregator.mechanism.bits, []).append((tally, field))
            else:
                self.listed = self._allocated(self.listed)
                self.listed += aggregator.support(tally) << field
        for b, group in by_bits.items():
            rows = np.concatenate([tally.rows for tally, _ in group]).astype(np.uint32)
            values = np.concatenate([tally.values for tally, _ in group])
            fields = np.repeat(np.array([field for _, field in group], np.int32), [tally.count for tally, _ in group])
            if self.scale and 2 * b <= self.bits:
                self.spectrum = self._allocated(self.spectrum)
                walsh.accumulate(self.spectrum, rows, values, self.scale, fields)
            else:
                self.listed = self._allocated(self.listed)
                walsh.count_members(self.listed, rows, values, fields)

    def words(self) -> NDArray[np.int32]:
        """2^scale·C, field beside field. The spectrum is used up."""
        if not self.spectrum.size:
            counts = self._allocated(self.listed)
            return counts << self.scale if self.scale else counts
        walsh.transform(self.spectrum)
        if self.listed.size:
            self.spectrum += self.listed << self.scale
        return self.spectrum

    def _allocated(self, array: NDArray[np.int32]) -> NDArray[np.int32]:
        return array if array.size else np.zeros(1 << self.bits, np.int32)


def _copied(mine: NDArray[np.int32], theirs: NDArray[np.int32]) -> NDArray[np.int32]:
    if mine.size != theirs.size:
        return theirs.copy()
    np.copyto(mine, theirs)
    return mine
