"""What the service blocks on real complaints, and what each of its settings costs.

A month is decided as a service decides it: windows, two tiers, and the complaints of the day before as hints. A call is
warned or blocked by the list of the evening before. Shares are medians of days, of all calls and relative to a list
made without privacy: of numbers with more than θ complaints on one of its days, or over seven days together.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hushcall.mechanisms.profiles import DEFAULT, OPEN_TOLERANCE, PROFILES, Profile
from hushcall.server.settings import ListSettings
from hushcall_lab.rivals import names
from hushcall_lab.study.experiments import (
    REAL_LEVEL,
    SCANNED,
    Experiment,
    Results,
    Row,
    Statement,
    find,
    spread,
    summary,
)
from hushcall_lab.study.months import Setting

THETA = 10
PAPER_TAU = 20
"""For the paper's protocol here: at its own τ = 143, there is nothing to find."""
WARNED, BLOCKED = "warned or blocked", "blocked"
EPSILONS = (2.0, 4.0, 6.0, 8.0)
OLD_FIGURES = {4.0: 0.48, 6.0: 1.13, 8.0: 1.89}
"""Relative shares at :data:`REAL_LEVEL` without tolerance, tiers and hints, to within a twentieth."""
PROMISES = {(4.0, WARNED): 0.70, (4.0, BLOCKED): 0.12, (8.0, WARNED): 1.9, (8.0, BLOCKED): 0.60}
"""Relative shares as shipped."""
CHOICES: Mapping[str, Mapping[str, Any]] = {
    "as shipped": {},
    "without hints": {"hints": 0.0},
    "a tenth of the hints": {"hints": 0.1},
    "warnings at level 0.001": {"warn_level": 0.001},
    "warnings at level 0.25": {"warn_level": 0.25},
    "one tier": {"warn_level": 0.0},
    "tolerance 0": {"tolerance": 0},
    f"tolerance {OPEN_TOLERANCE}": {"tolerance": OPEN_TOLERANCE},
    "blocking at level 0.05": {"level": 0.05},
}


def shipped(profile: Profile, **changes: Any) -> Setting:
    """A profile as a service runs it, with the complaints of the day before as hints."""
    setting = Setting(
        *(profile.mechanism, profile.epsilon, profile.tau),
        level=profile.level,
        scan=True,
        tolerance=profile.tolerance,
        warn_level=profile.warn_level,
        block_rounds=ListSettings().block_days,
        hints=1.0,
    )
    return replace(setting, **changes)


def _without_privacy() -> list[Setting]:
    return [Setting("none", 1.0, THETA), Setting("none", 1.0, THETA, window=7)]


def _real_settings(quick: bool) -> list[Setting]:
    epsilons = (8.0,) if quick else EPSILONS
    settings = [shipped(replace(DEFAULT, epsilon=epsilon)) for epsilon in epsilons]
    settings += [
        Setting(names.SUBSPACE, epsilon, THETA, level=REAL_LEVEL, scan=True)
        for epsilon in epsilons
        if epsilon in OLD_FIGURES
    ]
    paper = Setting(names.SH_EXTENDED, PROFILES["paper"].epsilon, PAPER_TAU)
    return [*_without_privacy(), *settings, paper]


def _rows(results: Results) -> list[Row]:
    """Two rows for a setting with two tiers, one for the others."""
    choices = {setting: choice for choice, setting in _choices()}
    plain = {setting.window: months for setting, months in results.items() if setting.mechanism == "none"}
    daily, weekly = (_share(plain[setting.window][0]["blocking"]) for setting in _without_privacy())
    rows = []
    for setting, months in results.items():
        days = len(months[0]["days"])
        facts: Row = {"mechanism": setting.mechanism, "epsilon": setting.epsilon, "theta": setting.tau}
        facts |= {"window": ", ".join(map(str, setting.windows)), "level": setting.level}
        facts |= {"tolerance": setting.tolerance, "warn_level": setting.warn_level}
        facts |= {"block_rounds": setting.block_rounds, "hints": setting.hints}
        facts |= summary(months) | {"largest": months[0]["largest"]}
        facts["listed_a_day"] = statistics.fmean(month["listed"] for month in months) / days
        tiers = [(BLOCKED, "blocked", "never_reported_blocked")]
        tiers = [(WARNED, "blocking", "never_reported"), *tiers] if setting.block_rounds else tiers
        for verdict, rates, wrong in tiers:
            share, deviation = spread([{"share": _share(month[rates])} for month in months], "share")
            row = {"verdict": verdict, "cbr": share, "wrong_a_day": spread(months, wrong)[0] / days}
            row |= {"relative_cbr": _ratio(share, daily), "relative_cbr_sd": _ratio(deviation, daily)}
            row |= {"relative_to_week": _ratio(share, weekly), "decided": decided(facts)}
            row |= {"choice": choices.get(setting, "")}
            rows.append(facts | row)
    return rows


