"""Two tiers and hinted numbers: what they list is what the definition says, and within the level."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.card_of_numpy import CardOfNumpy
from tests.decoding.in_memory import task_of
from tests.mechanisms.cases import SUFFIXES, reports_of

from hushcall.decoding.gpu_backend import GpuBackend
from hushcall.decoding.hints import HINTED_SHARE, LISTED_SHARE, NO_HINTS, Hints, RoundHints
from hushcall.decoding.pooled import PooledSupport
from hushcall.decoding.task import RoundTally
from hushcall.decoding.window import decode, find_among, find_in_windows, tiers
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.decision import HeavyHitter, Rule, Support
from hushcall.mechanisms.profiles import DEFAULT, PROFILES, WINDOWS
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.subspace.server import SubspaceAggregator, few_supports
from hushcall.protocol.items import PLACED, SUFFIX
from hushcall.protocol.numbers import NANP

SMALL = range(1 << 6)
LEVEL, WARN_LEVEL, TOLERANCE = 0.05, 0.3, 2
Story = dict[int, tuple[int, int, int]]
"""{item: (length, strict, hinted)}"""


def rounds_of(seed: int, warn_level: float = WARN_LEVEL) -> list[RoundTally]:
    """Five rounds of sixty-four numbers, with b and the spammers' calls drawn by the seed."""
    world, past = random.Random(seed), []
    for age in (0, 1, 3, 4, 6):
        bits = world.choice([2, 3, 4])
        aggregator = SubspaceAggregator(Subspace(3.0, bits, 6), SMALL, LEVEL, 1, TOLERANCE, warn_level)
        items = [7] * world.randrange(8) + [9] * 12 + [11] * 5 + [world.randrange(64) for _ in range(15)]
        sent = reports_of(aggregator, items, b"hints %d %d" % (seed, age))
        past.append(RoundTally(age, aggregator, aggregator.tally(sent)))
    return past


def naive(past: Sequence[Any], tau: float, hints: Hints, warn_level: float = WARN_LEVEL) -> Story:
    """Number by number and group by group, from the definition."""
    out: Story = {}
    for item in SMALL:
        first: dict[tuple[str, bool], int] = {}
        for length in WINDOWS:
            groups = [(hints.hinted, HINTED_SHARE, True)]
            groups += [(hints.listed.get(length, frozenset()), LISTED_SHARE, False)]
            groups = [group for group in groups if group[0]]
            left = 1 - sum(share for _, share, _ in groups)
            inside = [entry for entry in past if entry.age_rounds < length]
            law = PooledSupport.of(entry.aggregator.law(entry.tally.count) for entry in inside)
            counts = [int(few_supports(entry.tally, [item])[0]) for entry in inside]
            laws = [entry.aggregator.law(entry.tally.count) for entry in inside]
            estimate = sum(float(each.estimate(count)) for each, count in zip(laws, counts, strict=True))
            heaviest = max((1 - part.q) / (part.p - part.q) for part in law.parts)
            for tier, level, tolerance in (("warn", warn_level, 0), ("strict", LEVEL, TOLERANCE * len(inside))):
                if not level:
                    continue
                evidence = law.without(tolerance).p_value(sum(counts) - tolerance)
                shares = [(left / len(SMALL), False)]
                shares += [(share / len(items), hinted) for items, share, hinted in groups if item in items]
                for share, hinted in shares:
                    if evidence <= level * share and estimate - tolerance * heaviest > tau:
                        first.setdefault((tier, True), length)
                        if not hinted:
                            first.setdefault((tier, False), length)
        strict = first.get(("strict", True), 0)
        tier = "warn" if warn_level else "strict"
        if (tier, True) in first:
            aided = 2 if (tier, False) not in first else int(first.get(("strict", False), 0) != strict)
            out[item] = first[tier, True], strict, aided
    return out


def story(hitters: Iterable[HeavyHitter]) -> Story:
    return {hitter.item: (hitter.length, hitter.strict, hitter.hinted) for hitter in hitters}


CASES = [
    NO_HINTS,
    Hints(hinted=frozenset({7, 11, 40})),
    Hints(listed={1: frozenset({9, 11}), 4: frozenset({11}), 7: frozenset({7})}),
    Hints(frozenset({3, 7, 11}), {1: frozenset({7, 9}), 2: frozenset({9})}),
    Hints(frozenset(SMALL), dict.fromkeys(WINDOWS, frozenset(SMALL))),
]


