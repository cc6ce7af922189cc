"""The FastAGI server, spoken to over TCP as Asterisk does."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.lists_on_disk import BLOCKED, CLEAN, WARNED, put_list

from hushcall.client.calls import candidates
from hushcall.client.screening.agi import AgiServer
from hushcall.client.screening.lookup import LIST_FILE, STATE_FILE
from hushcall.client.screening.screen import Screen, save_policy
from hushcall.client.storage.store import LISTS, Store
from hushcall.client.storage.trouble import FILE
from hushcall.errors import InvalidData, InvalidList
from hushcall.protocol.blocklist import iso
from hushcall.protocol.numbers import NANP

NOW = int(time.time())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    put_list(tmp_path, NOW, NOW + 86_400)
    return Store.open(tmp_path)


def header(caller: str) -> bytes:
    lines = [
        "agi_network: yes",
        "agi_request: agi://127.0.0.1/",
        "agi_channel: PJSIP/trunk-0001",
        "agi_language: en",
        f"agi_callerid: {caller}",
        "agi_calleridname: unknown",
        "agi_extension: 100",
    ]
    return "\n".join(lines).encode() + b"\n\n"


async def call(port: int, caller: str) -> dict[str, str]:
    """One call: send the header, obey the commands, and give back the variables."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(header(caller))
    found = {}
    while line := await reader.readline():
        words = line.decode().strip().split(" ", 3)
        assert words[:2] == ["SET", "VARIABLE"]
        found[words[2]] = words[3].strip('"')
        writer.write(b"200 result=1\n")
    writer.close()
    return found


def with_server(store: Store, talk: Callable[[int, AgiServer], Awaitable[None]]) -> AgiServer:
    async def run() -> AgiServer:
        server = AgiServer(Screen(store))
        listening = await server.start("127.0.0.1", 0)
        async with listening:
            await talk(listening.sockets[0].getsockname()[1], server)
        server.flush()
        return server

    return asyncio.run(run())


def test_block_warn_allow_and_the_callers_are_noted(store: Store) -> None:
    async def talk(port: int, _: AgiServer) -> None:
        assert (await call(port, BLOCKED))["HUSHCALL_ACTION"] == "block"
        warned = await call(port, "(202) 555-0144")
        assert warned["HUSHCALL_ACTION"] == "warn"
        assert "reported by about 12 phones" in warned["HUSHCALL_WHY"]
        assert (await call(port, CLEAN))["HUSHCALL_ACTION"] == "allow"
        for hidden in ("unknown", "", "101", "+442079460000"):
            assert (await call(port, hidden))["HUSHCALL_ACTION"] == "allow"

    server = with_server(store, talk)
    assert (server.answered, server.blocked, server.malformed) == (7, 1, 0)
    assert candidates.reportable(store, int(time.time()), 7, 30) == sorted([BLOCKED, WARNED, CLEAN])


def test_contacts_pass_and_a_gentle_policy_only_warns(store: Store) -> None:
    save_policy(store, "warn", 2)
    candidates.add_contacts(store, [WARNED], NANP)

    async def talk(port: int, _: AgiServer) -> None:
        assert (await call(port, BLOCKED))["HUSHCALL_ACTION"] == "warn"
        assert await call(port, WARNED) == {"HUSHCALL_ACTION": "allow", "HUSHCALL_WHY": "one of your contacts"}

    with_server(store, talk)


def test_a_newer_list_and_new_contacts_are_taken_over(store: Store, tmp_path: Path) -> None:
    screen = Screen(store)
    assert screen.verdict("+12035000000", NOW).action == "allow"
    put_list(tmp_path, NOW, NOW + 86_400, extra=1)
    candidates.add_contacts(store, [BLOCKED], NANP)
    screen.refresh()
    assert screen.verdict("+12035000000", NOW).action == "block"
    assert screen.verdict(BLOCKED, NOW).action == "allow"


def test_a_damaged_list_is_no_list_but_never_replaces_a_good_one(store: Store, tmp_path: Path) -> None:
    screen, path = Screen(store), tmp_path / LISTS / LIST_FILE
    path.unlink()
    path.write_bytes(b"rubbish")
    with pytest.raises(InvalidList):
        screen.refresh()
    assert screen.verdict(BLOCKED, NOW).action == "block"
    late = Screen(store)
    assert (late.verdict(BLOCKED, NOW).action, late.verdict(BLOCKED, NOW).why) == ("allow", "the list is damaged")
    put_list(tmp_path, NOW, NOW + 86_400)
    late.refresh()
    assert late.verdict(BLOCKED, NOW).action == "block"
    path.write_bytes(b"rubbish")  # cut while it is in use
    assert (late.verdict(BLOCKED, NOW).action, late.verdict(BLOCKED, NOW).why) == ("allow", "the list is damaged")


def test_without_a_list_everybody_passes_and_it_says_why(tmp_path: Path) -> None:
    verdict = Screen(Store.open(tmp_path / "new")).verdict(BLOCKED, NOW)
    assert (verdict.action, verdict.why) == ("allow", "there is no list yet")


HOSTILE = [
    b"",
    b"\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"agi_callerid: " + b"9" * 100_000 + b"\n\n",
    b"agi_x: y\n" * 1000,
    b"\xff\xfe\x00" * 50 + b"\n\n",
    header(BLOCKED)[:-1],
    header(BLOCKED) + b"510 Invalid\n",
]


