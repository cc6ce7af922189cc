"""The proofs against a lying server and against watchers: promises hold, and each planted bug is noticed."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.formats.calls.call import CallKind
from hushcall.protocol.numbers import NANP
from hushcall_lab.proofs import hostile, indistinguishable, linking
from hushcall_lab.proofs.adversary import WHOLE, plain
from hushcall_lab.proofs.client_bugs import BUGS, LINKING_BUGS
from hushcall_lab.proofs.hostile import POOL, Victim
from hushcall_lab.proofs.indistinguishable import RATES
from hushcall_lab.proofs.promises import Broken


def test_every_promise_is_kept_for_a_while() -> None:
    result = hostile.prove(600, seed=5)
    assert result.broken == ""
    assert result.reports > 0  # otherwise nothing was attacked


@pytest.mark.slow
def test_every_promise_is_kept_for_long() -> None:
    assert hostile.prove(20_000, seed=100).broken == ""


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    assert len(BUGS) >= 10
    with BUGS[name]():
        assert hostile.prove(3000).broken


@pytest.mark.parametrize(
    ("bug", "attack"),
    [
        ("the list is fetched directly", "an honest server"),
        ("a new key is fetched within a report", "a key that nobody knows"),
        ("the server's relay is used", "a relay of its own"),
        ("a round is looked at once", "times of its own for each asker"),
        (
            "the gateway's key is kept until it is refused",
            "a gateway key of its own for each phone that asks its relay",
        ),
        ("messages leave when a run begins", "an honest server"),
        ("an expired list is none to stop for", "a list that is held back until it expires"),
        ("the log is not compared", "a copy of the server that its log does not know"),
    ],
)
def test_a_bug_that_tells_whose_a_report_is_is_noticed(bug: str, attack: str) -> None:
    with LINKING_BUGS[bug](), pytest.raises(Broken):
        linking.link(attack, 16, 1)


@pytest.mark.parametrize("attack", ["an honest server", "a clock of its own for each asker"])
def test_a_server_that_sees_all_but_the_relay_links_no_report_with_its_phone(attack: str) -> None:
    result = linking.link(attack, 16, 1)
    assert result.announced == (16 if attack == "an honest server" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("attack", linking.ATTACKS)
def test_a_fortnight_of_a_hundred_phones_links_none(attack: str) -> None:
    days = 14 if attack == "an honest server" else 1
    result = linking.link(attack, 100, days)
    assert (result.announced > 95 * days) == (linking.ATTACKS[attack] in ("", "relay"))


class AnyServer(RuleBasedStateMachine):
    """Hypothesis writes the server's script, and makes it short where it finds one that breaks a promise."""

    def __init__(self) -> None:
        super().__init__()
        self.victim = hostile.with_a_call()

    @rule(
        round_=st.sampled_from((1, 2, 3, 9, 10, 999_000, 2**62)),
        state=st.sampled_from(("announcing", "collecting", "closed", "held")),
        window=st.sampled_from((1, 7, 366)),
        skip=st.booleans(),
        seed=st.sampled_from(("22", "33")),
    )
    def show(self, round_: int, state: str, window: int, skip: bool, seed: str) -> None:
        self.victim.show(round_, state, window=window, skip=skip, seed=seed * 32)

    @rule(days=st.sampled_from((0.1, 1, 8, 31)))
    def wait(self, days: float) -> None:
        self.victim.now += int(days * DAY)

    @rule(number=st.sampled_from(POOL[:2]), seconds=st.sampled_from((0, 0, 20)))
    def ring(self, number: str, seconds: int) -> None:
        self.victim.call(number, kind=CallKind.INCOMING if seconds else CallKind.MISSED, seconds=seconds)

    @rule(number=st.sampled_from(POOL[:2]), action=st.sampled_from((Action.BLOCK, Action.ALLOW)))
    def mark(self, number: str, action: Action) -> None:
        self.victim.mark(number, action)


AnyServer.TestCase.settings = settings(max_examples=15, stateful_step_count=30, deadline=None, derandomize=True)
test_any_server = AnyServer.TestCase


