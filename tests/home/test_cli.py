"""``hushcall home``: what its commands say, write and refuse."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.client.fake_server import FakeService, over_http
from tests.home.box import FritzBox, running

from hushcall.cli import main
from hushcall.client.storage.personal import Action, Personal
from hushcall.client.storage.store import Store
from hushcall_home import cli as cli_home
from hushcall_home import history
from hushcall_home.config import Config, Router
from hushcall_home.parts import Part

NOW = 1_800_000_000
Said = subprocess.CompletedProcess[str]
Run = Callable[..., Said]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("HUSHCALL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HUSHCALL_FRITZBOX_PASSWORD", raising=False)

    def words(*given: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["hushcall", "home", *map(str, given)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        found = capsys.readouterr()
        return subprocess.CompletedProcess([], code, found.out, found.err)

    return words


@pytest.fixture
def box() -> Iterator[FritzBox]:
    with running(FritzBox(lambda: NOW)) as found:
        yield found


@pytest.fixture
def url() -> Iterator[str]:
    with over_http(FakeService(lambda: NOW)) as found:
        yield found


def test_init_enrols_and_keeps_the_password_for_its_owner_only(
    run: Run, box: FritzBox, url: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{box.password}\n")
    words = ("init", "--server", url, "--fritzbox", box.address, "--fritzbox-user", box.user)
    done = run(*words, "--password-file", secret, "--json")
    assert done.returncode == 0, done.stderr
    assert box.password not in done.stdout
    folder = tmp_path / "home"
    assert (folder / "home.json").stat().st_mode & 0o777 == 0o600
    assert Config.load(folder).fritzbox == Router(box.address, box.user, box.password)
    log = tmp_path / "Master.csv"
    assert run("init", "--log", log, "--limit", "40").returncode == 0
    config = Config.load(folder)
    assert config.logs == (str(log),)
    assert config.fritzbox == Router(box.address, box.user, box.password, 40)
    assert run("init", "--fritzbox", "", "--log", tmp_path / "other.csv").returncode == 0
    assert Config.load(folder) == Config(logs=(str(tmp_path / "other.csv"),)), "what is given replaces"
    assert run("init", "--log", "").returncode == 2, "nothing would be left"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "must be given --fritzbox, --log or --folder"),
        (("--fritzbox", "fritz.box"), "--password-file must be given"),
        (("--fritzbox", "fritz.box", "--password-file", "/nowhere"), "--password-file must be readable"),
        (("--log", "x"), "server must be given the first time"),
        (("--log", "x", "--asterisk", "'"), "--asterisk must be a command (No closing quotation)"),
        (("--log", "x", "--page", "8470"), "--page must be an address like 127.0.0.1:8470, got '8470'"),
        (("--log", "x", "--page", "127.0.0.1:99999"), "--page must be an address and a port"),
        (("--log", "x", "--page", "0.0.0.0:80"), "--page-password-file must be given, or HUSHCALL_PAGE_PASSWORD"),
        (("--log", "x", "--page-password-file", "/dev/null"), "--page-password-file must hold a password"),
        (("--log", "x", "--page-password-file", "/"), "--page-password-file must be readable (Is a directory)"),
        (
            ("--log", "x", "--page", "0.0.0.0:80", "--page-only-from", "proxy"),
            "--page-only-from must be an address like",
        ),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_written(
    run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = run("init", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "home" / "home.json").exists()


def test_a_box_that_refuses_is_said_before_anything_is_written(
    run: Run, box: FritzBox, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSHCALL_FRITZBOX_PASSWORD", "wrong")
    done = run("init", "--server", url, "--fritzbox", box.address, "--fritzbox-user", box.user)
    assert done.returncode == 2
    assert "refuses the user hushcall, or its password" in done.stderr
    assert "needs the right to" in done.stderr
    assert not (tmp_path / "home").exists()


def test_old_firmware_is_said_at_once(run: Run, box: FritzBox, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSHCALL_FRITZBOX_PASSWORD", box.password)
    box.barring = False
    done = run("init", "--server", url, "--fritzbox", box.address, "--fritzbox-user", box.user)
    assert "Block the phonebook hushcall once" in " ".join(done.stdout.split())


def test_status_tells_every_part_and_the_next_step(run: Run, tmp_path: Path) -> None:
    with_parts = Store.open(tmp_path / "home")
    with_parts.put("server", "http://127.0.0.1:1")
    Part("fritzbox", ok=True, words="2 new calls; 41 contacts.", done=NOW).save(with_parts)
    Part("fritzbox-barring", ok=False, words="The FRITZ!Box is full.", todo="Delete some.").save(with_parts)
    with_parts.close()
    done = run("status")
    assert done.returncode == 1
    assert "ok   fritzbox: 2 new calls; 41 contacts." in done.stdout
    assert "look fritzbox-barring: The FRITZ!Box is full.\n     Delete some." in done.stdout
    said = json.loads(run("status", "--json").stdout)
    assert [row["topic"] for row in said["parts"]][:3] == ["fritzbox", "fritzbox-barring", "program"]
    assert said["parts"][2]["words"] == "hushcall home is not set up."
    assert said["parts"][0]["done"] == "2027-01-15T08:00:00Z"
    assert not said["ok"]


def test_status_says_that_the_program_does_not_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)
    with closing(Store.open(tmp_path / "home")) as store:
        store.put("server", "http://127.0.0.1:1")
        Config(logs=("x",)).save(tmp_path / "home")
        assert "look program: hushcall home does not run yet.\n     Run: hushcall home install" in run("status").stdout
        Part("x", words="1 new call; 1 contact.", tried=NOW - cli_home.QUIET_SECONDS).save(store)
        assert "has not run since 2027-01-15T06:00:00Z." in run("status").stdout
        Part("x", words="1 new call; 1 contact.", tried=NOW - 900).save(store)
        assert "program" not in run("status").stdout
        assert "or as .vcf files in a folder: hushcall home init --folder" in run("status").stdout


def test_status_of_nothing_says_what_to_do(run: Run) -> None:
    done = run("status")
    assert (done.returncode, "not set up" in done.stdout) == (1, True)
    assert run("run").returncode == 2


@pytest.fixture
def systemd_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of systemd's names that write down how they are called."""
    folder, log = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    for name in ("systemctl", "loginctl"):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return log


