"""``hushcall privacy``: what a deployment promises, against whom, for one report, one caller and a month."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import PROFILE_HELP, chosen_profile
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.privacy.statement import (
    Deployment,
    Row,
    in_words,
    least_crowd,
    not_hidden,
    statement,
)

CROWDS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
TARGETS = (1.0, 0.1)
USUAL_CROWD = 10_000


def privacy(
    profile: Annotated[str | None, typer.Option(help=PROFILE_HELP)] = None,
    server: Annotated[str | None, typer.Option(help="Ask a server how it runs its rounds, instead.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget of one report. Default: the profile's.")] = None,
    crowd: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Honest phones whose reports lie in one pile: an area code's, or all. Default: what the server says, "
            "else 10000.",
        ),
    ] = None,
    reports: Annotated[int, typer.Option(min=1, help="Reports of one phone in a month.")] = 30,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Days in which a caller is in one report at most. Default: 30, a phone's.")
    ] = None,
    anonymous: Annotated[
        bool | None, typer.Option("--anonymous/--named", help="Blind tokens, or a device's name at each report.")
    ] = None,
    relay: Annotated[
        bool | None, typer.Option("--relay/--direct", help="Whether reports come through a relay.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what can be learnt about a caller, by those who read the list, by the server, by server and relay.

    [bold]Examples[/bold]

      hushcall privacy --profile balanced --crowd 1000

      hushcall privacy --epsilon 6 --profile balanced-whole --crowd 1000000 --anonymous --relay

      hushcall privacy --server https://calls.example.org --crowd 50000
    """
    if server is not None and profile is not None:
        raise InvalidParameter("profile", "not be given with a server, which has its own", profile)
    asked = _asked(server) if server else _planned(profile)
    chosen = {"epsilon": epsilon, "crowd": crowd, "horizon": horizon, "anonymous": anonymous, "relay": relay}
    values = {**asked, **{name: value for name, value in chosen.items() if value is not None}}
    name = values.pop("name")
    deployment = Deployment(**{"crowd": USUAL_CROWD, **values}, reports_a_month=reports)
    if json:
        show.print_json(_plain(name, deployment))
        return
    _print(name, deployment)


def _planned(profile: str | None) -> dict[str, Any]:
    chosen = chosen_profile(profile, None, None, None)
    return {"name": f"profile {chosen.name}", "epsilon": chosen.epsilon, "bucketed": chosen.bucketed}


def _asked(server: str) -> dict[str, Any]:
    from hushcall.mechanisms.schemes import sends_area_code
    from hushcall.phone.reporting.transport import HttpTransport

    info = HttpTransport(server).current_round()
    found = {"name": server, "epsilon": info.epsilon, "bucketed": sends_area_code(info.mechanism)}
    if info.anonymity is not None:
        found |= {"anonymous": True, "relay": bool(info.anonymity.relay)}
    if info.crowd and not found["bucketed"]:  # where area codes are in the clear a pile is smaller than the crowd
        found["crowd"] = info.crowd
    return found


def _plain(name: str, deployment: Deployment) -> dict[str, Any]:
    rows = statement(deployment)
    return {
        "deployment": {"name": name, **asdict(deployment)},
        "against": [{**asdict(row), "words": in_words(deployment, row)} for row in rows],
        "crowds": [
            {"crowd": size, **{row.who: {"report": row.report, "month": row.month} for row in found}}
            for size, found in _by_crowd(deployment)
        ],
        "least_crowd": {str(wanted): least_crowd(deployment.epsilon, wanted) for wanted in TARGETS},
        "not_hidden": list(not_hidden(deployment)),
    }


def _by_crowd(deployment: Deployment) -> list[tuple[int, tuple[Row, ...]]]:
    values = asdict(deployment)
    return [(size, statement(Deployment(**{**values, "crowd": size}))) for size in CROWDS]


def _print(name: str, deployment: Deployment) -> None:
    rows, out = statement(deployment), show.console
    how = "blind tokens" if deployment.anonymous else "a device's name at each report"
    via = "through a relay" if deployment.relay else "without a relay"
    clear = "the area code in the clear" if deployment.bucketed else "nothing in the clear"
    out.print(f"{name}: ε = {deployment.epsilon:g} a report, {clear}, {how}, {via}.", markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("against")
    table.add_column(f"a report, and a caller in {deployment.horizon} days", justify="right")
    table.add_column(f"{deployment.reports_a_month} reports a month", justify="right")
    table.add_column("δ", justify="right")
    for row in rows:
        table.add_row(
            row.who, f"ε = {row.report:.3g}", f"ε = {row.month:.3g}", f"{row.delta:.0e}" if row.delta else "0"
        )
    out.print(table)
    for row in rows:
        out.print(in_words(deployment, row) + "\n", markup=False)
    out.print("Not hidden:")
    for line in not_hidden(deployment):
        out.print(f"- {line}", markup=False)
    out.print("")
    _print_crowds(deployment)


def _print_crowds(deployment: Deployment) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="What a crowd is worth, where its bound holds")
    for column in ("reports in one pile", "ε of a report", f"of {deployment.reports_a_month}"):
        table.add_column(column, justify="right")
    for size, (readers, *_) in _by_crowd(deployment):
        table.add_row(f"{size:,}", f"{readers.report:.3g}", f"{readers.month:.3g}")
    show.console.print(table)
    for wanted in TARGETS:
        if (enough := least_crowd(deployment.epsilon, wanted)) is not None:
            show.console.print(f"ε = {wanted:g} takes a crowd of {enough:,}.")
