"""Every plan that this release knows, by name: settings, rounds and lists name one, and here it becomes a value.

North America's is written down (:mod:`~hushcall.numbers.nanp`); the others were drawn from phonenumberslite's metadata
(:mod:`~hushcall.numbers.generate`) and lie beside this file. A region's two letters do for a name. Nothing is read
until it is asked for. A plan of any other region is taken from its file (:func:`take_plan`), and known by its name from
then on: a name is the digest of what the plan says, so it means the same plan wherever it was taken.

>>> plan_named("nanp-2026").country_code, plan_named("DE").country_code
(1, 49)
"""

from __future__ import annotations

from functools import cache

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.numbers.nanp import NANP
from hushcall.numbers.plan import NumberingPlan
from hushcall.numbers.plan_files import NAME_DIGITS, read_plan

SHIPPED = {
    "NANP": NANP.name,
    "DE": "de-f9328cd872b6",
    "FR": "fr-cff646aa737b",
    "GB": "gb-3b82e4d7d19d",
    "IT": "it-42a6ffaf204e",
    "ES": "es-0cc365e5a5e4",
    "AT": "at-72e92037a27b",
    "CH": "ch-07f3b0b2c86a",
    "BR": "br-c9abec834b28",
    "IN": "in-0d6e0e063610",
}
"""Region → the name of its plan. A new plan of a region has a new name; the old ones stay for lists that name them."""
PLANS = tuple(SHIPPED.values())
_TAKEN: dict[str, tuple[bytes, NumberingPlan]] = {}


def plan_named(name: str) -> NumberingPlan:
    """The plan of that name or region, or an error that lists the names there are."""
    known = SHIPPED.get(name.upper(), name)
    if known in _TAKEN:
        return _TAKEN[known][1]
    if known not in PLANS:
        raise InvalidParameter("plan", f"be one of {', '.join(SHIPPED)} or {', '.join(PLANS)}", name)
    return _loaded(known)


def take_plan(data: bytes) -> NumberingPlan:
    """The plan of a file that is not shipped; :func:`plan_named` knows it from here on.

    Its name has to hold 32 digits of its digest, so that nobody makes two plans of one name.
    """
    plan = read_plan(data)
    if plan.name in PLANS:
        return plan_named(plan.name)
    if len(plan.name.rpartition("-")[2]) < NAME_DIGITS:
        raise InvalidData("plan", f"have a name with {NAME_DIGITS} digits (hushcall plan-of writes one)", plan.name)
    return _TAKEN.setdefault(plan.name, (data, plan))[1]


def taken_file(name: str) -> bytes | None:
    """The file of a plan that was taken, for those who have to learn it."""
    return _TAKEN[name][0] if name in _TAKEN else None


@cache
def _loaded(name: str) -> NumberingPlan:
    if name == NANP.name:
        return NANP
    from importlib.resources import files  # brings tempfile and shutil, which North America's phones do not need

    return read_plan((files("hushcall.numbers") / "data" / f"{name}.json").read_bytes())
