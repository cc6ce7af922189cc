"""Profiles: each can be run as it stands, says what it exposes, and cannot be built wrong."""

import json
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import pytest

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.profiles import DEFAULT, OPEN_TOLERANCE, PROFILES, TOLERANCE, WINDOWS, Profile, profile_named
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.protocol.exact import MAX_EPSILON

ALL = list(PROFILES.values())


@pytest.mark.parametrize("profile", ALL, ids=lambda profile: profile.name)
def test_every_profile_is_found_by_its_name_and_gives_a_reason(profile: Profile) -> None:
    assert profile_named(profile.name) is profile
    assert len(profile.reason) > 20
    assert 0 < profile.epsilon <= MAX_EPSILON


def test_the_papers_profile_is_the_papers() -> None:
    paper = PROFILES["paper"]
    assert (paper.mechanism, float(paper.epsilon_hh), paper.epsilon_olh) == ("sh-extended", 8.8, 3.0)
    assert (paper.tau, paper.repetitions) == (143, 2)


def test_the_names_keep_their_promises() -> None:
    assert PROFILES["strong"].epsilon < PROFILES["balanced"].epsilon < PROFILES["sensitive"].epsilon
    assert PROFILES["balanced"].epsilon <= PROFILES["paper"].epsilon / 2.9
    for name in ("strong", "balanced", "sensitive"):
        assert PROFILES[f"{name}-whole"].epsilon == PROFILES[name].epsilon
    assert max(ALL, key=lambda profile: profile.epsilon) is PROFILES["cheapest"]
    assert DEFAULT.name == "balanced"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_only_mechanisms_that_report_whole_numbers_keep_the_area_code(mechanism: str) -> None:
    clear = Profile("mine", "a test", mechanism, 8.0, 10).in_the_clear
    assert clear == ("nothing" if mechanism in ("whole-number", "sh-original") else "the area code")


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("mechanism", {"mechanism": "magic"}),
        ("mechanism", {"mechanism": ""}),
        ("epsilon", {"epsilon": 0.0}),
        ("epsilon", {"epsilon": -1.0}),
        ("epsilon", {"epsilon": float("nan")}),
        ("epsilon", {"epsilon": float("inf")}),
        ("epsilon", {"epsilon": "4"}),
        ("epsilon", {"epsilon": 3.0, "mechanism": "sh-basic"}),
        ("epsilon_olh", {"epsilon_olh": 0.0, "mechanism": "sh-tuned"}),
        ("tau", {"tau": -1}),
        ("tau", {"tau": 1.5}),
        ("tau", {"tau": True}),
        ("level", {"level": 0.0}),
        ("level", {"level": 1.0}),
        ("level", {"level": float("nan")}),
        ("T", {"repetitions": 0}),
        ("T", {"repetitions": 65}),
        ("K", {"least_channels": 0}),
        ("K", {"least_channels": 3}),
        ("K", {"least_channels": 1 << 17}),
        ("list_size", {"list_size": -1}),
        ("tolerance", {"tolerance": -1}),
        ("tolerance", {"tolerance": 0.5}),
        ("windows", {"windows": ()}),
        ("windows", {"windows": (0, 1)}),
        ("windows", {"windows": (2, 1)}),
        ("windows", {"windows": (1, 1)}),
        ("windows", {"windows": (1, 32)}),
        ("list_size", {"list_size": 10_001}),
    ],
)
def test_a_profile_cannot_be_built_wrong(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=f"^{field} must ") as caught:
        replace(DEFAULT, **change)
    assert caught.value.field == field


@pytest.mark.parametrize("mechanism", ["sh-basic", "sh-extended", "sh-tuned"])
def test_a_histogram_needs_more_than_it_spends_on_counting(mechanism: str) -> None:
    with pytest.raises(InvalidParameter, match=r"exceed epsilon_olh \(3\)"):
        Profile("mine", "a test", mechanism, 3.0, 10)
    assert Profile("mine", "a test", mechanism, 3.1, 10).epsilon_hh == Fraction(3.1) - 3


@pytest.mark.parametrize("mechanism", ["subspace", "whole-number"])
def test_a_subspace_needs_nothing_set_aside_for_counting(mechanism: str) -> None:
    assert Profile("mine", "a test", mechanism, 0.5, 10).epsilon == 0.5


def test_profiles_cannot_be_changed_after_the_fact() -> None:
    with pytest.raises(FrozenInstanceError):
        DEFAULT.epsilon = 40.0  # type: ignore[misc]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidParameter, match="profile must be one of paper, strong, balanced") as caught:
        profile_named("weak")
    assert caught.value.value == "weak"


def test_what_a_server_keeps_of_a_profile_reads_as_it_always_did() -> None:
    """Servers have rows like this one in their databases."""
    kept: dict[str, Any] = {
        "name": "paper",
        "reason": "the paper's protocol: modified SH, extended randomiser, 8.8 + 3",
        "mechanism": "sh-extended",
        "epsilon": 11.8,
        "tau": 143,
        "level": 1e-3,
        "epsilon_olh": 3.0,
        "rounds": 2,
        "least_channels": 64,
        "accounting": "paper",
        "list_size": 0,
    }
    paper = replace(PROFILES["paper"], tolerance=0)
    assert Profile.from_plain(kept) == paper
    assert paper.to_plain() == kept | {"tolerance": 0, "windows": [1]}
    assert Profile.from_plain(paper.to_plain()) == paper
    assert kept["rounds"] == paper.repetitions


def test_services_look_back_a_week_and_withstand_a_few_lies() -> None:
    for profile in ALL:
        plain = profile.name in ("paper", "cheapest")  # as the paper has it; for tests
        assert (profile.windows, profile.tolerance) == (((1,), 0) if plain else (WINDOWS, TOLERANCE))
        assert (profile.daily.windows, profile.daily.share) == ((1,), profile.level)
    assert TOLERANCE < OPEN_TOLERANCE


def test_windows_and_tolerance_go_with_mechanisms_that_know_them() -> None:
    weekly = replace(DEFAULT, windows=WINDOWS, tolerance=20)
    assert Profile.from_plain(json.loads(json.dumps(weekly.to_plain()))) == weekly
    assert weekly.share == DEFAULT.level / 4
    with pytest.raises(InvalidParameter, match=r"^windows must be 1 alone for sh-extended"):
        replace(PROFILES["paper"], windows=WINDOWS)
    with pytest.raises(InvalidParameter, match=r"^tolerance must be 0 for pem"):
        Profile("mine", "a test", "pem", 4.0, 143, tolerance=1)
