"""``hushcall export``: writes a blocklist in the format of an app, an exchange or a router."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hushcall.atomic_file import atomic_write
from hushcall.cli import show
from hushcall.cli.options import Home, folder_of, opened
from hushcall.client.setup import is_set_up, plan_of
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.protocol.blocklist import Blocklist

STANDARD = "-"


def export(
    to: Annotated[str | None, typer.Option(help="For which app: --names lists them.")] = None,
    source: Annotated[
        str | None,
        typer.Option("--list", metavar="FILE|-", help="A blocklist.jsonl; - is standard input. Default: the phone's."),
    ] = None,
    out: Annotated[str, typer.Option(metavar="FILE|-", help="Where to write; - is standard output.")] = STANDARD,
    home: Home = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many numbers, the largest by estimate: routers have short lists.")
    ] = None,
    warned: Annotated[bool, typer.Option("--warned", help="Numbers that only warn so far, too.")] = False,
    names: Annotated[bool, typer.Option("--names", help="List the apps, and stop.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout (with --names or a file).")] = False,
) -> None:
    """Write the blocklist in the format of an app, a PBX or a router.

    [bold]Examples[/bold]

      hushcall export --to fritzbox --limit 1000 --out fritzbox.xml

      curl -s https://example.org/v1/lists/current/blocklist.jsonl | hushcall export --to plain --list -
    """
    from hushcall.formats.blocklists import WRITERS, shortened, writer_named
    from hushcall.protocol.blocklist import Blocklist

    if names:
        _print_names([(w.name, w.title, w.filename, w.media_type) for w in WRITERS.values()], json)
        return
    if to is None:
        raise InvalidParameter("--to", f"name one of {', '.join(WRITERS)}", to)
    if json and out == STANDARD:
        raise InvalidParameter("--json", "come with --names or --out FILE: the list itself goes to stdout", out)
    writer = writer_named(to)
    blocklist = _synced(home) if source is None else Blocklist.from_bytes(_read(source))
    if not warned:
        blocklist = blocklist.to_block()
    blocklist = shortened(blocklist, limit)
    data = writer.write(blocklist)
    if out == STANDARD:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    atomic_write(Path(out), data, "--out")
    outcome = {"to": to, "out": out, "version": blocklist.version, "numbers": len(blocklist.entries)}
    if json:
        show.print_json({**outcome, "bytes": len(data), "media_type": writer.media_type})
        return
    show.console.print(
        f"Version {blocklist.version}, {counted(len(blocklist.entries), 'number')} for {writer.title}: {out}",
        markup=False,
    )


def _synced(home: Path | None) -> Blocklist:
    from hushcall.client.screening.lookup import LIST_FILE
    from hushcall.client.screening.screen import Screen
    from hushcall.client.storage.store import LISTS
    from hushcall.protocol.blocklist import Blocklist

    path = folder_of(home) / LISTS / LIST_FILE
    if is_set_up(folder_of(home)):
        with opened(home, reading=True) as store:
            if (blocklist := Screen(store, plan_of(store)).merged(int(time.time()))) is not None:
                return blocklist
    if not path.exists():
        raise InvalidParameter("--list", "name a blocklist.jsonl, or be -, where no phone has synced", str(path))
    return Blocklist.from_bytes(_read(str(path)))


def _read(source: str) -> bytes:
    if source == STANDARD:
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise InvalidData("--list", f"be a file that can be read ({error.strerror})", source) from None


def _print_names(rows: list[tuple[str, str, str, str]], json: bool) -> None:
    columns = ("name", "title", "filename", "media_type")
    if json:
        show.print_json({"exports": [dict(zip(columns, row, strict=True)) for row in rows]})
        return
    table = Table("name", "for", "file", "media type")
    for row in rows:
        table.add_row(*row)
    show.console.print(table)
