"""A backup under a running service: it ends, it is whole, and a server starts from it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import Clock, Village, newest
from typer.testing import CliRunner

from hushcall.cli import app
from hushcall.errors import InvalidParameter
from hushcall.server.backup import back_up
from hushcall.server.db import schema
from hushcall.server.ingest.ingest import Answer, Intake
from hushcall.server.restore import restore
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

    file, writer = tmp_path / "backup.tar", threading.Thread(target=enrol)
    writer.start()
    try:
        made = back_up(service, file)
    finally:
        stop.set()
        writer.join(60)
    assert file.stat().st_mode & 0o777 == 0o600
    assert (made.made, made.database) == (service.now, "hushcall.db")
    assert not [name for name in made.members if "root" in name], "the root key is not in it"
    done = restore(file, tmp_path / "elsewhere", as_it_was=True, clock=clock)
    restored = open_service(done.settings, clock=clock)
    row = restored.rounds.newest()
    assert row is not None
    assert (row.id, row.state) == (1, "announcing")
    assert before <= _devices(restored) <= _devices(service)
    restored.publisher.refresh(restored.now + 4 * 86_400)  # its keys fit
    restored.close()


@pytest.mark.usefixtures("clients")
def test_what_was_acknowledged_before_a_backup_under_load_is_in_it(
    make_service: MakeService, database: str, empty: str, clock: Clock, tmp_path: Path
) -> None:
    """Reports go on coming in while it is made: those from before are there, and none is changed or made up."""
    service = make_service(database)
    village, callers = Village(service, clock), ["+12025550143"] * 300
    village.to("announcing", callers)
    clock.now = newest(service).collects
    service.rounds.start_collecting(1, service.now)
    sent, acknowledged, begun = village.uploads(callers), list[bytes](), threading.Event()

    def report() -> None:
        for upload in sent:
            (answer,) = Intake(service.store, "load").accept([upload])
            assert isinstance(answer, Answer)
            acknowledged.append(upload.ticket)
            if len(acknowledged) == 40:
                begun.set()

    writer = threading.Thread(target=report)
    writer.start()
    begun.wait(60)
    before = list(acknowledged)
    back_up(service, tmp_path / "backup.tar")
    writer.join(120)
    assert len(acknowledged) == len(sent) == 300
    done = restore(tmp_path / "backup.tar", tmp_path / "elsewhere", empty, as_it_was=True, clock=clock)
    restored = open_service(done.settings, clock=clock)
    rows = restored.store.rows(sa.select(schema.reports.c.ticket, schema.reports.c.body))
    kept = {bytes(row.ticket): bytes(row.body) for row in rows}
    assert kept.items() <= {upload.ticket: upload.body for upload in sent}.items()
    assert kept.keys() >= set(before)
    assert len(before) >= 40
    restored.close()


def test_a_backup_appears_whole_or_not_at_all(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    (tmp_path / "there").touch()
    with pytest.raises(InvalidParameter, match="not be there yet"):
        back_up(service, tmp_path / "there")
    service.store.engine.dispose()
    (tmp_path / "data" / "hushcall.db").write_bytes(b"no database" * 1000)
    with pytest.raises((InvalidParameter, sa.exc.DatabaseError)):
        back_up(service, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == []


def test_a_backup_that_was_changed_cut_or_is_none_is_refused(
    make_service: MakeService, clock: Clock, tmp_path: Path
) -> None:
    file, other = tmp_path / "backup", tmp_path / "other"
    back_up(make_service(), file)
    whole = file.read_bytes()
    database = whole.index(b"SQLite format 3")
    for wrong in (
        whole[:database] + b"sqlite" + whole[database + 6 :],
        whole[: database + 5000],
        whole[:700],
        b"",
        b"something else" * 100,
    ):
        other.write_bytes(wrong)
        with pytest.raises(InvalidParameter, match="backup must") as refused:
            restore(other, tmp_path / "elsewhere", clock=clock)
        assert refused.value.field == "backup"
        assert not (tmp_path / "elsewhere").exists() or not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("section", [{"list": {"allow_command": ["touch", "ran"]}}, {"enrol": {"command": ["true"]}}])
def test_settings_of_a_backup_run_no_command_that_was_not_confirmed(
    make_service: MakeService, clock: Clock, tmp_path: Path, section: dict[str, Any]
) -> None:
    file, new = tmp_path / "b.tar", tmp_path / "new"
    back_up(make_service(**section), file)
    with pytest.raises(InvalidParameter, match=r"commands must be confirmed \(--commands\)"):
        restore(file, new, clock=clock)
    assert not (new / "restored.toml").exists()
    restore(file, new, commands=True, clock=clock)
    assert "command = [" in (new / "restored.toml").read_text(encoding="utf-8")


def test_the_commands_say_what_they_did(make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("+12025550199\n")
    Village(make_service(), clock).to("collecting", ["+12025550143"] * 6)
    file, wide = tmp_path / "b.tar", {"COLUMNS": "200"}
    env = {**wide, "HUSHCALL_LIST__ALLOW_FILE": str(allowed)}
    found = CliRunner().invoke(app, ["backup", str(file), "--data", str(tmp_path / "data")], env=env)
    assert found.exit_code == 0, found.exception
    assert "database, 3 keys and settings, read back" in found.stdout
    assert f"Not in it: {allowed} (list.allow_file)" in "".join(found.stdout.splitlines())
    found = CliRunner().invoke(app, ["restore", str(file), "--data", str(tmp_path / "new")], env=wide)
    assert found.exit_code == 0, found.exception
    for words in ("Round 1 is now round 2001", "decided by the reports that it had", "phone init", "restored.toml"):
        assert words in found.stdout
