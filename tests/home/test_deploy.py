"""The images for a household, taken apart: what they copy is there, their commands are ours, all options are used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from tests.client.fake_server import FakeService, over_http
from tests.home.box import FritzBox, running

from hushcall.cli import app
from hushcall.version import __version__
from hushcall_home.config import Config

DEPLOY = Path(__file__).parents[2] / "deploy"
APP = DEPLOY / "home-assistant"
COMPOSE = (DEPLOY / "compose.home.yml").read_text(encoding="utf-8")
NOW = 1_800_000_000


def steps(path: Path) -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    return [(step.partition(" ")[0], step.partition(" ")[2].strip()) for step in text.splitlines() if step]


def parses(words: list[str]) -> None:
    """The command exists and takes these words."""
    assert words[0] == "hushcall"
    group: Any = typer.main.get_command(app)
    context = group.make_context("hushcall", words[1:])
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    inner = command.make_context(name, rest, parent=context)
    name, command, rest = command.resolve_command(inner, [*inner._protected_args, *inner.args])
    command.make_context(name, rest, parent=inner)


def test_the_image_runs_the_program_as_nobody_in_particular() -> None:
    file = steps(DEPLOY / "Containerfile.home")
    said = dict(file)
    copied = [rest.split()[:-1] for step, rest in file if step == "COPY" and not rest.startswith("--from")]
    assert all((DEPLOY.parent / name).exists() for names in copied for name in names)
    assert " . ./home" in next(rest for step, rest in file if step == "RUN" and "pip" in rest)
    parses(json.loads(said["CMD"]))
    parses(json.loads(said["HEALTHCHECK"].partition("CMD ")[2]))
    assert said["USER"] == "hushcall"
    assert "HUSHCALL_HOME=/data" in said["ENV"]
    assert said["VOLUME"] == "/data"


def test_the_compose_file_builds_that_image_and_keeps_its_data() -> None:
    parsed = yaml.safe_load(COMPOSE)
    home = parsed["services"]["home"]
    assert (DEPLOY / home["build"]["context"] / home["build"]["dockerfile"]).samefile(DEPLOY / "Containerfile.home")
    assert home["volumes"] == ["hushcall-home:/data"]
    assert set(parsed["volumes"]) == {"hushcall-home"}
    assert home["read_only"]
    line = re.sub(r"\\\n#\s*", "", COMPOSE).partition("--rm home ")[2].splitlines()[0]
    parses(line.split())


def test_the_app_names_this_version_and_every_option_in_every_language() -> None:
    manifest = yaml.safe_load((APP / "config.yaml").read_text(encoding="utf-8"))
    assert manifest["version"] == __version__
    assert set(manifest["options"]) <= set(manifest["schema"])
    for path in sorted((APP / "translations").iterdir()):
        told = yaml.safe_load(path.read_text(encoding="utf-8"))["configuration"]
        assert set(told) == set(manifest["schema"]), path.name
    program = (APP / "run.py").read_text(encoding="utf-8")
    assert all(f'"{name}"' in program for name in manifest["schema"])
    assert dict(steps(APP / "Dockerfile"))["COPY"] == "run.py /run.py"


@pytest.fixture
def hushcall(tmp_path: Path) -> dict[str, str]:
    """An environment with a ``hushcall`` whose ``run`` ends at once."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = "import sys; from hushcall.cli import main; 'run' in sys.argv and sys.exit('running'); main()"
    (folder / "hushcall").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
    (folder / "hushcall").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HUSHCALL_DATA": str(tmp_path), "HUSHCALL_HOME": str(tmp_path / "home")}


def test_the_app_sets_itself_up_by_its_options_and_runs(hushcall: dict[str, str], tmp_path: Path) -> None:
    def started() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, str(APP / "run.py")]
        return subprocess.run(words, env=hushcall, capture_output=True, text=True, timeout=60, check=False)

    with over_http(FakeService(lambda: NOW)) as url, running(FritzBox(lambda: NOW)) as box:
        options = {"server": url, "fritzbox": box.address, "fritzbox_user": box.user, "limit": 50}
        path = tmp_path / "options.json"
        path.write_text(json.dumps({**options, "fritzbox_password": box.password}))
        assert started().stderr.strip() == "running"
        config = Config.load(tmp_path / "home")
        assert config.fritzbox
        assert (config.fritzbox.address, config.fritzbox.limit) == (box.address, 50)
        actions = len(box.actions)
        assert started().stderr.strip() == "running"
        assert len(box.actions) == actions, "options that are in use are not tried again"
