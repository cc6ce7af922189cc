"""``hushcall export`` as a user runs it: to a file, through pipes, as JSON, and with errors that say what to do."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lists import DAY, START, TERMS, sample
from tests.pages import COMMANDS

from hushcall.client.screening.lookup import LIST_FILE
from hushcall.client.storage.store import LISTS
from hushcall.formats.blocklists import WRITERS
from hushcall.protocol.blocklist import Blocklist, Entry

EXPORT = """
import sys, typer
from hushcall.cli.export import export
from hushcall.errors import HushcallError
app = typer.Typer()
app.command()(export)
try:
    app()
except HushcallError as error:
    sys.exit(f"hushcall: {error}")
"""


def run(*arguments: object, code: int = 0, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", EXPORT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, input=given, timeout=60, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    assert b"Traceback" not in done.stderr
    return done


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "blocklist.jsonl"
    path.write_bytes(sample().to_bytes())
    return path


def test_to_stdout_come_the_writers_bytes_and_nothing_else(source: Path) -> None:
    assert run("--to", "yacb", "--list", source).stdout == WRITERS["yacb"].write(sample())
    piped = run("--to", "ios", "--list", "-", given=source.read_bytes())
    assert piped.stdout == WRITERS["ios"].write(sample())


def test_to_a_file_which_is_replaced_whole(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "black.txt"
    out.write_text("old")
    before = out.stat().st_ino
    said = run("--to", "asterisk", "--list", source, "--out", out).stdout.decode()
    assert "Version 12, 11 numbers for Asterisk" in said
    assert out.read_bytes() == WRITERS["asterisk"].write(sample())
    assert out.stat().st_ino != before
    assert sorted(os.listdir(tmp_path)) == ["black.txt", "blocklist.jsonl"]


def test_as_json(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.vcf"
    found = json.loads(run("--to", "vcard", "--list", source, "--out", out, "--json").stdout)
    assert found == {
        "to": "vcard",
        "out": str(out),
        "version": 12,
        "numbers": 11,
        "bytes": out.stat().st_size,
        "media_type": "text/vcard",
    }


def test_by_default_the_list_that_the_phone_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSHCALL_HOME", str(tmp_path))
    assert b"--list must name a blocklist.jsonl" in run("--to", "plain", code=1).stderr
    (tmp_path / LISTS).mkdir()
    (tmp_path / LISTS / LIST_FILE).write_bytes(sample().to_bytes())
    assert run("--to", "plain").stdout == WRITERS["plain"].write(sample())


def test_the_names() -> None:
    rows = json.loads(run("--names", "--json").stdout)["exports"]
    assert [row["name"] for row in rows] == list(WRITERS)
    shown = run("--names").stdout.decode()
    assert all(name in shown for name in WRITERS)


def test_errors_say_what_to_do(source: Path, tmp_path: Path) -> None:
    def error(*arguments: object, given: bytes = b"") -> str:
        return run(*arguments, code=1, given=given).stderr.decode()

    assert "--to must name one of spamblocker" in error("--list", source)
    assert "export must be one of spamblocker" in error("--to", "winamp", "--list", source)
    assert "can be read (No such file or directory)" in error("--to", "ios", "--list", tmp_path / "none")
    assert "can be written" in error("--to", "ios", "--list", source, "--out", tmp_path)
    assert "can be written" in error("--to", "ios", "--list", source, "--out", tmp_path / "no" / "where")
    assert "--json must come with" in error("--to", "ios", "--list", source, "--json")
    assert "list must start with a header of hushcall-list/1" in error("--to", "ios", "--list", "-", given=b"junk")
    assert os.listdir(tmp_path) == ["blocklist.jsonl"]


def test_what_only_warns_is_exported_on_request_as_the_docs_show(tmp_path: Path) -> None:
    twice = Entry("+12025550143", START - DAY, START, 2, 42.0, 36.0, 48.0, 1e-9, 1)
    once = Entry("+12025550199", START, START, 1, 21.0, 15.0, 27.0, 1e-9, 1)
    source = tmp_path / "blocklist.jsonl"
    source.write_bytes(Blocklist(2, 2, START + DAY, replace(TERMS, block_days=2), (twice, once)).to_bytes())
    for arguments in ((), ("--warned",)):
        shown = " ".join(("$ hushcall export --to plain --list blocklist.jsonl", *arguments))
        said = run("--to", "plain", "--list", source, *arguments).stdout.decode()
        assert f"{shown}\n…\n{said[said.index('! Entries') :]}" in COMMANDS
