"""What a server does all day, over a database of years and over a young one: processor time, as ratios.

Years are rows as rounds leave them for good: a round, its area codes and tallies, some findings, a version of the list.
"""

import json
import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import urllib3

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.profiles import DEFAULT
from hushcall.protocol.numbers import NANP
from hushcall.protocol.states import PUBLISHED
from hushcall.server.auth.devices import SCOPES
from hushcall.server.auth.operators import COOKIE
from hushcall.server.backup import back_up
from hushcall.server.db import schema
from hushcall.server.service import Service, open_service
from hushcall_lab.servers import running
from hushcall_lab.simulation import rig
from hushcall_lab.simulation.rig import Progress

YOUNG_ROUNDS, YOUNG_PEOPLE, YOUNG_LOG = 62, 1000, 1000
"""So many that each page and answer is as long as it ever gets."""
AREAS, FOUND, TIMES = 100, 20, 5
BATCH = 10_000
MAX_RATIO = 2.0
PUBLIC = ("/", "/v1/rounds/current", "/docs")
PAGES = ("/", "/live", "/list", "/numbers/{number}", "/rounds/{round}", "/appeals", "/access", "/log", "/system")
READS = ("rounds", "rounds/{round}", "numbers/{number}", "appeals", "devices", "log")


def measure(url: str, rounds: int, period_seconds: int, people: int, progress: Progress) -> dict[str, Any]:
    """``people``: devices, and appeals of as many numbers, most of them closed."""
    now = [int(time.time())]
    rounds_each: dict[str, Any] = {"period": period_seconds}
    no_exports: dict[str, Any] = {"exports": []}
    with rig.filled(url, clock=lambda: now[0], round=rounds_each, list=no_exports) as service:
        _add_rounds(service, YOUNG_ROUNDS, now, progress)
        _add_people(service, 0, YOUNG_PEOPLE, now[0])
        with service.store.write("years") as connection:
            connection.execute(sa.insert(schema.audit), [_logged(1, now[0])] * YOUNG_LOG)
        young = _figures(service, now, "young", progress)
        _add_rounds(service, rounds, now, progress)
        _add_people(service, YOUNG_PEOPLE, people, now[0])
        if url:
            with service.store.engine.connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("ANALYZE")
        old = _figures(service, now, "old", progress)
    rows = [
        {"what": what, "young_ms": 1000 * young[what], "old_ms": 1000 * old[what], "ratio": old[what] / young[what]}
        for what in young
    ]
    return {"database": "postgresql" if url else "sqlite", "rounds": rounds, "people": people, "rows": rows}


def _add_rounds(service: Service, count: int, now: list[int], progress: Progress) -> None:
    """Rounds that were published. The newest two are real publications."""
    numbers = [str(NANP.number(202, 2_000_000 + place)) for place in range(50 * FOUND)]
    period, width = service.settings.round.period_seconds, 200
    for start in range(0, count - 2, width):
        progress("rounds", start, count)
        first = service.rounds.open(now[0])
        with service.store.write("years") as connection:
            (row,) = connection.execute(sa.select(schema.rounds).where(schema.rounds.c.id == first)).mappings()
            tables: dict[sa.Table, list[dict[str, Any]]] = {table: [] for table in _LEFT}
            for place in range(min(width, count - 2 - start)):
                times = {name: row[name] + place * period for name in ("opens", "collects", "closes", "next")}
                tables[schema.rounds].append({**row, **times, "id": first + place, "state": PUBLISHED})
                _add_round(tables, first + place, numbers[place * FOUND % len(numbers) :][:FOUND], row["opens"])
            connection.execute(sa.delete(schema.rounds).where(schema.rounds.c.id == first))
            for table, rows in tables.items():
                connection.execute(sa.insert(table), rows)
        now[0] = times["next"]
    for _ in range(2):
        _round(service, now)


_LEFT = (schema.rounds, schema.buckets, schema.tallies, schema.hitters, schema.audit)


def _add_round(tables: dict[sa.Table, list[dict[str, Any]]], number: int, found: list[str], at: int) -> None:
    key = {"round": number}
    for bucket in NANP.area_codes[:AREAS]:
        tables[schema.buckets].append(
            {**key, "bucket": bucket, "users": 200, "runs": True, "parameters": json.dumps(_PARAMETERS)}
        )
        tables[schema.tallies].append({**key, "bucket": bucket, "count": 190, "checksum": bytes(32), "data": b""})
    odds = {"estimate": 40.0, "low": 20.0, "high": 60.0, "p_value": 1e-9, "length": 1, "strict": 1}
    tables[schema.hitters] += [{**key, "number": name, "bucket": 202, **odds} for name in found]
    tables[schema.audit] += [_logged(number, at)] * 2


