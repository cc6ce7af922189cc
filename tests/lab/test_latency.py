"""The latency study in small, and what a plan says of the length of rounds."""

import json
from pathlib import Path

import pytest

from hushcall.decoding import planning
from hushcall.decoding.planning import Wait, best_hours, listed_at
from hushcall.mechanisms.profiles import DEFAULT, PROFILES
from hushcall_lab.study import latency

BURST = [(9 + place / 10, 2.0) for place in range(100)]
HEADER = "Company_Phone_Number,Created_Date,Consumer_Area_Code\n"


def test_a_days_round_lists_at_the_end_of_the_next_day() -> None:
    assert listed_at(DEFAULT, 1000, BURST, 24, 400) == pytest.approx(24 + 0.95 * 24)
    hourly = listed_at(DEFAULT, 1000, BURST, 1, 400)
    assert hourly is not None
    assert 20 < hourly < 40
    assert hourly % 1 == pytest.approx(0.95)


def test_no_report_is_lost_between_rounds() -> None:
    for hours in planning.ROUND_HOURS:
        assert sum(planning._reports_by_round(BURST, hours)) == pytest.approx(200)
    assert planning._reports_by_round([(0.0, 1.0), (0.5, 1.0)], 24)[:2] == [1.0, 1.0]


def test_too_few_calls_or_phones_are_never_listed() -> None:
    assert listed_at(DEFAULT, 1000, BURST[:20], 1, 400) is None
    assert listed_at(DEFAULT, 12, [(1.0, 12.0)], 1, 400) is None


def test_a_plan_says_day_where_hours_lose_what_a_day_finds() -> None:
    rows = planning.waits(DEFAULT, 1000, 80, 400)
    hourly, daily = rows[0], rows[-1]
    assert [row.round_hours for row in rows] == [1, 3, 6, 24]
    assert (hourly.phones, daily.phones) == (41, 1000)
    assert hourly.least_calls is not None
    assert daily.least_calls is not None
    assert daily.least_calls <= 80 < hourly.least_calls
    assert best_hours(rows, 80) == 24
    assert best_hours(rows, 10 * hourly.least_calls) < 24
    assert best_hours([], 80) == best_hours([Wait(1, 1, None, None)], 80) == 24


def test_anonymous_phones_have_rounds_of_six_hours_at_least() -> None:
    assert [row.round_hours for row in planning.waits(PROFILES["crowd"], 100_000, 2000)] == [6, 24]


def test_the_study_is_drawn(tmp_path: Path) -> None:
    made = latency.document(None, quick=True)
    assert json.loads(json.dumps(made)) == made
    hourly, daily = made["rows"][-4], made["rows"][-1]
    assert (hourly["round_hours"], daily["round_hours"]) == (1, 24)
    assert hourly["median_hours"] < daily["median_hours"] - 12
    assert {row["scale"] for row in made["rows"] if row["pays"]} == {10, 100}
    latency.draw(made["rows"], made["title"], tmp_path / "latency.svg")
    assert "S = 100" in (tmp_path / "latency.svg").read_text(encoding="utf-8")


def test_complaints_have_their_time_of_day(tmp_path: Path) -> None:
    file = tmp_path / "complaints.csv"
    rows = [f"2025550143,2024-03-0{day} 0{hour}:30:00,212" for day in (1, 2) for hour in (6, 7)]
    file.write_text(HEADER + "\n".join([*rows, "none,2024-03-01 06:30:00,212"]) + "\n", encoding="utf-8")
    ((daily, moments),) = latency.complaints(file)
    assert daily == 2
    assert [moment % 24 for moment in moments] == pytest.approx([6.5, 7.5, 6.5, 7.5], abs=14)
    assert moments[2] - moments[0] == 24