@pytest.mark.parametrize("hints", CASES)
@pytest.mark.parametrize("warn_level", [0.0, WARN_LEVEL])
def test_the_scan_decides_as_defined_and_however_it_counts(hints: Hints, warn_level: float) -> None:
    """The windows' transforms, the reports themselves, and a card's proposals: the same findings to the bit."""
    seen: set[tuple[int, int, int]] = set()
    for seed in range(4):
        past = rounds_of(seed, warn_level)
        hitters = find_in_windows(past, WINDOWS, 4.0, hints=hints)
        assert story(hitters) == naive(past, 4.0, hints, warn_level)
        assert find_among(past, WINDOWS, 4.0, SMALL, hints) == hitters
        seen |= set(story(hitters).values())
    assert seen
    if not warn_level:
        assert all(length == strict for length, strict, _ in seen)
    elif hints.hinted and hints.hinted != frozenset(SMALL):
        assert {hinted for *_, hinted in seen} >= {0, 2}


def test_a_card_proposes_hinted_numbers_too() -> None:
    """Two spammers that only a hint finds, in a bucket of seven-digit numbers."""
    spam, quiet, past = SUFFIXES[5], SUFFIXES[77_000], []
    for age, bits in enumerate((5, 6, 4)):
        aggregator = SubspaceAggregator(Subspace(6.0, bits), SUFFIXES, 1e-3, 400, 2, 0.05)
        items = [spam] * 20 + [quiet] * 10 + [SUFFIXES[1000 * place + age] for place in range(80)]
        past.append(RoundTally(age, aggregator, aggregator.tally(reports_of(aggregator, items, b"card %d" % age))))
    profile = replace(PROFILES["sensitive"], tau=4, windows=(1, 2, 4))
    for hints in (NO_HINTS, Hints(hinted=frozenset({quiet, SUFFIXES[9]}))):
        task = replace(task_of((9, 202, 0), past, profile), hints=hints)
        expected = decode(task).hitters
        assert [hitter.item for hitter in expected] == ([spam, quiet] if hints.items else [spam])
        assert [findings.hitters for findings in GpuBackend(CardOfNumpy).decode([task])] == [expected]
    assert [hitter.hinted for hitter in expected] == [0, 2]


