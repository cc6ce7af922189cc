"""The scale benchmark in short: the exponent is a least-squares slope, and every figure that is promised is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.engines.test_engines import CardOfNumpy
from typer.testing import CliRunner

from hushcall.cli.app import app
from hushcall.engines.gpu_card import GpuEngine
from hushcall.engines.local import LocalEngine
from hushcall.lab.bench import gpu_archives, growth
from hushcall.lab.bench.scale import profile_for
from hushcall.lab.data import archive_synthesis
from hushcall.profiles import PROFILES


@pytest.mark.parametrize("power", [0.5, 1.0, 1.05, 2.0])
def test_the_exponent_is_the_power_of_the_sizes(power: float) -> None:
    points = [(size, 3e-7 * size**power) for size in growth.sizes_up_to(1e7)]
    assert growth.exponent(points) == pytest.approx(power)


def test_all_points_weigh_and_not_the_ends_alone() -> None:
    slope = growth.exponent([(1, 1), (10, 100), (100, 100)])
    assert slope == pytest.approx(1.0)
    bent = growth.exponent([(1, 1), (10, 20), (1000, 1000)])
    assert bent is not None
    assert bent != pytest.approx(1.0)
    assert growth.exponent([(7, 3)]) is None


def test_sizes_grow_by_half_a_decade() -> None:
    assert growth.sizes_up_to(1e7) == [100_000, 316_228, 1_000_000, 3_162_278, 10_000_000]
    assert growth.sizes_up_to(2e5) == [100_000]


def test_a_fed_bucket_has_every_figure(tmp_path: Path) -> None:
    archive_synthesis.invent(str(tmp_path), 3000, profile_for(3.5), 1, areas=1, workers=0)
    row = growth.fed(str(tmp_path))
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

    case = gpu_archives.Case("small", PROFILES["sensitive"], 1500, areas=1)
    monkeypatch.setattr(gpu_archives, "PLANTED", 2)
    right = gpu_archives.measure(case, {"gpu": lambda: GpuEngine(CardOfNumpy), "local": lambda: LocalEngine(0)}, 0)
    assert right["same_bytes"]
    assert right["gpu"]["planted_found"] == 2
    wrong = gpu_archives.measure(case, {"gpu": lambda: GpuEngine(Forgetful), "local": lambda: LocalEngine(0)}, 0)
    assert not wrong["same_bytes"]
    assert wrong["reports_sha256"] == right["reports_sha256"]
