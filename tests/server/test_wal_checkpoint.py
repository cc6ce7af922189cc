"""A WAL checkpoint moves what was committed into SQLite's file, and no commit waits for it."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hushcall.server.db import schema
from hushcall.server.db.engine import WAL_PAGES
from hushcall.server.db.store import PASSIVE_PASSES, wal_checkpoints
from hushcall.server.service import Service


def kept(service: Service, tmp_path: Path) -> int:
    """How many notes the file has without its log."""
    alone = tmp_path / "alone.db"
    shutil.copy(service.settings.data / "hushcall.db", alone)
    with sqlite3.connect(alone) as file:
        return int(file.execute("SELECT count(*) FROM allowed").fetchone()[0])


def note(service: Service, number: str) -> None:
    with service.store.write("a note") as connection:
        row = {"number": number, "why": "", "who": "", "at": 0}
        connection.execute(sa.insert(schema.allowed), [row])


def test_a_checkpoint_moves_commits_into_the_file_and_reuses_the_wal(lite: Service, tmp_path: Path) -> None:
    log = Path(f"{lite.settings.data / 'hushcall.db'}-wal")
    note(lite, "+12025550101")
    assert kept(lite, tmp_path) == 0, "a commit does not checkpoint"
    lite.store.checkpoint_wal()
    assert kept(lite, tmp_path) == 1
    size = log.stat().st_size
    for last in range(2, 40):
        note(lite, f"+120255501{last:02d}")
        lite.store.checkpoint_wal()
    assert kept(lite, tmp_path) == 39
    assert log.stat().st_size <= max(size, 40 * 4120), "it is written over from its beginning"


def test_whoever_writes_or_reads_is_left_alone(lite: Service, tmp_path: Path) -> None:
    note(lite, "+12025550101")
    with lite.store.read() as reader:
        reader.execute(sa.select(schema.allowed)).all()
        with lite.store.write("a long one") as writer:
            writer.execute(sa.insert(schema.allowed), [{"number": "+12025550102", "why": "", "who": "", "at": 0}])
            lite.store.checkpoint_wal()
    assert kept(lite, tmp_path) == 1
    lite.store.checkpoint_wal()
    assert kept(lite, tmp_path) == 2


def test_writers_wait_only_for_what_several_passes_beside_them_have_left(lite: Service) -> None:
    asked = list[str]()

    @sa.event.listens_for(lite.store.engine, "checkout")
    def _listen(connection: sqlite3.Connection, *_: Any) -> None:
        connection.set_trace_callback(asked.append)

    lite.store.checkpoint_wal()
    modes = [one.partition("(")[2].rstrip(")") for one in asked if "wal_checkpoint" in one]
    assert modes == ["PASSIVE"] * PASSIVE_PASSES + ["RESTART"]
    assert PASSIVE_PASSES >= 3, "one that finds it long, one that finds it short, one that syncs"


def test_connections_leave_it_to_the_thread(lite: Service) -> None:
    with lite.store.read() as connection:
        assert connection.execute(sa.text("PRAGMA wal_autocheckpoint")).scalar() == WAL_PAGES


def test_a_disk_in_trouble_is_tried_again() -> None:
    again, tries = threading.Event(), list[int]()

    class Troubled:
        def checkpoint_wal(self) -> None:
            tries.append(1)
            if len(tries) > 2:
                again.set()
            raise sqlite3.OperationalError("disk I/O error")

    store: Any = Troubled()
    checkpoints = wal_checkpoints(store, every_seconds=0.001)
    checkpoints.start()
    assert again.wait(60)
    checkpoints.stop()
    checkpoints.stop()  # twice is once
