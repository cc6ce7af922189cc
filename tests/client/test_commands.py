"""The phone's commands as its owner types them: what they print and change, and what they say when it is wrong."""

import os
import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.client.conftest import NOW, Run
from tests.client.fake_server import FakeService
from tests.client.lists_on_disk import BLOCKED, CLEAN, WARNED
from tests.formats.calls.writers import write

from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.storage.folder import locked
from hushcall.client.storage.store import LISTS
from hushcall.errors import Refused, Unreachable
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.round_document import RoundInfo

SPAM = "+12025550177"


def spam_log(folder: Path, number: str = SPAM) -> Path:
    path = folder / "calls.xml"
    path.write_bytes(write("sms-backup", [Call(number, NOW - 60, CallKind.MISSED)]))
    return path


def test_a_round_by_hand_and_what_can_be_seen_of_it(run: Run, home: Path, service: FakeService, tmp_path: Path) -> None:
    assert "1 call; 1 number called" in run("ingest", spam_log(tmp_path)).text
    assert "1 unknown number waiting" in run("status").text
    first = run("report").text
    assert "it will announce at a random moment" in first
    assert re.search(r"Run again after \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.", first)  # as sync, status and ledger say it
    assert run("report", "--hurry", "--json").json["action"] == "announced"
    assert run("explain").code == 2  # nothing has left yet
    assert "No report has left this phone yet (ε = 0). Announced: 1 area code in the clear" in run("ledger").text
    service.state = "collecting"
    assert "a report of 3 bytes was sent" in run("report", "--skip-delays").text
    (report,) = service.reports.values()
    explained = run("explain").text
    assert f"the report {report.hex(' ')} (3 bytes)" in explained
    assert "in the clear the area code, 202" in explained
    assert f"Behind it is {SPAM}: the number that called. That stays on the phone." in explained
    assert "kept" in explained
    plain = run("explain", "--json").json
    assert (plain["round"], plain["dummy"], plain["report"]) == (7, False, report.hex())
    assert plain["odds"][0]["number"] == SPAM
    ledger_rows = run("ledger", "--json").json
    assert [(spend["round"], spend["epsilon"]) for spend in ledger_rows["spends"]] == [(7, "4")]
    assert "1 report since" in run("ledger").text
    assert run("forget", "--yes").code == 0
    assert run("explain").code == 2
    assert run("ledger", "--json").json["spent"] == {"window": 4.0, "life": 4.0, "one_caller": 4.0}