def decided(row: Row) -> str:
    """A row's settings in words. None for the paper's protocol, which a statement is about."""
    if row["mechanism"] in (names.SH_EXTENDED, "none"):
        return ""
    rule = f"level {row['level']:g}, warnings {row['warn_level'] or 'none'}, tolerance {row['tolerance']}"
    return f"{row['mechanism']}: {rule}, {'hints' if row['hints'] else 'no hints'}"


def _share(rates: Sequence[float]) -> float:
    return statistics.median(rates) if rates else 0.0


def _ratio(share: float, best: float) -> float:
    """0 where even the list without privacy blocks nothing."""
    return share / best if best else 0.0


def _real_statements(rows: list[Row]) -> list[Statement]:
    return [*_of_the_paper(rows), *_of_before(rows), *_as_shipped(rows)]


def _of_the_paper(rows: list[Row]) -> list[Statement]:
    largest = max(row["largest"] for row in rows)
    statements = [
        Statement("the paper's τ = 143 is above every count of a day", f"the largest count is {largest}", largest < 143)
    ]
    for row in (row for row in rows if row["mechanism"] == names.SH_EXTENDED):
        heavy = row["true"] + row["undetected"]
        says = (
            f"the paper's protocol finds less than a tenth of the numbers at τ = {row['theta']}, ε = {row['epsilon']:g}"
        )
        text = f"{row['true']:.0f} of {heavy:.0f}, and {row['false']:.0f} others"
        statements.append(Statement(says, text, row["true"] < 0.1 * heavy))
    return statements


def _of_before(rows: list[Row]) -> list[Statement]:
    statements = []
    for epsilon, figure in OLD_FIGURES.items():
        if row := find(rows, mechanism=names.SUBSPACE, epsilon=epsilon, window=SCANNED, level=REAL_LEVEL):
            says = f"at level {REAL_LEVEL:g}, no tolerance, tiers or hints, ε = {epsilon:g}: {figure:g} ± 0.05"
            good = abs(row["relative_cbr"] - figure) <= 0.05 and row["wrong_a_day"] <= REAL_LEVEL
            statements.append(Statement(says, _measured(row), good))
    return statements


def _as_shipped(rows: list[Row]) -> list[Statement]:
    """What is shipped, with hints, and no more wrong numbers than its levels say."""
    ours = [row for row in rows if row["hints"] and row["mechanism"] == names.SUBSPACE]
    statements = []
    for (epsilon, verdict), minimum in PROMISES.items():
        if row := find(ours, epsilon=epsilon, verdict=verdict):
            says = f"as shipped, ε = {epsilon:g}: {verdict} ≥ {minimum:g}"
            statements.append(Statement(says, _measured(row), row["relative_cbr"] >= minimum))
    for verdict, level in ((WARNED, "warn_level"), (BLOCKED, "level")):
        if wrong := [row["wrong_a_day"] for row in ours if row["verdict"] == verdict]:
            mean, limit = statistics.fmean(wrong), max(row[level] for row in ours)
            says = f"as shipped, numbers {verdict} in error: at most {limit:g} a day on average over ε"
            statements.append(Statement(says, f"{mean:.3f}, at one ε {max(wrong):.3f}", mean <= limit))
    return statements


def _measured(row: Row) -> str:
    return (
        f"{row['relative_cbr']:.2f} ± {row['relative_cbr_sd']:.2f}: {row['cbr']:.1%} of all calls, "
        f"{row['relative_to_week']:.2f} of a list over seven days"
    )


def _choices() -> list[tuple[str, Setting]]:
    return [(choice, shipped(DEFAULT, **changes)) for choice, changes in CHOICES.items()]


def _defaults_settings(_: bool) -> list[Setting]:
    return [*_without_privacy(), *(setting for _, setting in _choices())]


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "real",
            "What the service blocks of real complaints (θ = 10)",
            "beyond the paper: today's spam, as the service decides",
            _real_settings,
            _rows,
            _real_statements,
        ),
        Experiment(
            "defaults",
            "What level, tolerance, tiers and hints buy (θ = 10)",
            "the shipped profiles, with one default changed",
            _defaults_settings,
            lambda results: [row for row in _rows(results) if row["choice"]],
            lambda _: [],
        ),
    )
}
