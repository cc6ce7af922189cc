"""The what-if planner: phones, budget and threshold come in, what would be found (and found wrongly) leaves.

The same reckoning as ``hushcall plan``, which the rounds themselves use when they decide a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from hushcall.errors import HushcallError
from hushcall.mechanisms.scheme import Family
from hushcall.mechanisms.schemes import SCHEMES
from hushcall.numbers import NumberingPlan
from hushcall.profiles import DEFAULT, Profile

MECHANISMS = {
    row.name: "area code in the clear" if row.bucketed else "number protected whole"
    for row in SCHEMES.values()
    if row.family is Family.OURS
}
EPSILONS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
_LIMITS = {"users": (1, 2_000_000), "tau": (0, 100_000), "spam": (0, 2_000_000), "tolerance": (0, 10_000)}


@dataclass(frozen=True)
class Wish:
    """What the form says."""

    users: int = 1000
    epsilon: float = 4.0
    tau: int = 10
    spam: int = 150
    buckets: int = 1  # as of ``hushcall plan``: the same question has the same answer
    tolerance: int = DEFAULT.tolerance
    windows: tuple[int, ...] = DEFAULT.windows
    mechanism: str = DEFAULT.mechanism


@dataclass(frozen=True)
class Row:
    """What one ε buys. ``wrong`` is how many numbers that nobody reported a round lists, in expectation, at most.

    ``in_window`` is what the longest window finds, of ``window`` rounds.
    """

    epsilon: float
    runs: bool
    gate: int | None
    detectable: int | None
    found: float
    wrong: float | None
    bytes: int | None
    window: int = 1
    in_window: int | None = None
    chosen: bool = False


@dataclass(frozen=True)
class Plan:
    """The form as it was understood, what is wrong with it, and the table."""

    wish: Wish
    problems: Mapping[str, str]
    rows: tuple[Row, ...] = ()

    @property
    def row(self) -> Row | None:
        """The row of what was asked for, among its neighbours."""
        return next((row for row in self.rows if row.chosen), None)


def plan(form: Mapping[str, str], default: Profile, numbering: NumberingPlan) -> Plan:
    """The answer to a form; fields that are not there have the values of the round in force."""
    start = Wish(epsilon=default.epsilon, tau=default.tau, tolerance=default.tolerance)
    if default.mechanism in MECHANISMS:
        start = replace(start, mechanism=default.mechanism, windows=default.windows)
    wish, problems = _read(form, start, len(numbering.area_codes))
    if problems:
        return Plan(wish, problems)
    epsilons = sorted({*EPSILONS, wish.epsilon})
    try:
        rows = tuple(replace(row_of(replace(wish, epsilon=e), numbering), chosen=e == wish.epsilon) for e in epsilons)
    except HushcallError as error:
        return Plan(wish, {"epsilon": f"This cannot be planned: {error}."})
    return Plan(wish, {}, rows)


def _read(form: Mapping[str, str], wish: Wish, areas: int) -> tuple[Wish, dict[str, str]]:
    problems: dict[str, str] = {}
    for name, (least, most) in {**_LIMITS, "buckets": (1, areas)}.items():
        text = form.get(name, "").strip().replace(",", "")
        if not text:
            continue
        if not (text.isascii() and text.isdigit() and len(text) <= 12) or not least <= int(text) <= most:
            problems[name] = f"This must be a whole number from {least:,} to {most:,}."
        else:
            given: dict[str, Any] = {name: int(text)}
            wish = replace(wish, **given)
    text = form.get("epsilon", "").strip()
    if text:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if 0.1 <= value <= 16:
            wish = replace(wish, epsilon=value)
        else:
            problems["epsilon"] = "This must be a number from 0.1 to 16."
    if form.get("mechanism", wish.mechanism) in MECHANISMS:
        wish = replace(wish, mechanism=form.get("mechanism", wish.mechanism))
    else:
        problems["mechanism"] = f"This must be one of {', '.join(MECHANISMS)}."
    if not problems and wish.spam > wish.users:
        problems["spam"] = "This must be at most the number of phones."
    return wish, problems


@lru_cache(maxsize=512)
def row_of(wish: Wish, numbering: NumberingPlan) -> Row:
    """What these figures buy: whom they find, and how much would be listed wrongly."""
    # Brings scipy and numba, which take a second or two to import: not when the server starts.
    from hushcall.learn import planning
    from hushcall.learn.bucket_setup import open_bucket
    from hushcall.protocol.seeds import SEED_BYTES

    given = {"epsilon": wish.epsilon, "tau": wish.tau, "tolerance": wish.tolerance, "windows": wish.windows}
    profile = replace(DEFAULT, mechanism=wish.mechanism, **given)  # type: ignore[arg-type]
    outlook = planning.outlook(profile, wish.users, wish.spam, wish.buckets, numbering)
    learner = open_bucket(profile, numbering, wish.users, bytes(SEED_BYTES), wish.buckets)
    wrong = None
    if learner is not None:
        rates = [learner.wrong(wish.users * length, profile.tau) for length in profile.windows]
        wrong = sum(rate for rate in rates if rate is not None)
    return Row(
        wish.epsilon,
        outlook.runs,
        outlook.smallest_bucket,
        outlook.detectable,
        outlook.found,
        wrong,
        outlook.report_bytes,
        outlook.window,
        outlook.in_window,
    )
