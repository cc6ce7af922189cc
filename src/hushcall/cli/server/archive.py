"""``hushcall archive``: a closed round's reports as Parquet, out of a server, into one, and looked at."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.addresses import Where, address_of
from hushcall.cli.server.on_service import on_service
from hushcall.cli.show import Json

if TYPE_CHECKING:
    from hushcall.server.service import Service

archive = typer.Typer(help="A closed round's reports as Parquet: written, verified, read back.", no_args_is_help=True)
RoundOption = Annotated[int | None, typer.Option("--round", min=1, help="Which one. Default: the newest.")]


@archive.command("export")
@on_service
def export_round(
    service: Service,
    where: Where,
    number: Annotated[int, typer.Option("--round", min=1, help="A round that takes no more reports.")],
    json: Json = False,
) -> None:
    """Write a closed round's reports, bucket by bucket, with checksums.

    Raw reports are deleted when a round is decoded unless round.keep_reports is set: export between the two.

    [bold]Example[/bold]

      hushcall archive export /backup/rounds --round 12
    """
    address = address_of(where)
    from hushcall.server.rounds import archiving

    with show.progress("export") as bar:
        found = archiving.export_round(
            service.store, number, address, lambda done, total: show.step(bar, "export", done, total)
        )
    _tell(found, json)


@archive.command("import")
@on_service
def import_round(service: Service, where: Where, number: RoundOption = None, json: Json = False) -> None:
    """Take an archived round into a server that does not have it; 'hushcall round advance' decodes it.

    [bold]Example[/bold]

      hushcall archive import /backup/rounds --round 12
    """
    address = address_of(where)
    from hushcall.server.rounds import archiving

    found = address.round(number)
    with show.progress("import") as bar:
        archiving.import_round(service.store, address, found, lambda done, total: show.step(bar, "import", done, total))
    _tell(found, json)


@archive.command("verify")
def verify(
    where: Where,
    deep: Annotated[bool, typer.Option(help="Read every report too, and compare the buckets' checksums.")] = False,
    json: Json = False,
) -> None:
    """Find damaged, missing, surplus and doubled files. Exit status 1 if there are any.

    [bold]Examples[/bold]

      hushcall archive verify /backup/rounds

      hushcall archive verify s3://bucket/rounds --deep
    """
    address, wrong = address_of(where), list[str]()
    from hushcall.archive.verify import problems

    for found in address.rounds():
        with show.progress(f"round {found.round}") as bar:
            watch = partial(show.step, bar, f"round {found.round}")
            wrong += [f"{found.folder}/{text}" for text in problems(address, found, deep=deep, progress=watch)]
    if json:
        show.print_json({"wrong": wrong})
    else:
        show.console.print("\n".join(wrong) or "Nothing is wrong.", soft_wrap=True, markup=False)
    raise typer.Exit(1 if wrong else 0)


@archive.command("describe")
def describe(where: Where, number: RoundOption = None, json: Json = False) -> None:
    """Say what a round of an archive holds.

    [bold]Example[/bold]

      hushcall archive describe /backup/rounds
    """
    _tell(address_of(where).round(number), json)


def _tell(found: Any, json: bool) -> None:
    size = sum(file.bytes for bucket in found.buckets for file in bucket.files)
    profile = found.chosen_profile
    facts = {
        "round": found.round,
        "profile": profile.name,
        "mechanism": profile.mechanism,
        "epsilon": profile.epsilon,
        "reports": found.reports,
        "buckets": len(found.buckets),
        "skipped": len(found.skipped),
        "files": sum(len(bucket.files) for bucket in found.buckets),
        "bytes": size,
        "bytes_a_report": round(size / found.reports, 2) if found.reports else None,
    }
    if json:
        show.print_json(facts)
        return
    table = Table(title=f"Round {found.round}", show_header=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
    show.console.print(table)
