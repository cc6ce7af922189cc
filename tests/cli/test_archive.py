"""Archives and learning from them, as a user runs them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.commands import HUSHCALL, HUSHCALL_LAB


def done(*arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    ended = subprocess.run([*HUSHCALL, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == code, ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr
    return ended


def invented(*arguments: str) -> Any:
    """An archive that hushcall-lab made up."""
    command = [*HUSHCALL_LAB, "archive", *arguments, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout)


def run(*arguments: str, code: int = 0) -> str:
    ended = done(*arguments, code=code)
    return ended.stdout + ended.stderr


def run_json(*arguments: str, code: int = 0) -> Any:
    """What it printed; that it had to compile first stands on the other stream."""
    return json.loads(done(*arguments, "--json", code=code).stdout)


@pytest.mark.slow
def test_an_invented_archive_is_described_verified_and_learnt_from(tmp_path: Path) -> None:
    where, size = str(tmp_path / "nation"), ("--reports", "3e3", "--areas", "2", "--spammers", "2")
    made = invented("--out", where, *size, "--profile", "sensitive", "--workers", "0")
    assert made["reports"] == 3000
    facts = run_json("archive", "describe", where)
    assert (facts["reports"], facts["buckets"], facts["mechanism"]) == (3000, 2, "subspace")
    assert run_json("archive", "verify", where, "--deep") == {"wrong": []}
    learnt = run_json("learn", where, "--workers", "0", "--out", str(tmp_path / "found.jsonl"))
    assert sorted(row["number"] for row in learnt["listed"]) == made["planted"]
    lines = (tmp_path / "found.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == learnt["listed"]
    next(Path(where).glob("round=1/*/*.parquet")).unlink()
    assert "missing" in run("archive", "verify", where, code=1)


@pytest.mark.slow
def test_a_week_is_decided_together_unless_rounds_are_left_out(tmp_path: Path) -> None:
    where, size = str(tmp_path / "week"), ("--reports", "600", "--areas", "1", "--spammers", "1", "--rounds", "4")
    made = invented("--out", where, *size, "--profile", "sensitive", "--workers", "0")
    learnt = run_json("learn", where, "--workers", "0")
    assert (learnt["round"], learnt["rounds"]) == (4, [1, 2, 3, 4])
    assert [row["number"] for row in learnt["listed"]] == made["planted"]
    assert learnt["listed"][0]["strict"] > 1, "one round warns, several block"
    fewer = run_json("learn", where, "--workers", "0", "--round", "3", "--rounds", "1,3-4")
    assert (fewer["round"], fewer["rounds"]) == (3, [1, 3])
    assert "together with 3 earlier rounds" in run("learn", where, "--workers", "0")
    assert "rounds must be among 1, 2, 3, 4" in run("learn", where, "--rounds", "7", code=2)


def test_what_is_no_archive_and_an_engine_that_is_none_are_said(tmp_path: Path) -> None:
    assert "archive must hold a finished round" in run("archive", "describe", str(tmp_path), code=2)
    assert "engine must be one of local, dask, gpu" in run("learn", str(tmp_path), "--engine", "abacus", code=2)