def test_whole_numbers_are_hinted_in_their_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without shared updates, in one part or three."""
    place = 4 << 24 | SUFFIXES[5]
    aggregator = SubspaceAggregator(WholeNumber(6.0, 7), SUFFIXES, 1e-3, 1, 1, 0.05, areas=6)
    world = random.Random(3)
    items = [place] * 24 + [world.randrange(6) << 24 | world.choice(SUFFIXES) for _ in range(600)]
    past = [RoundTally(0, aggregator, aggregator.tally(reports_of(aggregator, items, b"whole hints")))]
    hints = Hints(hinted=frozenset({place, 1 << 24 | SUFFIXES[8]}))
    without = story(find_in_windows(past, (1,), 4.0))
    hinted = find_in_windows(past, (1,), 4.0, hints=hints)
    assert (place in without, place in story(hinted)) == (False, True)
    assert story(hinted)[place] == (1, story(hinted)[place][1], 2)
    parts = [find_in_windows(past, (1,), 4.0, part, 3, hints) for part in range(3)]
    assert sorted(hitter.item for part in parts for hitter in part) == sorted(story(hinted))
    monkeypatch.setattr(SubspaceAggregator, "shares_updates", lambda *_: True)
    assert find_in_windows(past, (1,), 4.0, hints=hints) == hinted


def test_rounds_of_one_tier_decide_as_they_did() -> None:
    """A profile without a level of warnings: the strict rule alone, with the tolerance in its p-values."""
    past = rounds_of(1, warn_level=0.0)
    law = PooledSupport.of([past[0].pooling.law(past[0].tally.count)])
    for hitter in find_in_windows(past, (1,), 4.0):
        count = int(few_supports(past[0].tally, [hitter.item])[0])
        assert (hitter.strict, hitter.hinted) == (hitter.length, 0)
        assert hitter.p_value == law.without(TOLERANCE).p_value(count - TOLERANCE)


def test_no_hint_takes_nothing_and_every_hint_at_most_the_others_share() -> None:
    law, rule = Support(1000, 0.6, 1 / 32), Rule(0.0, 0.05, 8_000_000 * 400)
    everyone = [rules for rules, items, _ in NO_HINTS.rules(rule, 8_000_000, 1) if items is None]
    assert everyone == [rule]
    (first, *_), (flooded, *_) = (
        list(hints.rules(rule, 8_000_000, 1))
        for hints in (NO_HINTS, Hints(frozenset(range(8_000_000)), {1: frozenset({1})}))
    )
    assert first[0].least(law) <= flooded[0].least(law) <= first[0].least(law) + 2


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 63)), st.sets(st.integers(0, 63)), st.integers(1, 400), st.floats(1e-4, 0.5))
def test_the_weights_of_all_groups_add_up_to_the_level(
    hinted: set[int], listed: set[int], buckets: int, level: float
) -> None:
    """The proof's sum: every group's numbers, times buckets, times what each of them gets."""
    rule, hints = Rule(0.0, level, 64 * buckets), Hints(frozenset(hinted), {1: frozenset(listed)})
    groups = list(hints.rules(rule, 64, 1))
    assert [items for _, items, _ in hints.rules(rule, 64, 2)] == [None, *([hints.hinted] if hinted else [])]
    spent = sum(
        (64 if items is None else len(items)) * buckets * each.level / each.hypotheses for each, items, _ in groups
    )
    assert spent == pytest.approx(level)
    assert [items for _, items, _ in groups] == [None, *(items for items in (hints.hinted, hints.listed[1]) if items)]


class TestErrorControl:
    """Weeks without a number that anybody holds twice: what is listed stays within the level.

    Counts are drawn from their law, number by number: the decision sees a number only through them.
    """

    DOMAIN, USERS, LEVEL = 1000, 1500, 0.2

    def wrong(self, weeks: int, hints: Hints, *, windows: Sequence[int] = WINDOWS, split: bool = True) -> float:
        """The share of weeks in which the warning tier lists anything."""
        generator = np.random.default_rng([weeks, len(hints.hinted), len(hints.listed)])
        rule = Rule(0.0, self.LEVEL / len(windows), self.DOMAIN)
        laws = [(age, Support(self.USERS + 5 * age, 0.6, 2.0 ** -(5 + age % 2))) for age in range(max(windows))]
        chosen = [span for decision in tiers(laws, windows, rule, rule, self.DOMAIN, hints) for span in decision.spans]
        if not split:  # every group tests at the whole level
            chosen = [replace(span, rule=replace(span.rule, level=rule.level)) for span in chosen]
        masks = [
            np.isin(np.arange(self.DOMAIN), sorted(span.among if span.among is not None else range(self.DOMAIN)))
            for span in chosen
        ]
        hits = 0
        for _ in range(weeks):
            counts = np.cumsum([generator.binomial(law.reports, law.q, self.DOMAIN) for _, law in laws], axis=0)
            hits += any(
                (counts[span.length - 1][mask] >= span.least).any() for span, mask in zip(chosen, masks, strict=True)
            )
        return hits / weeks

    MIXTURES = (
        NO_HINTS,
        Hints(hinted=frozenset(range(100))),
        Hints(frozenset(range(50)), dict.fromkeys(WINDOWS, frozenset(range(40, 60)))),
        Hints(frozenset(range(1000)), dict.fromkeys(WINDOWS, frozenset(range(1000)))),
    )

    @pytest.mark.parametrize("hints", MIXTURES)
    def test_the_level_holds_with_any_hints(self, hints: Hints) -> None:
        """300 weeks at level 0.2, which whole counts leave at 0.14: five deviations above that are 0.24. Seeded."""
        assert self.wrong(300, hints) <= 0.24

    @pytest.mark.slow
    @pytest.mark.parametrize("hints", MIXTURES)
    def test_the_level_holds_with_any_hints_in_2500_weeks(self, hints: Hints) -> None:
        """Five deviations above 0.2 are 0.24. A rate of 0.28 would be noticed with a power of 0.99999."""
        assert self.wrong(2500, hints) <= 0.24

    def test_a_level_that_the_groups_do_not_share_is_caught(self) -> None:
        """Three groups at the whole level each list something in 0.32 of all weeks."""
        assert (
            self.wrong(
                300, Hints(frozenset(range(100)), dict.fromkeys(WINDOWS, frozenset(range(100, 200)))), split=False
            )
            > 0.25
        )


def wrong_rounds(days: int, *, before: Callable[[int], int] = lambda length: length) -> float:
    """The share of rounds that list anything, where the list of seven rounds is a hint for itself, day after day.

    A window of some length takes the list of ``before`` so many days. Nobody holds any of the thousand numbers.
    """
    numbers, level, windows, rows = 1000, 0.2, (1, 2, 4, 7), list[Any]()
    generator, law = np.random.default_rng(7), Support(1500, 0.6, 1 / 32)
    rule, listed = Rule(0.0, level / len(windows), numbers), list[set[int]]()
    wrong = 0
    for day in range(days):
        rows = [generator.binomial(law.reports, law.q, numbers), *rows[:6]]
        lists = {length: max(0, day - before(length) + 1) for length in windows}
        hints = Hints(
            listed={length: frozenset().union(*listed[max(0, end - 7) : end]) for length, end in lists.items()}
        )
        found = set[int]()
        for decision in tiers([(age, law) for age in range(7)], windows, rule, rule, numbers, hints):
            counts = np.sum(rows[: decision.length], axis=0)
            for span in decision.spans:
                places = np.arange(numbers) if span.among is None else np.array(sorted(span.among))
                found |= set(places[counts[places] >= span.least].tolist())
        wrong += day >= 7 and bool(found)
        listed.append(found)
    return wrong / (days - 7)


def test_a_list_that_hints_at_itself_keeps_the_level() -> None:
    """600 rounds at level 0.2. The list of yesterday has a longer window's own reports, and would break it."""
    assert wrong_rounds(600) <= 0.22
    assert wrong_rounds(600, before=lambda _: 1) > wrong_rounds(600)


