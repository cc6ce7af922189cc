"""``hushcall phone status``, ``ledger`` and ``explain``."""

from __future__ import annotations

import time
from dataclasses import asdict
from fractions import Fraction
from typing import Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import Home, folder_of, opened
from hushcall.cli.show import Json
from hushcall.client import health
from hushcall.client.reporting import explain as explaining
from hushcall.client.reporting import ledger as ledger_rows
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.explain import Explanation, Sent
from hushcall.client.setup import plan_of
from hushcall.client.storage.store import DAY_SECONDS
from hushcall.protocol.blocklist import iso
from hushcall.protocol.randomness import os_entropy, seeded

OTHERS = 4


def status(home: Home = None, json: Json = False) -> None:
    """Say how the phone is doing, what is wrong and what to do. Exit status 1 where something is wrong."""
    show.findings("findings", [asdict(finding) for finding in health.examine_folder(folder_of(home))], json)


def ledger(home: Home = None, json: Json = False) -> None:
    """Show every spend, the caps, and what they guarantee in plain words."""
    now = int(time.time())
    with opened(home, reading=True) as store:
        limits, spends = Limits.load(store), ledger_rows.spends(store)
        words = ledger_rows.guarantee(store, limits, now)
        window, life = ledger_rows.spent(store, now - limits.window_days * DAY_SECONDS), ledger_rows.spent(store)
        one_caller = float(ledger_rows.per_caller(store))
    if json:
        rows = [{**asdict(spend), "epsilon": str(spend.epsilon), "at": iso(spend.at)} for spend in spends]
        totals = {"window": float(window), "life": float(life), "one_caller": one_caller}
        caps = {"report": float(limits.report), "window": float(limits.window), "life": float(limits.life)}
        show.print_json({"spends": rows, "spent": totals, "caps": caps, "guarantee": words})
        return
    table = Table(title="What this phone has spent")
    for column in ("when", "round", "ε", "mechanism"):
        table.add_column(column)
    for spend in spends:
        assumed = spend.what == ledger_rows.ASSUMED
        round_, mechanism = ("?", "assumed: before a restore") if assumed else (str(spend.round), spend.mechanism)
        table.add_row(iso(spend.at), round_, f"{float(spend.epsilon):g}", mechanism)
    if spends:
        show.console.print(table)
    show.console.print(words)


def explain(
    example: Annotated[bool, typer.Option("--example", help="A made-up report: needs no server and no phone.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show exactly which bytes left the phone, and how likely other numbers would have made the same ones."""
    if example:
        sent = explaining.example(os_entropy)
    else:
        with opened(home, reading=True) as store:
            sent = Sent.last(store, plan_of(store))
    rand = seeded(sent.public)  # always the same other numbers for a report
    others = [sent.plan.dummy(rand, sent.number.area) for _ in range(OTHERS)]
    explanation = explaining.explain(sent, others)
    if json:
        show.print_json(_plain(sent, explanation))
    else:
        _print(sent, explanation)


def _plain(sent: Sent, explanation: Explanation) -> dict[str, Any]:
    odds = [
        {"number": str(row.number), "fits": row.fits, "probability": str(row.probability), "ratio": float(row.ratio)}
        for row in explanation.odds
    ]
    return {
        "round": sent.round,
        "dummy": sent.dummy,
        "report": explanation.report.hex(),
        "parts": [{"name": name, "hex": text, "meaning": meaning} for name, text, meaning in explanation.parts],
        "in_the_clear": explanation.clear,
        "epsilon": float(explanation.epsilon),
        "bound": explanation.bound,
        "worst_ratio": None if explanation.worst is None else float(explanation.worst),
        "holds": explanation.holds,
        "fitting": explanation.fitting,
        "odds": odds,
    }


def _print(sent: Sent, explanation: Explanation) -> None:
    say = show.console.print
    when = "A made-up report" if sent.round is None else f"What left this phone in round {sent.round}"
    say(f"{when}, all of it:\n", markup=False)
    say(f"  in the clear   {explanation.clear}", markup=False)
    say(f"  the report     {explanation.report.hex(' ')} ({len(explanation.report)} bytes)")
    for name, text, meaning in explanation.parts:
        short = text if len(text) <= 8 else text[:6] + "…"
        say(f"                 {short:<8} {name}: {meaning}")
    origin = "a dummy, made up because no unknown number was left to report" if sent.dummy else "the number that called"
    say(f"\nBehind it is {sent.number}: {origin}. That stays on the phone.")
    bound = f"e^{float(explanation.epsilon):g} = {explanation.bound:.4g}"
    if explanation.worst is None:
        say(
            f"No other number would have made these bytes more than {bound} times more or less likely. "
            "hushcall-lab audit computes that from the running code."
        )
        return
    table = Table(title="How likely other numbers make these bytes")
    for column in ("number", "chance", "against yours"):
        table.add_column(column, justify="right")
    for place, odds in enumerate(explanation.odds):
        label = f"yours: {odds.number}" if place == 0 else str(odds.number)
        table.add_row(label, f"{100 * float(odds.probability):.3g} %", _times(odds.ratio))
    say(table)
    say(
        f"About {explanation.fitting:,} numbers fit these bytes best, and yours is "
        f"{'' if explanation.odds[0].fits else 'not even '}one of them. "
        f"Of any two numbers, one makes these bytes at most {float(explanation.worst):.4g} times as likely as the "
        f"other. Promised is e^ε = {bound}: {'kept' if explanation.holds else 'BROKEN'}."
    )


def _times(ratio: Fraction) -> str:
    if ratio == 1:
        return "the same"
    return f"{float(ratio):.3g} ×" if ratio > 1 else f"1/{float(1 / ratio):.3g}"
