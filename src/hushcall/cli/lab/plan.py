"""``hushcall plan``: what a number of users and a budget buy, before anyone deploys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from hushcall import checks
from hushcall.cli import show
from hushcall.cli.options import MECHANISM_HELP, PROFILE_HELP, chosen_profile
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.mechanisms import names
from hushcall.mechanisms.scheme import Scheme
from hushcall.mechanisms.schemes import SCHEMES
from hushcall.profiles import EPSILON_OLH, PROFILES, Profile

EPSILONS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 11.8, 13.0, 15.0)
SIZES = (100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 20_000)


def plan(
    users: Annotated[int, typer.Option(min=1, help="Phones that report in one area code on one day.")] = 1000,
    everyone: Annotated[int, typer.Option(min=1, help="Phones in all, for mechanisms without area codes.")] = 23_188,
    epsilon: Annotated[float | None, typer.Option(help="Budget of one report. Default: each profile's own.")] = None,
    spam: Annotated[
        int | None,
        typer.Option(min=0, help="Phones that one spammer calls that day. Default: 150, or all."),
    ] = None,
    buckets: Annotated[int, typer.Option(min=1, help="Area codes decided together: the error level covers all.")] = 1,
    profile: Annotated[str | None, typer.Option(help=PROFILE_HELP + " Default: compare all.")] = None,
    mechanism: Annotated[str | None, typer.Option(help=MECHANISM_HELP)] = None,
    tau: Annotated[int | None, typer.Option(help="List numbers with more reports than this.")] = None,
    level: Annotated[float | None, typer.Option(help="Chance of any wrong listing by noise, over all buckets.")] = None,
    tolerance: Annotated[
        int | None, typer.Option(min=0, help="Fakes that no listing may depend on. Default: the profile's.")
    ] = None,
    window: Annotated[
        list[int] | None, typer.Option(min=1, help="Look back over so many rounds too (again for each length).")
    ] = None,
    find: Annotated[
        float | None,
        typer.Option(help="Instead: the smallest ε that finds who reaches this share of all phones."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the detectable count against ε and users (.png, .svg).")
    ] = None,
    json: Json = False,
) -> None:
    """Show what is detectable, how large a report is, K or b, and which buckets would run.

    [bold]Examples[/bold]

      hushcall plan --users 1000 --spam 150

      hushcall plan --epsilon 6 --users 300

      hushcall plan --find 0.02 --users 1000 --window 1 --window 7

      hushcall plan --picture plan.png
    """
    try:
        from hushcall.learn import planning
    except ImportError:
        raise MissingExtra("hushcall plan", "server") from None
    spam = min(150, users) if spam is None else spam
    if spam > users:
        raise InvalidParameter("spam", f"be at most the {users} users of the bucket", spam)
    if epsilon is not None:
        checks.positive("epsilon", epsilon)
    if picture is not None:
        from hushcall.lab import figures

        figures.check_path(picture)
    if find is not None:
        checks.probability("find", find)
        given = chosen_profile(profile, mechanism, epsilon, tau, level, None, tolerance, window)
        _find(planning, given, users if given.bucketed else max(everyone, users), find, buckets, json=json)
        return
    profiles = _profiles(profile, mechanism, epsilon, tau, level)
    profiles = [replace(one, **_asked(one, tolerance, window)) for one in profiles]
    rows = []
    with show.progress("planning") as bar:
        for done, chosen in enumerate(profiles, 1):
            count = users if chosen.bucketed else max(everyone, users)
            rows.append((chosen.name, planning.outlook(chosen, count, spam, buckets)))
            show.step(bar, chosen.name, done, len(profiles))
        if picture is not None:
            at = epsilon or 4.0
            by_epsilon, by_users = _curves(planning, users, everyone, at, bar)
            titles = (f"{users:,} phones in the bucket", f"ε = {at:g} (histograms: 11.8)")
            figures.detectable_curves(by_epsilon, by_users, titles, picture)
    gate = {"tau": 143, "probability": planning.gate_probability(users)}
    if json:
        show.print_json({"spam": spam, "gate": gate, "rows": [{"profile": name, **asdict(row)} for name, row in rows]})
        return
    show.console.print(_table(rows, spam))
    show.console.print(f"{users} phones report in the area code; {max(everyone, users)} where nothing is in the clear.")
    show.console.print(LEGEND)
    if (longest := max(row.window for _, row in rows)) > 1:
        show.console.print(f"in {longest}:   " + LEGEND_OF_WINDOWS)
    if lies := {row.tolerance for _, row in rows if row.tolerance}:
        show.console.print(f"Listings withstand {' or '.join(map(str, sorted(lies)))} lying phones; the paper's none.")
    show.console.print(
        f"The paper's gate: {users} phones with the same number would show enough of its bits with "
        f"U(31, {users}) = {gate['probability']:.3f}."
    )
    if picture is not None:
        show.console.print(f"Picture: {picture}")


def _profiles(
    profile: str | None, mechanism: str | None, epsilon: float | None, tau: int | None, level: float | None
) -> list[Any]:
    if profile is not None or mechanism is not None:
        return [chosen_profile(profile, mechanism, epsilon, tau, level)]
    if epsilon is None:
        return [chosen_profile(name, None, None, tau, level) for name in PROFILES if name != "cheapest"]
    return [
        chosen_profile(None, name, epsilon, tau, level) for name, scheme in SCHEMES.items() if _enough(scheme, epsilon)
    ]


def _asked(profile: Profile, tolerance: int | None, windows: Sequence[int] | None) -> dict[str, Any]:
    """What was asked for, as far as a profile's mechanism knows it."""
    able: dict[str, Any] = {}
    if tolerance is not None and profile.scheme.tolerates:
        able["tolerance"] = tolerance
    if windows and profile.scheme.pools:
        able["windows"] = tuple(windows)
    return able


