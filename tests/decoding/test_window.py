"""Windows: the scan is the naive sum, keeps its level, tolerates lies, and finds over a week what no day shows."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.mechanisms.cases import SUFFIXES, reports_of

from hushcall.decoding.pooled import PooledSupport
from hushcall.decoding.task import BucketSpec, DecodeTask, RoundTally
from hushcall.decoding.window import decode, find_in_windows, spans
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.bucket_setup import aggregator_of, open_bucket
from hushcall.mechanisms.decision import HeavyHitter, Rule, Support
from hushcall.mechanisms.parameters import to_plain
from hushcall.mechanisms.profiles import DEFAULT, PROFILES, WINDOWS, Profile
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.subspace.server import SubspaceAggregator, few_supports
from hushcall.mechanisms.tallies import SparseTally
from hushcall.protocol.numbers import NANP

SPAM = 5_550_143
SUFFIX_BITS = 24
Sealed = tuple[int, dict[str, Any], bytes]


def day(age: int, bits: int, users: int, heavy: int, seed: int = 0, tolerance: int = 0) -> RoundTally:
    aggregator = SubspaceAggregator(Subspace(4.0, bits), SUFFIXES, tolerance=tolerance)
    items = [SPAM] * heavy + random.Random(100 * seed + age).sample(SUFFIXES, users - heavy)
    return RoundTally(age, aggregator, aggregator.tally(reports_of(aggregator, items, b"day %d %d" % (age, seed))))


def test_a_slow_spammer_stands_out_over_a_week_and_on_no_day() -> None:
    """45 a day of 1000 at ε = 4 (83 would be needed), with days of different b among them."""
    days = [day(age, 5 + age % 2, 1000, 45) for age in range(7)]
    assert all(one.aggregator.find(one.tally, 0.0) == [] for one in days)
    (found,) = find_in_windows(days, WINDOWS)
    assert (found.item, found.length) == (SPAM, 4)
    (week,) = find_in_windows(days, (7,))
    assert week.low <= 7 * 45 <= week.high
    assert week.p_value < 1e-12
    assert not week.implausible


def test_a_window_of_equal_days_is_the_merged_tally() -> None:
    days = [day(age, 5, 300, 40) for age in range(3)]
    merged = days[0].tally.merge(days[1].tally).merge(days[2].tally)
    expected = [replace(hitter, length=3, strict=3) for hitter in days[0].aggregator.find(merged, 0.0)]
    assert expected
    assert find_in_windows(days, (3,)) == expected == find_in_windows(days[::-1], (3,))
    assert find_in_windows([], (3,)) == []


def test_a_window_over_two_domains_is_refused() -> None:
    small = SubspaceAggregator(Subspace(4.0, 5), range(3_000_000, 4_000_000))
    other = RoundTally(1, small, small.tally(reports_of(small, [3_000_001], b"1")))
    with pytest.raises(InvalidParameter, match="share one domain"):
        find_in_windows([day(0, 6, 10, 5), other], (2,))


def naive(past: Sequence[Any], windows: Sequence[int], tau: float) -> dict[int, int]:
    """{item: shortest length} of what the windows find, number by number."""
    out: dict[int, int] = {}
    for length in windows:
        inside = [one for one in past if one.age_rounds < length and one.tally.count]
        if not inside:
            continue
        rule, tolerance = inside[0].aggregator.rule(tau), inside[0].aggregator.tolerance * len(inside)
        law = PooledSupport.of(one.aggregator.law(one.tally.count) for one in inside)
        for item in inside[0].aggregator.domain:
            counts = [int(few_supports(one.tally, [item])[0]) for one in inside]
            estimate = sum(
                float(one.aggregator.law(one.tally.count).estimate(count))
                for one, count in zip(inside, counts, strict=True)
            )
            heaviest = max((1 - part.q) / (part.p - part.q) for part in law.parts)
            evidence = law.without(tolerance).p_value(sum(counts) - tolerance) * rule.hypotheses
            if evidence <= rule.level and estimate - tolerance * heaviest > tau:
                out.setdefault(item, length)
    return out


@pytest.mark.parametrize("tolerance", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_scan_finds_what_the_definition_says(seed: int, tolerance: int) -> None:
    world, domain = random.Random(seed), range(1 << 6)
    past = []
    for age in (0, 1, 3, 4, 6):
        aggregator = SubspaceAggregator(Subspace(3.0, world.choice([2, 3, 4]), 6), domain, 0.2, tolerance=tolerance)
        items = [7] * world.randrange(8) + [9] * 12 + [world.randrange(64) for _ in range(15)]
        past.append(
            RoundTally(age, aggregator, aggregator.tally(reports_of(aggregator, items, b"%d %d" % (seed, age))))
        )
    found = {hitter.item: hitter.length for hitter in find_in_windows(past, WINDOWS, 10.0)}
    assert found == naive(past, WINDOWS, 10.0)


def test_whole_numbers_add_up_too_and_in_parts() -> None:
    area = 4 << SUFFIX_BITS
    past, world = [], random.Random(2)
    for age in range(3):
        aggregator = SubspaceAggregator(WholeNumber(8.0, 8 + age % 2), SUFFIXES, areas=6)
        items = [area | SPAM] * 13 + [world.randrange(6) << SUFFIX_BITS | world.choice(SUFFIXES) for _ in range(1500)]
        past.append(RoundTally(age, aggregator, aggregator.tally(reports_of(aggregator, items, b"%d" % age))))
    (found,) = find_in_windows(past, (1, 3))
    assert (found.item, found.length) == (area | SPAM, 3)
    assert [find_in_windows(past, (1, 3), part=part, parts=3) for part in range(3)] == [[], [], [found]]


def scan(profile: Profile, rounds: Sequence[Sealed], newest: int, buckets: int = 1) -> list[HeavyHitter]:
    """What a server finds in the sealed tallies of a bucket."""
    return list(decode(DecodeTask.of_sealed(BucketSpec(newest, 202, 400, buckets, profile, NANP, {}), rounds)).hitters)


def sealed(profile: Profile, number: int, bits: int, heavy: int, users: int = 400) -> Sealed:
    aggregator = SubspaceAggregator(Subspace(profile.epsilon, bits), SUFFIXES)
    items = [SPAM] * heavy + random.Random(number).sample(SUFFIXES, users - heavy)
    tally = aggregator.tally(reports_of(aggregator, items, b"%d" % number))
    return number, to_plain(aggregator.mechanism), tally.to_bytes()


def test_the_servers_door_takes_bytes_in_any_order_and_gaps() -> None:
    profile = replace(DEFAULT, windows=WINDOWS, tolerance=2)
    rounds = [sealed(profile, number, 5 + number % 2, 30) for number in (11, 12, 14, 15, 17)]
    found = scan(profile, rounds, newest=17, buckets=3)
    assert [hitter.item for hitter in found] == [SPAM]
    assert found[0].length > 1
    assert scan(profile, rounds[::-1], newest=17, buckets=3) == found
    assert profile.reach == 7
    # Round 10 is too old to matter; a window forgets.
    assert scan(profile, [sealed(profile, 10, 5, 300), *rounds], newest=17, buckets=3) == found
    assert scan(profile, rounds, newest=30) == []
    daily = replace(profile, windows=(1,))
    assert scan(daily, rounds, newest=17) == []
    with pytest.raises(InvalidParameter, match="rounds must be different ones up to 16"):
        scan(profile, rounds, newest=16)


def test_a_daily_scan_is_the_daily_decision() -> None:
    profile = replace(DEFAULT, tolerance=5).daily
    one = sealed(profile, 3, 5, 150)
    aggregator = SubspaceAggregator(Subspace(4.0, 5), SUFFIXES, profile.level, 1, 5, profile.warn_level)
    (found,) = scan(profile, [one], newest=3)
    assert [found] == aggregator.find(aggregator.from_bytes(one[2]), profile.tau)


def test_lengths_that_add_no_round_are_no_decision() -> None:
    law, rule = Support(100, 0.6, 1 / 32), Rule()
    assert [span.length for span in spans([(0, law)], WINDOWS, rule)] == [1]
    assert [span.length for span in spans([(1, law), (5, law)], WINDOWS, rule)] == [2, 7]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from([2, 3, 5])), min_size=1, max_size=3, unique_by=lambda p: p[1]
    ),
    st.integers(0, 8),
    st.integers(0, 30),
)
def test_what_is_taken_away_is_the_worst_choice(parts: list[tuple[int, int]], some: int, count: int) -> None:
    laws = [Support(n, 0.9, 2.0**-b) for n, b in parts]
    law = PooledSupport.of(laws)
    some = min(some, law.reports)
    worst = law.without(some).p_value(count)
    for split in _splits([part.reports for part in law.parts], some):
        left = PooledSupport(
            tuple(Support(part.reports - gone, part.p, part.q) for part, gone in zip(law.parts, split, strict=True))
        )
        assert left.p_value(count) <= worst * (1 + 1e-9) + 1e-300


def _splits(sizes: list[int], some: int) -> list[list[int]]:
    if not sizes:
        return [[]] if some == 0 else []
    return [[take, *rest] for take in range(min(sizes[0], some) + 1) for rest in _splits(sizes[1:], some - take)]


class TestTolerance:
    def test_fakes_up_to_the_tolerance_change_nothing_that_noise_does_not(self) -> None:
        """f fakes support for sure: C = f + noise of n − f, which reaches the threshold exactly as noise does."""
        law, rule = Support(1000, 0.6, 1 / 32), Rule(10, 1e-3, 10**7, tolerance=20)
        with_fakes = law.without(20).p_value(rule.least(law) - 20)
        assert with_fakes * rule.hypotheses <= rule.level
        assert Rule(10, 1e-3, 10**7).least(law) < rule.least(law) - 10

    def test_the_price_at_a_thousand_phones(self) -> None:
        """The 90 % count goes from 93 to about 125 where 400 buckets are decided together."""

        def count(tolerance: int) -> int:
            aggregator = SubspaceAggregator(Subspace(4.0, 5), SUFFIXES, 1e-3, 469, tolerance)
            return aggregator.law(1000).detectable(aggregator.rule(10).least(aggregator.law(1000)))

        assert 90 <= count(0) <= 96
        assert 121 <= count(20) <= 129

    def test_a_bucket_of_fakes_lists_nothing(self) -> None:
        """24 fakes alone in a bucket: 17 were enough before."""
        aggregator = SubspaceAggregator(Subspace(4.0, 5), SUFFIXES, tolerance=20)
        rand = random.Random(5)
        publics = [rand.randbytes(32) for _ in range(29)]
        rows = np.array([aggregator.mechanism.rows(public) for public in publics], dtype=np.uint64)
        lies = [aggregator.mechanism.hashed(SPAM, public) for public in publics[:24]]
        honest = [rand.randrange(32) for _ in range(5)]
        tally = SparseTally(aggregator.made_by, rows, np.array(lies + honest, dtype=np.uint32))
        assert aggregator.find(tally, 10) == []
        trusting = SubspaceAggregator(Subspace(4.0, 5), SUFFIXES)
        (found,) = trusting.find(tally, 10)
        assert found.item == SPAM
        assert not found.implausible  # 29 honest holders get that far once in fifty times
        assert trusting.law(29).implausible(26)
        assert found.low <= found.clamped <= found.high <= 29

    @pytest.mark.parametrize("name", ["paper", "balanced", "balanced-whole"])
    def test_small_buckets_are_gated_out_by_the_same_rule(self, name: str) -> None:
        from hushcall.decoding.planning import smallest_bucket

        trusting = replace(PROFILES[name].daily, tolerance=0)
        before, after = smallest_bucket(trusting), smallest_bucket(replace(trusting, tolerance=20))
        assert before is not None
        assert after is not None
        assert after >= before + 20

    def test_honest_phones_are_seldom_implausible(self) -> None:
        """At most 0.003 of the numbers that *all* phones hold, from the law itself; half of them: never."""
        for n in (10, 100, 1000):
            law = Support(n, 0.63, 1 / 32)
            first = next(count for count in range(n + 2) if law.implausible(count))
            assert law.tail(first, n) <= 0.003 < law.tail(first - 1, n)
            assert law.tail(first, n // 2) < 1e-3
            both = PooledSupport.of([Support(n, 0.63, 1 / 32), Support(n, 0.55, 1 / 64)])
            least = next(count for count in range(2 * n + 2) if both.implausible(count))
            one, other = (np.asarray(stats.binom.pmf(np.arange(n + 1), n, part.p)) for part in both.parts)
            exact = np.convolve(one, other)
            assert exact[least:].sum() <= 0.003 < exact[least - 1 :].sum()


class TestNull:
    """Rounds without any spammer: what is listed stays within the level, however it is split."""

    WEEKS, DOMAIN, USERS = 1500, 1000, 60

    def listed(self, windows: Sequence[int], level: float, split: bool = True) -> float:
        """The share of weeks that list anything, with every number's count drawn from its law."""
        generator = np.random.default_rng([len(windows), *windows])
        share = level / len(windows) if split else level
        rule = Rule(0.0, share, self.DOMAIN)
        laws = [(age, Support(self.USERS + 5 * age, 0.6, 2.0 ** -(5 + age % 2))) for age in range(max(windows))]
        chosen = spans(laws, windows, rule)
        hits = 0
        for _ in range(self.WEEKS):
            counts = np.array([generator.binomial(law.reports, law.q, self.DOMAIN) for _, law in laws])
            hits += any((counts[: span.length].sum(axis=0) >= span.least).any() for span in chosen)
        return hits / self.WEEKS

    @pytest.mark.parametrize("windows", [(1,), (1, 2), (1, 7), (1, 2, 4, 7)])
    def test_the_level_holds_for_every_split(self, windows: Sequence[int]) -> None:
        """Level 0.2; 1 500 weeks; six deviations above is 0.262: a false alarm is rarer than 10⁻⁸."""
        assert self.listed(windows, 0.2) <= 0.262

    def test_a_level_that_is_not_split_is_caught(self) -> None:
        """Four decisions at the full level each list something in about 0.35 of all weeks."""
        assert self.listed((1, 2, 4, 7), 0.2, split=False) > 0.262


