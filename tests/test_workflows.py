"""The forge's workflow files: their commands are ours, they may do little, and every Python that we claim is tried."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


def steps(document: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in document["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_runs_what_is_here_and_may_only_read(path: Path) -> None:
    document, targets = read(path), re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert document["permissions"] == {"contents": "read"}
    for step in steps(document):
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@(v\d+|[0-9a-f]{40})", step["uses"]), step
            continue
        words = shlex.split(step["run"])
        assert "${{" not in step["run"], "a name of a branch or tag is no shell code: it comes as a variable"
        if words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= set(targets), step
        named = [word for word in words if "/" in word and not re.search(r"[:$ /]/|[*{$]|^(dist|\.venv|src)/?", word)]
        assert [word for word in named if not (ROOT / word).exists()] == [], step


def test_wheels_are_tried_on_every_python_that_the_project_names() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r"Python :: (3\.\d+)", text)
    assert read(ROOT / ".github" / "workflows" / "wheels.yml")["jobs"]["smoke"]["strategy"]["matrix"]["python"] == named


def test_hooks_before_a_commit_are_the_project_s_own() -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    assert {hook["entry"].split()[0] for hook in local["hooks"]} == {".venv/bin/ruff", ".venv/bin/mypy"}
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
