"""Fakes against the server's decisions: counts are the law's, tolerated lies list nobody, planted bugs are noticed."""

import json
import sys
from dataclasses import replace

import pytest

from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.decision import Rule, Support
from hushcall.mechanisms.profiles import DEFAULT, WINDOWS
from hushcall.protocol.numbers import NANP
from hushcall_lab.cli import main
from hushcall_lab.proofs import decision_bugs, poisoned_server, poisoning
from hushcall_lab.proofs.poisoning import Law, first

DAILY = replace(DEFAULT, epsilon=4.0, windows=(1,), tolerance=20, warn_level=0.0)
QUICKLY = ("the tolerance is ignored", "the tolerance is taken from the estimate alone")


@pytest.fixture(params=["", pytest.param("postgresql", marks=pytest.mark.slow)], ids=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("postgres").fresh() if request.param else ""


def test_devices_with_a_name_and_a_token_have_one_voice(url: str) -> None:
    voices = poisoned_server.two_voices(*poisoned_server.VOICES[0], runs=1, url=url)
    assert (voices.second, voices.blocked) == (0, 0)
    assert voices.ok


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "tolerance"), poisoned_server.VOICES)
def test_two_voices_would_block_a_victim(devices: int, tolerance: int) -> None:
    with decision_bugs.BUGS["a device speaks by name and with a token"]():
        assert poisoned_server.two_voices(devices, tolerance, runs=1).blocked == 1


def test_the_first_of_a_monotone_condition_is_found_from_any_guess() -> None:
    for true_from in (0, 1, 7, 50, 100):
        for guess in (0, 3, 49, 50, 51, 100, 1000):
            assert first(lambda k: k >= true_from, guess, 100) == true_from  # noqa: B023


@pytest.mark.parametrize("reports", [0, 5, 21, 60, 1000])
def test_the_law_and_the_servers_rule_say_the_same(reports: int) -> None:
    """Two ways to the same number; only the proof's own comes without the server's code."""
    for bits, tolerance in ((3, 0), (5, 20), (6, 3)):
        law = Law(4.0, bits, 10, 1e-3, 3_200_000_000, tolerance)
        rule = Rule(10, 1e-3, 3_200_000_000, tolerance=tolerance)
        assert law.threshold(reports) == rule.least(Support(reports, law.p, law.q))


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
    aggregator = open_bucket(DAILY, poisoning.SMALL, 100, bytes(32), poisoning.BUCKETS)
    assert aggregator is not None
    publics = [bytes([place]) * 32 for place in range(50)]
    for hides, expected in ((False, 50), (True, 0)):
        sent = [(public, poisoning.fake_report(aggregator.mechanism, 205, public, hides=hides)) for public in publics]
        assert aggregator.supports(aggregator.tally(sent), [205]).tolist() == [expected]  # type: ignore[attr-defined]


def test_a_short_proof_finds_nothing_wrong() -> None:
    """Seeded, so the same every time: counts within a tenth of the law, f lies in vain, the old attack in vain."""
    evidence = poisoning.measure(8, 1, sizes=(5, 60), hidden=((150, 120),))
    assert evidence.broken == ""
    assert {row.window for row in evidence.needed} == {1, max(WINDOWS)}
    assert any(row.honest == 0 and row.fakes == poisoning.SINGLE_BUCKET_FAKES for row in evidence.never)
    control = evidence.found[0]
    assert control.rate == 1.0, "without a tolerance the old attack works"


@pytest.mark.slow
def test_twenty_of_a_thousand_never_list_anybody_and_125_are_found() -> None:
    """The promise at n = 1000, ε = 4, f = 20; what is found with 90 % power is what ``plan`` says."""
    assert poisoning.never(DAILY, 1000, 1000, 1).listed == 0
    proof = poisoning.honest_count(DAILY, 1000, 200, 1)
    assert proof.name.startswith("125 of 1,000 ")
    assert proof.ok


@pytest.mark.parametrize(
    "name", [name if name in QUICKLY else pytest.param(name, marks=pytest.mark.slow) for name in decision_bugs.BUGS]
)
def test_a_planted_bug_is_noticed(name: str) -> None:
    assert decision_bugs.noticed(bug=name)


@pytest.mark.slow
def test_without_a_bug_nothing_is_noticed() -> None:
    assert decision_bugs.noticed() == ""


@pytest.mark.parametrize(
    "areas", [poisoned_server.AREAS[:3], pytest.param(poisoned_server.AREAS, marks=pytest.mark.slow)], ids=len
)
def test_a_running_server_lists_what_the_law_says(areas: tuple[int, ...]) -> None:
    """Over HTTP, all suffixes decoded: 24 fakes alone and f among 60 list nobody, as many as the law asks for do."""
    outcomes = poisoned_server.prove(areas=areas)
    assert [outcome.scene.area for outcome in outcomes] == list(areas)
    assert all(outcome.ok for outcome in outcomes), outcomes
    assert [outcome.listed for outcome in outcomes[:3]] == [False, False, True]


def test_the_command_says_what_was_found(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    measure = poisoning.measure
    monkeypatch.setattr(poisoning, "measure", lambda *_, **__: measure(5, 1, sizes=(5, 20), hidden=()))
    monkeypatch.setattr(poisoned_server, "VOICES", ())
    arguments = ["hushcall", "prove", "poisoning", "--quick", "--no-http", "--no-bugs"]
    for more, expected in (([], "Fakes that it takes"), (["--json"], '"ok": true')):
        monkeypatch.setattr(sys, "argv", [*arguments, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        output = capsys.readouterr().out
        assert expected in output
    assert json.loads(output)["needed"][0]["half_by_law"] == 17
