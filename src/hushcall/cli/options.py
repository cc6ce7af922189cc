"""Options that several commands share: which profile, and what to change in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.scheme import Family
from hushcall.mechanisms.schemes import SCHEMES, scheme_named
from hushcall.profiles import DEFAULT, PROFILES, TAU, Profile, profile_named

PROFILE_HELP = f"A named set of parameters: {', '.join(PROFILES)}."
MECHANISM_HELP = f"Instead of the profile's: {', '.join(SCHEMES)}."


def chosen_profile(
    profile: str | None,
    mechanism: str | None,
    epsilon: float | None,
    tau: int | None,
    level: float | None = None,
    list_size: int | None = None,
    tolerance: int | None = None,
    windows: Sequence[int] | None = None,
) -> Profile:
    """The profile that a command runs with: a named one with the given changes.

    A mechanism other than the profile's own brings its own τ: the histograms' gate is 143.
    """
    base = profile_named(profile) if profile else DEFAULT
    if mechanism is not None:
        family = scheme_named(mechanism).family
        if profile is None and family is Family.HISTOGRAM:
            base = PROFILES["paper"]
        tau_of_its_own = base.tau if family is Family.OURS else TAU
        base = replace(
            base, name=mechanism, reason="as given", mechanism=mechanism, tau=tau_of_its_own, **_able(mechanism)
        )
    if list_size is not None and not base.scheme.counts_apart:
        able = ", ".join(row.name for row in SCHEMES.values() if row.counts_apart)
        raise InvalidParameter("list_size", f"go with one of {able}", base.mechanism)
    changes: dict[str, Any] = {
        "epsilon": epsilon,
        "tau": tau,
        "level": level,
        "list_size": list_size,
        "tolerance": tolerance,
    }
    changes["windows"] = tuple(windows) if windows else None
    return replace(base, **{key: value for key, value in changes.items() if value is not None})


def _able(mechanism: str) -> dict[str, Any]:
    """What a profile's mechanism can do and another one cannot is left out."""
    scheme = scheme_named(mechanism)
    return ({} if scheme.tolerates else {"tolerance": 0}) | ({} if scheme.pools else {"windows": (1,)})


def budget_in_words(profile: Profile) -> str:
    """What the budget is made of: the histograms split theirs between finding and counting."""
    if profile.scheme.counts_apart:
        return f"ε = {profile.epsilon:g} ({float(profile.epsilon_hh):g} to find, {profile.epsilon_olh:g} to count)"
    return f"ε = {profile.epsilon:g}"
