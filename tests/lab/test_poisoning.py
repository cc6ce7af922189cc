"""Fakes against the server's decisions: counts are the law's, tolerated lies list nobody, planted bugs are noticed."""

import json
import sys
from dataclasses import replace

import pytest

from hushcall.cli import main
from hushcall.lab.prove import planted_rules, poisoned_server, poisoning
from hushcall.lab.prove.poisoning_law import Terms, first
from hushcall.learn.bucket_setup import open_bucket
from hushcall.learn.decision import Rule, Support
from hushcall.numbers import NANP
from hushcall.profiles import DEFAULT, WINDOWS

DAILY = replace(DEFAULT, epsilon=4.0, windows=(1,), tolerance=20)
QUICKLY = ("the tolerance is ignored", "the tolerance is taken from the estimate alone")


def test_the_first_of_a_monotone_condition_is_found_from_any_guess() -> None:
    for true_from in (0, 1, 7, 50, 100):
        for guess in (0, 3, 49, 50, 51, 100, 1000):
            assert first(lambda k: k >= true_from, guess, 100) == true_from  # noqa: B023


@pytest.mark.parametrize("reports", [0, 5, 21, 60, 1000])
def test_the_law_and_the_servers_rule_say_the_same(reports: int) -> None:
    """Two ways to the same number; only the proof's own comes without the server's code."""
    for bits, tolerance in ((3, 0), (5, 20), (6, 3)):
        terms = Terms(4.0, bits, 10, 1e-3, 3_200_000_000, tolerance)
        rule = Rule(10, 1e-3, 3_200_000_000, tolerance=tolerance)
        assert terms.least(reports) == rule.least(Support(reports, terms.p, terms.q))


def test_the_small_plan_has_the_thresholds_of_four_hundred_area_codes() -> None:
    small = open_bucket(DAILY, poisoning.SMALL, 1000, bytes(32), poisoning.BUCKETS)
    whole = open_bucket(DAILY, NANP, 1000, bytes(32), poisoning.AREAS)
    assert small is not None
    assert whole is not None
    assert small.setting == whole.setting
    assert small.chance(1000, 10)(125) == whole.chance(1000, 10)(125) > 0.9


def test_fakes_for_an_even_chance_where_nothing_is_tolerated() -> None:
    bare = replace(DAILY, tolerance=0)
    assert [poisoning.by_law(bare, honest, 0.5) for honest in (5, 20, 100, 1000)] == [17, 18, 29, 51]
    assert [poisoning.by_law(DAILY, honest, 0.5) for honest in (5, 20, 100, 1000)] == [48, 38, 49, 71]


def test_a_fake_supports_its_victim_for_sure_and_hides_it_for_sure() -> None:
    learner = open_bucket(DAILY, poisoning.SMALL, 100, bytes(32), poisoning.BUCKETS)
    assert learner is not None
    publics = [bytes([place]) * 32 for place in range(50)]
    for hides, expected in ((False, 50), (True, 0)):
        sent = [(public, poisoning.fake_report(learner.mechanism, 205, public, hides=hides)) for public in publics]
        assert learner.supports(learner.tally(sent), [205]).tolist() == [expected]  # type: ignore[attr-defined]


def test_a_short_proof_finds_nothing_wrong() -> None:
    """Seeded, so the same every time: counts within a tenth of the law, f lies in vain, the old attack in vain."""
    found = poisoning.measure(8, 1, sizes=(5, 60), hidden=((150, 120),))
    assert found.broken == ""
    assert {row.window for row in found.needed} == {1, max(WINDOWS)}
    assert any(one.honest == 0 and one.fakes == poisoning.OLD_ATTACK for one in found.never)
    control = found.found[0]
    assert control.rate == 1.0, "without a tolerance the old attack works"


@pytest.mark.slow
def test_twenty_of_a_thousand_never_list_anybody_and_125_are_found() -> None:
    """The promise at n = 1000, ε = 4, f = 20; what is found with 90 % power is what ``plan`` says."""
    assert poisoning.never(DAILY, 1000, 1000, 1).listed == 0
    proof = poisoning.honest_count(DAILY, 1000, 200, 1)
    assert proof.name.startswith("125 of 1,000 ")
    assert proof.ok


@pytest.mark.parametrize(
    "name", [name if name in QUICKLY else pytest.param(name, marks=pytest.mark.slow) for name in planted_rules.BUGS]
)
def test_a_planted_bug_is_noticed(name: str) -> None:
    with planted_rules.BUGS[name]():
        assert planted_rules.noticed()


@pytest.mark.slow
def test_without_a_bug_nothing_is_noticed() -> None:
    assert planted_rules.noticed() == ""


@pytest.mark.parametrize(
    "areas", [poisoned_server.AREAS[:3], pytest.param(poisoned_server.AREAS, marks=pytest.mark.slow)], ids=len
)
def test_a_running_server_lists_what_the_law_says(areas: tuple[int, ...]) -> None:
    """Over HTTP, all suffixes decoded: 24 fakes alone and f among 60 list nobody, as many as the law asks for do."""
    outcomes = poisoned_server.attack(areas=areas)
    assert [one.scene.area for one in outcomes] == list(areas)
    assert all(one.ok for one in outcomes), outcomes
    assert [one.listed for one in outcomes[:3]] == [False, False, True]


def test_the_command_says_what_was_found(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    measure = poisoning.measure
    monkeypatch.setattr(poisoning, "measure", lambda *_, **__: measure(5, 1, sizes=(5, 20), hidden=()))
    arguments = ["hushcall", "prove", "poisoning", "--quick", "--no-http", "--no-bugs"]
    for more, expected in (([], "Fakes that it takes"), (["--json"], '"ok": true')):
        monkeypatch.setattr(sys, "argv", [*arguments, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        said = capsys.readouterr().out
        assert expected in said
    assert json.loads(said)["needed"][0]["half_by_law"] == 17
