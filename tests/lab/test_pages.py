"""``hushcall-lab prove pages``: what is said of uploads beside those who look was counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.server.new_folder import open_new
from tests.server.serving import Clock, settings_for

from hushcall.formats.blocklists import WRITERS
from hushcall.protocol.randomness import seeded
from hushcall.server.publishing.publisher import newest_list
from hushcall_lab.proofs.pages import BLOCKS, PAGES, PageResult, prove, publish_list
from hushcall_lab.simulation.load import Connection, drive


def test_the_long_list_blocks_every_number_that_it_says(tmp_path: Path) -> None:
    service = open_new(settings_for(tmp_path / "data"), seeded(b"a long list"), Clock())
    publish_list(service, 1000)
    with service.store.read() as connection:
        blocklist = newest_list(connection)
    service.close()
    assert blocklist is not None
    assert len(blocklist.entries) == len(blocklist.to_block().entries) == 1000


def test_every_export_is_among_the_pages() -> None:
    assert {page.rpartition("/")[2] for page in PAGES} > {writer.filename for writer in WRITERS.values()}


def test_what_counts_as_kept() -> None:
    fast = PageResult("/", 1, 1000.0, 30.0, 700.0, 250.0, 9.0, refused=5, failed=0)
    assert fast.ok
    assert not PageResult("/", 1, 1000.0, 30.0, 699.0, 250.0, 9.0, refused=0, failed=0).ok
    assert not PageResult("/", 1, 1000.0, 30.0, 700.0, 251.0, 9.0, refused=0, failed=0).ok
    assert not PageResult("/", 1, 1000.0, 30.0, 700.0, 250.0, 9.0, refused=0, failed=1).ok


def test_clients_ask_again_and_again_and_are_counted() -> None:
    long = b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + bytes(200_000)
    answers = iter([long, long, b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", b""])

    async def run() -> Any:
        over = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1):
                answer_bytes = next(answers, None)
                if answer_bytes is None:
                    over.set()  # the one that is being answered is not counted
                    await over.wait()
                    return
                writer.write(answer_bytes)
                if not answer_bytes:
                    break
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            viewing = asyncio.create_task(drive("127.0.0.1", port, [bytes(1)], 1, 0.0, endless=True))
            await over.wait()
            viewing.cancel()
            return await viewing

    assert asyncio.run(run()).statuses == {"200": 2, "503": 1, "000": 1}


def test_a_long_answer_is_read_whatever_pieces_it_comes_in() -> None:
    async def run(step: int) -> bytes:
        connection, answer = Connection(), b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123456789"
        connection.done = asyncio.get_running_loop().create_future()
        for at in range(0, len(answer), step):
            assert not connection.done.done()
            connection.data_received(answer[at : at + step])
        return await asyncio.wait_for(connection.done, 10)

    for step in (1, 2, 3, 7, 38, 47, 48, 100):
        assert asyncio.run(run(step)) == b"200"


@pytest.mark.slow
def test_uploads_beside_those_who_look_are_all_taken() -> None:
    pages = ["/", f"/v1/lists/current/{WRITERS['plain'].filename}"]
    rows = list(prove(50, 4 * BLOCKS, "", lambda *_: None, pages))
    assert [row.failed for row in rows] == [0, 0]
    assert all(row.per_second > 0 and row.pages_per_second > 0 and row.size > 0 for row in rows)
