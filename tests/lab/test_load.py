"""What is said of a server under load was counted; how quick a machine is decides nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hushcall_lab.proofs.load import Drill, prove
from hushcall_lab.simulation.load import Runs, drive

COUNTED = {
    *("errors at 70 %", "neither taken nor told to come back", "told to come back without a time"),
    "acknowledged and lost",
}
"""Promises that no other work on the machine can break."""


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_what_a_server_acknowledged_under_twice_its_load_is_stored(database: str, postgres: Any) -> None:
    result = prove(0.5, postgres.fresh() if database == "postgresql" else "", lambda *_: None, max_uploads=4000)
    fulfilled = {promise.what: promise.ok for promise in result.promises}
    assert fulfilled.keys() > COUNTED
    assert all(fulfilled[name] for name in COUNTED), result
    assert result.statuses["201"] > 0
    assert result.busy > 0
    assert result.database == database


@pytest.mark.slow
def test_reports_that_are_gone_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them: on a busy machine any single one may be stored without its phone having heard so."""
    monkeypatch.setattr(Drill, "stored_tickets", lambda _: set())
    result = prove(0.3, "", lambda *_: None, max_uploads=3000)
    (lost,) = [promise for promise in result.promises if promise.what == "acknowledged and lost"]
    assert lost.measured > 0
    assert (lost.ok, result.ok) == (False, False)


def test_a_slow_moment_shows_in_the_quantile_that_it_reaches() -> None:
    runs = Runs([0.01] * 985 + [0.3] * 15)
    assert (runs.quantile_ms(0.98), runs.quantile_ms(0.99)) == pytest.approx((10, 300))


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
            answer_bytes = answers[place[0] % 4]
            writer.write(answer_bytes)
            if not answer_bytes:
                break
        writer.close()

    async def run() -> Any:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            return await drive("127.0.0.1", server.sockets[0].getsockname()[1], [bytes([n]) for n in range(8)], 1, 0.0)

    measured = asyncio.run(run())
    assert measured.statuses == {"201": 2, "503": 4, "000": 2}
    assert (measured.acknowledged, measured.retry_after) == ([0, 4], 2)
