"""``hushcall simulate --data``: a day of somebody's own calls."""

from pathlib import Path

import pytest
from tests.cli.test_commands import run, run_json

SPAMMER = "2025550143"


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """Two days: the second is the busier one, with a spammer who called 200 phones."""
    path = tmp_path / "mine.csv"
    rows = ["date,caller", *(f"2021-05-01,20255502{i:02}" for i in range(40))]
    rows += [f"2021-05-02,{SPAMMER}"] * 200 + [f"2021-05-02,202{3_000_000 + 7919 * i}" for i in range(300)]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_its_busiest_day_is_played(calls: Path) -> None:
    found = run_json("simulate", "--data", str(calls))
    assert found["day"] == "2021-05-02 of mine.csv"
    assert found["phones"] == 500
    assert [(row["number"], row["true"], row["found"]) for row in found["numbers"]] == [(f"+1{SPAMMER}", 200, True)]
    assert found["wrong"] == []
    assert "The busiest callers of 2021-05-02 of mine.csv" in " ".join(
        run("simulate", "--data", str(calls)).stdout.split()
    )


def test_another_day_and_more_phones(calls: Path) -> None:
    found = run_json("simulate", "--data", str(calls), "--day", "2021-05-01", "--users", "100")
    assert (found["phones"], found["numbers"]) == (100, [])


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--day", "2021-05-03"), "lie from 2021-05-01 to 2021-05-02, which the data hold"),
        (("--day", "soon"), "be a date like"),
        (("--users", "10"), "be at least the 500 phones"),
        (("--spammers", "3"), "be left out with --data"),
    ],
)
def test_what_does_not_fit_is_told(calls: Path, words: tuple[str, ...], rule: str) -> None:
    assert rule in run("simulate", "--data", str(calls), *words, code=2).stderr


def test_a_day_needs_data() -> None:
    assert "come with --data" in run("simulate", "--day", "2021-05-01", code=2).stderr
