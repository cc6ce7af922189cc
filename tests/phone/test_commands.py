"""The phone's commands as its owner types them: what they print and change, and what they say when it is wrong."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.phone.fake_server import DAY, FakeService, over_http
from tests.phone.lists_on_disk import BLOCKED, CLEAN, WARNED, put_list

from hushcall.blocklist import iso
from hushcall.cli import main
from hushcall.errors import Refused, Unreachable, UntrustedList
from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.reading import READERS
from hushcall.phone.client import HttpServer
from hushcall.phone.lock import locked
from hushcall.phone.phone import Phone
from hushcall.phone.round_info import RoundInfo
from hushcall.phone.store import LISTS, Store

NOW = int(time.time())
SPAM = "+12025550177"


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """Without line breaks, wherever the terminal's width put them."""
        return " ".join(self.out.split())


Run = Callable[..., Said]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``hushcall phone …`` in a home of its own."""
    monkeypatch.setenv("HUSHCALL_HOME", str(tmp_path / "home"))

    def words(*given: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["hushcall", "phone", *map(str, given)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        found = capsys.readouterr()
        return Said(code, found.out, found.err)

    return words


@pytest.fixture
def service() -> FakeService:
    found = FakeService(time.time, state="announcing", round=7)
    days = {"opens": 0, "collects": 300, "closes": 301}  # long: a random moment is not this very second
    found.changes = {name: iso(NOW + day * DAY) for name, day in days.items()}
    return found


@pytest.fixture
def url(service: FakeService) -> Iterator[str]:
    with over_http(service) as found:
        yield found


@pytest.fixture
def home(run: Run, url: str, tmp_path: Path) -> Path:
    """A phone that is set up, with a contact and a list."""
    assert run("init", "--server", url).code == 0
    (tmp_path / "contacts.txt").write_text("202-555-0199")
    assert run("ingest", "--contacts", tmp_path / "contacts.txt").code == 0
    put_list(tmp_path / "home", NOW, NOW + 5000)
    return tmp_path / "home"


def spam_log(folder: Path, number: str = SPAM) -> Path:
    path = folder / "calls.xml"
    path.write_bytes(READERS["sms-backup"].write([Call(number, NOW - 60, CallKind.MISSED)]))
    return path


# Status, in each state that a newcomer meets.


def test_status_on_a_fresh_machine(run: Run, tmp_path: Path) -> None:
    said = run("status")
    assert said.code == 1
    assert "this phone is not set up" in said.text
    assert "Run: hushcall phone init --server" in said.text
    assert not (tmp_path / "home").exists()  # looking makes nothing


def test_status_when_all_is_well(run: Run, home: Path) -> None:
    said = run("status")
    assert said.code == 0, said.out
    assert said.text.count("ok ") == 6
    assert run("status", "--json").json["ok"] is True


def test_status_without_a_server(run: Run, home: Path) -> None:
    store = Store.open(home)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        store.put("server", f"http://127.0.0.1:{unused.getsockname()[1]}")
    store.close()
    said = run("status")
    assert said.code == 1
    assert "does not answer" in said.text
    assert "reports wait, and the list still works" in said.text
    assert "ok list: version 5" in said.text


def test_status_with_an_expired_list(run: Run, home: Path) -> None:
    put_list(home, NOW, NOW - 60)
    said = run("status")
    assert said.code == 1
    assert "It expired on" in said.text
    assert "Run: hushcall phone sync" in said.text
    warned = run("check", BLOCKED)
    assert warned.out.startswith("block: ")  # it still answers
    assert "the list expired" in warned.err


@pytest.mark.parametrize(("off", "words"), [(7200, "120 minutes behind"), (-7200, "120 minutes ahead of")])
def test_status_with_a_wrong_clock(run: Run, home: Path, service: FakeService, off: int, words: str) -> None:
    service.clock = lambda: time.time() + off + 30
    said = run("status")
    assert said.code == 1
    assert f"clock is {words} the server's" in said.text.replace("119", "120")
    assert "Set the clock" in said.text


def test_a_server_cannot_break_the_display(run: Run, home: Path, service: FakeService) -> None:
    service.changes["state"] = "[/bold] [red]"
    assert "cannot be read" in run("status").text


# A round, a verdict, and the books.


def test_a_round_by_hand_and_what_can_be_seen_of_it(run: Run, home: Path, service: FakeService, tmp_path: Path) -> None:
    assert "1 call; 1 number called" in run("ingest", spam_log(tmp_path)).text
    assert "1 unknown number waiting" in run("status").text
    assert "it will announce at a random moment" in run("report").text
    assert run("report", "--hurry", "--json").json["action"] == "announced"
    assert run("explain").code == 2  # nothing has left yet
    assert "Nothing has left this phone yet" in run("ledger").text
    service.state = "collecting"
    assert "a report of 3 bytes was sent" in run("report", "--hurry").text
    (report,) = service.reports.values()
    explained = run("explain").text
    assert f"the report {report.hex(' ')} (3 bytes)" in explained
    assert "in the clear the area code, 202" in explained
    assert f"Behind it is {SPAM}: the number that called. That stays on the phone." in explained
    assert "kept" in explained
    plain = run("explain", "--json").json
    assert (plain["round"], plain["dummy"], plain["report"]) == (7, False, report.hex())
    assert plain["odds"][0]["number"] == SPAM
    books = run("ledger", "--json").json
    assert [(spend["round"], spend["epsilon"]) for spend in books["spends"]] == [(7, "4")]
    assert "1 report since" in run("ledger").text
    assert run("forget").code == 0
    assert run("explain").code == 2
    assert run("ledger", "--json").json["spent"] == {"window": 4.0, "life": 4.0}


def test_waiting_outlasts_a_network_that_is_away(
    run: Run, home: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, naps = HttpServer.current_round, []

    def away(_: HttpServer) -> RoundInfo:
        raise Unreachable("nobody there.")

    def nap(seconds: float) -> None:
        naps.append(seconds)
        monkeypatch.setattr(HttpServer, "current_round", away if len(naps) == 1 else ask)
        service.state = "collecting"

    monkeypatch.setattr("hushcall.cli.phone.time.sleep", nap)
    said = run("report", "--wait", "--hurry")
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
    ask = HttpServer.current_round

    def trouble(_: HttpServer) -> RoundInfo:
        raise Refused(f"http-{status}", status, "no reason given.")

    def nap(_: float) -> None:
        monkeypatch.setattr(HttpServer, "current_round", ask)
        service.state = "closed"

    monkeypatch.setattr("hushcall.cli.phone.time.sleep", nap)
    monkeypatch.setattr(HttpServer, "current_round", trouble)
    assert run("report").code == 2  # who does not wait is told
    said = run("report", "--wait")
    assert said.code == 0, said.err
    assert f"({status}, http-{status}): no reason given. This will be tried again" in said.text
    assert "too late to join" in said.text


def test_waiting_does_not_outlast_a_refusal_that_stays(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def revoked(_: HttpServer) -> RoundInfo:
        raise Refused("revoked", 403, "this device was revoked.")

    monkeypatch.setattr("hushcall.cli.phone.time.sleep", lambda _: pytest.fail("it waits for nothing"))
    monkeypatch.setattr(HttpServer, "current_round", revoked)
    said = run("report", "--wait")
    assert said.code == 2
    assert "this device was revoked" in said.err


def test_waiting_outlasts_another_process_at_work(
    run: Run, home: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.state = "closed"
    with ExitStack() as other:
        other.enter_context(locked(home))
        monkeypatch.setattr("hushcall.cli.phone.LOCK_PATIENCE", 0.0)
        monkeypatch.setattr("hushcall.cli.phone.time.sleep", lambda _: other.close())
        said = run("report", "--wait")
    assert said.code == 0, said.err
    assert "another hushcall" in said.text
    assert "too late to join" in said.text


def test_a_dummy_is_called_one_but_only_at_home(run: Run, home: Path, service: FakeService) -> None:
    run("report", "--hurry")
    service.state = "collecting"
    run("report", "--hurry")
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
    monkeypatch.setattr("hushcall.cli.phone.LOCK_PATIENCE", 0.05)
    with locked(home):
        said = run("report")
    assert said.code == 2
    assert f"another hushcall (process {os.getpid()}) is at work in it; wait until it has ended" in said.err
    assert run("report").code == 0


def test_the_example_needs_no_phone(run: Run, tmp_path: Path) -> None:
    said = run("explain", "--example")
    assert said.code == 0
    assert "A made-up report, all of it" in said.text
    assert "about 250,000 numbers" in said.text
    assert not (tmp_path / "home").exists()


# Settings.


def test_init_again_changes_only_what_is_given(run: Run, home: Path, url: str) -> None:
    first = run("init", "--server", url, "--max-epsilon", 2, "--json").json
    second = run("init", "--server", url, "--cap-life", 100, "--json").json
    assert (first["enrolled"], second["enrolled"]) == (False, False)
    assert first["device"] == second["device"]
    assert (second["limits"]["report"], second["limits"]["life"], second["limits"]["window"]) == (2.0, 100.0, 32.0)
    assert (home / LISTS).exists()


def test_another_server_gets_no_trust_from_the_old_one(run: Run, home: Path) -> None:
    with over_http(FakeService(time.time)) as other:
        said = run("init", "--server", other)
        assert "The list of" in said.text
        assert not (home / LISTS).exists()
        assert run("check", BLOCKED).out.startswith("allow: there is no list yet")


ROOT = '{"signed": {"_type": "root"}}'


def test_settings_change_without_naming_the_server_again(run: Run, home: Path) -> None:
    assert home.exists()
    said = run("init", "--rounds-per-day", 3)
    assert said.code == 0
    assert "Settings changed" in said.out
    assert "rounds_per_day 3" in said.out


def test_the_first_time_a_server_is_needed(run: Run) -> None:
    said = run("init", "--max-epsilon", 2)
    assert (said.code, "--server must be given the first time" in said.err) == (2, True)


def test_a_token_of_the_operator_is_taken_without_enrolling(run: Run, url: str, tmp_path: Path) -> None:
    token = "hcd_" + "ab" * 32
    said = run("init", "--server", url, "--token", token, "--json")
    assert said.code == 0
    assert settings_of(tmp_path / "home")["token"] == token
    assert "--token must be a device's token" in run("init", "--server", url, "--token", "secret").err


def test_a_file_that_is_no_root_is_refused_before_anything_is_enrolled(run: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a server's log")
    assert "root must be the operator's root.json" in run("init", "--server", url, "--root", tmp_path / "log.txt").err
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


def test_status_remembers_a_sync_that_was_refused(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home.exists()

    def refuse(*_: object) -> None:
        raise UntrustedList("it is older than the one that this phone has seen")

    monkeypatch.setattr(Phone, "sync", refuse)
    assert run("sync").code == 2
    said = run("status")
    assert "The last sync was refused" in said.text
    assert "ask the operator" in said.text


@pytest.fixture
def pinned(run: Run, home: Path, url: str, tmp_path: Path) -> Path:
    """The home of a phone that was given its operator's root."""
    (tmp_path / "root.json").write_text(ROOT)
    assert run("init", "--server", url, "--root", tmp_path / "root.json").code == 0
    return home


