"""The proofs against a lying server and against watchers: promises hold, and each planted bug is noticed."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from hushcall.formats.calls.call import Call, CallKind
from hushcall.lab.prove import indistinguishable, named_attacks
from hushcall.lab.prove.hostile import POOL, Broken, Prey, attack
from hushcall.lab.prove.liar import DAY
from hushcall.lab.prove.planted import BUGS
from hushcall.numbers import NANP


def test_every_promise_is_kept_for_a_while() -> None:
    survived = attack(600, seed=5)
    assert survived.broken == ""
    assert survived.reports > 0  # otherwise nothing was attacked


@pytest.mark.slow
def test_every_promise_is_kept_for_long() -> None:
    assert attack(20_000, seed=100).broken == ""


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    assert len(BUGS) >= 10
    with BUGS[name]():
        assert attack(3000).broken


class AnyServer(RuleBasedStateMachine):
    """Hypothesis writes the server's script, and makes it short where it finds one that breaks a promise."""

    def __init__(self) -> None:
        super().__init__()
        self.prey = named_attacks.with_a_call()

    @rule(
        round_=st.sampled_from((1, 2, 3, 9, 10, 2**62)),
        state=st.sampled_from(("announcing", "collecting", "closed", "held")),
        window=st.sampled_from((1, 7, 366)),
        skip=st.booleans(),
        seed=st.sampled_from(("22", "33")),
    )
    def show(self, round_: int, state: str, window: int, skip: bool, seed: str) -> None:
        named_attacks.show(self.prey, round_, state, window=window, skip=skip, seed=seed * 32)

    @rule(days=st.sampled_from((0.1, 1, 8, 31)))
    def wait(self, days: float) -> None:
        self.prey.now += int(days * DAY)

    @rule(number=st.sampled_from(POOL[:2]))
    def ring(self, number: str) -> None:
        self.prey.phone.ingest([Call(number, self.prey.now, CallKind.MISSED)])


AnyServer.TestCase.settings = settings(max_examples=15, stateful_step_count=30, deadline=None, derandomize=True)
test_any_server = AnyServer.TestCase


def test_named_attacks_are_noticed_by_name() -> None:
    with BUGS["made-up callers are not kept"](), pytest.raises(Broken, match="while every bucket was skipped"):
        named_attacks.skipped_week()
    assert named_attacks.skipped_week(calls=True) == [202] * 6


def test_watchers_see_no_difference_and_would_see_a_bug() -> None:
    """Five standard deviations each: an honest phone fails less than once in a million, and these are seeded."""
    assert all(row.ok for row in indistinguishable.measure(30, days=3))
    with BUGS["nothing is sent in a skipped bucket"]():
        seen = [indistinguishable.watch(place, False, 2) for place in range(4)]
    assert len({one.shape for one in seen}) > 1  # the line would tell skipped buckets from running ones


def test_announced_area_codes_of_a_skipped_week_come_from_the_plans_law() -> None:
    """Phones without calls, all buckets skipped: the first announcement follows the law; a uniform one is caught.

    Chi-square over home, the ten likeliest others and the rest: above 42.9 at 11 degrees less than once in 10⁵; the
    coins are fixed, so the test is the same every time. Uniform made-up callers give more than 300.
    """
    home, count = 202, 150
    law = NANP.caller_law(home)
    bins = [home, *[area for area in sorted(law, key=lambda area: -law[area]) if area != home][:10]]
    found = [NANP.caller_like(Prey(1000 + place).coins, home).area for place in range(count)]
    uniform = [NANP.dummy(Prey(1000 + place).coins).area for place in range(count)]

    def statistic(areas: list[int]) -> float:
        expected = [float(law[area]) * count for area in bins]
        observed = [areas.count(area) for area in bins]
        rest = count - sum(expected), count - sum(observed)
        pairs = [*zip(expected, observed, strict=True), rest]
        return sum((seen - wanted) ** 2 / wanted for wanted, seen in pairs)

    assert statistic(found) < 42.9
    assert statistic(uniform) > 42.9


def test_the_guess_on_real_calls_is_worked_out_from_pairs() -> None:
    """Invented pairs by the plan's own law: call-like made-up callers cannot be told, uniform ones can."""
    homes = (202, 212, 303)
    pairs = [(NANP.caller_like(Prey(place).coins, homes[place % 3]).area, homes[place % 3]) for place in range(600)]
    found = indistinguishable.guess(pairs)
    assert found.call_like < 0.6
    assert found.uniform > 0.65
