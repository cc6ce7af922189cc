"""A server whose database was emptied, lost or spoilt says so in one sentence, and writes nothing."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from tests.postgres import Postgres, name_of
from tests.server.conftest import MakeService

from hushcall.cli import main
from hushcall.errors import InvalidParameter
from hushcall.server import effective_settings
from hushcall.server.backup import back_up
from hushcall.server.db import store
from hushcall.server.db.engine import explaining, make_engine, parse_url
from hushcall.server.service import open_service
from hushcall.server.settings import load_settings

COMMANDS = (
    ["serve", "--port", "0"],
    ["config", "check"],
    ["round", "status"],
    ["round", "open"],
    ["admin", "tokens"],
    ["keys", "status"],
    ["keys", "init"],
    ["backup", "new.backup"],
)


@pytest.fixture
def served(make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a server that has served, and a backup of it beside."""
    monkeypatch.chdir(tmp_path)
    service = make_service()
    service.rounds.open(service.now)
    effective_settings.record(service.settings)
    back_up(service, Path("good.backup"))
    service.close()
    return service.settings.data


def hushcall(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hushcall", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("left", "words"), [(None, "is absent"), (0, "was cut off at 0 bytes"), (1, "was cut off at 1 byte")]
)
def test_a_folder_that_has_served_and_lost_its_database_is_damaged_for_every_command(
    served: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], left: int | None, words: str
) -> None:
    file = served / "hushcall.db"
    kept = file.read_bytes()
    file.unlink()
    if left is not None:
        file.write_bytes(kept[:left])
    before = content(Path())
    for command in COMMANDS:
        assert hushcall(monkeypatch, *command, "--data", str(served)) == 2, command
        said = capsys.readouterr().err
        assert said.startswith(f"hushcall: database must hold what this data folder has served with: it {words}.")
        assert "'hushcall restore FILE --overwrite'" in said
        assert "take an empty folder, got '" in said
        assert said.count("\n") == 1
        assert content(Path()) == before, command
    assert hushcall(monkeypatch, "restore", "good.backup", "--data", str(served), "--overwrite", "--as-it-was") == 0
    assert hushcall(monkeypatch, "round", "status", "--data", str(served)) == 0
    assert "Round 1" in capsys.readouterr().out


def test_a_new_folder_and_one_with_keys_alone_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    assert hushcall(monkeypatch, "config", "check", "--data", str(data)) == 0
    assert "database: none yet" in capsys.readouterr().out
    assert hushcall(monkeypatch, "keys", "init", "--data", str(data)) == 0
    keys = content(data / "keys")
    for file in data.glob("hushcall.db*"):
        file.unlink()  # lost before anything was served with it
    open_service(load_settings(data=data)).close()
    assert content(data / "keys") == keys


def test_an_emptied_postgresql_that_a_folder_has_served_with_is_damage(
    make_service: MakeService, postgres: Postgres
) -> None:
    url = postgres.fresh()
    settings = make_service(url).settings
    effective_settings.record(settings)
    open_service(settings).close()
    postgres.drop(url)
    postgres.server.psql(f"CREATE DATABASE {name_of(url)}")
    for _ in range(2):  # nothing was written at the first
        with pytest.raises(InvalidParameter, match=r"^database must hold .*: it has no tables\. .*restore FILE"):
            open_service(settings)
    (settings.data / effective_settings.FILE).unlink()
    open_service(settings).close()
    postgres.drop(url)


def _spoil(file: Path, table: str) -> None:
    """Flip every bit of the pages at which a table and its indices begin."""
    with closing(sqlite3.connect(file)) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        query = "SELECT rootpage FROM sqlite_master WHERE tbl_name = ?"
        roots = [row[0] for row in database.execute(query, (table,))]
    data = bytearray(file.read_bytes())
    for root in roots:
        place = slice((root - 1) * size, root * size)
        data[place] = bytes(byte ^ 255 for byte in data[place])
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("table", "commands"),
    [
        ("files", [one for one in COMMANDS if one != ["keys", "init"]]),
        ("admins", [["serve", "--port", "0"], ["config", "check"], ["admin", "tokens"], ["backup", "new.backup"]]),
        ("rounds", [["config", "check"], ["round", "status"], ["round", "open"], ["backup", "new.backup"]]),
    ],
)
def test_flipped_pages_end_a_command_in_one_sentence(
    served: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    table: str,
    commands: list[list[str]],
) -> None:
    _spoil(served / "hushcall.db", table)
    for command in commands:
        assert hushcall(monkeypatch, *command, "--data", str(served)) == 2, command
        said = capsys.readouterr().err
        assert said.startswith("hushcall: database must be whole: it is damaged (")
        assert "). 'hushcall restore FILE --overwrite' puts a backup back, got '" in said
        assert "hushcall.db" in said or "characters)" in said
        assert said.count("\n") == 1
    assert hushcall(monkeypatch, "restore", "good.backup", "--data", str(served), "--overwrite", "--as-it-was") == 0
    assert hushcall(monkeypatch, "config", "check", "--data", str(served)) == 0


def test_a_full_disk_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = parse_url(f"sqlite:///{tmp_path}/hushcall.db")
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    with pytest.raises(InvalidParameter, match=r"^database must be one that opens \(disk I/O error\)"), explaining(url):
        raise error
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    full = r"^database must have room to write: disk full\. Make room"
    with pytest.raises(InvalidParameter, match=full), explaining(url):
        raise sa.exc.OperationalError("INSERT …", {}, error)


def test_a_file_that_may_not_grow_is_a_full_disk(
    served: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def small(url: str) -> sa.Engine:
        engine = make_engine(url)
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count=1"))
        return engine

    monkeypatch.setattr(store, "make_engine", small)
    said = ""
    for _ in range(200):  # until no page of the file has room left
        if hushcall(monkeypatch, "admin", "token", "--note", "n" * 4000, "--data", str(served)):
            said = capsys.readouterr().err
            break
    assert said.startswith("hushcall: database must have room to write: disk full. Make room, then try again, got '")
