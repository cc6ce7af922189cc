"""``hushcall-lab demo``: real phones and a real server, figures that add up, and an end that leaves nothing behind."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.lab.small_demo import (
    DAYS,
    EXAMPLE,
    HUSHCALL,
    KEPT,
    PAGE,
    PHONES,
    as_the_page_has_it,
    run_demo,
    run_small,
    timeless,
)

from hushcall_lab.simulation.demo import WINDOW_ROUNDS, Plan, campaigns, settings_for
from hushcall_lab.simulation.fleet import Operator
from hushcall_lab.simulation.processes import SharedClock, server


def _environment(folder: Path, columns: int = 100) -> dict[str, str]:
    """Its temporary folders are made where the test can see that they are gone."""
    (folder / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(folder / "tmp"), "COLUMNS": str(columns)}


def _gone(folder: Path) -> None:
    left = [path for path in (folder / "tmp").iterdir() if path.name.startswith("hushcall-demo-")]
    assert not left, left


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A few days of a few phones, as a machine reads them. The port that it is told to take is taken."""
    folder = tmp_path_factory.mktemp("demo")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = run_small(folder, "--port", str(taken.getsockname()[1]), **_environment(folder))
    _gone(folder)
    return found


def test_the_same_seed_gives_the_same_figures(small: dict[str, Any]) -> None:
    """Those that are kept beside this test: of another machine, another day, other tokens and other keys."""
    assert timeless(small) == json.loads(KEPT.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_seed_makes_devices_numbers_and_nobodys_tokens(tmp_path: Path) -> None:
    made = []
    for run in ("first", "second"):
        clock = SharedClock(1_800_000_000.0)
        with server(settings_for(tmp_path / run), 0, clock, 7) as running:
            devices = Operator(running.url, running.token).ask("POST", "/v1/admin/devices", {"count": 5})["devices"]
        made.append(([row["device"] for row in devices], [running.token, *(row["token"] for row in devices)]))
    (numbers, tokens), (again, others) = made
    assert numbers == again
    assert len({*numbers}) == 5
    assert not {*tokens} & {*others}


def test_the_figures_add_up(small: dict[str, Any]) -> None:
    assert [day["day"] for day in small["days"]] == list(range(1, DAYS + 1))
    cast = {one.name: one for one in campaigns(Plan(PHONES, DAYS))}
    for day in small["days"]:
        at_work = {name for name, one in cast.items() if one.spam and one.calls_on(day["day"])}
        assert set(day["found"]) | set(day["missed"]) == at_work
        assert not set(day["found"]) & set(day["missed"])
        assert day["spam_calls"] == sum(round(cast[name].reach * PHONES) for name in at_work)
        assert 0 <= day["blocked"] + day["warned"] <= day["spam_calls"]
        assert 0 < day["reports"] < PHONES
        assert day["epsilon_today"] == pytest.approx(4 * day["reports"] / PHONES)
        assert day["epsilon_most"] == 4 * day["day"]
        assert day["listed"] >= len(day["found"]) + len(day["wrong"])
    first, last = small["days"][0], small["days"][-1]
    assert first["blocked"] == 0, "there was no list yet"
    assert last["blocked"] + last["warned"] > last["spam_calls"] / 3
    assert last["blocked"] > 0
    assert "car warranty" in small["days"][1]["found"], "what so few phones do not show in a day they show in two"


def test_fates_agree_with_the_days(small: dict[str, Any]) -> None:
    by_name = {fate["name"]: fate for fate in small["fates"]}
    for day in small["days"]:
        for name in day["found"]:
            assert by_name[name]["listed_on"] <= day["day"]
        for name in day["wrong"]:
            assert name == "the school"
    assert by_name["the pharmacy"]["listed_on"] is None
    assert all(fate["left_on"] is None or fate["left_on"] > WINDOW_ROUNDS for fate in small["fates"] if fate["spam"])


@pytest.mark.slow
def test_the_default_demo_prints_what_its_page_shows(tmp_path: Path) -> None:
    """From calls to list the demo follows from its seed: another figure here means that something was changed."""
    shown = as_the_page_has_it(run_demo(tmp_path, "--port", "0", **_environment(tmp_path, columns=80)))
    assert len(shown.splitlines()) > 15
    assert f"{EXAMPLE}{shown}\n```" in PAGE.read_text(encoding="utf-8")


INTERRUPTIBLE = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);from hushcall_lab.cli import main; main()",
]
"""Whoever runs the tests in the background has told everything below to ignore Ctrl-C."""


@pytest.mark.slow
def test_ctrl_c_ends_it_cleanly_at_any_time(tmp_path: Path) -> None:
    environment = _environment(tmp_path)
    command = [*INTERRUPTIBLE, "demo", "--phones", "200", "--days", "60", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout
    while "day 1:" not in process.stdout.readline():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everybody
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Stopped early" in out
    assert "Traceback" not in errors
    _gone(tmp_path)
    deadline = time.monotonic() + 60
    while _somebody_left(process.pid):
        assert time.monotonic() < deadline, "a process of the demo lives on"
        time.sleep(0.1)


def _somebody_left(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_where_a_person_watches_the_dashboard_stays_until_ctrl_c(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*INTERRUPTIBLE, "demo", "--phones", "200", "--days", "1", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env=_environment(tmp_path),
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    text = _read_until(ours, process, "sign in with")
    found = re.search(r"http://127\.0\.0\.1:(\d+)/ +until", text)
    assert found, text[-800:]
    with socket.create_connection(("127.0.0.1", int(found[1])), timeout=60):
        pass  # it is there
    os.killpg(process.pid, signal.SIGINT)
    _read_until(ours, process, "Ended")
    assert process.wait(timeout=120) == 0
    os.close(ours)
    _gone(tmp_path)


def _read_until(terminal: int, process: subprocess.Popen[Any], words: str) -> str:
    text, deadline = "", time.monotonic() + 300
    while words not in text:
        assert time.monotonic() < deadline, text[-800:]
        if select.select([terminal], [], [], 1)[0]:
            try:
                text += os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                break
        elif process.poll() is not None:
            break
    assert words in text, text[-800:]
    return text


def test_odd_sizes_are_refused_in_words() -> None:
    done = subprocess.run([*HUSHCALL, "demo", "--phones", "10"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--phones" in done.stderr
