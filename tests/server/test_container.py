"""``deploy/Containerfile``, taken apart: what it copies is there and suffices, commands are ours, nobody is root."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
import typer
from tests.environments import empty_environment, run

from hushcall.cli import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
STEPS = [
    (step.partition(" ")[0], step.partition(" ")[2].strip())
    for step in re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
    if step
]


def steps(name: str) -> list[str]:
    return [rest for step, rest in STEPS if step == name]


def copied() -> list[str]:
    """What comes from the clone."""
    lines = [shlex.split(rest) for rest in steps("COPY") if not rest.startswith("--from")]
    return [source for line in lines for source in line[:-1]]


def parses(words: list[str]) -> str:
    """The command that a line of ours runs; one that does not parse is an error."""
    assert words[0] == "hushcall"
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    context = group.make_context("hushcall", words[1:])
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None
    command.make_context(name, rest, parent=context)
    return str(name)


def test_all_that_is_copied_is_there_and_all_that_the_build_reads_is_copied() -> None:
    assert all((ROOT / source).exists() for source in copied())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} <= set(copied())


def test_the_commands_are_a_server_and_a_relay() -> None:
    (served,) = steps("CMD")
    assert parses(json.loads(served)) == "serve"
    relayed = re.sub(r"\\\n#\s*", "", TEXT).partition(" hushcall hushcall relay")[2].splitlines()[0]
    words = shlex.split(f"hushcall relay {relayed}")
    assert parses(words) == "relay"
    assert words[words.index("--port") + 1] in steps("EXPOSE"), "where the health check asks"
    page = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    assert shlex.join(words) in page


def test_nobody_is_root_and_the_data_lie_on_a_volume() -> None:
    assert steps("USER") == ["hushcall"]
    last = max(place for place, (step, _) in enumerate(STEPS) if step == "FROM")
    assert [step for step, _ in STEPS[last:]].index("USER") < [step for step, _ in STEPS[last:]].index("CMD")
    assert steps("VOLUME") == ["/data"]
    assert "HUSHCALL_DATA=/data" in steps("ENV")[0]
    assert "useradd --system --uid 10001" in " ".join(steps("RUN"))


def test_the_health_check_asks_what_both_answer() -> None:
    (check,) = steps("HEALTHCHECK")
    program = json.loads(check.partition("CMD ")[2])
    assert program[0] == "python"
    compile(program[2], "healthcheck", "exec")
    assert "127.0.0.1:8750/healthz" in program[2]


def test_bases_are_named_plainly() -> None:
    assert {rest.partition(" ")[0] for rest in steps("FROM")} == {"python:3.12-slim"}


@pytest.mark.slow
def test_what_is_copied_installs_into_an_empty_environment(tmp_path: Path) -> None:
    """The step of the build, with pip's own settings; then both commands and what decodes can be imported."""
    source = tmp_path / "src"
    source.mkdir()
    for name in copied():
        here = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__")
        if here.is_dir():
            shutil.copytree(here, source / name, ignore=ignored)
        else:
            shutil.copy(here, source / name)
    (install,) = [rest for rest in steps("RUN") if "pip install" in rest]
    assert "'.[server]'" in install
    programs = empty_environment(tmp_path / "opt")
    run([programs / "pip", "install", "-q", ".[server]"], source)
    for words in (["--version"], ["serve", "--help"], ["relay", "--help"]):
        run([programs / "hushcall", *words], tmp_path)
    run(
        [programs / "python", "-c", "import hushcall.server, hushcall.server.relay, hushcall.decoding.window"],
        tmp_path,
    )
