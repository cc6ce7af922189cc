"""A server whose database was emptied, lost or spoilt says so in one sentence, and writes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.server.conftest import MakeService, Postgres, _name

from hushcall.cli import main
from hushcall.errors import InvalidParameter
from hushcall.server import in_force
from hushcall.server.backup import back_up
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
    in_force.record(service.settings)
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
    in_force.record(settings)
    open_service(settings).close()
    postgres.drop(url)
    postgres.server.psql(f"CREATE DATABASE {_name(url)}")
    for _ in range(2):  # nothing was written at the first
        with pytest.raises(InvalidParameter, match=r"^database must hold .*: it has no tables\. .*restore FILE"):
            open_service(settings)
    (settings.data / in_force.FILE).unlink()
    open_service(settings).close()
    postgres.drop(url)
