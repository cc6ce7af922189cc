"""``hushcall keys`` as an operator runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hushcall.cli.server import keys as command
from hushcall.errors import HushcallError, InvalidParameter
from hushcall.server.db.store import open_store
from hushcall.server.signing.keys import needs_passphrase


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(command.PASSPHRASE, raising=False)


def published(folder: Path) -> dict[str, bytes]:
    """What a server over this folder publishes."""
    store = open_store(f"sqlite:///{folder}/hushcall.db")
    try:
        return store.files()
    finally:
        store.close()


def invoke(*arguments: object, answers: str | None = None) -> Result:
    result = CliRunner().invoke(command.keys, [str(argument) for argument in arguments], input=answers)
    if isinstance(result.exception, HushcallError):
        raise result.exception
    return result


def run(*arguments: object, answers: str | None = None) -> str:
    result = invoke(*arguments, answers=answers)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_init_rotate_status(tmp_path: Path) -> None:
    made = run_json("init", "--data", tmp_path)
    assert Path(made["root_key"]) == tmp_path / "keys" / "offline" / "root.pem"
    before = run_json("status", "--data", tmp_path)
    assert (before["ok"], before["root_key_here"]) == (True, True)
    assert before["root_sha256"] == made["root_sha256"]
    done = run_json("rotate", "timestamp", "root", "targets", "--data", tmp_path)["rotated"]
    after = run_json("status", "--data", tmp_path)
    assert after["ok"]
    keys = {row["role"]: row["keys"] for row in after["roles"]}
    assert [row["role"] for row in done] == ["timestamp", "root", "targets"]
    assert all(keys[row["role"]] == [row["key"]] for row in done)
    versions = {row["role"]: row["version"] for row in after["roles"]}
    assert versions["root"] == 4
    with pytest.raises(InvalidParameter, match="not have been made before"):
        run("init", "--data", tmp_path)


def test_what_a_person_reads(tmp_path: Path) -> None:
    text = run("init", "--data", tmp_path)
    assert "off this machine" in text
    assert "SHA-256" in text
    assert "The root key is still on this machine" in run("status", "--data", tmp_path)
    (tmp_path / "keys" / "offline" / "root.pem").rename(tmp_path / "stick.pem")
    assert "still on this machine" not in run("status", "--data", tmp_path)
    text = run("rotate", "root", "--root-key", tmp_path / "stick.pem", "--data", tmp_path)
    assert f"destroy {tmp_path / 'stick.pem'}" in text


def test_a_passphrase_is_asked_for_or_taken_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = run("init", "--passphrase", "--data", tmp_path, answers="horse\nhorse\n")
    assert "horse" not in text
    assert needs_passphrase(tmp_path / "keys" / "offline" / "root.pem")
    run("rotate", "snapshot", "targets", "--data", tmp_path, answers="horse\n")  # asked once
    monkeypatch.setenv(command.PASSPHRASE, "horse")
    run("rotate", "root", "timestamp", "--data", tmp_path)
    monkeypatch.setenv(command.PASSPHRASE, "mule")
    with pytest.raises(InvalidParameter, match="open with this passphrase"):
        run("rotate", "timestamp", "--data", tmp_path)


def test_trouble_shows_in_the_exit_status(tmp_path: Path) -> None:
    run("init", "--data", tmp_path)
    (tmp_path / "keys" / "targets.pem").unlink()
    result = invoke("status", "--data", tmp_path)
    assert result.exit_code == 1
    assert "key missing" in result.stdout
    with pytest.raises(InvalidParameter, match="role must be one of"):
        run("rotate", "mirror", "--data", tmp_path)


def test_status_before_init_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="'hushcall serve' makes one"):
        run("status", "--data", tmp_path)
    assert not list(tmp_path.iterdir()), "a slip in a path makes nothing"
    open_store(f"sqlite:///{tmp_path}/hushcall.db").close()
    with pytest.raises(InvalidParameter, match="hushcall keys init"):
        run("status", "--data", tmp_path)
