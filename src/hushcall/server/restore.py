"""A backup comes in, the folder (and the database) of a server that goes on from it leaves; or nothing has changed.

Everything is put together in ``restore.part`` inside the folder, and moved into place when it is whole; while that is
there, no command opens the folder. What was in the folder before is moved aside, not deleted. On PostgreSQL the dump is
read back in one transaction.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.server import after_restore, backup, in_force
from hushcall.server.after_restore import Restart
from hushcall.server.db import schema
from hushcall.server.db.store import Store, make_engine, parse_url
from hushcall.server.db.trouble import ERRORS, told
from hushcall.server.service import RESTORING, open_service
from hushcall.server.settings import Settings, as_toml
from hushcall.whole_file import to_disk, write_whole

OURS = (backup.FILE, f"{backup.FILE}-wal", f"{backup.FILE}-shm", "keys", in_force.FILE)
SETTINGS = "restored.toml"


@dataclass(frozen=True)
class Restored:
    """What a restore came to. ``aside`` is where the folder's former content is now, if it had any."""

    made: int
    settings: Settings
    restart: Restart | None
    aside: Path | None


def restore(
    file: Path,
    data: Path,
    database: str = "",
    *,
    overwrite: bool = False,
    as_it_was: bool = False,
    clock: Callable[[], float] = time.time,
    say: Callable[[str], None] = lambda _: None,
) -> Restored:
    """Make a server's folder from a backup. ``as_it_was``: nothing happened since, so that no number has to move."""
    with backup.opened(file) as (manifest, _):
        pass
    if not as_it_was:
        after_restore.lost(manifest.made, int(clock()))  # a wrong clock is found before anything is touched
    stage, aside = data / RESTORING, None
    here = [data / name for name in OURS if (data / name).exists()]
    if here and not overwrite:
        rule = "be empty, or to be overwritten (--overwrite moves what is in it aside)"
        raise InvalidParameter("data", rule, str(data))
    shutil.rmtree(stage, ignore_errors=True)
    filling = False
    try:
        stage.mkdir(mode=0o700, parents=True)
        say("Reading the backup ...")
        for _ in backup.members(file, stage):
            pass
        settings = _settings(stage, manifest, database)
        _check_unused(settings.model_copy(update={"data": data}), manifest, overwrite=overwrite)
        if manifest.database == backup.DUMP:
            say("Filling the database ...")
            filling = True
            _fill(settings, stage / backup.DUMP, overwrite=overwrite)
        say("Moving rounds and versions beyond those that phones may have seen ...")
        with closing(open_service(settings, clock=clock)) as service:
            restart = None if as_it_was else after_restore.go_on(service, manifest.made)
        if here:
            aside = _set_aside(data, here, clock())
        _put_in_place(stage, data, settings)
    except BaseException as error:
        if aside is None and not filling:
            shutil.rmtree(stage, ignore_errors=True)  # nothing else was touched
        if isinstance(error, OSError):
            why = error.strerror or type(error).__name__
            raise InvalidParameter("data", f"be a folder that can be written ({why})", str(data)) from None
        if isinstance(error, ERRORS):
            raise told(error, parse_url(settings.url)) from None
        raise
    return Restored(manifest.made, settings.model_copy(update={"data": data}), restart, aside)


def _settings(stage: Path, manifest: backup.Manifest, database: str) -> Settings:
    """The backup's own, over the folder in which they are put together, and over the database that is meant."""
    kept = in_force.recorded(stage)
    if kept is None:
        raise InvalidParameter("backup", "hold settings", in_force.FILE)
    dumped = manifest.database == backup.DUMP
    if database and not dumped:
        raise InvalidParameter("database", "be left out: this backup is of SQLite, in the data folder", "a --database")
    where = (database or kept["settings"]["database"]) if dumped else ""
    return Settings.model_validate_json(json.dumps({**kept["settings"], "database": where, "data": str(stage)}))


def _check_unused(settings: Settings, manifest: backup.Manifest, *, overwrite: bool) -> None:
    """Refuse a database that holds something, unless told; and one that a service works on, in any case."""
    if manifest.database == backup.FILE and not (settings.data / backup.FILE).is_file():
        return
    engine = make_engine(settings.url)
    place = in_force.place_of(settings)
    try:
        if not sa.inspect(engine).has_table("leases"):
            return
        if manifest.database == backup.DUMP and not overwrite:
            raise InvalidParameter("database", "be empty, or to be overwritten (--overwrite)", place)
        store = Store(engine)
        busy = store.rows(sa.select(schema.leases.c.until).where(schema.leases.c.until > store.now()))
        if busy:
            raise InvalidParameter("service", "be stopped before its data are replaced", place)
    except ERRORS as error:
        if manifest.database == backup.FILE:
            return  # what is there is no database, and is moved aside
        raise told(error, engine.url) from None
    finally:
        engine.dispose()


def _fill(settings: Settings, dump: Path, *, overwrite: bool) -> None:
    engine = make_engine(settings.url)
    clean = ["--clean", "--if-exists"] if overwrite else []
    try:
        backup.run_client("pg_restore", engine.url, "--no-owner", "--single-transaction", *clean, str(dump))
    finally:
        engine.dispose()
    dump.unlink()


def _set_aside(data: Path, here: list[Path], now: float) -> Path:
    aside = data / f"before-restore-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
    aside.mkdir(mode=0o700)
    for old in here:
        try:
            old.rename(aside / old.name)
        except FileNotFoundError:
            if not old.name.startswith(f"{backup.FILE}-"):  # SQLite's log goes with the last connection, maybe just now
                raise
    to_disk(data)
    return aside


def _put_in_place(stage: Path, data: Path, settings: Settings) -> None:
    """The database last: without it the folder is no server's."""
    in_force.record(settings)
    where = in_force.place_of(settings) if settings.database else ""  # without its password
    shown = settings.model_copy(update={"data": data.absolute(), "database": where})
    write_whole(stage / SETTINGS, as_toml(shown), "settings")
    for name in (SETTINGS, in_force.FILE, "keys", f"{backup.FILE}-wal", f"{backup.FILE}-shm", backup.FILE):
        if (stage / name).exists():
            (stage / name).rename(data / name)
    to_disk(data)
    shutil.rmtree(stage)
    to_disk(data)
