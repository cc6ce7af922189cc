"""The audit itself: it finds steps exactly, agrees with formulas, catches every mutant, and its black box has power."""

from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.local_hashing.client import LocalHashing
from hushcall.mechanisms.profiles import PROFILES, Profile
from hushcall.mechanisms.randomisers import Accounting, basic, exact_round_ratio, extended, tuned
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.mechanisms.succinct_histogram.server import SuccinctHistogramAggregator
from hushcall.protocol.exact import exp_below
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import ONE, seeded
from hushcall_lab.audit import examples, mutants
from hushcall_lab.audit.blackbox import lower_bound
from hushcall_lab.audit.enumeration import Broken, Probe, examine, log, probe_items, steps, worst_ratio
from hushcall_lab.audit.examples import histogram


@given(st.lists(st.integers(1, ONE - 1), max_size=12), st.lists(st.integers(0, ONE), max_size=4))
def test_steps_are_found_exactly_whatever_the_hints(cuts: list[int], hints: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), ONE]

    def outcome(word: int) -> bytes:
        return bytes([sum(word >= edge for edge in edges[1:-1])])

    pieces = steps(outcome, {hint for hint in hints if 0 < hint < ONE})
    assert pieces == [(bytes([i]), edges[i + 1] - edges[i]) for i in range(len(edges) - 1)]


def test_outcomes_that_do_not_lie_in_intervals_are_refused() -> None:
    with pytest.raises(Broken, match="do not lie in intervals"):
        steps(lambda word: bytes([word & 1]), set())


@pytest.mark.parametrize(
    "budget", [pytest.param(0.5, marks=pytest.mark.slow), 4.4, pytest.param(12.0, marks=pytest.mark.slow)]
)
def test_every_claim_holds_and_is_tight(budget: float) -> None:
    rows = list(examples.findings((budget,)))
    assert len(rows) == examples.rows_per_budget()
    for row in rows:
        assert row.ok, row
        assert row.exact == pytest.approx(row.claimed, rel=1e-6), row


@pytest.mark.slow
def test_a_basic_round_costs_half_of_what_the_paper_charges() -> None:
    rows = {row.randomiser: row for row in examples.findings((2.2,))}
    basic_round, extended_round = rows["basic, one round"], rows["extended, one round"]
    assert (basic_round.paper, basic_round.claimed) == (4.4, 2.2)
    assert basic_round.exact == pytest.approx(2.2)
    assert (extended_round.paper, extended_round.claimed) == (4.4, 4.4)
    assert extended_round.exact == pytest.approx(4.4)


@given(st.floats(0.05, 10), st.fractions(Fraction(1, 100), Fraction(99, 100)))
def test_the_closed_form_of_a_round_is_at_most_its_claim(epsilon: float, share: Fraction) -> None:
    ratio = exp_below(Fraction(epsilon))
    keep = int(ONE * ratio / (ratio + 1) * share)
    for odds, cost in (
        (basic(epsilon), Fraction(epsilon)),
        (extended(epsilon), 2 * Fraction(epsilon)),
        (tuned(epsilon, keep), Fraction(epsilon)),
    ):
        exact = exact_round_ratio(odds.keep, odds.flip, odds.noise, ONE)
        assert exact is not None
        assert exact <= exp_below(cost)
        assert log(exact) == pytest.approx(float(cost), abs=1e-9)


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_every_mutant_is_caught(name: str) -> None:
    mutant = mutants.MUTANTS[name]()
    finding = examine(mutant, epsilon=float(mutant.cost))
    assert not finding.ok
    assert finding.why


def test_there_are_many_kinds_of_mutants() -> None:
    assert len(mutants.MUTANTS) >= 8


def test_the_black_box_leaves_honest_claims_standing() -> None:
    """False alarms: 10⁻³ each by construction, so 5·10⁻³ over these (and the seed is fixed)."""
    for subject in (
        LocalHashing(2.0),
        LocalHashing(3.0),
        Subspace(2.0, 3),
        histogram("extended", 4.4, Accounting.PAPER),
        histogram("basic", 4.4, Accounting.EXACT),
    ):
        bound = lower_bound(subject, seeded(b"honest"), samples=4000)
        assert bound.consistent, bound


def test_the_black_box_has_power() -> None:
    """It comes within 15 % of the truth for OLH, and convicts phones that spend twice what they claim."""
    assert lower_bound(LocalHashing(2.0), seeded(b"power"), samples=20_000).lower > 0.85 * 2.0

    @dataclass(frozen=True)
    class Overspending(LocalHashing):
        @property
        def cost(self) -> Fraction:
            return Fraction(self.epsilon) / 2

    guilty = [Overspending(2.0), Overspending(3.0), mutants.MUTANTS["odds of a narrower hash"]()]
    for mutant in guilty:
        bound = lower_bound(mutant, seeded(b"guilty"), samples=20_000)
        assert not bound.consistent, bound


def slowly(value: object, is_slow: bool) -> object:
    return pytest.param(value, marks=pytest.mark.slow) if is_slow else value


@pytest.mark.parametrize("name", [slowly(name, name == "sensitive-whole") for name in PROFILES if name != "paper"])
def test_what_a_round_really_hands_out_costs_what_it_says(name: str) -> None:
    """Every profile at the parameters of a bucket of 1000 (a round of 23 188): two-byte values included."""
    profile = PROFILES[name]
    users = 1000 if profile.bucketed else 23_188
    aggregator = open_bucket(profile, NANP, users, bytes(32))
    assert aggregator is not None
    if getattr(aggregator.mechanism, "bits", 0) > 11:
        pytest.skip("more values than the audit enumerates; the odds are the same code's")
    assert aggregator.mechanism.cost == Fraction(profile.epsilon)
    finding = examine(aggregator.mechanism, epsilon=profile.epsilon)
    assert finding.ok
    assert finding.exact == pytest.approx(profile.epsilon, rel=1e-6)


@pytest.mark.parametrize("channels", [4, pytest.param(64, marks=pytest.mark.slow)])
def test_the_papers_profile_costs_what_it_says_with_all_its_channels(channels: int) -> None:
    aggregator = open_bucket(PROFILES["paper"], NANP, 1000, bytes(32))
    assert isinstance(aggregator, SuccinctHistogramAggregator)
    assert aggregator.mechanism.channels == 64
    mechanism = replace(aggregator.mechanism, channels=channels)
    ratio = worst_ratio(Probe(mechanism), probe_items(mechanism)[:2], mechanism.draws())
    assert ratio <= exp_below(mechanism.cost)


@given(st.floats(3.01, 39))
def test_no_profile_costs_more_than_its_epsilon(epsilon: float) -> None:
    profile = Profile("test", "test", "sh-extended", epsilon, 143)
    assert profile.epsilon_hh + Fraction(profile.epsilon_olh) == Fraction(epsilon)
