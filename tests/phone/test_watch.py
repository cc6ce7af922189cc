"""``hushcall phone watch``: a log is followed through pieces, rotation and truncation, or looked at once."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.phone.conftest import NOW, Run

from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.reading import READERS
from hushcall.phone.home.store import Store


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