async def throw(port: int, data: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:
        return  # the server hung up first, as it may
    finally:
        writer.close()


def test_hostile_input_ends_only_its_own_connection(store: Store) -> None:
    async def talk(port: int, server: AgiServer) -> None:
        for data in HOSTILE:
            await throw(port, data)
            assert (await call(port, BLOCKED))["HUSHCALL_ACTION"] == "block"
        assert server.malformed >= len(HOSTILE) - 1

    with_server(store, talk)


@given(st.lists(st.binary(max_size=200), max_size=5))
@settings(max_examples=25, deadline=None)
def test_any_bytes_at_all(chunks: list[bytes]) -> None:
    async def talk(port: int, server: AgiServer) -> None:
        for chunk in chunks:
            await throw(port, chunk)
        assert (await call(port, CLEAN))["HUSHCALL_ACTION"] == "allow"

    store = Store.in_memory()
    with_server(store, talk)
    store.close()


def test_notes_wait_while_the_store_cannot_be_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    server = AgiServer(Screen(store), say=said.append)
    server._notes[NANP.parse(CLEAN)] = NOW

    def fail(*_: object) -> None:
        raise InvalidData("store", "be writable", "full")

    with monkeypatch.context() as patched:
        patched.setattr(candidates, "note", fail)
        server.flush()
    assert len(said) == 1
    assert CLEAN not in said[0]
    server.flush()
    assert candidates.reportable(store, NOW, 7, 30) == [CLEAN]


def test_a_verdict_does_not_wait_while_another_process_holds_the_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is SQLite's own; the second call comes while a flush waits for it, and is answered before that ends."""
    note, flushing, flushed = candidates.note, threading.Event(), threading.Event()

    def seen(*given: Any) -> None:
        if not len(given[1]):  # a flush before the first call: on a busy machine there is one
            note(*given)
            return
        flushing.set()
        try:
            note(*given)
        finally:
            flushed.set()

    async def talk() -> None:
        server, port = AgiServer(Screen(store)), asyncio.get_running_loop().create_future()
        running = asyncio.ensure_future(server.run("127.0.0.1", 0, port.set_result))
        try:
            await call(await port, CLEAN)
            assert await asyncio.to_thread(flushing.wait, 60)
            assert (await call(port.result(), BLOCKED))["HUSHCALL_ACTION"] == "block"
            assert not flushed.is_set()
        finally:
            other.rollback()
            running.cancel()
            await asyncio.wait([running])

    monkeypatch.setattr("hushcall.client.screening.agi.FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(candidates, "note", seen)
    other = sqlite3.connect(tmp_path / FILE, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    store.run("PRAGMA busy_timeout = 120000")  # a flush that gave up would look like one that nobody waited for
    asyncio.run(talk())
    other.close()
    assert candidates.reportable(store, int(time.time()), 7, 30) == sorted([BLOCKED, CLEAN])


@contextmanager
def command(home: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The real command on a free port, as systemd would start it; ended as systemd would."""
    words = ["phone", "agi", "--listen", "127.0.0.1:0", "--home", str(home)]
    code = "from hushcall.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield int(process.stderr.readline().rpartition(":")[2]), process
    finally:
        process.terminate()
        process.wait(60)


async def on_many_lines(port: int, callers: list[str], lines: int = 20) -> None:
    """So many lines at once, each call a connection of its own, as Asterisk makes them."""

    async def one_line(share: list[str]) -> None:
        for caller in share:
            assert (await call(port, caller))["HUSHCALL_ACTION"] == "allow"

    await asyncio.gather(*(one_line(callers[i::lines]) for i in range(lines)))


def test_the_command_answers_twenty_lines_at_once_and_notes_every_caller(tmp_path: Path) -> None:
    put_list(tmp_path, NOW, NOW + 86_400, extra=2_000)
    Store.open(tmp_path).close()
    callers = [str(NANP.number(203, 9_550_000 + i)) for i in range(400)]
    with command(tmp_path) as (port, process):
        assert asyncio.run(call(port, BLOCKED))["HUSHCALL_ACTION"] == "block"
        assert asyncio.run(call(port, WARNED))["HUSHCALL_ACTION"] == "warn"
        asyncio.run(on_many_lines(port, callers))
        process.terminate()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert " 1 to be blocked, 0 malformed" in process.stderr.read()
    store = Store.open(tmp_path)
    assert store.row("SELECT count(*) FROM callers") == (len(callers) + 2,)
    store.close()


def test_a_taken_port_is_an_error_that_says_so(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with command(tmp_path) as (port, _):
        words = ["phone", "agi", "--listen", f"127.0.0.1:{port}", "--home", str(tmp_path)]
        code = "from hushcall.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "listen must be a free address" in done.stderr


def test_a_sync_that_only_moves_the_expiry_is_taken_over(store: Store, tmp_path: Path) -> None:
    put_list(tmp_path, NOW, NOW - 1)
    screen = Screen(store)
    assert "expired" in screen.verdict(CLEAN, NOW).warning
    state = tmp_path / LISTS / STATE_FILE
    state.write_text(state.read_text().replace(iso(NOW - 1), iso(NOW + 86_400)) + " ")
    screen.refresh()
    assert screen.verdict(CLEAN, NOW).warning == ""