def _logged(number: int, at: int) -> dict[str, Any]:
    who = {"operator": 1, "name": "an operator", "why": "as always", "outcome": "done"}
    return {"at": at, "what": "advance", "about": f"round {number}", **who}


_PARAMETERS = {"mechanism": DEFAULT.mechanism, "epsilon": 4.0, "bits": 6, "item_bits": 24}


def _add_people(service: Service, first: int, last: int, now: int) -> None:
    for start in range(first, last, BATCH):
        places = range(start, min(start + BATCH, last))
        numbers = [str(NANP.number(NANP.area_codes[place % 400], 3_000_000 + place // 400)) for place in places]
        closed = [None if place % 100 == 0 else now for place in places]
        texts = {"why": "this is my number", "who": "its owner", "at": now, "closed_why": "withdrawn"}
        with service.store.write("people") as connection:
            devices = [{"token_hash": place.to_bytes(32, "big"), "enrolled": now} for place in places]
            connection.execute(sa.insert(schema.devices), devices)
            appeals = [{"number": n, **texts, "closed": at} for n, at in zip(numbers, closed, strict=True)]
            connection.execute(sa.insert(schema.appeals), appeals)


def _round(service: Service, now: list[int]) -> None:
    """A round from its opening to its list, without phones but with findings."""
    number = service.rounds.open(now[0])
    found = [NANP.number(202, 2_000_000 + place) for place in range(FOUND)]
    rig.insert_hitters(service, number, found)
    service.publisher.publish(number, now[0])
    now[0] += service.settings.round.period_seconds


def _figures(service: Service, now: list[int], label: str, progress: Progress) -> dict[str, float]:
    token = service.devices.new_admin(frozenset(SCOPES), "bench", service.now)
    headers, figures = {"authorization": f"Bearer {token}"}, dict[str, float]()
    newest = service.rounds.newest()
    assert newest is not None
    names = {"round": newest.id, "number": str(NANP.number(202, 2_000_000))}
    clock = time.perf_counter if service.store.postgres else time.process_time

    def best(what: str, work: Callable[[], object]) -> None:
        progress(f"{label}: {what}", len(figures), 24)
        seconds = []
        for _ in range(TIMES):
            began = clock()
            work()
            seconds.append(clock() - began)
        figures[what] = min(seconds)

    def get(pool: urllib3.PoolManager, url: str, headers: dict[str, str]) -> None:
        answer = pool.request("GET", url, headers=headers)
        if answer.status != 200:
            raise InvalidParameter("page", "be there", f"{url}: {answer.status}")

    service_again = partial(open_service, service.settings)
    service_again().close()
    best("start", lambda: service_again().close())
    for place in range(TIMES):  # a new server each time: it has no answer ready
        with running(service) as address, urllib3.PoolManager(timeout=300) as pool:
            progress(f"{label}: pages", place, TIMES)
            cookie = _log_in(pool, address, token)
            paths = {**{path: {} for path in PUBLIC}, **{f"/v1/admin/{path}": headers for path in READS}}
            named = {path: (path, sent) for path, sent in paths.items()}
            named |= {f"{path} (operator)": (path, cookie) for path in PAGES}
            for what, (path, sent) in named.items():
                url = address + path.format(**names)
                began = clock()
                get(pool, url, sent)
                figures[what] = min(figures.get(what, math.inf), clock() - began)
    best("scheduler, nothing due", lambda: service.rounds.advance(service.now))
    best("a round opened and published", lambda: _round(service, now))
    best("an appeal", lambda: service.corrections.appeal(*_appeal(), service.now))
    with tempfile.TemporaryDirectory() as folder:
        progress(f"{label}: backup", len(figures), 24)
        began = clock()
        back_up(service, Path(folder) / "backup.tar")
        figures["backup"] = clock() - began
    return figures


def _log_in(pool: urllib3.PoolManager, address: str, token: str) -> dict[str, str]:
    sent = {"origin": address}
    answer = pool.request(
        "POST", f"{address}/login", fields={"token": token}, encode_multipart=False, headers=sent, redirect=False
    )
    cookies = answer.headers.getlist("set-cookie")
    return {"cookie": next(text.partition(";")[0] for text in cookies if text.startswith(COOKIE))}


_appealed = iter(range(1_000_000))


def _appeal() -> tuple[str, str, str]:
    return str(NANP.number(303, 4_000_000 + next(_appealed))), "mine", "its owner"
