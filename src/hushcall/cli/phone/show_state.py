"""``hushcall phone status``, ``ledger`` and ``explain``: what the phone does, has spent, and really sends."""

from __future__ import annotations

import time
from dataclasses import asdict
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.phone.home import Home, folder_of, opened
from hushcall.cli.show import Json

if TYPE_CHECKING:
    from hushcall.numbers import Number
    from hushcall.phone.reporting.conclusions import Conclusion
    from hushcall.phone.reporting.explain import Explanation, Sent

OTHERS = 4
MOST_TRIES = 20_000  # for a number that shares yours' report: enough for b = 11, and quick
FICTIONAL = range(5_550_100, 5_550_200)
SUSPICION = 1_000_000


def status(home: Home = None, json: Json = False) -> None:
    """Say how the phone is doing, what is wrong and what to do. Exit status 1 where something is wrong.

    [bold]Examples[/bold]

      hushcall phone status

      hushcall phone status --json
    """
    from hushcall.phone.health import examine_folder

    found = examine_folder(folder_of(home))
    ok = all(finding.ok for finding in found)
    if json:
        show.print_json({"ok": ok, "findings": [asdict(finding) for finding in found]})
    else:
        for finding in found:
            mark = "[green]ok[/]  " if finding.ok else "[red]look[/]"
            show.console.print(f"{mark} {finding.topic}: {escape(finding.words)}", soft_wrap=True)
            if finding.todo:
                show.console.print(f"     {finding.todo}", markup=False, soft_wrap=True)
    if not ok:
        raise typer.Exit(1)


def ledger(home: Home = None, json: Json = False) -> None:
    """Show every spend, the caps, and what they guarantee in plain words.

    [bold]Examples[/bold]

      hushcall phone ledger

      hushcall phone ledger --json
    """
    from hushcall.phone.reporting import ledger as books
    from hushcall.protocol.blocklist import iso

    now = int(time.time())
    with opened(home, reading=True) as store:
        limits, spends = books.Limits.load(store), books.spends(store)
        words = books.guarantee(store, limits, now)
        window, life = books.spent(store, now - limits.days * books.DAY), books.spent(store)
        most = float(books.per_caller(store))
    if json:
        rows = [{**asdict(spend), "epsilon": str(spend.epsilon), "at": iso(spend.at)} for spend in spends]
        totals = {"window": float(window), "life": float(life), "one_caller": most}
        caps = {"report": float(limits.report), "window": float(limits.window), "life": float(limits.life)}
        show.print_json({"spends": rows, "spent": totals, "caps": caps, "guarantee": words})
        return
    table = Table(title="What this phone has spent")
    for column in ("when", "round", "ε", "mechanism"):
        table.add_column(column)
    for spend in spends:
        assumed = spend.what == books.ASSUMED
        of, how = ("?", "assumed: before a restore") if assumed else (str(spend.round), spend.mechanism)
        table.add_row(iso(spend.at), of, f"{float(spend.epsilon):g}", how)
    if spends:
        show.console.print(table)
    show.console.print(words)


