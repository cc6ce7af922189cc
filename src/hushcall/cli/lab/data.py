"""``hushcall data``: read complaints as published, invent a month like the paper's, and look at either."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.lab.data.datasets import Calls

data = typer.Typer(
    help="Read complaints as published, invent a month like the paper's, and look at either.", no_args_is_help=True
)
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same month.")]


def _lab() -> Any:
    try:
        from hushcall.lab.data import datasets, synthesis, tables
        from hushcall.lab.study import describe
    except ImportError:
        raise MissingExtra("hushcall data", "lab") from None
    return datasets, describe, synthesis, tables


def _read(paths: list[Path]) -> Calls:
    datasets = _lab()[0]
    with show.progress("reading") as bar:
        calls: Calls = datasets.load(paths, lambda done, total: show.step(bar, "reading", done, total))
    return calls


@data.command()
def load(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders: the FTC's CSV, date,caller tables, Parquet.")],
    save: Annotated[Path | None, typer.Option(help="Write what is valid (.csv, .csv.gz, .parquet).")] = None,
    cap: Annotated[
        int | None, typer.Option(min=1, help="Keep at most this many a day from one consumer area code per number.")
    ] = None,
    json: Json = False,
) -> None:
    """Read complaints and say what is in them: calls, days, and what was left out and why.

    [bold]Examples[/bold]

      hushcall data load DNC_Complaint_Numbers_2022-08-22.csv

      hushcall data load complaints/ --cap 3 --save month.parquet
    """
    datasets, _, _, tables = _lab()
    if save is not None:
        tables.check_path(save)
    calls = _read(paths)
    if cap is not None:
        calls = calls.capped(cap)
    if save is not None:
        datasets.save(calls, save)
    _tell(calls, json, save)


@data.command()
def synth(
    file: Annotated[Path, typer.Argument(help="Where to write the month (.csv, .csv.gz, .parquet).")],
    seed: Seed = 2016,
    json: Json = False,
) -> None:
    """Invent a month of complaints like the paper's of 2016: as many, as weekly, as heavy-tailed.

    [bold]Examples[/bold]

      hushcall data synth month.csv.gz
    """
    datasets, _, synthesis, tables = _lab()
    tables.check_path(file)
    calls = synthesis.synthesise(seed)
    datasets.save(calls, file)
    _tell(calls, json, file)


@data.command()
def describe(
    source: Annotated[str, typer.Argument(help="A file or folder, or the word synth for the invented month.")],
    seed: Seed = 2016,
    pictures: Annotated[Path | None, typer.Option(help="Draw four pictures into this folder.")] = None,
    json: Json = False,
) -> None:
    """Say what the paper says about its data: days, heavy numbers, area codes, what a blocklist would stop.

    [bold]Examples[/bold]

      hushcall data describe synth --pictures pictures/

      hushcall data describe complaints/ --json
    """
    _, describing, synthesis, _ = _lab()
    calls = synthesis.synthesise(seed) if source == "synth" else _read([Path(source)])
    facts = describing.summary(calls)
    drawn = [] if pictures is None else describing.pictures(calls, pictures)
    if json:
        show.print_json(facts | {"pictures": [str(path) for path in drawn]})
        return
    show.console.print(_table(f"{counted(facts['calls'], 'call')}, {facts['first']} to {facts['last']}", facts))
    for path in drawn:
        show.console.print(f"Picture: {path}", soft_wrap=True)


@data.command()
def callers(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders of complaints.")], json: Json = False
) -> None:
    """Count complaints by the caller's area code, in the order of the numbering plan: the law of made-up callers.

    [bold]Example[/bold]

      hushcall data callers complaints/
    """
    _, describing, _, _ = _lab()
    counts = describing.by_area_code(_read(paths))
    if json:
        show.print_json({str(area): count for area, count in counts.items()})
        return
    for first in sorted({area // 100 for area in counts}):
        row = " ".join(str(count) for area, count in counts.items() if area // 100 == first)
        show.console.print(f"{first}: {row}", soft_wrap=True, markup=False)


def _tell(calls: Calls, json: bool, saved: Path | None) -> None:
    last = calls.date(calls.days - 1).isoformat()
    if json:
        facts = {"calls": len(calls), "days": calls.days, "first": calls.first.isoformat(), "last": last}
        more = {"problems": dict(calls.problems), "notes": dict(calls.notes), "saved": saved and str(saved)}
        show.print_json(facts | more)
        return
    show.console.print(
        f"{counted(len(calls), 'valid call')} on {counted(calls.days, 'day')}, {calls.first.isoformat()} to {last}."
    )
    for label, counts in (("Left out", calls.problems), ("Noted", calls.notes)):
        for reason, count in counts:
            show.console.print(f"{label}: {count:,} × {reason}")
    if saved is not None:
        show.console.print(f"Written: {saved}", soft_wrap=True)


def _table(title: str, facts: dict[str, Any]) -> Table:
    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rate = {level: share for level, share in facts["median_blocked_by_past_week"].items() if share is not None}
    large = facts["buckets_above_143_a_day"]
    rows = [
        ("days, and days without a call", f"{facts['days']}, {facts['days_without_calls']}"),
        ("busiest day", f"{facts['busiest']['date']}: {facts['busiest']['calls']:,}"),
        ("mean on weekdays", _number(facts["mean_on_weekdays"])),
        ("mean on weekends", _number(facts["mean_on_weekends"])),
        ("numbers, area codes", f"{facts['numbers']:,}, {facts['area_codes']}"),
        ("(day, number) pairs", f"{facts['pairs']:,}"),
        ("  of them with one call", f"{facts['pairs_with_one_call']:.1%}"),
        *((f"  of them above {level}", f"{count:,}") for level, count in facts["pairs_above"].items()),
        ("most calls of one number in a day", f"{facts['most_calls_of_a_number_in_a_day']:,}"),
        ("Pareto exponent above 100", str(facts["tail_exponent_above_100"] or "too few")),
        ("area codes above 143 a day", f"{large['least']} to {large['most']}, median {large['median']:g}"),
        ("area codes with a number above 143", str(facts["area_codes_with_a_number_above_143"])),
        *((f"blocked by last week's numbers above {level}", f"{share:.1%}") for level, share in rate.items()),
        *((f"left out: {reason}", f"{count:,}") for reason, count in facts["problems"].items()),
        *((f"noted: {note}", f"{count:,}") for note, count in facts["notes"].items()),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.0f}"
