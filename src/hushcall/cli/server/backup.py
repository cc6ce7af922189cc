"""``hushcall backup`` and ``restore``: a running server comes in, a file leaves; a file comes in, a server leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushcall.cli import show
from hushcall.cli.server.on_service import DataOption, chosen_settings, on_service
from hushcall.cli.show import Json
from hushcall.protocol.blocklist import iso
from hushcall.protocol.states import ANNOUNCING, COLLECTING

if TYPE_CHECKING:
    from hushcall.server.restore import Restored
    from hushcall.server.service import Service


@on_service
def backup(
    service: Service,
    file: Annotated[Path, typer.Argument(help="A new file; it appears when everything is in it.")],
    json: Json = False,
) -> None:
    """Back up database, online keys and settings into one file while the service runs. The root key is not part of it.

    One snapshot, however many uploads come in meanwhile; read back, and on disk when the command ends. PostgreSQL needs
    its own pg_dump.

    [bold]Example[/bold]

      hushcall backup /backup/2027-01-31.tar
    """
    from hushcall.server.backup import back_up

    with show.busy() as say:
        made = back_up(service, file, say)
    size = file.stat().st_size
    if json:
        names = sorted(made.members)
        show.print_json({"file": str(file), "made": iso(made.made), "members": names, "bytes": size})
    else:
        words = f"{file} ({size:,} bytes): database, {len(made.members) - 2} keys and settings, read back."
        show.console.print(words, markup=False, soft_wrap=True)


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
    json: Json = False,
) -> None:
    """Make a server from a backup: database, keys and settings, all of it or nothing. Stop the old one first.

    Rounds and versions go on beyond any that phones may have seen since the backup, so that they sync and take part at
    once. What came in after the backup is lost; the command says what that means.

    [bold]Examples[/bold]

      hushcall restore /backup/2027-01-31.tar --data /var/lib/hushcall

      hushcall restore backup.tar --data here --database postgresql://hushcall@localhost/restored
    """
    settings = chosen_settings(None, data)  # for the folder, and its error where the server's packages are missing
    from hushcall.server.restore import SETTINGS
    from hushcall.server.restore import restore as put_back

    with show.busy() as say:
        done = put_back(file, settings.data, database or "", overwrite=overwrite, as_it_was=as_it_was, say=say)
    start = f"hushcall serve --data {done.settings.data} --config {done.settings.data / SETTINGS}"
    if json:
        moved = {"was": done.restart.was, "is": done.restart.now} if done.restart else None
        aside = str(done.aside) if done.aside else None
        show.print_json({"made": iso(done.made), "newest_round": moved, "aside": aside, "start": start})
        return
    show.console.print("\n".join(_told(done)), markup=False, soft_wrap=True)
    show.console.print(f"Start it: {start}", markup=False, soft_wrap=True)


def _told(done: Restored) -> list[str]:
    """What happened, and what it means for phones."""
    made, restart = iso(done.made), done.restart
    lines = [f"Restored into {done.settings.data}: database, keys and settings of {made}."]
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
        f"Lost is what came after {made}: reports, enrolments (those phones: 'hushcall phone init' again), appeals and",
        "allowed numbers (make them again, before their callers are listed again), revoked tokens, devices and codes.",
        "If a key was rotated since, rotate once more than you did then, with the root key.",
    ]
