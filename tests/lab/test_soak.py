"""The soak: what grows is noticed, and a short one runs through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from hushcall_lab.cli import app
from hushcall_lab.proofs import soak
from hushcall_lab.proofs.soak import Sample, SoakResult

SECONDS, PERIOD = 3600, 20


def judged(change: Callable[[Sample], Sample]) -> SoakResult:
    """An hour in which rounds write five lines each, changed."""
    flat = (
        Sample(float(at), at // PERIOD, 700.0, 60, 4000.0, 5 * (at // PERIOD), 0.05 * at) for at in range(0, SECONDS, 2)
    )
    result = SoakResult("sqlite", 1, PERIOD, float(SECONDS))
    result.judge([change(sample) for sample in flat])
    return result


def test_an_hour_in_which_nothing_grows() -> None:
    result = judged(lambda sample: sample)
    assert result.broken == ""
    assert (result.growth, result.disk_kb_a_round) == (1.0, 0.0)
    assert result.processor_share == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: replace(s, memory_mb=700 + s.at / 40), "memory grew from 734 to 771 MB"),
        (lambda s: replace(s, descriptors=60 + s.round // 20), "descriptors grew from 63 to 67"),
        (lambda s: replace(s, disk_kb=65.0 * s.round), "a round left 65 kB"),
        (lambda s: replace(s, log_lines=5 * s.round + max(s.round - 105, 0) * 3), "log lines a round went from 5.0 to"),
    ],
    ids=["memory", "descriptors", "disk", "log"],
)
def test_what_grows_is_noticed(change: Callable[[Sample], Sample], words: str) -> None:
    assert words in judged(change).broken


def test_a_server_that_was_away_is_no_proof() -> None:
    result = SoakResult("sqlite", 1, PERIOD, float(SECONDS))
    result.judge([Sample(10.0, 1, 700.0, 60, 4000.0, 5, 0.5)])
    assert "was away" in result.broken
    assert len(result.lines()) == 2


def test_what_was_lost_stays_the_reason() -> None:
    result = SoakResult("sqlite", 1, PERIOD, float(SECONDS), broken="round 3: 1 of 9 acknowledged reports were lost")
    assert result.lines()[1] == "BROKEN: round 3: 1 of 9 acknowledged reports were lost"


def test_its_help_says_when_it_kills() -> None:
    text = CliRunner().invoke(app, ["prove", "soak", "--help"], env={"COLUMNS": "200"}).stdout
    assert "the first and the last sixth of the time" in text


@pytest.mark.slow
def test_a_short_soak_loses_nothing() -> None:
    result = soak.prove(72, 8)
    assert (result.lost, result.twice) == (0, 0)
    assert result.rounds > 0
    assert result.kills > 0
    assert result.acknowledged > 0
