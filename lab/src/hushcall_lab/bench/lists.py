"""What a publication costs: processor time, wall clock, memory, and how long another writer waits meanwhile.

One process publishes and is measured. Another inserts findings, and writes to the same database all the time, as
uploads do. On SQLite a transaction's processor seconds are what a writer waits for on an idle machine.
"""

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from hushcall.protocol.numbers import NANP, Number
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings
from hushcall_lab.simulation.rig import Progress, filled, insert_hitters
from hushcall_lab.usage import peak_mb, resident_mb

CHANGED = 0.02
"""The share of a list that a round finds again, or that is new."""
BATCH, WRITE_SECONDS = 20_000, 0.02
DAY_SECONDS = 86_400


def measure(url: str, count: int, versions: int, progress: Progress) -> dict[str, Any]:
    now, rng = [int(time.time())], random.Random(1)
    with filled(url, clock=lambda: now[0]) as service, _publisher(service.settings) as pipe:
        numbers, rows = _numbers(round(count * (1 + CHANGED * versions))), list[dict[str, Any]]()
        pipe.send((None, 0))
        empty_mb = pipe.recv()["resident_mb"]
        for version in range(1, versions + 1):
            progress("versions", version - 1, versions + 1)
            half = round(count * CHANGED / 2)
            start = count + (version - 2) * half
            part = numbers[:count] if version == 1 else [*rng.sample(numbers[:count], half), *numbers[start:][:half]]
            round_id = service.rounds.open(now[0])
            for at in range(0, len(part), BATCH):
                insert_hitters(service, round_id, part[at : at + BATCH])
            rows.append(_step(service, pipe, f"version {version}", round_id, now[0], empty_mb))
            now[0] += DAY_SECONDS
        progress("an appeal", versions, versions + 1)
        rows.append(_step(service, pipe, "an appeal", str(numbers[7]), now[0], empty_mb))
    return {"database": "postgresql" if url else "sqlite", "numbers": count, "changed": CHANGED, "rows": rows}


def _numbers(count: int) -> list[Number]:
    areas = NANP.area_codes
    places = (divmod(place, len(areas)) for place in range(count))
    return [NANP.number(areas[area], 2_000_000 + 37 * suffix % 8_000_000) for suffix, area in places]


def _step(service: Service, pipe: Connection, what: str, task: int | str, now: int, empty_mb: float) -> dict[str, Any]:
    waits, done = [0.0], threading.Event()

    def write() -> None:
        while not done.wait(WRITE_SECONDS):
            began = time.monotonic()
            service.store.heartbeat("bench", now, 60.0)
            waits.append(time.monotonic() - began)

    writer = threading.Thread(target=write)
    writer.start()
    pipe.send((task, now))
    row = pipe.recv()
    done.set()
    writer.join()
    if isinstance(row, Exception):
        raise row
    above = {f"{name}_above_empty": row.pop(name) - empty_mb for name in ("resident_mb", "peak_mb")}
    return {"what": what, **row, **above, "longest_wait_seconds": max(waits)}


@contextmanager
def _publisher(settings: Settings) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_publish, args=(settings.model_dump_json(), theirs), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.kill()
        process.join()


def _publish(settings_json: str, pipe: Connection) -> None:
    service = open_service(Settings.model_validate_json(settings_json))
    write, transactions = service.store.write, list[float]()

    @contextmanager
    def timed(*arguments: Any) -> Iterator[Any]:
        began = 0.0
        with write(*arguments) as connection:
            began = time.process_time()  # the lock is held from here to the commit
            yield connection
        transactions.append(time.process_time() - began)

    object.__setattr__(service.store, "write", timed)
    while True:
        task, now = pipe.recv()
        began, processor = time.monotonic(), time.process_time()
        try:
            if isinstance(task, str):
                service.corrections.appeal(task, "mine", "its owner", now)
            elif task is not None:
                service.publisher.publish(task, now)
        except Exception as error:
            pipe.send(error)
            return
        figures = {
            "seconds": time.monotonic() - began,
            "processor_seconds": time.process_time() - processor,
            "longest_transaction": max(transactions, default=0.0),
        }
        transactions.clear()
        pipe.send({**figures, "resident_mb": resident_mb(os.getpid()), "peak_mb": peak_mb()})


def summary(rows: Sequence[dict[str, Any]]) -> str:
    versions = rows[1:-1]
    worst = max(row["processor_seconds"] for row in versions)
    grown = versions[-1]["resident_mb_above_empty"] - rows[0]["resident_mb_above_empty"]
    held, wait = (max(row[name] for row in rows) for name in ("longest_transaction", "longest_wait_seconds"))
    appeal = rows[-1]["processor_seconds"]
    return (
        f"Later versions: {worst:.1f} s of a processor at most, the appeal {appeal:.1f} s; memory {grown:+.0f} MB "
        f"from the first to the last. A transaction takes {held:.2f} s at most; another writer waited {wait:.2f} s."
    )
