"""``hushcall-lab simulate``: one day in memory, phones and server both real, and how close the server came."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import MECHANISM_HELP, PROFILE_HELP, chosen_profile
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.protocol.randomness import seeded
from hushcall.wording import counted
from hushcall_lab.cli.output import table

MAX_ROWS = 50


def simulate(
    profile: Annotated[str | None, typer.Option(help=PROFILE_HELP + " Default: balanced.")] = None,
    mechanism: Annotated[str | None, typer.Option(help=MECHANISM_HELP)] = None,
    epsilon: Annotated[float | None, typer.Option(help="The whole budget of one report.")] = None,
    tau: Annotated[int | None, typer.Option(help="List numbers with more reports than this.")] = None,
    list_size: Annotated[
        int | None, typer.Option(help="Candidates per channel for list decoding; 0 is the paper's hard decoder.")
    ] = None,
    users: Annotated[int, typer.Option(min=1, help="Phones that take part.")] = 12_000,
    spammers: Annotated[int, typer.Option(min=0, help="Numbers that call many phones.")] = 15,
    largest: Annotated[
        int | None,
        typer.Option(min=1, help="Phones that the busiest spammer calls. Default: 600, or as many as the users allow."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same day.")] = 1,
    picture: Annotated[Path | None, typer.Option(help="Draw true against estimated counts (.png, .svg).")] = None,
    json: Json = False,
) -> None:
    """Run one day from calls to heavy hitters, and compare what the server found with what really happened."""
    from hushcall.round import run_round
    from hushcall_lab.simulation.stream import make_day

    if picture is not None:
        from hushcall_lab import figures

        figures.check_path(picture)
    chosen = chosen_profile(profile, mechanism, epsilon, tau)
    if list_size is not None:
        chosen = _with_list_size(chosen, list_size)
    world = make_day(users, spammers, largest, seed=seed)
    if chosen.spec.pools:
        show.ready_to_decode()
    labels = {"collect": "phones report", "decode": "server decodes"}
    with show.progress("phones report") as bar:
        result = run_round(
            world.calls,
            seeded(f"simulate {seed}".encode()),
            chosen,
            progress=lambda what, done, total: show.step(bar, labels[what], done, total),
        )
    outcome = compare(world.spammers, result, chosen)
    if picture is not None:
        estimates = [(r["true"], r["estimate"], r["low"], r["high"]) for r in outcome["numbers"] if r["found"]]
        missed = [r["true"] for r in outcome["numbers"] if not r["found"]]
        title = f"One day, {counted(users, 'phone')}, {chosen.mechanism}, ε = {chosen.epsilon:g}"
        figures.true_against_estimated(estimates, missed, title, picture)
    if json:
        head = {"profile": chosen.name, "mechanism": chosen.mechanism, "seed": seed}
        show.print_json({**head, **outcome})
        return
    show.console.print(_table(outcome))
    show.console.print(_summary(outcome, chosen, users))
    if picture is not None:
        show.console.print(f"Picture: {picture}")


def _with_list_size(profile: Profile, list_size: int) -> Profile:
    if not profile.spec.counts_apart:
        names = ", ".join(row.name for row in MECHANISMS.values() if row.counts_apart)
        raise InvalidParameter("list_size", f"go with one of {names}", profile.mechanism)
    return replace(profile, list_size=list_size)


def compare(truth: dict[Any, int], result: Any, profile: Any) -> dict[str, Any]:
    listed = {entry.number: entry.hitter for entry in result.listed}
    rows: list[dict[str, Any]] = []
    for number, count in sorted(truth.items(), key=lambda pair: -pair[1]):
        row: dict[str, Any] = {"number": str(number), "true": count, "found": number in listed}
        row["bucket"] = result.sizes.get(number.area if profile.bucketed else 0, 0)
        if hitter := listed.get(number):
            row |= {"estimate": hitter.estimate, "low": hitter.low, "high": hitter.high, "p_value": hitter.p_value}
        rows.append(row)
    wrong = [str(number) for number in listed if number not in truth]
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


def _table(outcome: dict[str, Any]) -> Table:
    top = max((row["true"] for row in outcome["numbers"]), default=1)
    cells = (
        (
            *(row["number"], row["bucket"], row["true"]),
            f"{row['estimate']:.0f}" if row["found"] else "[red]missed[/]",
            f"{row['low']:.0f} … {row['high']:.0f}" if row["found"] else "",
            f"[blue]{show.blocks(row.get('estimate', 0.0) / top)}[/]",
        )
        for row in outcome["numbers"][:MAX_ROWS]
    )
    columns = ("number", "bucket", "true", "estimated", "95 % interval", "")
    grid = table("Spammers of the day, and what the server made of private reports", columns, cells)
    if len(outcome["numbers"]) > MAX_ROWS:
        grid.caption = f"{len(outcome['numbers']) - MAX_ROWS} more: see --json"
    return grid


def _summary(outcome: dict[str, Any], profile: Any, users: int) -> str:
    total = outcome["found"] + outcome["missed"]
    budget = f"ε = {profile.epsilon:g}"
    if profile.spec.counts_apart:
        budget += f" ({float(profile.epsilon_hh):g} to find, {profile.epsilon_olh:g} to count)"
    return (
        f"{profile.mechanism}, {budget}: found {outcome['found']} of {counted(total, 'spammer')}, "
        f"{len(outcome['wrong'])} listed wrongly, among {counted(users, 'phone')}. "
        f"Each report is {counted(outcome['report_bytes'], 'byte')}; "
        f"{counted(outcome['phones_that_spent'], 'phone')} spent ε, the others were in {outcome['skipped_buckets']} of "
        f"{counted(outcome['buckets'], 'bucket')} too small to be worth it.\n"
        f"In the clear: {profile.in_the_clear}."
    )