class TestRoundHints:
    HINTS = RoundHints(frozenset({"+12025550143", "+12025550199", "+14155550101"}), {1: frozenset({"+12025550143"})})
    LONGER = RoundHints(HINTS.hinted, {1: frozenset({"+12025550143"}), 7: frozenset({"+14155550101"})})

    def test_equal_hints_have_equal_bytes_and_read_back(self) -> None:
        for hints in (self.HINTS, self.LONGER):
            assert RoundHints.from_bytes(hints.to_bytes()) == hints
            assert hints.digest == RoundHints.from_bytes(hints.to_bytes()).digest
        assert self.HINTS.to_plain()["format"] == "hushcall-hints/1"  # as before there were lists of longer windows
        assert self.LONGER.to_plain()["format"] == "hushcall-hints/2"
        for bad in (b"", b"[1]", b'{"format":"hushcall-hints/1"}', b'{"format":"x","hinted":[],"listed":[]}'):
            with pytest.raises(InvalidParameter, match="hints must be"):
                RoundHints.from_bytes(bad)

    def test_each_bucket_gets_its_own_and_what_is_no_number_is_left_out(self) -> None:
        odd = RoundHints(self.HINTS.hinted | {"+4930123456", "drop table", "", "+1202"}, self.LONGER.listed)
        by_bucket = odd.by_bucket(SUFFIX, NANP)
        assert by_bucket == {
            202: Hints(frozenset({5_550_143, 5_550_199}), {1: frozenset({5_550_143})}),
            415: Hints(frozenset({5_550_101}), {7: frozenset({5_550_101})}),
        }
        (whole,) = odd.by_bucket(PLACED, NANP).values()
        assert len(whole.hinted) == 3


def test_profiles_that_ship_warn_at_a_twentieth_a_day() -> None:
    assert (DEFAULT.warn_level, DEFAULT.warn_share) == (0.05, 0.0125)
    assert replace(DEFAULT, level=0.25).warn_share == 0.25 / 4  # whoever lists at a higher level warns at it too
    assert replace(DEFAULT, warn_level=0.0).warn_share == 0
    with pytest.raises(InvalidParameter, match="warn_level must be 0 for sh-extended, which has one tier"):
        replace(PROFILES["paper"], warn_level=0.05)
