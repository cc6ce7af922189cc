"""``hushcall plan`` and ``hushcall privacy``: what a profile finds, and what it promises about a phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from hushcall import checks
from hushcall.cli import show
from hushcall.cli.options import MECHANISM_HELP, PROFILE_HELP, chosen_profile, where_set
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.mechanisms.privacy.statement import Deployment, calls_in_words, in_words, not_hidden, statement
from hushcall.mechanisms.profiles import DEFAULT, EPSILON_OLH, PROFILES, TAU, Profile
from hushcall.mechanisms.registry import MECHANISMS, MechanismSpec
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.decoding.planning import Outlook, Wait

DEFAULT_CROWD = 10_000


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
    json: Json = False,
) -> None:
    """Show how many phones are needed, what is detectable, how large a report is, and how long rounds should be.

    On a month of complaints hushcall-lab experiment defaults prices level, tolerance, tiers and hints.

    [bold]Examples[/bold]

      hushcall plan --users 1000 --spam 150

      hushcall plan --find 0.02 --users 1000 --window 1 --window 7
    """
    try:
        from hushcall.decoding import planning
        from hushcall.mechanisms.decision import POWER
        from hushcall.mechanisms.succinct_histogram.theory import PAPER_BINS, fill_probability
    except ImportError:
        raise MissingExtra("hushcall plan", "server") from None
    spam = min(150, users) if spam is None else spam
    if spam > users:
        raise InvalidParameter("spam", f"be at most the {users} users of the bucket", spam)
    if epsilon is not None:
        checks.positive("epsilon", epsilon)
    if find is not None:
        checks.probability("find", find)
        chosen = chosen_profile(profile, mechanism, epsilon, tau, level, tolerance, window)
        _find(chosen, users if chosen.bucketed else max(everyone, users), find, buckets, json=json)
        return
    profiles = _profiles(profile, mechanism, epsilon, tau, level)
    profiles = [replace(row, **_supported(row, tolerance, window)) for row in profiles]
    rows = []
    with show.progress("planning") as bar:
        for done, chosen in enumerate(profiles, 1):
            count = users if chosen.bucketed else max(everyone, users)
            rows.append((chosen.name, planning.outlook(chosen, count, spam, buckets)))
            show.step(bar, chosen.name, done, len(profiles))
    lengths = _lengths(profiles, users, everyone, spam, buckets)
    gate = {"tau": TAU, "probability": fill_probability(PAPER_BINS, users)}
    asked = profiles[0] if len(profiles) == 1 else DEFAULT
    words = [planning.in_words(asked, max(everyone, users) if not asked.bucketed else users)]
    words.append(planning.needed_in_words(asked))
    finding = [name for name, row in rows if name in PROFILES and not PROFILES[name].bucketed and row.found >= POWER]
    if json:
        show.print_json(
            {
                "recommended": finding,
                "spam": spam,
                "gate": gate,
                "words": words,
                "round_hours": planning.best_hours(lengths, spam),
                "waits": [asdict(row) for row in lengths],
                "rows": [{"profile": name, **asdict(row)} for name, row in rows],
            }
        )
        return
    for sentence in words:
        show.out(sentence)
    show.console.print(_table(rows, spam))
    show.console.print(f"{users} phones report in the area code; {max(everyone, users)} where nothing is in the clear.")
    show.console.print(LEGEND)
    if (longest := max(row.window for _, row in rows)) > 1:
        show.console.print(f"in {longest}:   " + LEGEND_OF_WINDOWS)
    for name, row in ((name, row) for name, row in rows if row.hundreds):
        least = "no count" if row.in_hundred is None else f"{row.in_hundred} reports"
        show.console.print(
            f"{name} asks {row.hundreds} % of the phones about hundreds of numbers: {least} about one hundred, few "
            "about each of its numbers, make it a range in a round."
        )
    if lies := {row.tolerance for _, row in rows if row.tolerance}:
        show.console.print(f"Blocking withstands {' or '.join(map(str, sorted(lies)))} lying phones; the paper's none.")
    if lengths:
        show.console.print(_lengths_table(lengths, spam))
        show.console.print(f"Recommended: rounds of {_hours(planning.best_hours(lengths, spam))}.")
    if finding:
        show.console.print(
            f"Recommended: {', '.join(finding)}. {everyone:,} phones carry whole numbers, and area codes in the clear "
            "tell in the long run whom strangers call."
        )
    show.console.print(
        f"The paper's gate: {users} phones with the same number would show enough of its bits with "
        f"U(31, {users}) = {gate['probability']:.3f}."
    )


def _lengths(profiles: Sequence[Profile], users: int, everyone: int, spam: int, buckets: int) -> list[Wait]:
    """For the only profile, or the default one among several."""
    from hushcall.decoding import planning

    chosen = next((row for row in profiles if row.name == DEFAULT.name), profiles[0])
    if not (spam and chosen.spec.pools):
        return []
    return planning.waits(chosen, users if chosen.bucketed else max(everyone, users), spam, buckets)


def _lengths_table(rows: Sequence[Wait], spam: int) -> Table:
    table = Table(title="How long rounds should be", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    columns = ("rounds of", "phones in one", f"listed, of {spam} calls a day", "calls that one day takes")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        least = "never" if row.least_calls is None else str(row.least_calls)
        after = "never" if row.listed_hours is None else f"after {_hours(row.listed_hours)}"
        table.add_row(_hours(row.round_hours), str(row.phones), after, least)
    return table


def _hours(hours: float) -> str:
    return "a day" if hours == 24 else counted(round(hours), "hour")


def _profiles(
    profile: str | None, mechanism: str | None, epsilon: float | None, tau: int | None, level: float | None
) -> list[Profile]:
    if profile is not None or mechanism is not None:
        return [chosen_profile(profile, mechanism, epsilon, tau, level)]
    if epsilon is None:
        return [chosen_profile(name, None, None, tau, level) for name in PROFILES if name != "cheapest"]
    return [
        chosen_profile(None, name, epsilon, tau, level) for name, spec in MECHANISMS.items() if enough(spec, epsilon)
    ]


def _supported(profile: Profile, tolerance: int | None, windows: Sequence[int] | None) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if tolerance is not None and profile.spec.tolerates:
        changes["tolerance"] = tolerance
    if windows and profile.spec.pools:
        changes["windows"] = tuple(windows)
    return changes


def _find(profile: Profile, users: int, rate: float, buckets: int, *, json: bool) -> None:
    """The inverse question: the smallest ε that finds a number with this rate."""
    from hushcall.decoding import planning

    epsilon, *_ = planning.smallest_epsilon(profile, users, rate, buckets) or (None,)
    answer = {"mechanism": profile.mechanism, "users": users, "rate": rate, "tolerance": profile.tolerance}
    answer |= {"epsilon": epsilon, "rounds": max(profile.windows)}
    if json:
        show.print_json(answer)
        return
    who = f"a spammer who reaches one in {1 / rate:,.0f} of {users:,} phones a round ({profile.mechanism})"
    over = "in one round" if answer["rounds"] == 1 else f"over {answer['rounds']} rounds"
    if epsilon is None:
        show.console.print(f"No ε up to 16 finds {who} {over}: more phones, or longer windows, would.")
        return
    show.console.print(f"The smallest ε that finds {who} {over} with 90 % power: {epsilon:g}.")


def enough(spec: MechanismSpec, epsilon: float) -> bool:
    """Whether the budget exceeds the part that histograms spend on counting."""
    return not spec.counts_apart or epsilon > EPSILON_OLH


def _table(rows: Sequence[tuple[str, Outlook]], spam: int) -> Table:
    table = Table(
        title="What one report a phone and day buys", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    table.add_column("profile", no_wrap=True)
    longest = max(row.window for _, row in rows)
    counts = ("gate", "finds", "hint", "blocks", f"P({spam})", *([f"in {longest}"] if longest > 1 else []))
    for column in ("ε", "setting", "bytes", *counts):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in rows:
        size = "" if row.report_bytes is None else str(row.report_bytes)
        count = ("never" if row.runs else "skipped") if row.detectable is None else str(row.detectable)
        cells = [name, f"{row.epsilon:g}", row.parameters, size]
        tiers = ("" if least is None else str(least) for least in (row.hinted, row.blocked))
        cells += [str(row.smallest_bucket or "none"), count, *tiers, f"{row.found:.0%}"]
        of_windows = "" if row.in_window is None else str(row.in_window)
        if row.window not in (1, longest):
            of_windows += f" in {row.window}"
        table.add_row(*cells, *([of_windows] if longest > 1 else []))
    return table


LEGEND = """gate:   the smallest bucket that runs; phones in smaller ones spend nothing
finds:  the fewest reports of one number that are found with 90 % power
hint:   the same for a number that hints name, one of 100
blocks: the same by the rule of blocking
P(…):   the chance to find a number with that many reports"""
LEGEND_OF_WINDOWS = "the same over so many rounds together"


def privacy(
    profile: Annotated[str | None, typer.Option(help=PROFILE_HELP)] = None,
    server: Annotated[str | None, typer.Option(help="Ask a server how it runs its rounds, instead.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget of one report. Default: the profile's.")] = None,
    crowd: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Honest phones whose reports lie in one pile: an area code's, or all. Default: what the server says, "
            "else 10000.",
        ),
    ] = None,
    reports: Annotated[int, typer.Option(min=1, help="Reports of one phone in a month.")] = 30,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Days in which a caller is in one report at most. Default: 30, a phone's.")
    ] = None,
    anonymous: Annotated[
        bool | None, typer.Option("--anonymous/--named", help="Blind tokens, or a device's name at each report.")
    ] = None,
    relay: Annotated[
        bool | None, typer.Option("--relay/--direct", help="Whether reports come through a relay.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what can be learnt about a caller by readers of the list, by the server, and by server and relay together.

    [bold]Examples[/bold]

      hushcall privacy --epsilon 6 --profile balanced-whole --crowd 1000000 --anonymous --relay

      hushcall privacy --server https://calls.example.org --crowd 50000
    """
    if server is not None and profile is not None:
        raise InvalidParameter("profile", "not be given with a server, which has its own", profile)
    base = _of_server(server) if server else _of_profile(profile)
    chosen = where_set(epsilon=epsilon, crowd=crowd, horizon=horizon, anonymous=anonymous, relay=relay)
    values = {**base, **chosen}
    name = values.pop("name")
    deployment = Deployment(**{"crowd": DEFAULT_CROWD, **values}, reports_a_month=reports)
    if json:
        show.print_json(_plain(name, deployment))
        return
    _print_promise(name, deployment)


