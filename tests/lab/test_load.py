"""``hushcall prove load``: what is said of a server under load was counted; how quick a machine is decides nothing."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hushcall.lab.live.load import drive
from hushcall.lab.live.machine import Machine, Syncs, Watch, share_taken
from hushcall.lab.live.rig import Runs
from hushcall.lab.prove import load
from hushcall.lab.prove.load import Borne, bear

COUNTED = {
    *("errors at 70 %", "neither taken nor told to come back", "told to come back without a time"),
    "acknowledged and lost",
}
"""Promises that no other work on the machine can break."""


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_what_a_server_acknowledged_under_twice_its_load_is_stored(database: str, postgres: Any) -> None:
    borne = bear(0.5, postgres.fresh() if database == "postgresql" else "", lambda *_: None, most=4000)
    kept = {one.what: one.ok for one in borne.promises}
    assert kept.keys() > COUNTED
    assert all(kept[what] for what in COUNTED), borne
    assert borne.statuses["201"] > 0
    assert borne.machine.beside.p99_ms > 0
    assert borne.busy > 0
    assert borne.database == database


@pytest.mark.slow
def test_a_report_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = load._Drill._stored
    monkeypatch.setattr(load._Drill, "_stored", lambda drill: list(stored(drill))[1:])
    borne = bear(0.3, "", lambda *_: None, most=3000)
    (lost,) = [one for one in borne.promises if one.what == "acknowledged and lost"]
    assert (lost.measured, lost.ok, borne.ok) == (1, False, False)


def test_a_bad_moment_is_told_apart_from_a_slow_server() -> None:
    runs = Runs()
    runs.add(
        {
            "latencies": [0.01] * 1000 + [0.01] * 500 + [0.3] * 500 + [0.01] * 999,
            "seconds": 3.0,
            "taken_seconds": 3.0,
            "statuses": {},
            "told": 0,
        }
    )
    assert runs.stretches(0.99, 1000) == pytest.approx((10, 300)), "the last one is not whole"
    still = Machine(Syncs(2, 1, 1), Syncs(2, 1, 1), None)
    told = Borne("sqlite", 1, 1, 1, 300, runs.stretches(0.99, 1000), 0.7, 2, 1, {}, (1, 1, 1), (), still).in_stretches
    assert told == "p99 of each 5 s at 70 %: 155 ms at the median, 1 of 2 above 100 ms, the worst 300 ms."


def test_what_the_machine_did_by_itself_is_told_beside_it(tmp_path: Path) -> None:
    """Syncs that take a thousandth, then a twentieth of a second on a clock of our own."""
    ticks, took = itertools.count(), 0.001
    watch = Watch(tmp_path, lambda: next(ticks) * took)
    watch.alone(0.0)
    took = 0.05
    with watch.beside():
        pass
    seen = watch.machine
    assert min(seen.before.count, seen.beside.count) >= 2, "even a short look has seen something"
    assert (seen.before.p99_ms, seen.beside.p50_ms) == pytest.approx((1, 50))
    said = str(replace(seen, taken=0.027))
    assert said == (
        "A sync of 64 kB to this disk took 1.0 ms at the median and 1 at p99 before the load, "
        "50.0 ms at the median and 50 at p99 beside it. Others took 2.7% of the processors' time."
    )


def test_the_share_that_others_took_is_of_all_time() -> None:
    assert share_taken([10, 0, 0, 80, 0, 0, 0, 10], [20, 0, 0, 165, 0, 0, 0, 15]) == pytest.approx(0.05)
    assert share_taken(None, None) is None


def test_the_generator_tells_who_was_acknowledged_and_who_was_told_when_to_come_back() -> None:
    """Answers in turn: taken, refused with a time, refused without one, hung up on."""
    answers = [
        b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\ncontent-length: 2\r\n\r\nno",
        b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n",
        b"",
    ]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while place := (await reader.read(1)):
            said = answers[place[0] % 4]
            writer.write(said)
            if not said:
                break
        writer.close()

    async def run() -> Any:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            return await drive("127.0.0.1", server.sockets[0].getsockname()[1], [bytes([n]) for n in range(8)], 1, 0.0)

    seen = asyncio.run(run())
    assert seen.statuses == {"201": 2, "503": 4, "000": 2}
    assert (seen.acknowledged, seen.told) == ([0, 4], 2)
