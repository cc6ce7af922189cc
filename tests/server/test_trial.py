"""``hushcall-lab phones``: test phones against a real server, moved on by its operator."""

from __future__ import annotations

import io
import json
import sys
from contextlib import nullcontext

import pytest
from tests.server.conftest import MakeService
from tests.server.serving import Clock, operator_token

from hushcall.cli import show
from hushcall.protocol.numbers import plan_named
from hushcall.server.publishing import exclusions
from hushcall.server.service import Service
from hushcall_lab.cli import main
from hushcall_lab.cli.output import steps
from hushcall_lab.servers import running
from hushcall_lab.simulation.trial import Trial, run

SPAMMER = "+12025550110"
SMALL = Trial(count=16, spammers=1, reach=0.75, seed=3)


@pytest.fixture
def service(make_service: MakeService) -> Service:
    """A small server with a round that is announcing."""
    made = make_service("")
    made.rounds.advance(made.now)
    return made


def test_with_an_operators_token_a_round_is_over_at_once(service: Service, clock: Clock) -> None:
    said: list[str] = []
    token = operator_token(service)
    with running(service) as url:
        done = run(SMALL, url, token, lambda what, *_: said.append(what), clock)
        exclusions.appeal(service.store, SPAMMER, "our own switchboard", "me", service.now)
        again = run(SMALL, url, token, clock=clock)  # it opens the next round
    assert (done.round, done.phones, done.announced, done.state) == (1, 16, 16, "published")
    assert done.reports + done.covers == 16
    assert [(one.number, one.phones, one.listed) for one in done.planted] == [(SPAMMER, 12, True)]
    assert done.wrong == ()
    assert "round 1 is moved on from announcing" in said
    assert any("the first time it has to compile" in words for words in said)
    assert again.round == 2
    assert [one.listed for one in again.planted] == [False]


def test_where_nobody_watches_each_step_that_takes_long_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(show, "busy", lambda: nullcontext(said.append))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with steps("phones enrol") as progress:
        for what in ("phones announce", "phones announce", "round 1 is moved on from collecting"):
            progress(what, 0, 1)
    assert said == ["phones announce ...", "round 1 is moved on from collecting ..."]


def test_other_countries_have_spammers_too() -> None:
    plan = plan_named("DE")
    numbers = Trial(spammers=3).planted(plan)
    assert len({number.area for number in numbers}) == 1
    assert len({str(number) for number in numbers}) == 3
    assert numbers == Trial(spammers=3).planted(plan)


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hushcall-lab", "phones", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_command(service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    token = operator_token(service)
    with running(service) as url:
        words = ("--server", url, "--operator", token, "--count", "1", "--spammers", "1", "--reach", "1")
        assert command(monkeypatch, *words) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "Round 1: 1 phone enrolled, 1 announced, 0 reports sent, 1 cover in place of one" in text
        assert f"{SPAMMER}: called 1 phone, and is not on the list. Appeals" in text
        assert command(monkeypatch, *words, "--json") == 0
        assert json.loads(capsys.readouterr().out)["round"] == 2


@pytest.mark.parametrize("server", ["https://calls.example.org", "http://192.0.2.7:8750", "http://[2001:db8::1]:8750"])
def test_real_servers_are_spared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: str
) -> None:
    assert command(monkeypatch, "--server", server, "--operator", "hca_x") == 2
    assert "be meant: --really" in capsys.readouterr().err


def test_what_is_no_server_is_told_before_anything_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "--server", "http://127.0.0.1:9", "--operator", "hca_x") == 2  # nobody listens there
    assert "does not answer" in capsys.readouterr().err