def _of_profile(profile: str | None) -> dict[str, Any]:
    chosen = chosen_profile(profile, None, None, None)
    return {"name": f"profile {chosen.name}", "epsilon": chosen.epsilon, "bucketed": chosen.bucketed}


def _of_server(server: str) -> dict[str, Any]:
    from hushcall.client.reporting.transport import HttpTransport
    from hushcall.mechanisms.registry import sends_area_code

    info = HttpTransport(server).current_round()
    values = {"name": server, "epsilon": info.epsilon, "bucketed": sends_area_code(info.mechanism)}
    if info.anonymity is not None:
        values |= {"anonymous": True, "relay": bool(info.anonymity.relay)}
    if info.anonymity is not None and info.least_crowd is not None:
        values["crowd"] = max(info.least_crowd, 1)  # in a set of nobody a report has its own ε
    return values


def _plain(name: str, deployment: Deployment) -> dict[str, Any]:
    rows = statement(deployment)
    return {
        "deployment": {"name": name, **asdict(deployment)},
        "against": [{**asdict(row), "words": in_words(deployment, row)} for row in rows],
        "calls": calls_in_words(deployment),
        "not_hidden": list(not_hidden(deployment)),
    }


def _print_promise(name: str, deployment: Deployment) -> None:
    rows, out = statement(deployment), show.console
    how = "blind tokens" if deployment.anonymous else "a device's name at each report"
    via = "through a relay" if deployment.relay else "without a relay"
    clear = "the area code in the clear" if deployment.bucketed else "nothing in the clear"
    out.print(f"{name}: ε = {deployment.epsilon:g} a report, {clear}, {how}, {via}.", markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("against")
    table.add_column(f"a report, and a caller in {deployment.horizon} days", justify="right")
    table.add_column(f"{deployment.reports_a_month} reports a month", justify="right")
    table.add_column("δ", justify="right")
    for row in rows:
        table.add_row(
            row.who, f"ε = {row.report:.3g}", f"ε = {row.month:.3g}", f"{row.delta:.0e}" if row.delta else "0"
        )
    out.print(table)
    for row in rows:
        out.print(in_words(deployment, row) + "\n", markup=False)
    out.print(calls_in_words(deployment) + "\n", markup=False)
    out.print("Not hidden:")
    for line in not_hidden(deployment):
        out.print(f"- {line}", markup=False)
