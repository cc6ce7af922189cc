"""The privacy budget: what a report reveals, and what rounds would find with another budget.

The what-if planner calculates as ``hushcall plan`` does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from hushcall.errors import HushcallError
from hushcall.mechanisms.privacy.statement import Deployment, statement
from hushcall.mechanisms.profiles import DEFAULT, Profile
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.protocol.numbers import NumberingPlan
from hushcall.server.db import schema
from hushcall.server.db.store import Store

if TYPE_CHECKING:
    from hushcall.decoding.planning import Outlook

SIZES = (1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Budget:
    profile: Profile
    window_days: int
    relay: bool = False

    @property
    def factor(self) -> float:
        """e^ε, the largest change of the odds of any guess about the reported number."""
        return math.exp(self.profile.epsilon)

    @property
    def certainty(self) -> float:
        """The largest posterior of an even guess: e^ε / (1 + e^ε)."""
        return 1 / (1 + math.exp(-self.profile.epsilon))


@dataclass(frozen=True)
class AnonymitySet:
    """So many reports, ``anonymous`` ones among them, and the ε of one of these.

    Against readers of the list, who know of no report whose it is, and against the server, which does of the others.
    """

    size: int
    anonymous: int
    kind: str
    readers: float
    server: float


def sets_of_any_size(budget: Budget) -> list[AnonymitySet]:
    return [_set(budget, size, size, "") for size in SIZES]


def sets_of_newest_round(store: Store, budget: Budget) -> list[AnonymitySet]:
    """The smallest, median and largest set of the newest round. For operators: it tells how many phones exist."""
    rows = schema.buckets.c
    newest = sa.select(sa.func.max(rows.round)).scalar_subquery()
    anonymous = sa.func.coalesce(rows.anonymous, 0).label("anonymous")
    query = sa.select(rows.users, anonymous).where(rows.round == newest, rows.runs.is_(True))
    sizes = [(row.users, row.anonymous) for row in store.rows(query.order_by(anonymous, rows.users))]
    if len(sizes) < 2:
        return [_set(budget, size, nameless, "all together") for size, nameless in sizes]
    places = (("smallest", 0), ("median", len(sizes) // 2), ("largest", -1))
    return [_set(budget, *sizes[place], kind=kind) for kind, place in places]


def _set(budget: Budget, size: int, anonymous: int, kind: str) -> AnonymitySet:
    profile = budget.profile

    def against(crowd: int) -> tuple[float, float]:
        crowd = max(crowd, 1)
        return _readers_and_server(
            Deployment(profile.epsilon, crowd, profile.bucketed, profile.anonymous, budget.relay)
        )

    return AnonymitySet(size, anonymous, kind, against(size)[0], against(anonymous)[1])


@lru_cache(maxsize=256)
def _readers_and_server(deployment: Deployment) -> tuple[float, float]:
    readers, server, _ = statement(deployment)
    return readers.report, server.report


OFFERED = {
    row.name: "area code in the clear" if row.bucketed else "number protected whole"
    for row in MECHANISMS.values()
    if row.pools
}
EPSILONS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
_LIMITS = {"users": (1, 2_000_000), "tau": (0, 100_000), "spam": (0, 2_000_000), "tolerance": (0, 10_000)}


@dataclass(frozen=True)
class PlanForm:
    profile: Profile
    users: int = 1000
    spam: int = 150
    buckets: int = 1  # the default of ``hushcall plan``


@dataclass(frozen=True)
class PlanRow:
    """The outlook for one ε. ``wrong`` bounds the expected number of wrong listings in a round."""

    outlook: Outlook
    wrong: float | None
    chosen: bool


@dataclass(frozen=True)
class Plan:
    form: PlanForm
    problems: Mapping[str, str]
    rows: tuple[PlanRow, ...] = ()


def plan(form: Mapping[str, str], default: Profile, numbering: NumberingPlan) -> Plan:
    start = replace(DEFAULT, epsilon=default.epsilon, tau=default.tau, tolerance=default.tolerance)
    if default.mechanism in OFFERED:
        start = replace(start, mechanism=default.mechanism, windows=default.windows)
    chosen, problems = _read(form, PlanForm(start), len(numbering.area_codes))
    if problems:
        return Plan(chosen, problems)
    rows = []
    try:
        for epsilon in sorted({*EPSILONS, chosen.profile.epsilon}):
            other = replace(chosen, profile=replace(chosen.profile, epsilon=epsilon))
            rows.append(PlanRow(*_outlook(other, numbering), chosen=other == chosen))
    except HushcallError as error:
        return Plan(chosen, {"epsilon": f"This cannot be planned: {error}."})
    return Plan(chosen, {}, tuple(rows))


def _read(form: Mapping[str, str], start: PlanForm, areas: int) -> tuple[PlanForm, dict[str, str]]:
    problems: dict[str, str] = {}
    values: dict[str, Any] = {"mechanism": form.get("mechanism", start.profile.mechanism)}
    for name, (low, high) in {**_LIMITS, "buckets": (1, areas)}.items():
        text = form.get(name, "").strip().replace(",", "")
        if text and text.isascii() and text.isdigit() and len(text) <= 12 and low <= int(text) <= high:
            values[name] = int(text)
        elif text:
            problems[name] = f"This must be a whole number from {low:,} to {high:,}."
    with suppress(ValueError):
        values["epsilon"] = float(form.get("epsilon", "").strip() or start.profile.epsilon)
    if not 0.1 <= values.get("epsilon", 0.0) <= 16:
        problems["epsilon"] = "This must be a number from 0.1 to 16."
    if values["mechanism"] not in OFFERED:
        problems["mechanism"] = f"This must be one of {', '.join(OFFERED)}."
    valid = {name: value for name, value in values.items() if name not in problems}
    own = {name: valid.pop(name) for name in ("epsilon", "mechanism", "tau", "tolerance") if name in valid}
    plan_form = replace(start, profile=replace(start.profile, **own), **valid)
    if not problems and plan_form.spam > plan_form.users:
        problems["spam"] = "This must be at most the number of phones."
    return plan_form, problems


@lru_cache(maxsize=512)
def _outlook(form: PlanForm, numbering: NumberingPlan) -> tuple[Outlook, float | None]:
    # These import scipy and numba, which takes a second or two: too long for the server's start.
    from hushcall.decoding import planning
    from hushcall.mechanisms.bucket_setup import open_bucket
    from hushcall.protocol.seeds import SEED_BYTES

    profile = form.profile
    outlook = planning.outlook(profile, form.users, form.spam, form.buckets, numbering)
    aggregator = open_bucket(profile, numbering, form.users, bytes(SEED_BYTES), form.buckets)
    wrong = None
    if aggregator is not None:
        rates = [aggregator.wrong(form.users * length, profile.tau) for length in profile.windows]
        wrong = sum(rate for rate in rates if rate is not None)
    return outlook, wrong