def test_a_bucket_too_small_for_a_day_runs_for_a_week() -> None:
    from hushcall.decoding.planning import smallest_bucket

    daily, weekly = smallest_bucket(DEFAULT.daily, 469), smallest_bucket(DEFAULT, 469)
    assert daily is not None
    assert weekly is not None
    assert weekly < daily / 2


@pytest.mark.parametrize("epsilon", [2.0, 4.0, 8.0])
def test_b_is_best_for_both_tiers_together_and_gates_no_bucket_out(epsilon: float) -> None:
    from hushcall.decoding.planning import over, smallest_bucket

    tiers = replace(DEFAULT, epsilon=epsilon)
    blocking = replace(tiers, warn_level=0.0)
    assert smallest_bucket(tiers, 400) == smallest_bucket(blocking, 400)

    def needed(profile: Profile, mechanism: Any, users: int) -> int:
        chance = over(aggregator_of(profile, NANP, mechanism, 400), 7).chance(7 * users, profile.tau)
        return next(count for count in range(7 * users + 1) if chance(count) >= 0.9)

    for users in (100, 1000):
        opened: Any = open_bucket(tiers, NANP, users, bytes(32), 400)
        bits = opened.mechanism.bits
        each = [replace(opened.mechanism, bits=bits + step) for step in (-1, 0, 1)]
        sums = [sum(needed(profile, mechanism, users) for profile in (tiers, blocking)) for mechanism in each]
        assert sums[1] <= min(sums) + 2, "sizes are rounded"


