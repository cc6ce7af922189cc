"""``hushcall backup``: a running server's database and keys come in, a folder leaves that it can be restored from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushcall.cli import show
from hushcall.cli.server.on_service import on_service
from hushcall.cli.show import Json

if TYPE_CHECKING:
    from hushcall.server.service import Service


@on_service
def backup(
    service: Service,
    folder: Annotated[Path, typer.Argument(help="A new folder; it appears when everything is in it.")],
    json: Json = False,
) -> None:
    """Back up the database and the online keys while the service runs. The root key is not part of it.

    One snapshot, however many uploads come in meanwhile; checked, and on disk when the command ends. PostgreSQL needs
    its own pg_dump.

    [bold]Example[/bold]

      hushcall backup /backup/2027-01-31
    """
    from hushcall.server.db.backup import back_up

    made = back_up(service.store, service.settings.keys, folder)
    size = made.stat().st_size
    if json:
        show.print_json({"folder": str(folder), "database": made.name, "bytes": size})
    else:
        show.console.print(f"{made} ({size:,} bytes) and the keys beside it.", markup=False, soft_wrap=True)