def _find(planning: Any, profile: Profile, users: int, rate: float, buckets: int, *, json: bool) -> None:
    """The inverse question: how little a report may say."""
    found = planning.smallest_epsilon(profile, users, rate, buckets)
    answer = {"mechanism": profile.mechanism, "users": users, "rate": rate, "tolerance": profile.tolerance}
    answer |= {"epsilon": found[0] if found else None, "rounds": max(profile.windows)}
    if json:
        show.print_json(answer)
        return
    who = f"a spammer who reaches one in {1 / rate:,.0f} of {users:,} phones a round ({profile.mechanism})"
    over = "in one round" if answer["rounds"] == 1 else f"over {answer['rounds']} rounds"
    if found is None:
        show.console.print(f"No ε up to 16 finds {who} {over}: more phones, or longer windows, would.")
        return
    show.console.print(f"The smallest ε that finds {who} {over} with 90 % power: {found[0]:g}.")


def _enough(scheme: Scheme, epsilon: float) -> bool:
    """Whether a budget leaves something for finding numbers."""
    return not scheme.counts_apart or epsilon > EPSILON_OLH


def _table(rows: Sequence[tuple[str, Any]], spam: int) -> Table:
    table = Table(
        title="What one report a phone and day buys", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    for column in ("profile", "mechanism"):
        table.add_column(column, no_wrap=True)
    longest = max(row.window for _, row in rows)
    for column in ("ε", "setting", "bytes", "gate", "finds", f"P({spam})", *([f"in {longest}"] if longest > 1 else [])):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in rows:
        size = "" if row.report_bytes is None else str(row.report_bytes)
        count = ("never" if row.runs else "skipped") if row.detectable is None else str(row.detectable)
        label = "" if name == row.mechanism else name
        cells = [label, row.mechanism, f"{row.epsilon:g}", row.parameters, size]
        cells += [str(row.smallest_bucket or "none"), count, f"{row.found:.0%}"]
        of_windows = "" if row.in_window is None else str(row.in_window)
        if row.window not in (1, longest):
            of_windows += f" in {row.window}"
        table.add_row(*cells, *([of_windows] if longest > 1 else []))
    return table


LEGEND = """gate:   the smallest bucket that runs; phones in smaller ones spend nothing
finds:  the fewest reports of one number that are found with 90 % power
P(…):   the chance to find a number with that many reports"""
LEGEND_OF_WINDOWS = "the same over so many rounds together"


_LABELS = {names.SUBSPACE: "subspace (ours)", names.WHOLE_NUMBER: "subspace, whole number (ours)"}
_NOT_DRAWN = (names.SH_ORIGINAL, names.SH_BASIC, names.RAPPOR)


def _curves(planning: Any, users: int, everyone: int, epsilon: float, bar: Any) -> tuple[Any, Any]:
    """{label: [(x, detectable)]} against ε and against users."""
    drawn = [row for row in SCHEMES.values() if row.name not in _NOT_DRAWN]
    by_epsilon: dict[str, list[tuple[float, float]]] = {}
    by_users: dict[str, list[tuple[float, float]]] = {}
    total, done = len(drawn) * (len(EPSILONS) + len(SIZES)), 0
    for scheme in drawn:
        name, label = scheme.name, _LABELS.get(scheme.name, scheme.name)
        count = users if scheme.bucketed else everyone
        for value in EPSILONS:
            if _enough(scheme, value):
                row = planning.outlook(chosen_profile(None, name, value, None), count, 0)
                if row.detectable is not None:
                    by_epsilon.setdefault(label, []).append((value, row.detectable))
            done += 1
            show.step(bar, f"drawing {name}", done, total)
        for size in SIZES:
            budget = max(epsilon, 11.8) if scheme.counts_apart else epsilon
            if scheme.bucketed:
                row = planning.outlook(chosen_profile(None, name, budget, None), size, 0)
                if row.detectable is not None:
                    by_users.setdefault(label, []).append((size, row.detectable))
            done += 1
            show.step(bar, f"drawing {name}", done, total)
    return by_epsilon, by_users