def test_named_attacks_are_noticed_by_name() -> None:
    with BUGS["a talked-to caller is reported"](), pytest.raises(Broken, match="talked to is in a report"):
        hostile.talked_to_before(meanwhile=True)
    with BUGS["a caller let through is reported"](), pytest.raises(Broken, match="lets through is in a report"):
        hostile.let_through()
    with (
        BUGS["a caller in no report is announced again"](),
        pytest.raises(Broken, match="while every bucket was skipped"),
    ):
        hostile.skipped_week()
    assert sorted(hostile.skipped_week(5)[:5]) == [202, 202, 202, 212, 212], "each caller in a round of its own"


def test_watchers_see_no_difference_and_would_see_a_bug() -> None:
    """Five standard deviations each: an honest phone fails less than once in a million, and these are seeded."""
    assert all(row.ok for row in indistinguishable.measure(30, days=3))
    trace = indistinguishable.watch(0, RATES[2], 2 * indistinguishable.WEEK)
    assert all(trace.announced), "also what the phone's own store has forgotten by then"
    with BUGS["nothing is sent in a skipped bucket"]():
        traces = [indistinguishable.watch(place, RATES[0], 2) for place in range(4)]
    assert len({trace.shape for trace in traces}) > 1  # the line would tell skipped buckets from running ones


def test_announced_area_codes_of_a_skipped_week_come_from_the_plans_law() -> None:
    """Phones without calls, all buckets skipped: the first announcement follows the law; a uniform one is caught.

    Chi-square over home, the ten likeliest others and the rest: above 42.9 at 11 degrees less than once in 10⁵; the
    coins are fixed, so the test is the same every time. Uniform made-up callers give more than 300.
    """
    home, count = 202, 150
    law = indistinguishable.caller_law(home)
    bins = [home, *[area for area in sorted(law, key=lambda area: -law[area]) if area != home][:10]]
    call_like = [NANP.caller_like(Victim(1000 + place).rand, home).area for place in range(count)]
    uniform = [NANP.dummy(Victim(1000 + place).rand).area for place in range(count)]

    def statistic(areas: list[int]) -> float:
        expected = [float(law[area]) * count for area in bins]
        observed = [areas.count(area) for area in bins]
        rest = count - sum(expected), count - sum(observed)
        pairs = [*zip(expected, observed, strict=True), rest]
        return sum((number - mean) ** 2 / mean for mean, number in pairs)

    assert statistic(call_like) < 42.9
    assert statistic(uniform) > 42.9


def test_in_whole_number_rounds_all_but_the_reports_is_the_same_with_and_without_calls() -> None:
    def sent(*callers: str) -> tuple[list[tuple[int, str, int | bytes]], list[tuple[Any, ...]]]:
        victim, whole = Victim(3), {"mechanism": WHOLE, "epsilon": 4.0}
        bucket = {"0": {"runs": True, "report_bytes": 3, "parameters": plain(4.0, 5, WHOLE)}}
        hostile._daily_rounds(victim, 10, *callers, profile=whole, collecting={"buckets": bucket})
        requests = victim.servers[victim.url].requests
        shown = [(one.at, one.path, len(one.body) if one.method == "PUT" else one.body) for one in requests]
        return shown, victim.store.rows("SELECT announce_at, report_at, state FROM rounds")

    silent = sent()
    assert len(silent[1]) == 10
    assert {state for _, _, state in silent[1]} == {"sent"}
    assert silent == sent(POOL[0]) == sent(*POOL[:5])


def test_the_server_would_tell_by_the_course_of_a_week() -> None:
    """What broke before: a silent phone repeated its area code while one with several callers did not."""
    with BUGS["a caller in no report is announced again"]():
        rows = indistinguishable.measure(60)
    assert not all(row.ok for row in rows if row.eye.startswith("server: 7 days"))


@pytest.mark.slow
def test_no_rate_of_calls_is_told_within_sixty_days() -> None:
    assert all(row.ok for row in indistinguishable.measure(300, days=60))


def test_the_guess_on_real_calls_is_worked_out_from_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invented pairs by the plan's own law: made-up callers cannot be told by one, the owner's area code by seven."""
    monkeypatch.setattr(indistinguishable, "GUESSED_CLIENTS", 200)
    homes = (202, 212, 303)
    pairs = [(NANP.caller_like(Victim(place).rand, homes[place % 3]).area, homes[place % 3]) for place in range(600)]
    one, week, *_ = indistinguishable.guess(pairs)
    assert (one.announced, week.announced) == (1, 7)
    assert one.real < 0.6
    assert 0.4 < one.home < week.home > 0.8
