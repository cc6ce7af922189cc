"""``hushcall phone check``, ``allow``, ``block``, ``own`` and ``agi``: judging callers."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hushcall.cli import show
from hushcall.cli.options import Home, opened
from hushcall.cli.show import Json
from hushcall.client.screening.screen import Screen
from hushcall.client.setup import plan_of
from hushcall.client.storage.personal import Action, Personal, mark
from hushcall.errors import InvalidParameter
from hushcall.wording import counted

Entries = Annotated[
    list[str], typer.Argument(metavar="NUMBER|PREFIX*...", help="A number, or its beginning: '+1900*'.")
]


def check(
    number: Annotated[str, typer.Argument(help="A caller, in any usual notation.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Judge a caller offline: allow, warn or block, and why."""
    with opened(home, reading=True) as store:
        verdict = Screen(store, plan_of(store)).verdict(number, int(time.time()))
    show.say(asdict(verdict), json, f"{verdict.action.value}: {verdict.why}")
    if verdict.warning and not json:
        show.remark(verdict.warning)


def allow(entries: Entries, home: Home = None, json: Json = False) -> None:
    """Let these callers through: always, whatever the list says. They are never reported."""
    _change(entries, Action.ALLOW, home, json)


def block(entries: Entries, home: Home = None, json: Json = False) -> None:
    """These callers are spam: always block them, whatever the list says, and report them before others."""
    _change(entries, Action.BLOCK, home, json)


def own(
    remove: Annotated[list[str] | None, typer.Option(metavar="NUMBER|PREFIX*", help="Take an entry off.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show your own list: it stays on this phone, and counts before the shared one."""
    _change(remove or [], None, home, json)


def _change(patterns: list[str], action: Action | None, home: Path | None, json: bool) -> None:
    """Put entries on the own list, or (without an action) take them off. Then show it."""
    with opened(home, reading=not patterns) as store:
        own_list = mark(store, plan_of(store), patterns, action) if patterns else Personal.load(store)
    entries = {pattern: entry.value for pattern, entry in sorted(own_list.entries.items())}
    lines = [f"{name:5} {pattern}" for pattern, name in entries.items()] or ["Your own list is empty."]
    show.say({"own": entries}, json, "\n".join(lines))


def agi(listen: Annotated[str, typer.Option(help="Address and port.")] = "127.0.0.1:4573", home: Home = None) -> None:
    """Answer Asterisk, call by call: sets HUSHCALL_ACTION and HUSHCALL_WHY, and notes the caller for the report.

    FastAGI knows no passwords: listen on an address that only the PBX reaches.
    """
    import asyncio
    import contextlib
    import signal

    from hushcall.client.screening.agi import AgiServer

    host, colon, port = listen.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise InvalidParameter("listen", "be an address and a port, like 127.0.0.1:4573", listen)
    with opened(home, reading=True) as store:
        server = AgiServer(Screen(store, plan_of(store)), say=show.remark)

        async def run_until_stopped() -> None:
            """Run until SIGINT or SIGTERM. The server writes its notes then."""
            started = lambda bound: show.remark(f"listening on {host}:{bound}")  # noqa: E731
            task = asyncio.ensure_future(server.run(host.strip("[]"), int(port), started))
            for name in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(name, task.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await task

        try:
            asyncio.run(run_until_stopped())
        except OSError as error:
            raise InvalidParameter("listen", f"be a free address ({error.strerror})", listen) from None
    show.remark(
        f"{counted(server.answered, 'call')} answered, {server.blocked} to be blocked, {server.malformed} malformed"
    )
