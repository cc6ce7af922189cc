"""``hushcall-lab prove``: promises of client and server, tested with the real code."""

from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.progress import Progress
from rich.table import Table

from hushcall import checks
from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.mechanisms.profiles import DEFAULT, WINDOWS
from hushcall.wording import counted
from hushcall_lab.cli import output
from hushcall_lab.cli.output import Database, figure, finish, labelled, mark, stepper, table
from hushcall_lab.cli.page import Page, open_block

BUG_STEPS, BUG_CYCLES, BUG_RUNS, BUG_RACES = 3000, 5, 500, 200
"""Within which a planted bug has to be noticed. Five crash cycles are one round with a kill in each phase."""
SPLITS = (1,), (1, 2), (1, 7), WINDOWS
T = TypeVar("T")
prove = typer.Typer(help="Put promises to the test with the real code. Without a name: the statistics.")
Quick = Annotated[bool, typer.Option(help="A tenth of the repetitions.")]
Runs = Annotated[int, typer.Option(min=10, help="Repetitions of each experiment.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed is the same run, but for the timing of processes.")]
Bugs = Annotated[bool, typer.Option(help="Plant each bug too, and see that it is noticed.")]
Plant = Annotated[str, typer.Option(help="Run with one bug planted, by its name.")]


@prove.callback(invoke_without_command=True)
def _statistics_by_default(
    context: typer.Context, runs: Runs = 500, quick: Quick = False, json: Json = False, page: Page = ""
) -> None:
    open_block(context, page, "statistics")
    if context.invoked_subcommand is None:
        statistics(runs, quick, json)


def _chosen(bugs: Collection[str], plant: str, each: bool) -> Collection[str]:
    if plant:
        checks.one_of("plant", plant, bugs)
    return bugs if each and not plant else ()


def _with_each_bug(bar: Progress, bugs: Collection[str], prove: Callable[..., T]) -> dict[str, T]:
    return {bug: prove(bug=bug, progress=stepper(bar)(f"with a bug: {bug}")) for bug in bugs}


def _conclude(result: Any, planted: dict[str, Any], json: bool, unit: str = "") -> None:
    """Prints a result, and what it noticed of each planted bug after how many runs or races."""
    noticed = {bug: each.broken for bug, each in planted.items()}
    document: dict[str, Any] = dict(noticed)
    if unit:
        counts = {bug: getattr(each, f"{unit}s") for bug, each in planted.items()}
        document = {bug: {f"{unit}s": counts[bug], "broken": text or None} for bug, text in noticed.items()}
        noticed = {bug: text and f"{unit} {counts[bug]}: {text}" for bug, text in noticed.items()}
    ok = not result.broken and all(noticed.values())
    lines = result.lines()
    figures = [lines[0], *output.noticed_count(noticed)]
    finish(ok, json, {**asdict(result), "planted": document}, *lines, *output.noticed_lines(noticed), figures=figures)


