"""``hushcall phone status``, ``ledger`` and ``explain``: what the phone does, has spent, and really sends."""

from __future__ import annotations

import time
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.phone_home import Home, Json, is_set_up, opened, phone_of
from hushcall.errors import HushcallError, InvalidParameter

if TYPE_CHECKING:
    from hushcall.numbers import Number
    from hushcall.phone.explain import Explanation, Sent
    from hushcall.phone.health import Finding

OTHERS = 4


def status(home: Home = None, json: Json = False) -> None:
    """Say how the phone is doing, what is wrong and what to do. Exit status 1 where something is wrong.

    [bold]Examples[/bold]

      hushcall phone status

      hushcall phone status --json
    """
    found = _findings(home)
    ok = all(finding.ok for finding in found)
    if json:
        show.print_json({"ok": ok, "findings": [asdict(finding) for finding in found]})
    else:
        for finding in found:
            mark = "[green]ok[/]  " if finding.ok else "[red]look[/]"
            show.console.print(f"{mark} {finding.topic}: {finding.words}")
            if finding.todo:
                show.console.print(f"     {finding.todo}")
    if not ok:
        raise typer.Exit(1)


def ledger(home: Home = None, json: Json = False) -> None:
    """Show every spend, the caps, and what they guarantee in plain words.

    [bold]Examples[/bold]

      hushcall phone ledger

      hushcall phone ledger --json
    """
    from hushcall.blocklist import iso  # noqa: PLC0415
    from hushcall.phone import ledger as books  # noqa: PLC0415

    now = int(time.time())
    with opened(home) as store:
        limits, spends = books.Limits.load(store), books.spends(store)
        words = books.guarantee(store, limits, now)
        window, life = books.spent(store, now - limits.days * books.DAY), books.spent(store)
    if json:
        rows = [{**asdict(spend), "epsilon": str(spend.epsilon), "at": iso(spend.at)} for spend in spends]
        totals = {"window": float(window), "life": float(life)}
        caps = {"report": float(limits.report), "window": float(limits.window), "life": float(limits.life)}
        show.print_json({"spends": rows, "spent": totals, "caps": caps, "guarantee": words})
        return
    table = Table(title="What this phone has spent")
    for column in ("when", "round", "ε", "mechanism"):
        table.add_column(column)
    for spend in spends:
        table.add_row(iso(spend.at), str(spend.round), f"{float(spend.epsilon):g}", spend.mechanism)
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
    from hushcall.phone.explain import explain as work_out  # noqa: PLC0415

    sent = _example() if example else _last(home)
    found = work_out(sent, _others(sent))
    if json:
        show.print_json(_plain(found))
        return
    _print(found)


def _findings(home: Any) -> list[Finding]:
    from hushcall.phone.health import NOT_SET_UP, Finding, examine  # noqa: PLC0415

    if not is_set_up(home):
        return [NOT_SET_UP]
    try:
        with opened(home) as store:
            return examine(phone_of(store) if store.get("server") else None)
    except HushcallError as error:
        return [Finding("phone", False, str(error), "Restore the folder, or start anew: hushcall phone forget --all")]


def _example() -> Sent:
    from hushcall.phone.explain import example  # noqa: PLC0415
    from hushcall.privacy.coins import os_entropy  # noqa: PLC0415

    return example(os_entropy)


def _last(home: Any) -> Sent:
    from hushcall.phone.diary import latest  # noqa: PLC0415
    from hushcall.phone.explain import Sent  # noqa: PLC0415

    with opened(home) as store:
        row = latest(store, reported=True)
    if row is None:
        raise InvalidParameter("report", "have been made first (--example shows one without)", "none yet")
    return Sent.from_row(row)


def _others(sent: Sent) -> list[Number]:
    """A few other numbers of the same area code, and one that fits the bytes as well as any number can."""
    from hushcall.phone.explain import likelihood  # noqa: PLC0415
    from hushcall.privacy.coins import ONE, seeded, uniform, words  # noqa: PLC0415
    from hushcall.report.items import item_of  # noqa: PLC0415
    from hushcall.report.subspace import Subspace  # noqa: PLC0415

    coins, plan, area = seeded(sent.public), sent.plan, sent.number.area
    drawn = [plan.first_suffix + uniform(words(coins(8))[0], plan.valid_suffixes) for _ in range(20_000)]
    numbers = [plan.number(area, suffix) for suffix in drawn]
    if not isinstance(sent.mechanism, Subspace):
        return numbers[:OTHERS]
    best = Fraction(sent.mechanism.response.keep, ONE)
    fits = (n for n in numbers[OTHERS:] if likelihood(sent, item_of(n, sent.profile, plan)) == best)
    found = next(fits, None)
    return [*numbers[:OTHERS], *([found] if found else [])]


def _plain(found: Explanation) -> dict[str, Any]:
    odds = [{"number": str(o.number), "probability": str(o.probability), "ratio": float(o.ratio)} for o in found.odds]
    return {
        "report": found.report.hex(),
        "parts": [{"name": name, "hex": text, "meaning": meaning} for name, text, meaning in found.parts],
        "in_the_clear": found.clear,
        "epsilon": float(found.epsilon),
        "bound": found.bound,
        "worst_ratio": None if found.worst is None else float(found.worst),
        "holds": found.holds,
        "sharing": found.sharing,
        "odds": odds,
    }


def _print(found: Explanation) -> None:
    show.console.print(f"The whole report, {len(found.report)} bytes: {found.report.hex(' ')}")
    for name, text, meaning in found.parts:
        show.console.print(f"  {text:<6} {name}: {meaning}")
    show.console.print(f"In the clear: {found.clear}.")
    if found.worst is None:
        show.console.print(
            f"ε = {float(found.epsilon):g}: no other number makes these bytes more than {found.bound:.4g} times more "
            "or less likely. hushcall audit computes that from the running code."
        )
        return
    table = Table(title="How likely each number makes exactly these bytes")
    for column in ("number", "probability", "against yours"):
        table.add_column(column, justify="right")
    for place, odds in enumerate(found.odds):
        label = f"{odds.number} (yours)" if place == 0 else str(odds.number)
        table.add_row(label, f"{float(odds.probability):.6f}", f"× {float(odds.ratio):.4g}")
    show.console.print(table)
    show.console.print(
        f"Worst ratio of any two numbers: {float(found.worst):.6g}, within e^{float(found.epsilon):g} = "
        f"{found.bound:.6g}: {'yes' if found.holds else 'NO'}. "
        f"At least {found.sharing:,} values share the odds of yours exactly."
    )