def test_install_writes_a_unit_of_the_user_and_enables_it_when_told(
    run: Run, tmp_path: Path, systemd_calls: Path
) -> None:
    assert run("install").returncode == 2, "nothing is set up yet"
    (tmp_path / "home").mkdir()
    Config(logs=("x",)).save(tmp_path / "home")
    done = run("install")
    path = tmp_path / ".config/systemd/user" / cli_home.UNIT
    assert f"Wrote {path}." in done.stdout
    assert "Next: loginctl enable-linger" in done.stdout
    assert not systemd_calls.exists()
    assert run("install", "--enable").returncode == 0
    assert systemd_calls.read_text().splitlines() == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable {cli_home.UNIT}",
        f"systemctl --user restart {cli_home.UNIT}",
        "loginctl enable-linger",
    ]


def test_install_says_what_systemd_refuses(run: Run, tmp_path: Path, systemd_calls: Path) -> None:
    (tmp_path / "home").mkdir()
    Config(logs=("x",)).save(tmp_path / "home")
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\necho no bus >&2; exit 1\n")
    done = run("install", "--enable")
    assert done.returncode == 2
    assert "systemctl --user daemon-reload: no bus. Without systemd" in done.stderr


@pytest.mark.parametrize("user", ["", "hushcall"])
def test_a_unit_starts_the_command_in_its_folder(user: str, tmp_path: Path) -> None:
    text = cli_home.unit(Path(sys.executable), tmp_path / "a home", user)
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(text)
    service = parsed["Service"]
    assert shlex.split(service["ExecStart"]) == [sys.executable, "home", "run"]
    assert shlex.split(service["Environment"]) == [f"HUSHCALL_HOME={tmp_path / 'a home'}"]
    assert (service["Type"], service["Restart"]) == ("notify", "always")
    assert service.get("User", "") == user
    assert parsed["Install"]["WantedBy"] == ("multi-user.target" if user else "default.target")
    if program := shutil.which("systemd-analyze"):
        path = tmp_path / cli_home.UNIT
        path.write_text(text.replace("User=hushcall", "User=root"))
        scope = [] if user else ["--user"]
        done = subprocess.run([program, *scope, "verify", str(path)], capture_output=True, text=True, check=False)
        assert cli_home.UNIT not in done.stderr, done.stderr


def test_the_program_runs_tells_of_a_caller_as_it_rings_and_ends_when_told(
    run: Run, box: FritzBox, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real process, on the real clock: nothing here waits for longer than it takes."""
    monkeypatch.setenv("HUSHCALL_FRITZBOX_PASSWORD", box.password)
    box.ring("2025550199")
    words = ("init", "--server", url, "--fritzbox", box.address, "--fritzbox-user", box.user)
    assert run(*words).returncode == 0
    folder = tmp_path / "home"
    config = Config.load(folder)
    assert config.fritzbox
    replace(config, fritzbox=replace(config.fritzbox, monitor_port=box.monitor_port)).save(folder)
    with closing(Store.open(folder)) as store:
        Personal({"+12025550143": Action.BLOCK}).save(store)
    program = [sys.executable, "-c", "from hushcall.cli import main; main()", "home", "run"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            while not box._listeners:
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.05)
            box.ring("2025550143")
            assert "a listed caller rings (block): on your own list" in next(
                line for line in process.stderr if "rings" in line
            )
        finally:
            process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 0
    with closing(Store.open(folder)) as store:
        assert [call.number for call in history.calls(store, 0)][-1] == "+12025550199"
    assert box.numbers_of(box.barred) == ["+12025550143"]
