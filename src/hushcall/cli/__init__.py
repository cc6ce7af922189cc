"""The command line: one file per command or small group of them. ``hushcall --help`` lists them."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import typer.main

from hushcall.cli.app import app
from hushcall.errors import HushcallError


@cache
def commands() -> Any:
    """All commands with their options, put together once: ``app()`` would do so anew at every call."""
    return typer.main.get_command(app)


def main() -> None:
    """Run a command; an error of ours is one line on stderr and exit status 2 (of a store: 3 to 10), no traceback."""
    try:
        commands()()
    except HushcallError as error:
        print(f"hushcall: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
