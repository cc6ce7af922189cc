"""Output that the commands of the lab share: tables, and the result of a proof."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.table import Table

from hushcall.cli import show
from hushcall_lab.cli.page import write_figures

Database = Annotated[
    str, typer.Option(help="URL of an empty PostgreSQL database, or: postgresql, one of its own. Default: SQLite.")
]


def table(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]], left: Sequence[str] = ()) -> Table:
    """A table of numbers. The first column, those without a title, and those in ``left`` hold text."""
    cells = [list(map(str, row)) for row in rows]
    widest = max((len(row[0]) for row in cells), default=0)
    grid = Table(title=title)
    for place, column in enumerate(columns):
        text = place == 0 or not column or column in left
        grid.add_column(column, justify="left" if text else "right", no_wrap=place == 0 and widest <= 12)
    for row in cells:
        grid.add_row(*row)
    return grid


def figure(value: object) -> str:
    """A number with three significant digits, or whole from 100 on. Anything else as it is."""
    if isinstance(value, float):
        return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def mark(ok: bool) -> str:
    return "✓" if ok else "[red]✗[/]"


def labelled(bar: Progress) -> Callable[[str, int, int], None]:
    return lambda label, done, total: show.step(bar, label, done, total)


def stepper(bar: Progress) -> Callable[[str], Callable[[int, int], None]]:
    return lambda label: lambda done, total: show.step(bar, label, done, total)


@contextmanager
def steps(first: str) -> Iterator[Callable[[str, int, int], None]]:
    """Steps of a long command on stderr: a bar in a terminal, elsewhere a line for each that takes over 5 s."""
    if sys.stderr.isatty():
        with show.progress(first) as bar:
            yield labelled(bar)
        return
    with show.busy() as say:
        last = ""

        def tell(label: str, _done: int, _total: int) -> None:
            nonlocal last
            if label != last:
                say(f"{label} ...")
            last = label

        yield tell


def print_parts(*parts: Table | str) -> None:
    for part in parts:
        show.console.print(part, markup=isinstance(part, Table), soft_wrap=isinstance(part, str))


def finish(
    ok: bool, json: bool, document: Mapping[str, Any], *parts: Table | str, figures: Sequence[Table | str] = ()
) -> None:
    """Exits with 1 unless ``ok``. ``figures`` is what a page gets where that is less than all parts."""
    if json:
        show.print_json({"ok": ok, **document})
    else:
        print_parts(*parts)
    write_figures(figures or parts)
    if not ok:
        raise typer.Exit(1)


def noticed_count(noticed: Mapping[str, str]) -> list[str]:
    return [f"{sum(map(bool, noticed.values()))} of {len(noticed)} planted bugs noticed"] if noticed else []


def noticed_lines(noticed: Mapping[str, str]) -> list[str]:
    return [f"planted: {name}: {text or 'NOT NOTICED'}" for name, text in noticed.items()]
