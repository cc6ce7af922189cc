"""Makes a server's folder from a backup, whole or not at all, and moves its rounds beyond those that phones know.

The folder is built in ``restore.part``. While that exists, no command opens the folder. Its former content is moved
aside. On PostgreSQL the dump is read back in one transaction.

To a phone, a server that goes on from a backup replays, or shows a split view. So rounds and versions are moved up by
more than the lost server can have used: one for each second since the backup, and :data:`MARGIN` for what operators
forced. All rounds move by the same number, because windows count by their distances.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.atomic_file import atomic_write, sync_to_disk
from hushcall.errors import InvalidParameter
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, HELD, PUBLISHED
from hushcall.server import backup, effective_settings
from hushcall.server.db import partitions, schema
from hushcall.server.db.engine import ERRORS, explained, make_engine, parse_url
from hushcall.server.db.rows import RoundRow, newest_round, round_rows
from hushcall.server.db.store import Store
from hushcall.server.rounds import holding
from hushcall.server.service import RESTORING, Service, open_service
from hushcall.server.settings import Settings, as_toml

OURS = (backup.FILE, f"{backup.FILE}-wal", f"{backup.FILE}-shm", "keys", effective_settings.FILE)
SETTINGS = "restored.toml"
MARGIN = 1000
DISCARDED = "the server was restored from a backup while phones announced"


@dataclass(frozen=True)
class Restart:
    """The newest round's number before and after, and its state in the backup. Zero and empty without rounds."""

    was: int
    now: int
    state: str


@dataclass(frozen=True)
class Restored:
    """``aside`` is where the folder's former content is."""

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
    commands: bool = False,
    clock: Callable[[], float] = time.time,
    say: Callable[[str], None] = lambda _: None,
) -> Restored:
    """``as_it_was`` keeps all numbers: the server has not run since the backup.

    ``commands`` confirms the commands that the backup's settings would have the server run.
    """
    with backup.opened(file) as (manifest, _):
        pass
    if not as_it_was:
        max_used_since(manifest.made, int(clock()))  # a wrong clock is an error before anything is changed
    stage, aside = data / RESTORING, None
    present = [data / name for name in OURS if (data / name).exists()]
    if present and not overwrite:
        rule = "be empty, or to be overwritten (--overwrite moves what is in it aside)"
        raise InvalidParameter("data", rule, str(data))
    shutil.rmtree(stage, ignore_errors=True)
    filling = False
    try:
        stage.mkdir(mode=0o700, parents=True)
        say("Reading the backup ...")
        backup.verify(file, stage)
        settings = _stage_settings(stage, manifest, database)
        if not commands:
            _require_no_commands(settings)
        _check_unused(settings.model_copy(update={"data": data}), manifest, overwrite=overwrite)
        if manifest.database == backup.DUMP:
            say("Filling the database ...")
            filling = True
            _fill(settings, stage / backup.DUMP, overwrite=overwrite)
        say("Moving rounds and versions beyond those that phones may have seen ...")
        with closing(open_service(settings, clock=clock)) as service:
            restart = None if as_it_was else go_on(service, manifest.made)
        if present:
            aside = _set_aside(data, present, clock())
        _put_in_place(stage, data, settings)
    except BaseException as error:
        if aside is None and not filling:
            shutil.rmtree(stage, ignore_errors=True)  # nothing else was changed
        if isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
            raise InvalidParameter("data", f"be a folder that can be written ({reason})", str(data)) from None
        if isinstance(error, ERRORS):
            raise explained(error, parse_url(settings.url)) from None
        raise
    return Restored(manifest.made, settings.model_copy(update={"data": data}), restart, aside)


def _stage_settings(stage: Path, manifest: backup.Manifest, database: str) -> Settings:
    recorded = effective_settings.recorded(stage)
    if recorded is None:
        raise InvalidParameter("backup", "hold settings", effective_settings.FILE)
    dumped = manifest.database == backup.DUMP
    if database and not dumped:
        raise InvalidParameter("database", "be left out: this backup is of SQLite, in the data folder", "a --database")
    values = recorded["settings"]
    chosen = (database or values["database"]) if dumped else ""
    return Settings.model_validate_json(json.dumps({**values, "database": chosen, "data": str(stage)}))


def _require_no_commands(settings: Settings) -> None:
    """A backup may be of anybody's making: what it would run is for the operator to see first."""
    present = {"list.allow_command": settings.list.allow_command, "enrol.command": settings.enrol.command}
    named = "; ".join(f"{name} = {json.dumps(command)}" for name, command in present.items() if command)
    if named:
        rule = "be confirmed (--commands): with the settings of this backup the server would run them"
        raise InvalidParameter("commands", rule, named)


def _check_unused(settings: Settings, manifest: backup.Manifest, *, overwrite: bool) -> None:
    """Refuses a database with data, unless it may be overwritten, and always one that a running service uses."""
    if manifest.database == backup.FILE and not (settings.data / backup.FILE).is_file():
        return
    engine = make_engine(settings.url)
    place = effective_settings.place_of(settings)
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
            return  # the file is no database, and is moved aside
        raise explained(error, engine.url) from None
    finally:
        engine.dispose()


