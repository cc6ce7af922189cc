"""``hushcall experiment``: every figure of the paper by name, and ours against everyone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.table import Table

from hushcall import checks
from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter, MissingExtra


def experiment(
    name: Annotated[
        str,
        typer.Argument(
            help="data, theory, f1, tau, cbr, rounds, compare, poisoning, real and users (need real complaints), or "
            "all; the paper's names of its figures work too."
        ),
    ],
    data: Annotated[
        str, typer.Option(help="synth (the 2016-like month), synth:SEED (another one), or a path to complaints.")
    ] = "synth",
    repetitions: Annotated[int, typer.Option(min=1, help="Repetitions with different coins.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="The first repetition's seed.")] = 1,
    cap: Annotated[int, typer.Option(min=0, help="At most so many calls per day, number and consumer area code.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for JSON, CSV, figures and the report page.")] = Path("results"),
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores by default.")] = None,
    quick: Annotated[bool, typer.Option(help="Ten days, one repetition, fewer points: a look, not evidence.")] = False,
    json: Json = False,
) -> None:
    """Run an experiment of the paper, or ours, and keep its figures.

    Finished parts are cached in the output folder: a run that was stopped goes on where it was. The page there shows
    all experiments of the folder. Claims, the paper's or ours, are judged only on the data that they are about.

    [bold]Examples[/bold]

      hushcall experiment f1

      hushcall experiment all --quick

      hushcall experiment real --data complaints.csv.gz --cap 3
    """
    try:
        from hushcall.lab.study import study
        from hushcall.lab.study.origin import is_synthetic
    except ImportError:
        raise MissingExtra("hushcall experiment", "lab") from None
    name = study.ALIASES.get(name, name)
    left_out = study.ON_REAL_DATA if is_synthetic(data) else frozenset()
    wanted = [n for n in study.names() if n not in left_out] if name == "all" else [name]
    if name in left_out:
        raise InvalidParameter("data", "name a file or folder of real complaints for this experiment", data)
    checks.one_of("experiment", name, [*study.names(), "all"])
    study.prepare(out)
    options = study.Options(data, repetitions, seed, quick, workers, cap, out / "cache")
    documents = []
    with show.progress("reading the data"):
        calls = study.data_of(options)
    show.ready_to_decode()
    with show.progress(wanted[0]) as bar:
        for place, one in enumerate(wanted):
            document = study.run(one, calls, options, partial(_step, bar, f"{place + 1} of {len(wanted)}"))
            documents.append(document)
            study.keep(document, calls, out)
    page = study.write_page(out)
    study.write_tables(documents, name, options, out)
    if json:
        show.print_json(documents if name == "all" else documents[0])
        return
    for document in documents:
        if document["statements"]:
            show.console.print(_statements(document))
    if quick:
        show.console.print("A quick run: a look, not evidence.")
    show.console.print(f"Figures, tables and the page: {page}")


def _step(bar: Progress, place: str, name: str, done: int, total: int) -> None:
    show.step(bar, f"{name} ({place})", done, total)


def _statements(document: dict[str, Any]) -> Table:
    table = Table(title=document["title"])
    for column in ("said", "measured", "agrees"):
        table.add_column(column)
    for one in document["statements"]:
        mark = "✓" if one["agrees"] else "[red]differs[/]" + (f": {one['why']}" if one["why"] else "")
        table.add_row(one["says"], one["measured"], mark)
    return table
