"""``hushcall demo``: the whole system at work, a day every few seconds."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hushcall.cli import show
from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.whole_file import write_whole

if TYPE_CHECKING:
    from hushcall.lab.live.demo import Day, Demo, Fate, Plan
    from hushcall.profiles import Profile


def demo(
    phones: Annotated[int, typer.Option(min=200, max=100_000, help="Simulated phones.")] = 2500,
    days: Annotated[int, typer.Option(min=1, max=60, help="Simulated days.")] = 9,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same calls and the same coins.")] = 1,
    plan: Annotated[str, typer.Option(help="Whose numbers: NANP, DE or FR.")] = "NANP",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The dashboard's; another one if it is taken.")] = 8750,
    once: Annotated[bool, typer.Option("--once", help="End after the last day instead of keeping the server.")] = False,
    report: Annotated[Path, typer.Option(help="Where the report page goes.")] = Path("demo.html"),
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout; implies --once.")] = False,
) -> None:
    """See the whole system at work: a real server, phones over HTTP with their own ledgers, spammers, a signed list.

    Nine days take a few minutes. Then the dashboard stays open until Ctrl-C, where a person watches.

    [bold]Examples[/bold]

      hushcall demo

      hushcall demo --once --phones 1000

      hushcall demo --plan DE

      hushcall demo --json | jq .days[8].missed
    """
    try:
        from hushcall.lab.live import demo as lab
        from hushcall.lab.live import demo_page
        from hushcall.lab.live.scenery import scenery
    except ImportError:
        raise MissingExtra("hushcall demo", "lab") from None
    size = lab.Plan(phones, days, seed, plan.upper())
    scenery(size.region)  # before anything starts
    if not os.access(report.parent, os.W_OK) or report.is_dir():  # before, not after a minute's work
        raise InvalidParameter("report", "be a file in a folder that can be written to", str(report))
    show.ready_to_decode()
    done: list[Day] = []
    watched = sys.stdout.isatty() and not json
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever stops it, nothing is left behind
    try:
        with _screen(size, live=watched, silent=json) as screen, lab.stage(size, port, screen.note) as stage:
            screen.stage = stage
            for day in stage.days():
                done.append(day)
                screen.add(day)
            screen.stop()
            fates = stage.fates()
            words = summary(size, done, fates, stage.profile)
            write_whole(report, demo_page.page(size, done, fates, words), "report")
            if json:
                rows = {"days": [asdict(d) for d in done], "fates": [asdict(f) for f in fates]}
                show.print_json({"plan": asdict(size), **rows, "summary": words, "report": str(report)})
                return
            show.console.print(_fates(fates))
            show.console.print(words)
            show.console.print(f"Report page: {report}", soft_wrap=True)
            if watched and not once:
                _keep(stage)
    except KeyboardInterrupt:
        over = len(done) == days
        show.console.print("Ended: server and data are gone." if over else "Stopped early: server and data are gone.")
        raise typer.Exit(0 if over else 130) from None


def _keep(stage: Demo) -> None:
    """Let people look around."""
    stage.clock.let_go()
    show.console.print(f"Dashboard:   {stage.running.url}/   until Ctrl-C", soft_wrap=True)
    show.console.print(f"  sign in with  {stage.running.token}", soft_wrap=True)
    while True:
        time.sleep(3600)


def summary(plan: Plan, days: list[Day], fates: list[Fate], profile: Profile) -> str:
    """What happened, in one paragraph."""
    spammers = [fate for fate in fates if fate.spam]
    listed = [fate for fate in spammers if fate.listed_on]
    slow = [fate.listed_on - fate.first for fate in listed if fate.listed_on]
    same_day = sum(wait <= 0 for wait in slow)
    never = [fate.name for fate in spammers if not fate.listed_on]
    slowly = [f"{fate.name} ({fate.over} days)" for fate in listed if (fate.over or 1) > 1]
    later = days[1:] or days
    blocked, spam = sum(d.blocked for d in later), sum(d.spam_calls for d in later)
    warned = sum(d.warned for d in later)
    others, stopped = sum(d.other_calls for d in days), sum(d.others_blocked for d in days)
    wrong = sorted({name for d in days for name in d.wrong})
    return (
        f"{len(listed)} of {len(spammers)} spammers were listed, {same_day} of them on the evening of their first day"
        f"{'; no single day showed, several together did: ' + ', '.join(slowly) if slowly else ''}"
        f"{'; never: ' + ', '.join(never) if never else ''}. From the second day on {blocked:,} of {spam:,} spam calls "
        f"({blocked / spam if spam else 0:.0%}) were blocked, {warned:,} more came with a warning (a number that one "
        f"day showed warns first, and blocks from its second), and {stopped:,} of {others:,} other calls were blocked. "
        f"Wrongly listed for a while: {', '.join(wrong) or 'nobody'}. "
        f"No listing rests on {profile.tolerance} phones: each would stand without any so many of its reports. "
        f"Every report cost ε = {profile.epsilon:g} and said nothing for sure about any call; the phone that spent "
        f"most spent ε = {days[-1].epsilon_most:g} in {plan.days} days, a phone in a skipped bucket nothing that day."
    )


class _Screen:
    """A table that grows, and a line that says what is going on."""

    def __init__(self, plan: Plan, live: Live | None, silent: bool) -> None:
        self.plan, self.live, self.silent = plan, live, silent
        self.days: list[Day] = []
        self.stage: Demo | None = None
        self._note = ""
        if not live and not silent:
            show.console.print(_line(COLUMNS), soft_wrap=True)

    def note(self, what: str, done: int, total: int) -> None:
        """What is going on now."""
        if self.live:
            share = f" {show.blocks(done / total, 20)}" if total > 1 else ""
            self._note = f"day {len(self.days) + 1}: {what}{share}"
            self._draw()

    def add(self, day: Day) -> None:
        """One more day is over."""
        self.days.append(day)
        if self.live:
            self._draw()
        elif not self.silent:
            lines = [_line(_cells(day)), *(f"     {event}" for event in _events(day))]
            show.console.print("\n".join(lines), soft_wrap=True)

    def stop(self) -> None:
        """Leave the table as it is."""
        self._note = ""
        if self.live:
            self._draw()
            self.live.stop()

    def _draw(self) -> None:
        if not self.live:
            return
        lines: list[Any] = [_table(self.plan, self.days)]
        lines += [Text(event, style="italic") for day in self.days for event in _events(day)]
        if self._note:
            lines.append(Text(self._note, style="dim"))
        if self.stage:
            lines.append(Text(f"dashboard {self.stage.running.url}/", style="dim"))
        self.live.update(Group(*lines))


@contextmanager
def _screen(plan: Plan, *, live: bool, silent: bool) -> Iterator[_Screen]:
    if not live:
        yield _Screen(plan, None, silent)
        return
    with Live(console=show.console, refresh_per_second=8, vertical_overflow="visible") as shown:
        yield _Screen(plan, shown, silent)


COLUMNS = ("day", "reports", "run/skip", "found", "missed", "wrong", "spam calls blocked", "warned", "ε")


def _table(plan: Plan, days: list[Day]) -> Table:
    table = Table(title=f"{plan.phones:,} phones, real HTTP, private reports")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for day in days:
        table.add_row(*_cells(day))
    return table


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
    """What a person would like to know beside the figures."""
    found = [f"day {day.day}: {event}" for event in day.events]
    if day.gathered:
        found.append(f"day {day.day}: no single day shows {', '.join(day.gathered)}, several together do")
    if day.missed:
        found.append(f"day {day.day}: missed {', '.join(day.missed)}")
    if day.wrong:
        found.append(f"day {day.day}: wrongly listed {', '.join(day.wrong)}")
    return found


def _line(cells: tuple[str, ...]) -> str:
    widths = (3, 9, 10, 7, 8, 7, 22, 8, 6)
    return "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _fates(fates: list[Fate]) -> Table:
    table = Table(title="Who called many phones, and what the list made of them")
    for column, justify in (
        ("who", "left"),
        ("number", "left"),
        ("days", "right"),
        ("phones a day", "right"),
        ("listed", "right"),
        ("by days", "right"),
        ("blocks", "right"),
        ("left", "right"),
    ):
        table.add_column(column, justify=justify, no_wrap=column in ("who", "number"))  # type: ignore[arg-type]
    for fate in fates:
        listed = "never" if fate.listed_on is None else str(fate.listed_on)
        colour = "green" if (fate.listed_on is not None) == fate.spam else "red" if fate.spam else "yellow"
        table.add_row(
            fate.name,
            fate.number,
            f"{fate.first} to {fate.last}",
            str(fate.phones),
            f"[{colour}]{listed if fate.listed_on is None else 'day ' + listed}[/]",
            "" if fate.over is None else str(fate.over),
            f"day {fate.blocks_from}" if fate.blocks_from else "",
            f"day {fate.left_on}" if fate.left_on else "",
        )
    return table