def explain(
    example: Annotated[bool, typer.Option("--example", help="A made-up report: needs no server and no phone.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show exactly which bytes left the phone, and how likely other numbers would have made the same ones.

    [bold]Examples[/bold]

      hushcall phone explain --example

      hushcall phone explain --json
    """
    from hushcall.phone.reporting.conclusions import conclusions
    from hushcall.phone.reporting.explain import explain as work_out
    from hushcall.phone.reporting.ledger import Limits

    sent, horizon = (_example(), Limits().horizon) if example else _last(home)
    found = work_out(sent, _others(sent))
    linked = conclusions(found.epsilon, horizon, sent.one_value)
    if json:
        show.print_json({**_plain(sent, found), "linked": [asdict(one) for one in linked]})
        return
    _print(sent, found)
    _print_linked(linked, horizon)


def _example() -> Sent:
    from hushcall.phone.reporting.explain import example
    from hushcall.privacy.coins import os_entropy

    return example(os_entropy)


def _last(home: Any) -> tuple[Sent, int]:
    from hushcall.phone.reporting.explain import Sent
    from hushcall.phone.reporting.ledger import Limits
    from hushcall.phone.setup import plan_of

    with opened(home, reading=True) as store:
        return Sent.last(store, plan_of(store)), Limits.load(store).horizon


def _print_linked(linked: list[Conclusion], horizon: int) -> None:
    table = Table(title="If one number calls every day, and somebody links all reports of this phone")
    for column in ("after", "reports about it", "ε about it", "1 in 100 becomes, on average", "and never more than"):
        table.add_column(column, justify="right")
    for one in linked:
        mean = "not worked out" if one.mean is None else f"{one.mean:.0%}"
        days = f"{one.days} day{'' if one.days == 1 else 's'}"
        table.add_row(days, str(one.reports), f"{one.epsilon:g}", mean, f"{one.most:.0%}")
    show.console.print(table)
    show.console.print(f"A caller is in one report in {horizon} days, however often it calls (--horizon).")


def _others(sent: Sent) -> list[Number]:
    """A few other numbers of the same area code, and one that fits the bytes as well as any number can.

    Numbers that nobody has (555-01xx) as far as they go: whoever shows this to others shows nobody's number.
    """
    from hushcall.phone.reporting.explain import likelihood
    from hushcall.privacy.coins import ONE, seeded, uniform, words

    coins, plan, area = seeded(sent.public), sent.plan, sent.number.area
    start = uniform(words(coins(8))[0], len(FICTIONAL))
    nobodys = (FICTIONAL[(start + 37 * step) % len(FICTIONAL)] for step in range(len(FICTIONAL)))
    drawn = (plan.first_suffix + uniform(words(coins(8))[0], plan.valid_suffixes) for _ in range(MOST_TRIES))
    suffixes = (suffix for suffix in chain(nobodys, drawn) if suffix != sent.number.suffix)
    numbers = (number for suffix in suffixes if (number := plan.existing(area, suffix)) is not None)
    some = list(islice(numbers, OTHERS))
    mechanism = sent.one_value
    if mechanism is None:
        return some
    best = Fraction(mechanism.response.keep, ONE)
    fits = (n for n in numbers if likelihood(sent, sent.scheme.items.item(n, plan)) == best)
    return [*some, *islice(fits, 1)]


def _plain(sent: Sent, found: Explanation) -> dict[str, Any]:
    odds = [
        {
            "number": str(o.number),
            "likeliest_report": o.likeliest.hex(),
            "probability": str(o.probability),
            "ratio": float(o.ratio),
        }
        for o in found.odds
    ]
    return {
        "round": sent.round,
        "dummy": sent.dummy,
        "report": found.report.hex(),
        "parts": [{"name": name, "hex": text, "meaning": meaning} for name, text, meaning in found.parts],
        "in_the_clear": found.clear,
        "epsilon": float(found.epsilon),
        "bound": found.bound,
        "worst_ratio": None if found.worst is None else float(found.worst),
        "holds": found.holds,
        "sharing": found.sharing,
        "possible_reports": found.values,
        "odds": odds,
    }


def _print(sent: Sent, found: Explanation) -> None:
    say = show.console.print
    when = "A made-up report" if sent.round is None else f"What left this phone in round {sent.round}"
    say(f"{when}, all of it:\n", markup=False)
    say(f"  in the clear   {found.clear}", markup=False)
    say(f"  the report     {found.report.hex(' ')} ({len(found.report)} bytes)")
    for name, text, meaning in found.parts:
        short = text if len(text) <= 8 else text[:6] + "…"
        say(f"                 {short:<8} {name}: {meaning}")
    origin = "a dummy, made up because no unknown number was left to report" if sent.dummy else "the number that called"
    say(f"\nBehind it is {sent.number}: {origin}. That stays on the phone.")
    if found.worst is None or found.values is None or found.often is None or found.seldom is None:
        say(
            f"No other number would have made these bytes more than e^{float(found.epsilon):g} = {found.bound:.4g} "
            "times more or less likely. hushcall audit computes that from the running code."
        )
        return
    mine, bytes_sent = found.odds[0], found.report.hex(" ")
    true = mine.likeliest == found.report
    say(
        f"Its own report is {mine.likeliest.hex(' ')}. A phone sends a number's own report with a chance of "
        f"{_percent(found.often)}, and each of the other {found.values - 1:,} with {_percent(found.seldom)}. "
        f"{'This time it sent the own one.' if true else 'This time it sent another one.'}\n"
    )
    table = Table(title="What it could have been for other numbers, and how likely")
    for column in ("number", "its own report", f"chance of {bytes_sent}", "against yours"):
        table.add_column(column, justify="right")
    for place, odds in enumerate(found.odds):
        label = f"yours: {odds.number}" if place == 0 else str(odds.number)
        table.add_row(label, odds.likeliest.hex(" "), _percent(odds.probability), _times(odds.ratio))
    say(table)
    say(
        f"Whoever sees {bytes_sent} suspects the numbers that have it as their own report: one in {found.values:,}, "
        f"about {_candidates(sent) // found.values:,} numbers, like the last one above. Yours is "
        f"{'among them' if true else 'not even among them'}.\n"
        f"Of any two numbers, one makes these bytes at most {float(found.worst):.4g} times as likely as the other; "
        f"promised is e^ε = e^{float(found.epsilon):g} = {found.bound:.4g}: {'kept' if found.holds else 'BROKEN'}. "
        f"Somebody who gave a number a chance of 1 in {SUSPICION:,} to have called you gives it at most "
        f"{_after(found.bound)} after seeing this report."
    )


def _candidates(sent: Sent) -> int:
    """How many numbers the report may be about: those of the area code, or all where nothing is in the clear."""
    areas = 1 if sent.scheme.bucketed else len(sent.plan.area_codes)
    return areas * sent.plan.valid_suffixes


def _percent(chance: Fraction) -> str:
    return f"{100 * float(chance):.3g} %"


def _times(ratio: Fraction) -> str:
    if ratio == 1:
        return "the same"
    return f"{float(ratio):.3g} ×" if ratio > 1 else f"1/{float(1 / ratio):.3g}"


def _after(bound: float) -> str:
    """Bayes: odds of 1 : SUSPICION − 1, times the most that one report can weigh."""
    return f"1 in {1 + (SUSPICION - 1) / bound:,.0f}"