def settings_of(home: Path) -> dict[str, str]:
    store = Store.open(home)
    found = {name: store.get(name) for name in ("server", "token", "device", "root")}
    store.close()
    return found


@pytest.mark.parametrize("moment", ["server", "token", "device", "root", "stale_list"])
def test_a_crash_while_the_server_changes_leaves_the_old_one_with_what_was_pinned(
    run: Run, pinned: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before, put = settings_of(pinned), Store.put

    def crash(store: Store, name: str, value: str) -> None:
        if name == moment:
            raise KeyboardInterrupt
        put(store, name, value)

    with over_http(FakeService(time.time)) as other, monkeypatch.context() as patched:
        patched.setattr(Store, "put", crash)
        assert run("init", "--server", other).code != 0
    assert settings_of(pinned) == before
    assert before["root"] == ROOT
    assert (pinned / LISTS / "list.jsonl").exists()  # the root that a first sync pins lies beside it


@pytest.mark.parametrize("heal", ["init", "sync"])
def test_a_crash_after_the_server_changed_leaves_a_list_that_goes_at_the_next_chance(
    run: Run, pinned: Path, monkeypatch: pytest.MonkeyPatch, heal: str
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with over_http(FakeService(time.time)) as other:
        with monkeypatch.context() as patched:
            patched.setattr("hushcall.phone.moving.shutil.rmtree", crash)
            assert run("init", "--server", other).code != 0
        assert (settings_of(pinned)["server"], settings_of(pinned)["root"]) == (other, "")
        assert (pinned / LISTS / "list.jsonl").exists()
        run(*(["init", "--server", other] if heal == "init" else ["sync"]))
    assert not (pinned / LISTS / "list.jsonl").exists()
    assert settings_of(pinned)["server"] == other


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
    (["watch", "{noise}"], "call log must be in a known format"),
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


def test_status_of_a_damaged_store_says_what_to_do_and_that_works(run: Run, home: Path) -> None:
    for path in home.glob("phone.db*"):
        path.write_bytes(b"rubbish" * 1000)
    said = run("status")
    assert said.code == 1
    assert "start anew: hushcall phone forget --all" in said.text
    assert run("forget", "--all", "--yes").code == 0
    assert not home.exists()


# Following a log.


@pytest.fixture
def watching(run: Run, home: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    log = tmp_path / "cidcall.log"
    code = "from hushcall.cli import main; main()"
    words = ["phone", "watch", str(log), "--every", "0.1", "--json", "--format", "ncid"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def ring(number: int) -> bytes:
    return READERS["ncid"].write([Call(f"+1202555{number:04d}", NOW - 60, CallKind.INCOMING)])


def heard(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(json.loads(process.stdout.readline())["callers"])


def test_watch_follows_a_log_through_pieces_rotation_and_truncation(
    watching: subprocess.Popen[str], home: Path, tmp_path: Path
) -> None:
    log = tmp_path / "cidcall.log"
    assert watching.stderr is not None
    assert "is not there yet: waiting for it" in watching.stderr.readline()
    log.write_bytes(ring(101) + ring(102))
    assert heard(watching) == 2
    with log.open("ab") as file:
        file.write(ring(103) + ring(104)[:25])  # half a line stays for the next look
    assert heard(watching) == 1
    with log.open("ab") as file:
        file.write(ring(104)[25:])
    assert heard(watching) == 1
    with log.open("ab") as file:  # written, moved and begun anew between two looks
        file.write(ring(105))
    os.rename(log, tmp_path / "cidcall.log.1")
    draft = tmp_path / "draft"
    draft.write_bytes(ring(106))
    os.rename(draft, log)
    callers = 0
    while callers < 2:
        callers += heard(watching)
    log.write_bytes(ring(107))  # cut off and begun anew
    assert heard(watching) == 1
    store = Store.open(home)
    found = [row[0] for row in store.rows("SELECT number FROM callers WHERE last > 0 ORDER BY number")]
    store.close()
    assert found == [f"+1202555{number:04d}" for number in range(101, 108)]


def test_watch_once_is_for_cron(run: Run, home: Path, tmp_path: Path) -> None:
    log = tmp_path / "cidcall.log"
    log.write_bytes(ring(101))
    assert "1 call; 1 number called" in run("watch", log, "--once").text
    assert "no new calls" in run("watch", log, "--once").text
