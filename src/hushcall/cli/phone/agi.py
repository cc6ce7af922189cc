"""``hushcall phone agi``: a FastAGI server that tells Asterisk what to do with a caller."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from hushcall.cli.phone.home import Home, opened
from hushcall.errors import InvalidParameter
from hushcall.wording import counted


def agi(
    listen: Annotated[str, typer.Option(help="Address and port.")] = "127.0.0.1:4573",
    home: Home = None,
) -> None:
    """Answer Asterisk, call by call: sets HUSHCALL_ACTION and HUSHCALL_WHY, and notes the caller for the report.

    FastAGI knows no passwords: listen on an address that only the PBX reaches.

    [bold]Examples[/bold]

      hushcall phone agi

      hushcall phone agi --listen 127.0.0.1:4573
    """
    import asyncio

    from hushcall.phone.screening.agi import AgiServer
    from hushcall.phone.screening.screen import Screen
    from hushcall.phone.setup import plan_of

    host, port = _address(listen)
    with opened(home, reading=True) as store:
        server = AgiServer(Screen(store, plan_of(store)), say=_say)
        try:
            asyncio.run(_until_stopped(server.run(host, port, lambda found: _say(f"listening on {host}:{found}"))))
        except OSError as error:
            raise InvalidParameter("listen", f"be a free address ({error.strerror})", listen) from None
    _say(f"{counted(server.answered, 'call')} answered, {server.blocked} to be blocked, {server.malformed} malformed")


async def _until_stopped(running: Coroutine[Any, Any, None]) -> None:
    """Until SIGINT or SIGTERM: the notes of the last second are kept then."""
    import asyncio
    import contextlib
    import signal

    task = asyncio.ensure_future(running)
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):  # being stopped is how a server ends
        await task


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise InvalidParameter("listen", "be an address and a port, like 127.0.0.1:4573", text)
    return host.strip("[]"), int(port)


def _say(words: str) -> None:
    print(f"hushcall: {words}", file=sys.stderr, flush=True)