@prove.command("statistics")
def statistics(runs: Runs = 500, quick: Quick = False, json: Json = False) -> None:
    """Measure how often numbers are found and noise is listed, beside what theory promises. Takes some minutes."""
    from hushcall_lab.proofs import statistics as library

    runs = max(runs // 10, 10) if quick else runs
    show.ready_to_decode()
    with show.progress("proving") as bar:
        rows, spread = library.prove_all(runs, SPLITS, stepper(bar))
    ok = all(proof.ok for proof in rows) and abs(spread - 1) < 0.01
    plain = [asdict(proof) | {"rate": proof.rate, "ok": proof.ok} for proof in rows]
    columns = ("what", "measured (99 % interval)", "promised", "runs", "")
    cells = (
        (
            *(proof.name, f"{proof.rate:.1%} ({proof.interval[0]:.0%} … {proof.interval[1]:.0%})"),
            *(f"{proof.low:.1%} … {proof.high:.1%}", proof.runs, mark(proof.ok)),
        )
        for proof in rows
    )
    line = f"Standard deviation of absent estimates: {spread:.4f} times theory."
    document = {"rows": plain, "spread_of_absent_estimates": spread}
    agreeing = f"{sum(proof.ok for proof in rows)} of {len(rows)} rates agree with theory"
    grid = table("Promised and measured", columns, cells)
    finish(ok, json, document, grid, line, figures=[agreeing, line])


@prove.command("hostile")
def hostile(
    steps: Annotated[int, typer.Option(min=100, help="Steps of the lying server.")] = 20_000,
    seed: Seed = 1,
    bugs: Bugs = True,
    json: Json = False,
) -> None:
    """Let a server lie to a real phone: any answer, any order, any clock. Promises are checked at every step.

    Exits with 1 if a promise was broken, or a planted bug was not noticed.
    """
    from hushcall_lab.proofs import hostile as library
    from hushcall_lab.proofs.client_bugs import BUGS, LINKING_BUGS

    with show.progress("lying") as bar:
        result = library.prove(steps, seed, progress=stepper(bar)("steps"), linking=True)
        prove = partial(library.prove, min(steps, BUG_STEPS), seed, linking=True)
        planted = _with_each_bug(bar, (*BUGS, *LINKING_BUGS) if bugs else (), prove)
    _conclude(result, planted, json)


@prove.command("indistinguishable")
def indistinguishable(
    phones: Annotated[int, typer.Option(min=10, help="Phones without calls, and as many of each rate of calls.")] = 300,
    days: Annotated[int, typer.Option(min=1, max=60, help="Days that they are watched.")] = 7,
    data: Annotated[
        Path | None, typer.Option(help="Complaints as published: what announcements tell on real calls.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    json: Json = False,
) -> None:
    """Tell phones with calls from phones without, as the network sees them and as the server does.

    A guess is right in 50 %. Exits with 1 if one is right significantly more often. What real calls tell a server
    by their area codes is a figure and no promise: whole-number rounds send none.
    """
    from hushcall_lab.data import datasets
    from hushcall_lab.proofs import indistinguishable as library

    with show.progress("watching") as bar:
        rows = library.measure(phones, days, workers, stepper(bar)("phones watched"))
    guesses, lines = [], []
    if data is not None:
        calls = datasets.load([data])
        pairs = zip(map(int, calls.area), map(int, calls.reporter), strict=True)
        real = [pair for pair in pairs if pair[1] in library.CODES]
        guesses = library.guess(real)
        counts = ", ".join(str(each.announced) for each in guesses)
        told, homes = (", ".join(f"{getattr(each, name):.1%}" for each in guesses) for name in ("real", "home"))
        lines = [
            f"{len(real):,} real calls, area codes in the clear, after {counts} callers: 'calls or made up' is guessed "
            f"right in {told}, the owner's area code known; that area code in {homes}."
        ]
    plain = [asdict(row) | {"ok": row.ok} for row in rows]
    cells = ((row.eye, f"{row.right:.1%}", f"{row.sigma:.1%}", mark(row.ok)) for row in rows)
    title = f"{counted(len(library.KINDS) * phones, 'phone')}, a fifth of them without calls, {counted(days, 'day')}"
    grid = table(title, ("who looks", "guessed right", "σ", ""), cells)
    document = {"phones": len(library.KINDS) * phones, "rows": plain, "guesses": [asdict(each) for each in guesses]}
    shares = [title, *(f"{row.eye}: guessed right in {row.right:.1%} (σ {row.sigma:.1%})" for row in rows)]
    finish(all(row.ok for row in rows), json, document, grid, *lines, figures=[*shares, *lines])


@prove.command("poisoning")
def poisoning(
    runs: Annotated[
        int, typer.Option(min=10, help="Rounds attacked for each figure; five times as many in vain.")
    ] = 200,
    seed: Seed = 1,
    tolerance: Annotated[
        int, typer.Option(min=1, max=1000, help="f: lies that a listing withstands.")
    ] = DEFAULT.tolerance,
    epsilon: Annotated[float, typer.Option(min=0.5, max=16, help="Budget of one report.")] = 4.0,
    http: Annotated[bool, typer.Option(help="Attack a running server over HTTP, too.")] = True,
    bugs: Bugs = True,
    quick: Annotated[bool, typer.Option(help="A tenth of the rounds, and buckets of up to 1,000 phones.")] = False,
    json: Json = False,
) -> None:
    """Let fakes list a victim, or hide a spammer, by the best reports there are; count how many it takes.

    Counts stand beside those that follow from the law and must be within a tenth of them. As many lies as are tolerated
    must never list anybody. Exits with 1 if a promise was broken, or a planted bug was not noticed.
    """
    from hushcall_lab.proofs import decision_bugs, poisoned_server
    from hushcall_lab.proofs import poisoning as library

    runs, sizes = (max(runs // 10, 10), library.SIZES[:-1]) if quick else (runs, library.SIZES)
    with show.progress("lying") as bar:
        evidence = library.measure(runs, seed, tolerance, epsilon, sizes, progress_of=stepper(bar))
        outcomes = poisoned_server.prove(seed, tolerance, epsilon, progress=stepper(bar)("over HTTP")) if http else []
        label = "{} devices, f = {}: two voices each"
        voices = [
            poisoned_server.two_voices(devices, f, runs // 2, seed, progress=stepper(bar)(label.format(devices, f)))
            for devices, f in poisoned_server.VOICES
        ]
        noticed = _with_each_bug(bar, decision_bugs.BUGS if bugs else (), partial(decision_bugs.noticed, seed))
    ok = not evidence.broken and all(outcome.ok for outcome in outcomes) and all(noticed.values())
    ok = ok and all(voice.ok for voice in voices)
    live = [asdict(outcome) | {"ok": outcome.ok} for outcome in outcomes]
    twice = [asdict(voice) | {"ok": voice.ok} for voice in voices]
    lines = [*evidence.lines(), *(outcome.line for outcome in outcomes), *(voice.line for voice in voices)]
    document = {**evidence.plain(), "http": live, "two_voices": twice, "planted": noticed}
    grid = _needed_table(evidence.needed)
    figures = [*_in_short(evidence), *(voice.line for voice in voices), *output.noticed_count(noticed)]
    finish(ok, json, document, grid, *lines, *output.noticed_lines(noticed), figures=figures)


def _in_short(evidence: Any) -> list[str]:
    listed, attacks = (sum(getattr(row, name) for row in evidence.never) for name in ("listed", "runs"))
    counts = (
        f"{row.half:,} / {row.most:,} to {row.what} (f = {row.tolerance}, {counted(row.window, 'day')})"
        for row in evidence.needed
        if row.honest == 1000
    )
    return [
        f"as many lies as are tolerated list a victim in {listed} of {attacks:,} attacks",
        f"{sum(row.ok for row in evidence.needed)} of {len(evidence.needed)} counts of fakes agree with the law",
        f"fakes for a chance of 50 / 90 %, 1,000 honest phones: {', '.join(counts)}",
    ]


def _needed_table(rows: Any) -> Table:
    cells = (
        (
            *(row.what, "" if row.what.startswith("hide") else f"{row.honest:,}", row.tolerance, row.window),
            *(f"{row.half:,} ({row.half_by_law:,})", f"{row.most:,} ({row.most_by_law:,})", mark(row.ok)),
        )
        for row in rows
    )
    columns = ("to", "honest phones", "f", "days", "chance 50 %", "90 %", "")
    return table("Fakes that it takes, measured and (by the law)", columns, cells)


@prove.command("crash")
def crash(
    cycles: Annotated[int, typer.Option(min=1, help="How often the server dies, at least: rounds are whole.")] = 21,
    database: Database = "",
    workers: Annotated[int, typer.Option(min=1, max=64, help="Of the server, each of which may be killed.")] = 1,
    seed: Seed = 1,
    plant: Plant = "",
    bugs: Bugs = True,
    json: Json = False,
) -> None:
    """Kill a running server again and again while phones report; compare what it acknowledged with what it counted.

    Server and relay die by SIGKILL, right before or after commits and at random moments. In some rounds the server
    stalls until another has taken over. Some seconds a cycle. Exits with 1 if a report was lost, counted twice or made
    up, or a planted bug (always over SQLite) was not noticed.
    """
    from hushcall_lab.proofs import crash as library
    from hushcall_lab.proofs.server_bugs import CRASH_BUGS
    from hushcall_lab.simulation.rig import database_of

    names = _chosen(CRASH_BUGS, plant, bugs)
    show.ready_to_decode()
    with show.progress("killing") as bar, database_of(database) as url:
        result = library.prove(cycles, seed, url, plant, stepper(bar)("cycles"), workers=workers)
        planted = _with_each_bug(bar, names, partial(library.prove, BUG_CYCLES, seed, waves=1))
    _conclude(result, planted, json)


@prove.command("faults")
def faults(
    runs: Annotated[int, typer.Option(min=1, help="Runs: two days each, with faults, and two quiet ones.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The number of the first run. The same number is the same run.")] = 1,
    plant: Plant = "",
    jobs: Annotated[int, typer.Option(min=1, help="Processes that play runs.")] = 1,
    bugs: Bugs = False,
    json: Json = False,
) -> None:
    """Let everything go wrong on a virtual clock: messages, clocks, disk, database, leases, operators at bad moments.

    Two workers and a few phones live in one process. Promises are checked after each step. A run that breaks one is
    shown with as few faults as break it, and can be repeated (--runs 1 --seed N). Half a second a run. Exits with 1 if
    a promise was broken, or a planted bug was not noticed within 500 runs.
    """
    from hushcall_lab.proofs import faults as library
    from hushcall_lab.proofs.server_bugs import FAULT_BUGS

    names = _chosen(FAULT_BUGS, plant, bugs)
    show.ready_to_decode()
    with show.progress("failing") as bar:
        result = library.prove(runs, seed, stepper(bar)("runs"), bug=plant, jobs=jobs)
        planted = _with_each_bug(bar, names, partial(library.prove, BUG_RUNS, seed, shrink=False))
    _conclude(result, planted, json, "run")


@prove.command("races")
def races(
    count: Annotated[int, typer.Option("--races", min=1, help="Races of each of the four kinds.")] = 100,
    database: Database = "",
    seed: Seed = 1,
    plant: Plant = "",
    bugs: Bugs = True,
    json: Json = False,
) -> None:
    """Publish a list while its numbers are appealed, allowed and withdrawn; let two operators do the same at once.

    No list may come into force with a number that is appealed or allowed at that moment. A tenth of a second for one
    race of each kind. Exits with 1 if a promise was broken, or a planted bug (always over SQLite) was not noticed
    within 200 races.
    """
    from hushcall_lab.proofs import races as library
    from hushcall_lab.proofs.server_bugs import RACE_BUGS
    from hushcall_lab.simulation.rig import database_of

    names = _chosen(RACE_BUGS, plant, bugs)
    with show.progress("racing") as bar, database_of(database) as url:
        result = library.prove(count, seed, url, plant, stepper(bar)("races"))
        planted = _with_each_bug(bar, names, partial(library.prove, BUG_RACES, seed, to_first=True))
    _conclude(result, planted, json, "race")


@prove.command("load")
def load(
    seconds: Annotated[float, typer.Option(min=1, help="Of steady load, after half as many of filling.")] = 20.0,
    database: Database = "",
    most: Annotated[int, typer.Option(min=2000, help="Uploads, at most.")] = 1_000_000,
    json: Json = False,
) -> None:
    """Load a real server over loopback: what it takes, 70 % of that, twice that; and whether it kept its promises.

    Run it on an idle machine: time that others take counts as the server's. Exits with 1 if a promise was not kept.
    """
    from hushcall_lab.proofs import load as library
    from hushcall_lab.simulation.rig import database_of

    with database_of(database) as url, show.progress("starting") as bar:
        result = library.prove(seconds, url, labelled(bar), most)
    cells = ((promise.what, figure(promise.measured), promise.limit, mark(promise.ok)) for promise in result.promises)
    takes = f"{result.database}: takes {result.capacity:,.0f} uploads a second on one core"
    title = f"{takes}; {result.steady_seconds:,.0f} s at 70 % of that, {result.busy:.0%} of a core"
    grid = table(title, ("promise", "measured", "limit", ""), cells)
    figures = [title, *(f"{promise.what} {figure(promise.measured)}" for promise in result.promises)]
    finish(result.ok, json, asdict(result), grid, figures=figures)


@prove.command("soak")
def soak(
    seconds: Annotated[float, typer.Option(min=60, help="How long it takes.")] = 3600.0,
    period: Annotated[int, typer.Option(min=5, help="Seconds from one round to the next.")] = 20,
    database: Database = "",
    workers: Annotated[int, typer.Option(min=1, max=64, help="Of the server.")] = 1,
    seed: Seed = 1,
    json: Json = False,
) -> None:
    """Let a server run rounds by itself under steady traffic, and kill it in the first and the last sixth of the time.

    Memory, descriptors, disk and log lines of the process that lives between are compared, from a quarter of its life
    on. Exits with 1 if they grow, or if an acknowledged report was lost or counted twice.
    """
    from hushcall_lab.proofs import soak as library
    from hushcall_lab.simulation.rig import database_of

    with database_of(database) as url, show.progress("soaking") as bar:
        result = library.prove(seconds, period, seed, url, workers, stepper(bar)("seconds"))
    _conclude(result, {}, json)


@prove.command("pages")
def pages(
    entries: Annotated[int, typer.Option(min=1, help="Numbers on the list that is in force.")] = 100_000,
    uploads: Annotated[int, typer.Option(min=16, help="For each page; half of them while nobody looks.")] = 1600,
    page: Annotated[list[str] | None, typer.Option(help="Only this one. Repeatable. Default: all of them.")] = None,
    database: Database = "",
    json: Json = False,
) -> None:
    """Ask a real server for its public pages and exports, 32 clients at once, and see what is left for uploads.

    They must keep 70 % of their rate, with a p99 of at most 250 ms, on an idle machine. Exits with 1 if they do not.
    """
    from hushcall_lab.proofs import pages as library
    from hushcall_lab.simulation.rig import database_of

    with database_of(database) as url, show.progress("starting") as bar:
        rows = list(library.prove(entries, uploads, url, labelled(bar), page or library.PAGES))
    plain = [asdict(row) | {"share": row.share, "ok": row.ok} for row in rows]
    cells = (
        (
            *(row.page.removeprefix("/v1/lists/current/"), f"{row.size / 1e6:.1f}", f"{row.share:.0%}"),
            *(f"{row.p99_ms:,.0f} ({row.alone_p99_ms:,.0f})", f"{row.pages_per_second:,.0f}", mark(row.ok)),
        )
        for row in rows
    )
    columns = ("page", "MB", "share of rate", "p99 ms (alone)", "pages/s", "")
    grid = table(f"Uploads while 32 clients look, {entries:,} numbers listed", columns, cells)
    document = {"entries": entries, "uploads": uploads, "pages": plain}
    finish(all(row.ok for row in rows), json, document, grid, figures=[_pages_line(rows)])


def _pages_line(rows: Any) -> str:
    shares, latencies, alone = zip(*((row.share, row.p99_ms, row.alone_p99_ms) for row in rows), strict=True)
    return (
        f"{counted(len(rows), 'page')}: uploads keep {min(shares):.0%} to {max(shares):.0%} of their rate; p99 "
        f"{min(latencies):,.0f} to {max(latencies):,.0f} ms, alone {min(alone):,.0f} to {max(alone):,.0f} ms"
    )


@prove.command("all")
def everything(quick: Quick = False) -> None:
    """All proofs in a row; the last two, of load and pages, want an idle machine."""
    statistics(500, quick, False)
    hostile(2000 if quick else 20_000, 1, True, False)
    indistinguishable(50 if quick else 300, 7, None, 1, False)
    poisoning(quick=quick)
    crash(7 if quick else 21)
    faults(20 if quick else 100)
    races(20 if quick else 100)
    load(4 if quick else 20)
    if quick:
        pages(entries=10_000, page=["/", "/docs", "/api/blocklist"])
    else:
        pages()
