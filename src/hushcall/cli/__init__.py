"""The command line: the list of commands. Each imports what it needs when it runs, so the client's need no numpy."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer
import typer.main

from hushcall.cli import export, plan
from hushcall.cli.client import commands
from hushcall.cli.server import admin, archive, config, keys, rounds, serve
from hushcall.errors import HushcallError, MovedCommand
from hushcall.version import __version__

app = typer.Typer(
    name="hushcall",
    help="Learns which phone numbers spam people, from call logs that stay private.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("decode")(serve.decode)
app.command("relay")(serve.relay)
app.add_typer(rounds.rounds, name="round")
app.add_typer(admin.admin, name="admin")
app.add_typer(keys.keys, name="keys")
app.add_typer(config.config, name="config")
app.command("backup")(archive.backup)
app.command("restore")(archive.restore)
app.command("plan-of")(config.plan_of)
app.add_typer(archive.archive, name="archive")
app.command("learn")(archive.learn)
app.add_typer(commands.phone, name="phone")
app.command("export")(export.export)
app.command("privacy")(plan.privacy)
app.command("plan")(plan.plan)

LAB_COMMANDS = ("audit", "bench", "data", "demo", "experiment", "prove", "simulate", "lab")
"""Commands that the package hushcall-lab has now. ``hushcall lab X`` is ``hushcall-lab X``."""


def _add_elsewhere(group: typer.Typer, name: str, error: HushcallError) -> None:
    """A hidden command that only says where it is."""

    def elsewhere() -> None:
        raise error

    any_arguments = {"allow_extra_args": True, "ignore_unknown_options": True}
    group.command(name, hidden=True, add_help_option=False, context_settings=any_arguments)(elsewhere)


for _name in LAB_COMMANDS:
    _add_elsewhere(
        app, _name, MovedCommand(f"hushcall {_name}", "hushcall-lab" if _name == "lab" else f"hushcall-lab {_name}")
    )
_add_elsewhere(commands.phone, "simulate", MovedCommand("hushcall phone simulate", "hushcall-lab phones"))
_FOLLOWS = "hushcall home run follows the log, and hushcall phone ingest FILE reads what is new in it"
_add_elsewhere(commands.phone, "watch", MovedCommand("hushcall phone watch", "hushcall home init --log FILE", _FOLLOWS))

if find_spec("hushcall_home"):
    app.add_typer(import_module("hushcall_home.cli").home, name="home")
else:
    _HOME = (
        "hushcall home needs the package hushcall-home: pip install hushcall-home (in a clone: pip install . ./home)"
    )
    _add_elsewhere(app, "home", HushcallError(_HOME))


def _print_version(requested: bool) -> None:
    if requested:
        print(f"hushcall {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> None:
    run(app)


def run(commands: typer.Typer) -> None:
    """Runs a command. An error of ours, or the system, is one line on stderr and exit status 2 (a store: 3 to 10)."""
    try:
        _built(commands)()
    except HushcallError as error:
        print(f"hushcall: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except OSError as error:
        if error.errno is None:  # not the system's: some libraries derive their errors from OSError
            raise
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        print(f"hushcall: {where}{error.strerror}.", file=sys.stderr)
        raise SystemExit(HushcallError.exit_code) from None


@cache
def _built(commands: typer.Typer) -> Callable[[], object]:
    """The click command. ``commands()`` would build it anew at every call."""
    return typer.main.get_command(commands)