def test_waiting_outlasts_a_network_that_is_away(
    run: Run, home: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, naps = HttpTransport.current_round, []

    def away(_: HttpTransport) -> RoundInfo:
        raise Unreachable("nobody there.")

    def nap(seconds: float) -> None:
        naps.append(seconds)
        monkeypatch.setattr(HttpTransport, "current_round", away if len(naps) == 1 else ask)
        service.state = "collecting"

    monkeypatch.setattr("hushcall.cli.client.commands.time.sleep", nap)
    said = run("report", "--wait", "--skip-delays")
    assert said.code == 0
    assert "Round 7: announced" in said.text
    assert "nobody there. This will be tried again" in said.text
    assert "a report of 3 bytes was sent" in said.text
    assert len(naps) == 2
    assert max(naps) <= 900


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_waiting_outlasts_a_server_in_trouble(
    run: Run, home: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    ask = HttpTransport.current_round

    def trouble(_: HttpTransport) -> RoundInfo:
        raise Refused(f"http-{status}", status, "no reason given.")

    def nap(_: float) -> None:
        monkeypatch.setattr(HttpTransport, "current_round", ask)
        service.state = "closed"

    monkeypatch.setattr("hushcall.cli.client.commands.time.sleep", nap)
    monkeypatch.setattr(HttpTransport, "current_round", trouble)
    assert run("report").code == 2  # who does not wait is told
    said = run("report", "--wait")
    assert said.code == 0, said.err
    assert f"({status}, http-{status}): no reason given. This will be tried again" in said.text
    assert "too late to join" in said.text


def test_waiting_does_not_outlast_a_refusal_that_stays(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def revoked(_: HttpTransport) -> RoundInfo:
        raise Refused("revoked", 403, "this device was revoked.")

    monkeypatch.setattr("hushcall.cli.client.commands.time.sleep", lambda _: pytest.fail("it waits for nothing"))
    monkeypatch.setattr(HttpTransport, "current_round", revoked)
    said = run("report", "--wait")
    assert said.code == 2
    assert "this device was revoked" in said.err


def test_waiting_outlasts_another_process_at_work(
    run: Run, home: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.state = "closed"
    with ExitStack() as other:
        other.enter_context(locked(home))
        monkeypatch.setattr("hushcall.client.client.locked", lambda folder, _: locked(folder, 0.0))
        monkeypatch.setattr("hushcall.cli.client.commands.time.sleep", lambda _: other.close())
        said = run("report", "--wait")
    assert said.code == 0, said.err
    assert "another hushcall" in said.text
    assert "too late to join" in said.text


def test_a_dummy_is_called_one_but_only_at_home(run: Run, home: Path, service: FakeService) -> None:
    run("report", "--skip-delays")
    service.state = "collecting"
    run("report", "--skip-delays")
    assert "a dummy, made up because no unknown number was left to report" in run("explain").text
    assert run("explain", "--json").json["dummy"] is True


@pytest.mark.parametrize(
    ("caller", "action"), [(BLOCKED, "block"), (WARNED, "warn"), (CLEAN, "allow"), ("911", "allow"), ("x", "allow")]
)
def test_check_tells_what_to_do(run: Run, home: Path, caller: str, action: str) -> None:
    said = run("check", caller)
    assert said.code == 0
    assert said.out.startswith(f"{action}: ")
    assert run("check", caller, "--json").json["action"] == action


def test_a_damaged_list_blocks_nobody_and_says_what_to_do(run: Run, home: Path) -> None:
    (home / LISTS / "list.jsonl").write_bytes(b"rubbish")
    said = run("check", BLOCKED)
    assert said.out == "allow: the list is damaged\n"
    assert "the list is damaged: run hushcall phone sync" in said.err


def test_two_at_once_wait_for_each_other_or_say_so(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushcall.client.client.locked", lambda folder, _: locked(folder, 0.05))
    with locked(home):
        said = run("report")
    assert said.code == 2
    assert f"another hushcall (process {os.getpid()}) is at work in it; wait until it has ended" in said.err
    assert run("report").code == 0


def test_the_example_needs_no_phone(run: Run, tmp_path: Path) -> None:
    said = run("explain", "--example")
    assert said.code == 0
    assert "A made-up report, all of it" in said.text
    assert "About 250,000 numbers" in said.text
    assert not (tmp_path / "home").exists()


def test_numbers_as_a_router_abroad_writes_them_count(run: Run, home: Path, tmp_path: Path) -> None:
    assert home.exists()
    log = tmp_path / "calls.csv"
    day = time.strftime("%d.%m.%y", time.gmtime(time.time() - 86_400))
    head = "sep=;\nTyp;Datum;Name;Rufnummer;Landes-/Ortsnetzbereich;Nebenstelle;Eigene Rufnummer;Dauer\n"
    log.write_text(f"{head}2;{day} 10:11;;0012025550143;USA;;5550100;0:00\n", encoding="utf-8")
    said = run("ingest", log, "--zone", "Europe/Berlin", "--json")
    assert (said.json["logs"][0]["strangers"], said.json["logs"][0]["foreign"]) == (1, 0), said.out
    assert run("check", "0012025550143").out.startswith("block")


BAD: list[tuple[list[str], str]] = [
    (["init", "--server", "calls.example"], "server must be an address like https://"),
    (["init", "--server", "{url}", "--max-epsilon", "0"], "the cap per report must be a positive finite number"),
    (["init", "--server", "{url}", "--max-epsilon", "nan"], "the cap per report must be a positive finite number"),
    (["init", "--server", "{url}", "--cap-window", "1"], "the cap per window must allow at least one report"),
    (["init", "--server", "{url}", "--block-days", "0"], "block days must be a whole number of at least 1"),
    (["init", "--server", "{url}", "--policy", "shout"], "policy must be one of block, warn"),
    (["init", "--server", "{url}", "--rounds-per-day", "0"], "rounds per day must be a whole number"),
    (["init", "--server", "{url}", "--root", "nothing.json"], "root must be the operator's root.json"),
    (["ingest"], "ingest must be given call logs, --contacts, or both"),
    (["ingest", "nothing.csv"], "call log must be readable"),
    (["ingest", "{noise}"], "call log must be in a known format"),
    (["ingest", "{noise}", "--format", "papyrus"], "format must be one of termux"),
    (["ingest", "{noise}", "--format", "ncid"], "NCID log file must have readable lines"),
    (["ingest", "--contacts", "nothing.vcf"], "contacts must be readable"),
    (["ingest", "{noise}", "--zone", "Mars/Olympus"], "zone must be a time zone like Europe/Berlin"),
    (["agi", "--listen", "nowhere"], "listen must be an address and a port"),
    (["agi", "--listen", "127.0.0.1:99999"], "listen must be an address and a port"),
    (["sync"], "a file of the list is not there. Is this the address"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_wrong_input_is_one_line_that_says_what_to_do(
    run: Run, home: Path, url: str, tmp_path: Path, words: list[str], message: str
) -> None:
    noise = tmp_path / "noise.dat"
    noise.write_bytes(b"neither fish nor fowl\n")
    said = run(*(word.format(url=url, noise=noise) for word in words))
    assert said.code == 2, said
    assert message in said.err
    assert said.err.startswith("hushcall: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("command", ["report", "sync", "ledger", "explain", "forget", "agi"])
def test_before_init_every_command_says_how_to_begin(run: Run, command: str) -> None:
    said = run(command)
    assert said.code == 2
    assert "set up first (hushcall phone init --server URL)" in said.err


def test_forget_all_leaves_nothing(run: Run, home: Path, tmp_path: Path) -> None:
    run("ingest", spam_log(tmp_path))
    assert run("forget", "--all", "--yes").code == 0
    assert not home.exists()
    assert run("status").code == 1
