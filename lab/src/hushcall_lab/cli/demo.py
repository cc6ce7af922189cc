"""``hushcall-lab demo``: clients and a real server, a day every few seconds."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.wording import counted
from hushcall_lab.cli.output import steps, table

if TYPE_CHECKING:
    from hushcall.mechanisms.profiles import Profile
    from hushcall_lab.simulation.demo import Day, Demo, Fate, Plan
    from hushcall_lab.simulation.processes import Progress


def demo(
    phones: Annotated[int, typer.Option(min=200, max=100_000, help="Simulated phones.")] = 2500,
    days: Annotated[int, typer.Option(min=1, max=60, help="Simulated days.")] = 9,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same calls and the same random bytes.")] = 1,
    plan: Annotated[str, typer.Option(help="Whose numbers: NANP, DE or FR.")] = "NANP",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The dashboard's; another one if it is taken.")] = 8750,
    once: Annotated[bool, typer.Option("--once", help="End after the last day instead of keeping the server.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout; implies --once.")] = False,
) -> None:
    """See the whole system at work: a real server, phones over HTTP with their own ledgers, spammers, a signed list.

    Nine days take a minute or so. Then the dashboard stays open until Ctrl-C, where a person watches.
    """
    from hushcall_lab.simulation import demo as lab
    from hushcall_lab.simulation.stream import scenery

    size = lab.Plan(phones, days, seed, plan.upper())
    scenery(size.region)  # before anything starts
    show.aside(f"Starting a real server and {phones:,} phones; {counted(days, 'day')} of a few seconds each ...")
    show.ready_to_decode()
    done: list[Day] = []
    watched = sys.stdout.isatty() and not json
    # A bar on the same terminal prints lines above itself.
    say = show.aside if watched and sys.stderr.isatty() else partial(show.console.print, soft_wrap=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not json:
        say(_line(COLUMNS))
    try:
        with ExitStack() as bar:
            step = bar.enter_context(steps("the server starts"))
            progress: Progress = lambda what, now, total: step(f"day {len(done) + 1}: {what}", now, total)  # noqa: E731
            with lab.stage(size, port, progress) as stage:
                for day in stage.days():
                    done.append(day)
                    if not json:
                        say("\n".join([_line(_cells(day)), *(f"     {event}" for event in _events(day))]))
                bar.close()
                fates = stage.fates()
                words = summary(size, done, fates, stage.profile)
                if json:
                    rows = {"days": [asdict(d) for d in done], "fates": [asdict(f) for f in fates]}
                    show.print_json({"plan": asdict(size), **rows, "summary": words})
                    return
                show.console.print(_fates(fates))
                show.console.print(words)
                if watched and not once:
                    _keep(stage)
    except KeyboardInterrupt:
        over = len(done) == days
        show.console.print("Ended: server and data are gone." if over else "Stopped early: server and data are gone.")
        raise typer.Exit(0 if over else 130) from None


def _keep(stage: Demo) -> None:
    stage.clock.run()
    show.console.print(f"Dashboard:   {stage.operator.url}/   until Ctrl-C", soft_wrap=True)
    show.console.print(f"  sign in with  {stage.operator.token}", soft_wrap=True)
    while True:
        time.sleep(3600)


def summary(plan: Plan, days: list[Day], fates: list[Fate], profile: Profile) -> str:
    spammers = [fate for fate in fates if fate.spam]
    listed = [fate for fate in spammers if fate.listed_on]
    same_day = sum((fate.listed_on or 0) <= fate.first for fate in listed)
    never = [fate.name for fate in spammers if not fate.listed_on]
    slowly = [f"{fate.name} ({fate.over} days)" for fate in listed if (fate.over or 1) > 1]
    later = days[1:] or days
    blocked, spam = sum(d.blocked for d in later), sum(d.spam_calls for d in later)
    warned = sum(d.warned for d in later)
    other_calls, stopped = sum(d.other_calls for d in days), sum(d.others_blocked for d in days)
    wrong = sorted({name for d in days for name in d.wrong})
    return (
        f"{len(listed)} of {len(spammers)} spammers were listed, {same_day} of them on the evening of their first day"
        f"{'; no single day showed, several together did: ' + ', '.join(slowly) if slowly else ''}"
        f"{'; never: ' + ', '.join(never) if never else ''}. From the second day on {blocked:,} of {spam:,} spam calls "
        f"({blocked / spam if spam else 0:.0%}) were blocked, {warned:,} more came with a warning (a number warns "
        f"first, and blocks once reports of later days show it again), and {stopped:,} of {other_calls:,} other calls "
        f"were blocked. Blocked calls did not ring and were reported like others; warned ones were answered less. "
        f"Wrongly listed for a while: {', '.join(wrong) or 'nobody'}. "
        f"No blocking rests on {profile.tolerance} phones: it would stand without any so many of its reports. "
        f"Every report cost ε = {profile.epsilon:g} and said nothing for sure about any call; the phone that spent "
        f"most spent ε = {days[-1].epsilon_most:g} in {plan.days} days, a phone in a skipped bucket nothing that day."
    )


COLUMNS = ("day", "reports", "run/skip", "found", "missed", "wrong", "spam calls blocked", "warned", "ε")


def _cells(day: Day) -> tuple[str, ...]:
    share = day.blocked / day.spam_calls if day.spam_calls else 0.0
    return (
        str(day.day),
        f"{day.reports:,}",
        f"{day.buckets_run}/{day.buckets_skipped}",
        str(len(day.found)),
        str(len(day.missed)),
        str(len(day.wrong)),
        f"{day.blocked:,} of {day.spam_calls:,} {share:4.0%}",
        f"{day.warned:,}",
        f"{day.epsilon_today:.2f}",
    )


def _events(day: Day) -> list[str]:
    events = list(day.events)
    if day.gathered:
        events.append(f"no single day shows {', '.join(day.gathered)}, several together do")
    if day.missed:
        events.append(f"missed {', '.join(day.missed)}")
    if day.wrong:
        events.append(f"wrongly listed {', '.join(day.wrong)}")
    return [f"day {day.day}: {event}" for event in events]


def _line(cells: tuple[str, ...]) -> str:
    widths = (3, 9, 10, 7, 8, 7, 22, 8, 6)
    return "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _fates(fates: list[Fate]) -> Table:
    columns = ("who", "number", "days", "phones a day", "listed", "by days", "blocks", "left")
    cells = (
        (
            *(fate.name, fate.number, f"{fate.first} to {fate.last}", fate.phones, _listed(fate), fate.over or ""),
            *(f"day {day}" if day else "" for day in (fate.blocks_from, fate.left_on)),
        )
        for fate in fates
    )
    return table("Who called many phones, and what the list made of them", columns, cells, left=["number"])


def _listed(fate: Fate) -> str:
    if fate.listed_on is None:
        return f"[{'red' if fate.spam else 'green'}]never[/]"
    return f"[{'green' if fate.spam else 'yellow'}]day {fate.listed_on}[/]"
