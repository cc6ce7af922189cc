"""A server's data in files: ``backup`` and ``restore``, and closed rounds as Parquet: ``archive`` and ``learn``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import DataOption, Place, chosen_settings, on_service
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra
from hushcall.protocol.blocklist import iso
from hushcall.protocol.states import ANNOUNCING, COLLECTING
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.decoding.archive.learn import Learnt
    from hushcall.decoding.archive.manifest import Address, ArchivedRound
    from hushcall.server.restore import Restored
    from hushcall.server.service import Service

archive = typer.Typer(help="A closed round's reports as Parquet: written, verified, read back.", no_args_is_help=True)
Where = Annotated[str, typer.Argument(metavar="ARCHIVE", help="A folder, or any address that fsspec knows.")]
RoundOption = Annotated[int | None, typer.Option("--round", min=1, help="Which one. Default: the newest.")]
MAX_ROWS = 50


def address_of(url: str) -> Address:
    try:
        from hushcall.decoding.archive.manifest import Address
    except ImportError:
        raise MissingExtra("hushcall archive", "scale") from None
    return Address(url)


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
    """
    address = address_of(where)
    from hushcall.server.rounds import archiving

    with show.progress("export") as bar:
        archived = archiving.export_round(service.store, number, address, partial(show.step, bar, "export"))
    _print_round(archived, json)


@archive.command("import")
@on_service
def import_round(service: Service, where: Where, number: RoundOption = None, json: Json = False) -> None:
    """Take an archived round into a server that does not have it; 'hushcall round advance' decodes it."""
    address = address_of(where)
    from hushcall.server.rounds import archiving

    archived = address.round(number)
    with show.progress("import") as bar:
        archiving.import_round(service.store, address, archived, partial(show.step, bar, "import"))
    _print_round(archived, json)


@archive.command("verify")
def verify(
    where: Where,
    deep: Annotated[bool, typer.Option(help="Read every report too, and compare the buckets' checksums.")] = False,
    json: Json = False,
) -> None:
    """Find damaged, missing, surplus and doubled files. Exit status 1 if there are any."""
    address, wrong = address_of(where), list[str]()
    from hushcall.decoding.archive.files import problems

    for archived in address.rounds():
        label = f"round {archived.round}"
        with show.progress(label) as bar:
            step = partial(show.step, bar, label)
            wrong += [f"{archived.folder}/{text}" for text in problems(address, archived, deep=deep, progress=step)]
    show.say({"wrong": wrong}, json, "\n".join(wrong) or "Nothing is wrong.")
    raise typer.Exit(1 if wrong else 0)


@archive.command("describe")
def describe(where: Where, number: RoundOption = None, json: Json = False) -> None:
    """Show the contents of a round of an archive."""
    _print_round(address_of(where).round(number), json)


