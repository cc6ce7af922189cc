"""Settings are said once: what ``serve`` started with stands for every command that is given the folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hushcall.cli import main
from hushcall.errors import InvalidParameter
from hushcall.server import effective_settings, serve
from hushcall.server.service import open_service
from hushcall.server.settings import load_settings

PG = "postgresql://u:secret@127.0.0.1:1/calls"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a server that was started with a round every ten minutes."""
    monkeypatch.chdir(tmp_path)
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = load_settings(data=tmp_path / "data", round={"period": 600, "profile": "strong"})
    open_service(settings).close()
    effective_settings.record(settings)
    return settings.data


def hushcall(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hushcall", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_round_admin_and_config_know_what_serve_was_told(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hushcall(monkeypatch, "round", "open", "--data", str(data), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["profile"] == "strong"
    assert shown["opens"][:16] != shown["next"][:16]
    assert shown["opens"][:10] == shown["next"][:10] or shown["opens"][11:13] == "23"
    assert hushcall(monkeypatch, "config", "show", "--data", str(data), "--json") == 0
    assert json.loads(capsys.readouterr().out)["round"]["period"] == 600
    assert hushcall(monkeypatch, "admin", "tokens", "--data", str(data)) == 0
    assert capsys.readouterr().err == ""


def test_an_option_or_a_variable_against_the_service_is_refused_by_name(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUSHCALL_ROUND__PERIOD", "3600")
    assert hushcall(monkeypatch, "round", "open", "--data", str(data)) == 2
    said = capsys.readouterr().err
    assert said.startswith("hushcall: round.period must be that of the service, 600 (")
    assert said.endswith("leave it out, or start 'hushcall serve' with it first, got 3600\n")
    monkeypatch.delenv("HUSHCALL_ROUND__PERIOD")
    assert hushcall(monkeypatch, "keys", "status", "--data", str(data), "--database", PG) == 2
    said = capsys.readouterr().err
    assert said.startswith("hushcall: database must be that of the service, 'SQLite in the folder'")
    assert "secret" not in said
    monkeypatch.setenv("HUSHCALL_ROUND__DECODERS", "0")  # each process's own business
    assert hushcall(monkeypatch, "round", "status", "--data", str(data)) == 0


def test_a_changed_file_gets_a_note_and_waits_for_serve(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("hushcall.toml").write_text("[round]\nperiod = 3600\n", encoding="utf-8")
    assert hushcall(monkeypatch, "round", "open", "--data", str(data), "--json") == 0
    out, err = capsys.readouterr()
    assert err == (
        "hushcall: round.period is 600 in the service and 3600 in the settings' file: "
        "the service's counts until 'hushcall serve' starts again\n"
    )
    assert json.loads(out)["profile"] == "strong"
    assert hushcall(monkeypatch, "config", "check", "--data", str(data)) == 0
    assert "at the next start: round.period is 600 in the service and 3600" in capsys.readouterr().out
    Path("hushcall.toml").write_text(f"database = '{PG}'\n", encoding="utf-8")
    assert hushcall(monkeypatch, "round", "status", "--data", str(data)) == 2  # another database is no small thing


def test_no_password_is_kept_and_its_absence_is_said(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / effective_settings.FILE).unlink()
    for given in (PG.replace(":secret", "") + "?password=secret", PG):
        path = effective_settings.record(load_settings(data=data, database=given, round={"period": 600}))
        assert "secret" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidParameter, match=r"come with its password.*set PGPASSWORD, or give --database"):
        effective_settings.of_folder(data=data)
    found, different = effective_settings.of_folder(data=data, database=PG)
    assert (found.url, found.round.period, different) == ("postgresql+psycopg" + PG[10:], 600, [])
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert effective_settings.of_folder(data=data)[0].url == "postgresql+psycopg://u@127.0.0.1:1/calls"


def test_serve_keeps_to_the_database_of_its_folder(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hushcall(monkeypatch, "serve", "--data", str(data), "--port", "0", "--database", PG) == 2
    said = capsys.readouterr().err
    assert said.startswith("hushcall: database must be the one that this folder was used with, SQLite in the folder")
    effective_settings.changes(load_settings(data=data))
    effective_settings.changes(load_settings(data=data, database=f"sqlite:///{data / 'hushcall.db'}"))


def test_a_record_that_cannot_be_read_is_named_with_what_to_do(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("", "{}", '{"hushcall": 2, "settings": {}}', '{"hushcall": 1, "settings": {"moon": 1}}'):
        (data / effective_settings.FILE).write_text(text, encoding="utf-8")
        assert hushcall(monkeypatch, "round", "status", "--data", str(data)) == 2
        assert "start it again, with your settings, to write it anew" in capsys.readouterr().err
        effective_settings.changes(load_settings(data=data))  # serve is what writes it anew


def test_files_are_kept_by_whole_paths(data: Path, tmp_path: Path) -> None:
    effective_settings.record(load_settings(data=data, list={"allow_file": "allow.txt"}))
    kept = effective_settings.recorded(data)
    assert kept is not None
    assert kept["settings"]["list"]["allow_file"] == str(tmp_path / "allow.txt")
    assert effective_settings.of_folder(data=data, list={"allow_file": "allow.txt"})[1] == []


def test_without_a_database_the_error_names_both_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hushcall(monkeypatch, "round", "status", "--data", str(tmp_path / "none")) == 2
    said = capsys.readouterr().err
    assert "see --data, and --database for PostgreSQL" in said


def test_serve_says_what_is_no_longer_as_it_was(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "serve", lambda _, listener: listener.close())
    start = ["serve", "--data", str(data), "--port", "0"]
    assert hushcall(monkeypatch, *start, "--period", "900") == 0
    said = capsys.readouterr().out.splitlines()
    assert "round.period was 600, is 900 now" in said
    assert 'round.profile was "strong", is "balanced" now (the default)' in said
    assert "server.port was 8750, is 0 now" in said
    assert hushcall(monkeypatch, *start) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if " was " in line] == ["round.period was 900, is 86400 now (the default)"]
    assert any(line.startswith("A start uses its options") for line in said)
    assert hushcall(monkeypatch, *start) == 0
    again = capsys.readouterr().out
    assert " was " not in again
    assert "A start uses" not in again
    (data / effective_settings.FILE).unlink()
    assert effective_settings.changes(load_settings(data=data)) == []