def test_a_plan_prices_tiers_tolerance_and_hints() -> None:
    from hushcall.decoding.planning import Outlook, outlook

    def priced(profile: Profile) -> Outlook:
        return outlook(profile, 1000, 150, 400)

    as_shipped, trusting = priced(DEFAULT), priced(replace(DEFAULT, tolerance=0))
    looser, one_tier = priced(replace(DEFAULT, level=0.05)), priced(replace(DEFAULT, warn_level=0.0))
    counts = [as_shipped.hinted, as_shipped.detectable, trusting.blocked, as_shipped.blocked]
    assert counts == sorted(counts, key=lambda count: count or 0)
    assert len(set(counts)) == 4
    assert (looser.blocked or 0) < (as_shipped.blocked or 0)
    assert one_tier.detectable == one_tier.blocked
    assert (priced(PROFILES["paper"]).hinted, priced(PROFILES["paper"]).blocked) == (None, None)


def test_a_large_round_of_whole_numbers_shares_its_updates_and_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways through one round: the one that shares is taken from four million updates on."""
    aggregator = SubspaceAggregator(WholeNumber(6.0, 7), range(2_000_000, 10_000_000), areas=3)
    items = [2 << SUFFIX_BITS | 5_550_143] * 150 + [place << SUFFIX_BITS | 4_000_000 for place in range(3)] * 3
    tally = aggregator.tally(reports_of(aggregator, items, b"shared"))
    past = [RoundTally(0, aggregator, tally)]
    wanted = find_in_windows(past, (1,), 5.0)
    assert [hitter.item for hitter in wanted] == [2 << SUFFIX_BITS | 5_550_143]
    asked: list[tuple[int, ...]] = []

    def shared(_: SubspaceAggregator, *given: int) -> bool:
        asked.append(given)
        return True

    monkeypatch.setattr(SubspaceAggregator, "shares_updates", shared)
    assert find_in_windows(past, (1,), 5.0) == wanted
    assert asked[0] == (len(items), 3)
