"""``hushcall-lab data`` as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hushcall.errors import HushcallError, InvalidData, InvalidParameter
from hushcall_lab.cli.data import data

TABLE = (
    "date,caller,consumer_area_code\n" + "2020-02-17,2025550143,212\n" * 5 + "2020-02-18,8005550199,\n2020-02-18,,1\n"
)


def run(*arguments: object) -> str:
    """The command's output; an error of ours comes through, as it does to ``cli.main``, which makes it one line."""
    result = CliRunner().invoke(data, [str(argument) for argument in arguments])
    if isinstance(result.exception, HushcallError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "complaints.csv"
    path.write_text(TABLE)
    return path


def test_describe_counts_and_saves(table: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.csv.gz"
    found = run_json("describe", table, "--save", saved)
    assert (found["calls"], found["days"], found["saved"]) == (6, 2, str(saved))
    assert found["problems"] == {"no number": 1}
    assert {area: count for area, count in found["calls_by_area_code"].items() if count} == {"202": 5, "800": 1}
    assert run_json("describe", saved) == found | {"problems": {}, "saved": None}


def test_describe_says_what_it_left_out(table: Path) -> None:
    text = run("describe", table)
    assert "6 calls, 2020-02-17 to 2020-02-18" in text
    assert "problems no number" in text


@pytest.mark.slow
def test_synth_writes_a_month_that_loads(tmp_path: Path) -> None:
    made = run_json("synth", tmp_path / "month.csv.gz", "--seed", 5)
    read = run_json("describe", tmp_path / "month.csv.gz")
    assert (made["calls"], made["days"]) == (read["calls"], read["days"]) == (447_887, 29)
    assert read["problems"] == {}


def test_describe_tells_facts(table: Path) -> None:
    facts = run_json("describe", table)
    assert (facts["calls"], facts["numbers"], facts["busiest"]["calls"]) == (6, 2, 5)
    assert "pairs with one call" in run("describe", table)


def test_bad_input_is_one_error(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="exist"):
        run("describe", tmp_path / "none.csv")
    with pytest.raises(InvalidParameter, match=r"end with \.csv"):
        run("synth", tmp_path / "month.txt")
    with pytest.raises(InvalidParameter, match=r"end with \.csv"):
        run("describe", table, "--save", tmp_path / "month.txt")