def _print_round(archived: ArchivedRound, json: bool) -> None:
    size = sum(file.bytes for bucket in archived.buckets for file in bucket.files)
    profile = archived.chosen_profile
    facts = {
        "round": archived.round,
        "profile": profile.name,
        "mechanism": profile.mechanism,
        "epsilon": profile.epsilon,
        "reports": archived.reports,
        "buckets": len(archived.buckets),
        "skipped": len(archived.skipped),
        "files": sum(len(bucket.files) for bucket in archived.buckets),
        "bytes": size,
        "bytes_a_report": round(size / archived.reports, 2) if archived.reports else None,
    }
    if json:
        show.print_json(facts)
        return
    table = Table(title=f"Round {archived.round}", show_header=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
    show.console.print(table)


def learn(
    where: Where,
    number: RoundOption = None,
    rounds: Annotated[
        str | None,
        typer.Option(help="Only these take part, 6-12 or 6,8-12 for instance. Default: all that the archive holds."),
    ] = None,
    engine: Annotated[str, typer.Option(help="local (processes), dask or gpu. All give the same bytes.")] = "local",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler. Default: workers of its own on this machine.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes to start; 0 works in this one. Default: one a core.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the numbers here, one JSON object a line.")] = None,
    json: Json = False,
) -> None:
    """Learn from an archived round: read, tally, decode and decide every bucket.

    It decides as a server does: over the last 1, 2, 4 and 7 rounds, or the windows of the round's profile.

    [bold]Examples[/bold]

      hushcall learn /backup/rounds --round 12 --rounds 6-9,11-12

      hushcall learn s3://bucket/rounds --engine dask --scheduler tcp://scheduler:8786 --out found.jsonl
    """
    address = address_of(where)
    try:
        from hushcall.decoding.archive import learn as archives
        from hushcall.decoding.archive.manifest import newest_of, some_of
        from hushcall.decoding.backends import make_backend
    except ImportError:
        raise MissingExtra("hushcall learn", "scale") from None
    from hushcall.atomic_file import atomic_write

    if engine == "local":
        show.ready_to_decode()
    chosen = make_backend(engine, scheduler, workers)
    try:
        archived = address.rounds() if rounds is None else some_of(address.rounds(), rounds)
        newest = newest_of(archived, number)
        with show.progress("learn") as bar:
            learnt = archives.learn(address, newest, chosen, partial(show.step, bar, "learn"), archived)
    finally:
        chosen.close()
    if out is not None:
        atomic_write(out, learnt.to_bytes(), "out")
    if json:
        facts = {"round": learnt.round, "rounds": list(learnt.rounds), "reports": learnt.reports}
        show.print_json({**facts, "listed": list(learnt.listed)})
    else:
        _print_learnt(learnt)


def _print_learnt(learnt: Learnt) -> None:
    numbers, reports = counted(len(learnt.listed), "number"), counted(learnt.reports, "report")
    table = Table(title=f"Round {learnt.round}: {numbers} from {reports}")
    for column in ("number", "phones", "from", "to", "p-value", "rounds"):
        table.add_column(column, justify="left" if column == "number" else "right")
    for row in learnt.listed[:MAX_ROWS]:
        counts = (f"{row[name]:,.0f}" for name in ("estimate", "low", "high"))
        table.add_row(row["number"], *counts, f"{row['p_value']:.1e}", str(row["length"]))
    show.console.print(table)
    if earlier := len(learnt.rounds) - 1:
        show.console.print(f"Decided together with {counted(earlier, 'earlier round')}.")
    if len(learnt.listed) > MAX_ROWS:
        show.console.print(f"{len(learnt.listed) - MAX_ROWS} more: see --out and --json.")


@on_service
def backup(
    service: Service,
    file: Annotated[Path, typer.Argument(help="A new file; it appears when everything is in it.")],
    json: Json = False,
) -> None:
    """Back up database, online keys and settings into one file while the service runs. The root key is not part of it.

    The backup is one snapshot, even under uploads. It is read back, and on disk when the command ends. PostgreSQL needs
    its own pg_dump.
    """
    from hushcall.server.backup import back_up

    with show.busy() as say:
        manifest = back_up(service, file, say)
    size = file.stat().st_size
    facts = {"file": str(file), "made": iso(manifest.made), "members": sorted(manifest.members), "bytes": size}
    text = f"{file} ({size:,} bytes): database, {len(manifest.members) - 2} keys and settings, read back."
    if service.settings.list.allow_file:
        text += f" Not in it: {service.settings.list.allow_file} (list.allow_file). Copy it too."
    show.say(facts, json, text)


def restore(
    file: Annotated[Path, typer.Argument(help="What 'hushcall backup' made.")],
    data: DataOption = None,
    database: Annotated[
        str | None, typer.Option(help="For a backup of PostgreSQL: an empty database. Default: the one it was made of.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace what is there: a folder's content is moved aside, a database's is gone.")
    ] = False,
    as_it_was: Annotated[
        bool, typer.Option(help="The service was stopped before the backup and not started since: change no number.")
    ] = False,
    commands: Annotated[
        bool, typer.Option("--commands", help="The commands in its settings may run: they are named without this.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a server from a backup: database, keys and settings, all of it or nothing. Stop the old one first.

    Rounds and versions go on beyond any that phones may have seen since the backup, so that they sync and take part at
    once. Everything after the backup is lost; the command says what that means.

    [bold]Examples[/bold]

      hushcall restore /backup/2027-01-31.tar --data /var/lib/hushcall

      hushcall restore backup.tar --data here --database postgresql://hushcall@localhost/restored
    """
    settings = chosen_settings(Place(data=data))  # an error where the server's packages are missing
    from hushcall.server.restore import SETTINGS
    from hushcall.server.restore import restore as put_back

    with show.busy() as say:
        done = put_back(
            *(file, settings.data, database or ""),
            overwrite=overwrite,
            as_it_was=as_it_was,
            commands=commands,
            say=say,
        )
    start = f"hushcall serve --data {done.settings.data} --config {done.settings.data / SETTINGS}"
    moved = {"was": done.restart.was, "is": done.restart.now} if done.restart else None
    aside = str(done.aside) if done.aside else None
    facts = {"made": iso(done.made), "newest_round": moved, "aside": aside, "start": start}
    show.say(facts, json, "\n".join([*_summary(done), f"Start it: {start}"]))


def _summary(done: Restored) -> list[str]:
    made_at, restart = iso(done.made), done.restart
    lines = [f"Restored into {done.settings.data}: database, keys and settings of {made_at}."]
    if done.aside:
        lines.append(f"What was there before is in {done.aside}.")
    if restart is None:
        return [*lines, "Rounds and versions go on where they were."]
    if restart.was:
        lines.append(f"Round {restart.was} is now round {restart.now}, and those before it moved up as far.")
    if restart.state == COLLECTING:
        lines.append("It was collecting: it is closed, and decided by the reports that it had.")
    elif restart.state == ANNOUNCING:
        lines.append("Phones were announcing: it held no report, and is ended. The next one opens at the start.")
    return [
        *lines,
        "Phones sync and take part at once: the list's versions are beyond any that they have seen.",
        f"Lost since {made_at}: reports, enrolments (those phones: 'hushcall phone init' again), appeals and",
        "allowed numbers (make them again, before their callers are listed again), revoked tokens, devices and codes.",
        "If a key was rotated since, rotate once more than you did then, with the root key.",
    ]
