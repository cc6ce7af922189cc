"""``hushcall simulate``: one day in memory, phones and server both real, and how close the server came."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import MECHANISM_HELP, PROFILE_HELP, budget_in_words, chosen_profile
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.privacy.coins import seeded
from hushcall.wording import counted

USERS, SPAMMERS = 12_000, 15
MOST_ROWS = 50


def simulate(
    profile: Annotated[str | None, typer.Option(help=PROFILE_HELP + " Default: balanced.")] = None,
    mechanism: Annotated[str | None, typer.Option(help=MECHANISM_HELP)] = None,
    epsilon: Annotated[float | None, typer.Option(help="The whole budget of one report.")] = None,
    tau: Annotated[int | None, typer.Option(help="List numbers with more reports than this.")] = None,
    list_size: Annotated[
        int | None, typer.Option(help="Candidates per channel for list decoding; 0 is the paper's hard decoder.")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(min=1, help="Phones that take part. Default: 12000; with --data, one for each call."),
    ] = None,
    spammers: Annotated[
        int | None,
        typer.Option(min=0, help="Numbers that call many phones. Default: 15; those of --data are what they are."),
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(min=1, help="Phones that the busiest spammer calls. Default: 600, or as many as the users allow."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same day.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A day of your own instead of an invented one: complaints as 'hushcall data load' reads them."
        ),
    ] = None,
    day: Annotated[
        str | None, typer.Option(metavar="DATE", help="Which day of --data, like 2020-03-02. Default: its busiest.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw true against estimated counts (.png, .svg).")] = None,
    json: Json = False,
) -> None:
    """Run one day from calls to heavy hitters, and compare what the server found with what really happened.

    [bold]Examples[/bold]

      hushcall simulate

      hushcall simulate --profile paper --users 20000

      hushcall simulate --epsilon 8 --picture day.png

      hushcall simulate --data complaints.csv --day 2020-03-02
    """
    try:
        from hushcall.lab.data.day import day_of, make_day
        from hushcall.round import run_round
    except ImportError:
        raise MissingExtra("hushcall simulate", "server") from None
    if picture is not None:
        from hushcall.lab import figures

        figures.check_path(picture)
    chosen = chosen_profile(profile, mechanism, epsilon, tau, list_size=list_size)
    if chosen.scheme.needs_candidates:
        rule = "find numbers by itself, and not have to be given the candidates"
        raise InvalidParameter("mechanism", rule, chosen.mechanism)
    if data is None:
        if day is not None:
            raise InvalidParameter("--day", "come with --data", day)
        world = make_day(users or USERS, SPAMMERS if spammers is None else spammers, largest, seed=seed)
        truth, when = world.spammers, "One day"
    else:
        if spammers is not None or largest is not None:
            raise InvalidParameter("--spammers and --largest", "be left out with --data, which has its own", str(data))
        calls, place = _table_of(data, day)
        world, when = day_of(calls, place, users, seed), f"{calls.date(place).isoformat()} of {data.name}"
        truth = {number: count for number, count in world.spammers.items() if count > chosen.tau}
    if chosen.scheme.pools:
        show.ready_to_decode()
    labels = {"collect": "phones report", "decode": "server decodes"}
    with show.progress("phones report") as bar:
        result = run_round(
            world.calls,
            seeded(f"simulate {seed}".encode()),
            chosen,
            progress=lambda what, done, total: show.step(bar, labels[what], done, total),
        )
    outcome = compare(truth, result, chosen, world.spammers)
    if picture is not None:
        found = [(r["true"], r["estimate"], r["low"], r["high"]) for r in outcome["numbers"] if r["found"]]
        missed = [r["true"] for r in outcome["numbers"] if not r["found"]]
        title = f"{when}, {counted(len(world.calls), 'phone')}, {chosen.mechanism}, ε = {chosen.epsilon:g}"
        figures.true_against_estimated(found, missed, title, picture)
    if json:
        of = {"data": None if data is None else str(data), "day": when}
        show.print_json({"profile": chosen.name, "mechanism": chosen.mechanism, "seed": seed, **of, **outcome})
        return
    show.console.print(_table(outcome, when))
    show.console.print(_summary(outcome, chosen, len(world.calls)))
    if picture is not None:
        show.console.print(f"Picture: {picture}")


def _table_of(path: Path, day: str | None) -> tuple[Any, int]:
    """A table of calls, and the place of a day in it."""
    from datetime import date

    from hushcall.lab.data.datasets import load
    from hushcall.lab.study.describe import busiest_day

    calls = load([path])
    if day is None:
        return calls, busiest_day(calls)
    try:
        place = (date.fromisoformat(day) - calls.first).days
    except ValueError:
        raise InvalidParameter("--day", "be a date like 2020-03-02", day) from None
    if not 0 <= place < calls.days:
        rule = f"lie from {calls.first.isoformat()} to {calls.date(calls.days - 1).isoformat()}, which the data hold"
        raise InvalidParameter("--day", rule, day)
    return calls, place


def compare(truth: dict[Any, int], result: Any, profile: Any, reported: Any = None) -> dict[str, Any]:
    """What happened, beside what the server made of it. Wrong is what is listed and not in ``reported`` (or truth)."""
    listed = {entry.number: entry.hitter for entry in result.listed}
    rows: list[dict[str, Any]] = []
    for number, count in sorted(truth.items(), key=lambda pair: -pair[1]):
        row: dict[str, Any] = {"number": str(number), "true": count, "found": number in listed}
        row["bucket"] = result.sizes.get(number.area if profile.bucketed else 0, 0)
        if hitter := listed.get(number):
            row |= {"estimate": hitter.estimate, "low": hitter.low, "high": hitter.high, "p_value": hitter.p_value}
        rows.append(row)
    wrong = [str(number) for number in listed if number not in (truth if reported is None else reported)]
    return {
        "numbers": rows,
        "found": sum(row["found"] for row in rows),
        "missed": sum(not row["found"] for row in rows),
        "wrong": wrong,
        "phones": len(result.spent),
        "buckets": len(result.sizes),
        "skipped_buckets": len(result.skipped),
        "phones_that_spent": sum(spent > 0 for spent in result.spent),
        "epsilon": max(result.spent, default=0.0),
        "report_bytes": max(result.report_bytes.values(), default=0),
    }


def _table(outcome: dict[str, Any], when: str) -> Table:
    name = "Spammers of the day" if when == "One day" else f"The busiest callers of {when}"
    table = Table(title=f"{name}, and what the server made of private reports")
    for column, justify in (
        ("number", "left"),
        ("bucket", "right"),
        ("true", "right"),
        ("estimated", "right"),
        ("95 % interval", "right"),
        ("", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    top = max((row["true"] for row in outcome["numbers"]), default=1)
    for row in outcome["numbers"][:MOST_ROWS]:
        estimate = f"{row['estimate']:.0f}" if row["found"] else "[red]missed[/]"
        interval = f"{row['low']:.0f} … {row['high']:.0f}" if row["found"] else ""
        bar = f"[blue]{show.blocks(row.get('estimate', 0.0) / top)}[/]"
        table.add_row(row["number"], str(row["bucket"]), str(row["true"]), estimate, interval, bar)
    if len(outcome["numbers"]) > MOST_ROWS:
        table.caption = f"{len(outcome['numbers']) - MOST_ROWS} more: see --json"
    return table


def _summary(outcome: dict[str, Any], profile: Any, users: int) -> str:
    total = outcome["found"] + outcome["missed"]
    return (
        f"{profile.mechanism}, {budget_in_words(profile)}: found {outcome['found']} of {counted(total, 'spammer')}, "
        f"{len(outcome['wrong'])} listed wrongly, among {counted(users, 'phone')}. "
        f"Each report is {counted(outcome['report_bytes'], 'byte')}; "
        f"{counted(outcome['phones_that_spent'], 'phone')} spent ε, the others were in {outcome['skipped_buckets']} of "
        f"{counted(outcome['buckets'], 'bucket')} too small to be worth it.\n"
        f"In the clear: {profile.in_the_clear}."
    )
