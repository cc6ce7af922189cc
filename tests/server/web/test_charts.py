"""Figures as shapes: each in its own place, inside its box."""

from __future__ import annotations

from tests.server.web.seeded import Seeded

from hushcall.server.web.rendering import HEIGHT, WIDTH, Bucket, heat_map, nice, participation
from hushcall.server.web.site import overview


def test_every_bucket_has_its_own_place_and_larger_ones_are_deeper() -> None:
    made = heat_map([Bucket(code, code * code, code > 210, 0) for code in range(200, 640)])
    assert len({(cell.x, cell.y) for cell in made.cells}) == 440
    assert all(0 <= cell.x < made.width and 0 <= cell.y < made.height for cell in made.cells)
    levels = [cell.level for cell in made.cells]
    assert levels[:11] == [0] * 11
    assert levels[11:] == sorted(levels[11:])
    assert {*levels} == {0, 1, 2, 3, 4, 5}
    assert made.steps[-1] == (5, 639 * 639)


def test_one_area_code_has_one_step_and_no_empty_columns() -> None:
    made = heat_map([Bucket(202, 60, True, 1)])
    assert (made.width, made.height, made.steps) == (40, 40, ((1, 60),))


def test_bars_stay_in_their_box(seeded: Seeded) -> None:
    bars, _ = participation(overview(seeded.service.store).participation)
    assert len(bars) == 14
    for bar in bars:
        assert 0 <= bar.y - bar.refused <= bar.y + bar.height <= HEIGHT + 0.01
        assert bar.x + bar.width <= WIDTH
    assert [nice(value) for value in (0, 1, 2, 3, 7, 99, 101, 9380)] == [1, 1, 2, 5, 10, 100, 200, 10_000]
