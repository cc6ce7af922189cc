"""``hushcall bench``: speed, memory and accuracy, as ratios within one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra
from hushcall.mechanisms import names

bench = typer.Typer(help="Speed, memory and accuracy, as ratios within one run.", no_args_is_help=True)
Peer = Annotated[
    Path | None,
    typer.Option(help="Measure pure-ldp too, in an environment made at this path (once; takes a minute)."),
]


def _lab() -> Any:
    try:
        from hushcall.lab.bench import decoders as measure
    except ImportError:
        raise MissingExtra("hushcall bench", "lab") from None
    return measure


@contextmanager
def _measuring() -> Iterator[tuple[Any, Callable[[str], None]]]:
    """The lab with every kernel compiled, and a way to say what is being measured."""
    lab = _lab()
    with show.progress("warming up") as bar:
        lab.warm_up()
        yield lab, lambda text: bar.update(bar.task_ids[0], description=text)


@bench.command()
def decode(
    reports: Annotated[int, typer.Option(min=100, help="Reports in the bucket.")] = 20_000,
    peer: Peer = None,
    json: Json = False,
) -> None:
    """Decode one bucket over every suffix that exists: seconds, peak memory, how much faster than others."""
    with _measuring() as (lab, note):
        result = lab.decode(users=reports, environment=peer, note=note)
    if json:
        show.print_json(result)
        return
    table = Table(title=f"{result['reports']:,} reports against {result['numbers']:,} numbers")
    for column in ("ε", "b", "parse s", "decode s", "peak MB", "× naive loop", "× pure-ldp OLH"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        versus = row.get("times_faster_than_pure_ldp")
        table.add_row(
            f"{row['epsilon']:g}",
            str(row["bits"]),
            f"{row['parse_seconds']:.2f}",
            f"{row['decode_seconds']:.2f}",
            f"{row['peak_mb']:.0f}",
            f"{row['times_faster_than_naive']:,.0f}",
            "" if versus is None else f"{versus:,.0f}",
        )
    show.console.print(table)
    show.console.print(f"The transform takes {result['transform']['ratio']:.1f} times one copy of its array.")
    if "pure_ldp" in result:
        theirs = result["pure_ldp"]
        show.console.print(
            f"pure-ldp's OLH: {theirs['seconds_per_report']:.2f} s a report over the same 10⁷ numbers, measured on 3 "
            f"reports and extrapolated to {result['reports']:,}: {theirs['extrapolated_seconds'] / 3600:.1f} h."
        )


@bench.command()
def phone(json: Json = False) -> None:
    """What a report costs a phone (bytes, milliseconds, coins), how fast it starts, how fast symbols are tallied."""
    lab = _lab()
    from hushcall.lab.bench.importing import importing

    rows, tally, start = lab.phones(), lab.tallying(), importing()
    if json:
        show.print_json({"reports": rows, "tally": tally, "import": start})
        return
    table = Table(title="One report, pure Python")
    for column in ("mechanism", "ε", "bytes", "ms", "coins"):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    for row in rows:
        cells = (f"{row['epsilon']:.3g}", str(row["bytes"]), f"{row['milliseconds']:.3f}", str(row["coins"]))
        table.add_row(row["mechanism"], *cells)
    show.console.print(table)
    show.console.print(
        f"Tally: {tally['symbols_per_second']:,.0f} channel symbols a second on one core, "
        f"{tally['times_faster_than_parsing']:.0f} times the plain parser."
    )
    show.console.print(
        f"from hushcall import Phone, run_round, NANP: {1e3 * start['surface_seconds']:.0f} ms, "
        f"{start['times_urllib_request']:.1f} times the standard library's HTTP client."
    )


@bench.command(names.WHOLE_NUMBER)
def whole_number(
    reports: Annotated[int, typer.Option(min=100, help="Reports of the round.")] = 23_188,
    epsilon: Annotated[float, typer.Option(help="Budget of one report.")] = 8.0,
    json: Json = False,
) -> None:
    """Decode a round in which nothing is in the clear, over all area codes."""
    with _measuring() as (lab, note):
        row = lab.whole_number(reports, epsilon, note)
    if json:
        show.print_json(row)
        return
    found = "found" if row["planted_found"] else "missed"
    show.console.print(
        f"{row['reports']:,} reports, ε = {row['epsilon']:g}, b = {row['bits']}: {row['area_codes']} area codes in "
        f"{row['seconds']:.0f} s, peak {row['peak_mb']:.0f} MB; planted number {found}, {row['wrongly_found']} wrong."
    )


@bench.command()
def rivals(
    bits: Annotated[int, typer.Option(help="Size of the domain: 16 or 24 bits.")] = 24,
    seeds: Annotated[int, typer.Option(min=1, help="Data sets.")] = 3,
    peer: Peer = None,
    json: Json = False,
) -> None:
    """F1 against prefix-extending (ours, and pure-ldp's with --peer) on 20 000 phones with ten heavy numbers."""
    with _measuring() as (lab, note):
        rows = lab.rivals(
            seeds=range(1, seeds + 1),
            bits=bits,
            environment=peer,
            note=note,
        )
    if json:
        show.print_json(rows)
        return
    table = Table(title=f"F1 over {seeds} data sets of 20 000 phones, {bits}-bit domain")
    for column in (
        "ε",
        "pure-ldp PEM, told k",
        "our PEM, told k",
        "subspace, told k",
        "subspace, told nothing",
        "wrong",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        theirs = f"{row['pure_ldp']:.2f}" if "pure_ldp" in row else ""
        told = f"{row['subspace_told_k']:.2f}"
        cells = (theirs, f"{row[names.PEM]:.2f}", told, f"{row[names.SUBSPACE]:.2f}", str(row["subspace_wrong"]))
        table.add_row(f"{row['epsilon']:g}", *cells)
    show.console.print(table)


@bench.command()
def intake(
    database: Annotated[
        str | None, typer.Option(help="URL of an empty PostgreSQL database. Default: one of its own, if installed.")
    ] = None,
    reports: Annotated[int, typer.Option(min=2000, help="Uploads.")] = 20_000,
    connections: Annotated[int, typer.Option(min=1, max=1000, help="Phones that speak at once.")] = 200,
    json: Json = False,
) -> None:
    """How many reports a second one core takes in, each on disk before it is answered; and what a bare route does.

    A real server, driven over loopback by another process, on SQLite and on PostgreSQL. About a minute.

    [bold]Examples[/bold]

      hushcall bench intake

      hushcall bench intake --database postgresql://hushcall@localhost/empty --json
    """
    try:
        from hushcall.lab.bench import intake as lab
        from hushcall.lab.live.rig import temporary_postgres
    except ImportError:
        raise MissingExtra("hushcall bench", "lab") from None
    rows = []
    with temporary_postgres() if database is None else nullcontext(database) as url:
        for one in [None, url] if url else [None]:
            with show.progress("starting") as bar:
                rows.append(
                    lab.measure(one, reports, connections, lambda what, done, total: show.step(bar, what, done, total))
                )
    if json:
        show.print_json({"runs": rows})
        return
    table = Table(title=f"{reports:,} reports, each durable before its answer, {connections} connections, one core")
    columns = ("database", "a second", "p50 ms", "p99 ms", "p99 at 70 %", "bare route", "share of it", "viewed")
    for column in columns:
        first = column == "database"
        table.add_column(column, justify="left" if first else "right", no_wrap=first)
    for row in rows:
        latency = (f"{row[name]:.1f}" for name in ("p50_ms", "p99_ms", "steady_p99_ms"))
        shares = (f"{row['bare_per_second']:,.0f}", f"{row['share_of_bare']:.0%}", f"{row['share_while_watched']:.0%}")
        table.add_row(row["database"], f"{row['per_second']:,.0f}", *latency, *shares)
    show.console.print(table)
    show.console.print(f"Viewed: what is left of it while {rows[0]['viewers']} dashboards are open.")
    if not url:
        show.console.print("PostgreSQL was not measured: give an empty database with --database.")


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

    [bold]Example[/bold]

      hushcall bench scale --largest 1e7
    """
    try:
        from hushcall.lab.bench import growth
        from hushcall.lab.bench import scale as lab
    except ImportError:
        raise MissingExtra("hushcall bench scale", "scale") from None
    sizes = [10**5]
    while sizes[-1] * 10 <= largest:
        sizes.append(sizes[-1] * 10)
    with show.progress("stages") as bar:
        note = lambda text: bar.update(bar.task_ids[0], description=text)  # noqa: E731
        result: dict[str, Any] = {"stages": lab.stages(epsilon=epsilon, note=note)}
        result["growth"] = growth.growth(growth.sizes_up_to(largest), epsilon, note=note)
        result |= lab.rounds(sizes, epsilon, workers, note=note)
    if json:
        show.print_json(result)
        return
    stages = result["stages"]
    table = Table(title=f"One core, b = {stages['bits']}")
    table.add_column("stage")
    table.add_column("reports a second", justify="right")
    for name, rate in stages["reports_a_second"].items():
        table.add_row(name, f"{rate:,}")
    show.console.print(table)
    show.console.print(f"From archive to dense tally: {stages['times_the_loop']:g} times one report at a time.")
    _growth(result["growth"])
    table = Table(title=f"Whole rounds, {workers} processes")
    for column in ("reports", "seconds", "core seconds", "a second", "peak MB a worker", "planted", "found", "others"):
        table.add_column(column, justify="right")
    for row in result["rounds"]:
        names = (
            "reports",
            "seconds",
            "core_seconds",
            "reports_a_second",
            "worker_peak_mb",
            "planted",
            "found",
            "others",
        )
        table.add_row(*(f"{row[name]:,}" for name in names))
    show.console.print(table)


def _growth(result: dict[str, Any]) -> None:
    names = ("reports", "core_seconds", "reports_a_second", "peak_mb", "times_the_loop", "copies_of_its_bytes")
    table = Table(title="One bucket, one core, from archive to tally")
    for column in ("reports", "core seconds", "a second", "peak MB", "× one at a time", "copies of its bytes"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        table.add_row(*(f"{row[name]:,}" for name in names))
    show.console.print(table)
    if result["exponent"] is not None:
        show.console.print(f"Exponent: {result['exponent']:g} (at most {result['promised']:g}).")
