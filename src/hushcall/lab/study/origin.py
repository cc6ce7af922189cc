"""Whose data an experiment runs on: what was asked for and the table come in; which claims are about it leaves.

The paper's figures are about its month of 2016, ours on real complaints about thirty days of 2020. On anybody else's
data the same experiments run and nothing is judged: a claim about other data would be neither kept nor broken by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from hushcall.lab.data.datasets import Calls

REAL_DAYS = (date(2020, 2, 17), date(2020, 3, 18))
"""The thirty days of 2020 that match the paper's month; taken where the data hold them."""


class Origin(StrEnum):
    """Where calls are from."""

    PAPER = "paper"
    """Invented, like the paper's month."""
    COMPLAINTS = "complaints of 2020"
    """The days of real complaints that our own claims are about."""
    OWN = "own"
    """Anything else."""


_EVERYWHERE = frozenset({"theory", "poisoning"})  # these look at no data
CLAIMS = {
    Origin.PAPER: _EVERYWHERE | {"data", "f1", "tau", "cbr", "rounds", "compare"},
    Origin.COMPLAINTS: _EVERYWHERE | {"data", "real", "users"},
    Origin.OWN: _EVERYWHERE,
}
"""Which experiments have claims about which data."""


def is_synthetic(data: str) -> bool:
    """Whether ``data`` asks for an invented month; anything else is a path."""
    return data == "synth" or data.startswith("synth:")


def origin_of(data: str, calls: Calls) -> Origin:
    """Where a table of calls is from; ``data`` is what was asked for."""
    if is_synthetic(data):
        return Origin.PAPER
    days = (REAL_DAYS[1] - REAL_DAYS[0]).days
    return Origin.COMPLAINTS if calls.first == REAL_DAYS[0] and calls.days == days else Origin.OWN


def in_its_own_name(name: str, found: Mapping[str, Any], data: str, calls: Calls) -> dict[str, Any]:
    """A document without claims that are not about its data, and with a title that says whose they are."""
    origin = origin_of(data, calls)
    if name in CLAIMS[origin]:
        return dict(found)
    span = f"{calls.first.isoformat()} to {calls.date(calls.days - 1).isoformat()}"
    title = str(found["title"])
    subject = title if name != "real" else f"Daily and windowed decisions{title[title.rindex(' (') :]}"
    about = f"{found['about']}; on other data than that is about, so nothing is judged"
    return {
        **found,
        "title": f"{subject}, on {Path(data).name}, {span}",
        "about": about if name not in ("real", "users") else "daily and windowed decisions on your own data",
        "statements": [],
    }
