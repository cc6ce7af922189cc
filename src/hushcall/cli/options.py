"""Options that several commands share: which profile, and what to change in it."""

from __future__ import annotations

from dataclasses import replace

from hushcall.errors import InvalidParameter
from hushcall.profiles import (
    DEFAULT,
    HISTOGRAMS,
    MECHANISMS,
    PROFILES,
    RIVALS,
    TAU,
    Profile,
    profile_named,
)

PROFILE_HELP = f"A named set of parameters: {', '.join(PROFILES)}."
MECHANISM_HELP = f"Instead of the profile's: {', '.join(MECHANISMS)}."


def chosen_profile(
    profile: str | None,
    mechanism: str | None,
    epsilon: float | None,
    tau: int | None,
    level: float | None = None,
    list_size: int | None = None,
) -> Profile:
    """The profile that a command runs with: a named one with the given changes.

    A mechanism other than the profile's own brings its own τ: the histograms' gate is 143.
    """
    base = profile_named(profile) if profile else DEFAULT
    if mechanism is not None:
        if mechanism not in MECHANISMS:
            raise InvalidParameter("mechanism", f"be one of {', '.join(MECHANISMS)}", mechanism)
        histogram = mechanism in (*HISTOGRAMS, "sh-original", *RIVALS)
        if profile is None and mechanism not in RIVALS and histogram:
            base = PROFILES["paper"]
        base = replace(base, name=mechanism, reason="as given", mechanism=mechanism, tau=TAU if histogram else base.tau)
    if list_size is not None and base.mechanism not in HISTOGRAMS:
        raise InvalidParameter("list_size", f"go with one of {', '.join(HISTOGRAMS)}", base.mechanism)
    changes = {"epsilon": epsilon, "tau": tau, "level": level, "list_size": list_size}
    return replace(base, **{key: value for key, value in changes.items() if value is not None})  # type: ignore[arg-type]


def budget_in_words(profile: Profile) -> str:
    """What the budget is made of: the histograms split theirs between finding and counting."""
    if profile.mechanism in HISTOGRAMS:
        return f"ε = {profile.epsilon:g} ({float(profile.epsilon_hh):g} to find, {profile.epsilon_olh:g} to count)"
    return f"ε = {profile.epsilon:g}"