def _fill(settings: Settings, dump: Path, *, overwrite: bool) -> None:
    clean = ["--clean", "--if-exists"] if overwrite else []
    url = parse_url(settings.url)
    if overwrite:
        _drop_later_tables(settings.url, backup.run_client("pg_restore", None, "--list", str(dump)))
    backup.run_client("pg_restore", url, "--no-owner", "--single-transaction", *clean, str(dump))
    dump.unlink()


def _drop_later_tables(url: str, listing: str) -> None:
    """Drops the tables of later releases, which an earlier one's dump neither replaces nor lets go."""
    dumped = set(re.findall(r" TABLE \S+ (\S+) ", listing))
    engine = make_engine(url)
    try:
        schema.metadata.drop_all(engine, tables=[t for t in schema.metadata.sorted_tables if t.name not in dumped])
    finally:
        engine.dispose()


def _set_aside(data: Path, present: list[Path], now: float) -> Path:
    aside = data / f"before-restore-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
    aside.mkdir(mode=0o700)
    for path in present:
        try:
            path.rename(aside / path.name)
        except FileNotFoundError:
            if not path.name.startswith(f"{backup.FILE}-"):  # the last connection may just have deleted SQLite's WAL
                raise
    sync_to_disk(data)
    return aside


def _put_in_place(stage: Path, data: Path, settings: Settings) -> None:
    """Moves the database last: without it the folder is no server's."""
    effective_settings.record(settings)
    place = effective_settings.place_of(settings) if settings.database else ""  # without its password
    final = settings.model_copy(update={"data": data.absolute(), "database": place})
    atomic_write(stage / SETTINGS, as_toml(final), "settings")
    for name in (SETTINGS, effective_settings.FILE, "keys", f"{backup.FILE}-wal", f"{backup.FILE}-shm", backup.FILE):
        if (stage / name).exists():
            (stage / name).rename(data / name)
    sync_to_disk(data)
    shutil.rmtree(stage)
    sync_to_disk(data)


def max_used_since(made: int, now: int) -> int:
    if now < made:
        rule = "not be before the moment at which the backup was made"
        raise InvalidParameter("clock", rule, f"{made - now} s before")
    return now - made + MARGIN


def go_on(service: Service, made: int) -> Restart:
    """Renumbers the rounds, ends those that phones were in, and signs the current list under a newer version."""
    beyond, newest = max_used_since(made, service.now), service.rounds.newest()
    if newest is not None:
        # By whole thousands, so that people recognise the rounds by their last digits.
        move_up(service, -(-(newest.id + beyond) // 1000) * 1000)
        end_open(service)
    service.publisher.leap(service.now, beyond)
    after = service.rounds.newest()
    if newest is None or after is None:
        return Restart(0, 0, "")
    return Restart(newest.id, after.id, newest.state)


def move_up(service: Service, by: int) -> None:
    """Adds ``by`` to the number of every round, in every table. It must be larger than the newest number."""
    rounds = schema.rounds
    with service.store.write("move rounds up") as connection:
        columns = [column for column in rounds.c if column.name != "id"]
        copies = sa.select((rounds.c.id + by).label("id"), *columns)  # first, because other tables refer to them
        ids = connection.execute(sa.select(rounds.c.id)).scalars().all()
        connection.execute(sa.insert(rounds).from_select(["id", *(column.name for column in columns)], copies))
        partitions.move_up(connection, by)
        for table in schema.metadata.sorted_tables:
            if "round" in table.c and table not in partitions.TABLES:
                connection.execute(sa.update(table).values(round=table.c.round + by))
        connection.execute(sa.delete(rounds).where(rounds.c.id <= max(ids)))


def end_open(service: Service) -> None:
    """Closes a round that was collecting, and discards one that was announcing. Phones do not continue them."""
    now, rounds = service.now, schema.rounds
    with service.store.read() as connection:
        unpublished = round_rows(connection, sa.select(rounds).where(rounds.c.state != PUBLISHED))
    for row in unpublished:
        if row.state == COLLECTING:
            service.rounds.close(row.id, now)
        elif row.phase == ANNOUNCING:
            if row.state != HELD:
                holding.hold(service.store, row.id, f"discarded: {DISCARDED}")
            holding.discard(service.store, row.id, DISCARDED)
        with service.store.write("after a restore") as connection:
            _settle(connection, row, now)
        service.store.scrub()


def _settle(connection: Connection, row: RoundRow, now: int) -> None:
    """Lets the next round open now, before the end of the newest. A round held while collecting becomes closed."""
    rounds, newest = schema.rounds, newest_round(connection)
    values: dict[str, object] = {}
    if newest is not None and newest.id == row.id and row.phase in (ANNOUNCING, COLLECTING):
        values["next"] = min(row.next, now)
    if row.state == HELD and row.phase == COLLECTING:
        values["held_from"] = CLOSED
    if values:
        connection.execute(sa.update(rounds).where(rounds.c.id == row.id).values(**values))
