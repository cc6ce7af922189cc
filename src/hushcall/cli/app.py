"""The list of commands. Each imports what it needs when it runs, so that the phone's commands need no numpy."""

from __future__ import annotations

from typing import Annotated

import typer

from hushcall.cli import export, learn, privacy
from hushcall.cli.lab import audit, bench, data, demo, experiment, invent, plan, prove, simulate
from hushcall.cli.phone import commands
from hushcall.cli.server import admin, archive, backup, config, decode, keys, plan_of, relay, rounds, serve
from hushcall.version import __version__

app = typer.Typer(
    name="hushcall",
    help="Learns which phone numbers spam people, from call logs that stay private.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("decode")(decode.decode)
app.command("relay")(relay.relay)
app.add_typer(rounds.rounds, name="round")
app.add_typer(admin.admin, name="admin")
app.add_typer(keys.keys, name="keys")
app.add_typer(config.config, name="config")
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("plan-of")(plan_of.plan_of)
app.add_typer(archive.archive, name="archive")
app.command("learn")(learn.learn)
app.add_typer(commands.phone, name="phone")
app.command("export")(export.export)
app.command("privacy")(privacy.privacy)
app.command("simulate")(simulate.simulate)
app.command("plan")(plan.plan)
app.command("audit")(audit.audit)
app.add_typer(prove.prove, name="prove")
app.command("experiment")(experiment.experiment)
app.add_typer(bench.bench, name="bench")
app.add_typer(data.data, name="data")
app.add_typer(invent.lab, name="lab")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"hushcall {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass
