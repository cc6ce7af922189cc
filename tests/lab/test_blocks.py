"""The study of hundreds: a few days of it, a picture, and a model that agrees with the decoder."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hushcall.protocol.numbers import NANP
from hushcall_lab.data.datasets import Calls
from hushcall_lab.study import blocks, study
from hushcall_lab.study.blocks import CASES, PROFILE, SCALE, covered

DAYS = 10


def month() -> Calls:
    """Each day one number calls 40 people, and a hundred is called from with two calls each, in one area code."""
    generator = np.random.default_rng(1)
    day = np.repeat(np.arange(DAYS), 300)
    suffixes = np.where(
        np.tile(np.arange(300), DAYS) < 40,
        5_550_143,
        np.where(
            np.tile(np.arange(300), DAYS) < 200,
            8_880_100 + np.tile(np.arange(300), DAYS) // 2 % 100,
            generator.integers(NANP.first_suffix, NANP.suffixes, len(day)),
        ),
    )
    return Calls.of(datetime.date(2020, 2, 17), day, np.full(len(day), 202), suffixes, np.zeros(len(day)))


def test_the_model_covers_what_ranges_add() -> None:
    calls = month()
    shares = {
        percent: covered(calls, replace(PROFILE, hundreds=percent), 10, 1, hints=0.0)
        for percent in (0, PROFILE.hundreds)
    }
    alone, asked = shares[0], shares[PROFILE.hundreds]
    assert alone["numbers"] == alone["covered"] == pytest.approx(40 / 300, abs=0.03)
    assert asked["numbers"] == pytest.approx(40 / 300, abs=0.03)
    assert asked["covered"] == pytest.approx(200 / 300, abs=0.05)
    assert asked["wrong_ranges_a_day"] <= 0.1


def test_a_quick_study_has_every_row_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "QUICK_DAYS", 1)
    steps: list[tuple[int, int]] = []
    document = blocks.document(month(), quick=True, progress=lambda done, total: steps.append((done, total)))
    rented = [row for row in document["rows"] if row["part"] == "rented"]
    assert [row["case"] for row in rented] == list(CASES)
    assert [row["range_found"] for row in rented] == [1, 1, 0, 0, 0]
    assert [row["number_found"] for row in rented] == [0, 0, 1, 1, 0]
    assert [(row["scale"], row["hundreds"]) for row in document["rows"] if row["part"] == "month"] == [
        (SCALE, percent) for percent in blocks.PERCENTS
    ]
    *of_a_day, of_the_month = document["statements"]
    assert all(statement["agrees"] for statement in of_a_day), of_a_day
    assert not of_the_month["agrees"], "so many phones find each of these numbers by itself"
    blocks.draw(document["rows"], document["title"], tmp_path / "blocks.svg")
    blocks.draw(rented, document["title"], tmp_path / "rented.svg")
    assert (tmp_path / "blocks.svg").stat().st_size > 10_000
    assert "blocks" in study.names()
    assert steps[-1][0] == steps[-1][1]
