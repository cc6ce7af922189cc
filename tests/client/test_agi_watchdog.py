"""The FastAGI server tells systemd that it is alive: one that hangs is ended, and no caller waits for it."""

import asyncio
import configparser
import socket
from pathlib import Path

import pytest

from hushcall.client.screening.agi import AgiServer, tell_systemd
from hushcall.client.screening.screen import Screen
from hushcall.client.storage.store import Store

ROOT = Path(__file__).parent.parent.parent


def test_ready_and_alive_are_said_to_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)

        async def serve() -> None:
            running = asyncio.ensure_future(AgiServer(Screen(Store.in_memory())).run("127.0.0.1", 0))
            said = [await asyncio.to_thread(systemd.recv, 100) for _ in range(2)]
            running.cancel()
            await asyncio.wait([running])
            assert said == [b"READY=1", b"WATCHDOG=1"]

        asyncio.run(serve())


def test_nobody_is_told_where_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "relative", str(tmp_path / "nobody"), "@nobody-of-this-name"):
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        tell_systemd("READY=1")


def test_the_unit_ends_a_server_that_hangs() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(ROOT / "examples" / "systemd" / "hushcall-agi.service")
    service = unit["Service"]
    assert (service["Type"], service["Restart"]) == ("notify", "always")
    assert int(service["WatchdogSec"]) <= 5


def test_the_dialplan_screens_lines_without_a_number_too() -> None:
    text = (ROOT / "examples" / "asterisk" / "extensions.conf").read_text()
    screened = text.split("\n[from-outside-screened]\n")[1].split("[hushcall-screen]")[0]
    assert "exten => _[+0-9]!,1,Gosub" in screened
    assert screened.count("Gosub(hushcall-screen,start,1)") == 2
    assert "exten => s,1," in screened
