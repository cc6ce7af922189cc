"""The scale benchmark in short: the exponent is a least-squares slope, and every figure that is promised is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.decoding.card_of_numpy import CardOfNumpy
from typer.testing import CliRunner

from hushcall.decoding.backends import ProcessBackend
from hushcall.decoding.gpu_backend import GpuBackend
from hushcall.mechanisms.profiles import PROFILES
from hushcall_lab.bench import gpu, scale
from hushcall_lab.cli import app
from hushcall_lab.data import archive_synthesis


@pytest.mark.parametrize("power", [0.5, 1.0, 1.05, 2.0])
def test_the_exponent_is_the_power_of_the_sizes(power: float) -> None:
    points = [(size, 3e-7 * size**power) for size in scale.sizes_up_to(1e7)]
    assert scale.exponent(points) == pytest.approx(power)


def test_all_points_weigh_and_not_the_ends_alone() -> None:
    slope = scale.exponent([(1, 1), (10, 100), (100, 100)])
    assert slope == pytest.approx(1.0)
    bent = scale.exponent([(1, 1), (10, 20), (1000, 1000)])
    assert bent is not None
    assert bent != pytest.approx(1.0)
    assert scale.exponent([(7, 3)]) is None


def test_sizes_grow_by_half_a_decade() -> None:
    assert scale.sizes_up_to(1e7) == [100_000, 316_228, 1_000_000, 3_162_278, 10_000_000]
    assert scale.sizes_up_to(2e5) == [100_000]


def test_a_fed_bucket_has_every_figure(tmp_path: Path) -> None:
    archive_synthesis.invent(str(tmp_path), 3000, scale.profile_for(3.5), 1, areas=1, workers=0)
    row = scale.feed(str(tmp_path))
    assert row["reports"] == 3000
    assert all(value > 0 for value in row.values())
    assert row["reports_a_second"] == pytest.approx(3000 / row["core_seconds"], rel=0.1)


def test_its_help_says_what_the_exponent_is() -> None:
    text = CliRunner().invoke(app, ["bench", "scale", "--help"], env={"COLUMNS": "200"}).stdout
    assert "log(processor seconds) over log(reports)" in text


def test_a_cards_bytes_are_compared_with_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(CardOfNumpy):
        """A card that forgets the last thing it found: the comparison must notice."""

        def at_least(self, least: Any, start: int, stop: int) -> Any:
            places, sums = super().at_least(least, start, stop)
            return places[:-1], sums[:-1]

    case = gpu.Case("small", PROFILES["sensitive"], 1500, areas=1)
    monkeypatch.setattr(gpu, "PLANTED", 2)
    right = gpu.measure(case, {"gpu": lambda: GpuBackend(CardOfNumpy), "local": lambda: ProcessBackend(0)}, 0)
    assert right["same_bytes"]
    assert right["gpu"]["planted_found"] == 2
    wrong = gpu.measure(case, {"gpu": lambda: GpuBackend(Forgetful), "local": lambda: ProcessBackend(0)}, 0)
    assert not wrong["same_bytes"]
    assert wrong["reports_sha256"] == right["reports_sha256"]
