"""The programs of ``examples/``: they run, and name nothing of ours but what is public."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.serving import Clock, serving, settings_for, shared_rand

import hushcall
import hushcall_lab

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
PUBLIC = {"hushcall": set(hushcall.__all__), "hushcall_lab": set(hushcall_lab.__all__)}


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLES)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_one_for_each_role() -> None:
    assert [script.name for script in SCRIPTS] == ["embedded.py", "night.py", "study.py"]
    assert len((EXAMPLES / "study.py").read_text(encoding="utf-8").splitlines()) <= 20


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_it_uses_public_names_only(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.module not in sys.stdlib_module_names:
            assert {alias.name for alias in node.names} <= PUBLIC[node.module or ""]
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")


def test_the_public_names_of_the_lab_are_there_and_say_what_they_are() -> None:
    for name in hushcall_lab.__all__:
        assert getattr(hushcall_lab, name).__doc__, name
    assert sorted(hushcall_lab.__all__) == sorted(hushcall_lab._MODULE_OF)
    with pytest.raises(AttributeError, match="no attribute 'Calls2'"):
        hushcall_lab.Calls2  # noqa: B018
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, hushcall_lab\nprint('numpy' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert loaded.stdout == "False\n"


def test_a_study_runs_on_complaints_of_ones_own(tmp_path: Path) -> None:
    rows = [f"2026-01-0{1 + place % 3},202555{1000 + place % 7:04}" for place in range(300)]
    (tmp_path / "mine.csv").write_text("\n".join(["date,caller", *rows]) + "\n")
    lines = run("study.py", tmp_path / "mine.csv").splitlines()
    assert lines[0] == "300 calls on 3 days"
    assert len(lines) == 1 + 2 * 3 * 2
    assert all("F1 " in line for line in lines[1:])


def test_an_embedded_client_takes_part(tmp_path: Path) -> None:
    service = hushcall.open_service(settings_for(tmp_path / "server"), shared_rand("an app"), Clock())
    service.rounds.open(service.now)
    with serving(service) as client:
        first = run("embedded.py", tmp_path / "phone", client.base_url, "--now")
        again = run("embedded.py", tmp_path / "phone", client.base_url, "--now")
    service.close()
    assert first.splitlines()[:3] == ["callers: 2", "report: announced", "list: no-list"]
    assert "report: announced" not in again
    assert "(202) 555-0199: allow (one of your contacts)" in again


def test_an_operators_script_opens_rounds_and_enrols(tmp_path: Path) -> None:
    first, again = run("night.py", tmp_path / "data"), run("night.py", tmp_path / "data")
    assert "1,000 phones find a number from 78 reports on" in first
    assert "round 1 opened" in first
    assert "round 1 opened" not in again
    assert again.count("device ") == 3
