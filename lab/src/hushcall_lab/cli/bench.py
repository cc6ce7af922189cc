"""``hushcall-lab bench``: speed and memory, as ratios within one run."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall_lab.cli.output import Database, figure, finish, labelled, table
from hushcall_lab.cli.page import Page, open_block

bench = typer.Typer(help="Speed and memory, as ratios within one run.", no_args_is_help=True)


@bench.callback()
def _block_of_a_page(context: typer.Context, page: Page = "") -> None:
    open_block(context, page)


@contextmanager
def _noting(label: str) -> Iterator[Callable[[str], None]]:
    with show.progress(label) as bar:
        yield lambda text: bar.update(bar.task_ids[0], description=text)


def _figures(title: str, rows: list[dict[str, Any]]) -> Table:
    columns = [key.replace("_", " ") for key in rows[0]]
    return table(title, columns, (map(figure, row.values()) for row in rows))


@bench.command()
def decode(
    reports: Annotated[int, typer.Option(min=100, help="Reports in the bucket.")] = 20_000, json: Json = False
) -> None:
    """Decode one bucket over every suffix that exists: seconds, peak memory, how much faster than a naive loop."""
    from hushcall_lab.bench import decode as library

    with _noting("decoding") as note:
        result = library.measure(reports, note)
    title = f"{result['reports']:,} reports against {result['numbers']:,} numbers"
    line = f"The transform takes {result['transform_copies']:.1f} times one copy of its array."
    finish(True, json, result, _figures(title, result["rows"]), line)


@bench.command()
def phone(json: Json = False) -> None:
    """What a report costs a phone: bytes, milliseconds, random bytes."""
    from hushcall_lab.bench import clients

    rows = clients.measure()
    finish(True, json, {"reports": rows}, _figures("One report, pure Python", rows))


@bench.command()
def intake(
    database: Database = "",
    reports: Annotated[int, typer.Option(min=2000, help="Uploads.")] = 20_000,
    connections: Annotated[int, typer.Option(min=1, max=1000, help="Phones that speak at once.")] = 200,
    json: Json = False,
) -> None:
    """How many reports a second one core takes in, each on disk before it is answered; and what a bare route does."""
    from hushcall_lab.bench import intake as library
    from hushcall_lab.simulation.rig import database_of

    with database_of(database) as url, show.progress("starting") as bar:
        row = library.measure(url, reports, connections, labelled(bar))
    names = ("database", "per_second", "p50_ms", "p99_ms", "bare_per_second", "share_of_bare")
    title = f"{reports:,} reports, each durable before its answer, {connections} connections, one core"
    finish(True, json, row, _figures(title, [{name: row[name] for name in names}]))


@bench.command()
def lists(
    numbers: Annotated[int, typer.Option(min=100, help="On the first version.")] = 100_000,
    versions: Annotated[int, typer.Option(min=2, help="After the first, each finds 2 % new or again.")] = 10,
    database: Database = "",
    json: Json = False,
) -> None:
    """Publish version after version of a large list, then an appeal: time, memory, and how long another writer waits.

    Processor seconds hardly depend on what else the machine does, the others do.
    """
    from hushcall_lab.bench import lists as library
    from hushcall_lab.simulation.rig import database_of

    with database_of(database) as url, show.progress("starting") as bar:
        result = library.measure(url, numbers, versions, labelled(bar))
    title = f"A list of {numbers:,} numbers, {result['database']}; memory in MB above a process without a list"
    finish(True, json, result, _figures(title, result["rows"]), library.summary(result["rows"]))


@bench.command()
def years(
    rounds: Annotated[int, typer.Option(min=100, help="Rounds that were published.")] = 1100,
    period: Annotated[int, typer.Option(min=60, help="Seconds from one round to the next.")] = 86_400,
    people: Annotated[int, typer.Option(min=1000, help="Devices, and as many appeals.")] = 100_000,
    database: Database = "",
    json: Json = False,
) -> None:
    """What a server does over a database of years: times, and their ratios to those over a young one.

    Processor time on SQLite, the wall clock on PostgreSQL, best of five.
    """
    from hushcall_lab.bench import years as library
    from hushcall_lab.simulation.rig import database_of

    with database_of(database) as url, show.progress("starting") as bar:
        result = library.measure(url, rounds, period, people, labelled(bar))
    title = (
        f"{rounds:,} rounds, {people:,} devices and appeals, beside {library.YOUNG_ROUNDS} and {library.YOUNG_PEOPLE}"
    )
    over = [row["what"] for row in result["rows"] if row["ratio"] > library.MAX_RATIO]
    line = f"More than {library.MAX_RATIO:g} times: {', '.join(over) or 'nothing'}."
    finish(True, json, result, _figures(title, result["rows"]), line)


@bench.command()
def scale(
    largest: Annotated[
        float, typer.Option(min=1e5, help="Reports of the largest bucket and round; from 1e5 on.")
    ] = 1e6,
    epsilon: Annotated[float, typer.Option(help="Budget of one report.")] = 3.5,
    workers: Annotated[int, typer.Option(min=1, help="Processes that learn.")] = 2,
    json: Json = False,
) -> None:
    """From an archive to findings: reports a second and core for each stage, how that grows, then whole rounds.

    The exponent is the slope of a line through log(processor seconds) over log(reports), from archive to tally.
    """
    from hushcall_lab.bench import scale as library

    with _noting("stages") as note:
        result: dict[str, Any] = {"stages": library.stages(epsilon=epsilon, note=note)}
        result["growth"] = library.growth(library.sizes_up_to(largest), epsilon, note)
        result |= library.rounds(library.sizes_up_to(largest)[::2], epsilon, workers, note)
    stages, growth = result["stages"], result["growth"]
    rates = ((name, f"{rate:,}") for name, rate in stages["reports_a_second"].items())
    finish(
        True,
        json,
        result,
        table(f"One core, b = {stages['bits']}", ("stage", "reports a second"), rates),
        f"From archive to dense tally: {stages['times_the_loop']:g} times one report at a time.",
        _figures("One bucket, one core, from archive to tally", growth["rows"]),
        *([f"Exponent: {growth['exponent']:g} (at most {growth['promised']:g})."] if growth["exponent"] else []),
        _figures(f"Whole rounds, {workers} processes", result["rounds"]),
    )


@bench.command()
def gpu(
    workers: Annotated[int, typer.Option(min=1, help="Processes that read for the GPU, and that decode.")] = 16,
    json: Json = False,
) -> None:
    """Decode archives of up to 70 million reports on a GPU and on processors; compare seconds and findings."""
    from hushcall_lab.bench import gpu as library

    with _noting("compiling") as note:
        result = library.measure_all(workers, note)
    backends = ("gpu, its kernels compiled", "local")
    cells = (
        (
            *(row["name"], f"{row['reports']:,} × {row['rounds']}", *(row[name]["seconds"] for name in backends)),
            ", ".join(f"{stage} {ms:.0f}" for stage, ms in row[backends[0]]["on_the_card_ms"].items()),
            "yes" if row["same_bytes"] else "NO",
        )
        for row in result["archives"]
    )
    columns = ("archive", "reports", "GPU s", "processors s", "on the card, ms", "same bytes")
    memory = result["memory_ms"]
    line = (
        f"2³³ cells: a transform takes {memory['transform']:.1f} ms, reading and writing them {memory['touch']:.1f} ms."
    )
    finish(
        all(row["same_bytes"] for row in result["archives"]),
        json,
        result,
        table(result["machine"]["card"], columns, cells, left=["on the card, ms"]),
        line,
    )


@bench.command("all")
def everything() -> None:
    """All benchmarks but scale and gpu, each in a process of its own."""
    for name in ("decode", "phone", "intake"):
        command = [sys.executable, "-c", "from hushcall_lab.cli import main; main()", "bench", name]
        subprocess.run(command, check=True)
