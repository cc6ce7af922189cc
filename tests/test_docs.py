"""README, docs and --help agree with the code: commands, links, examples and figures."""

import doctest
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main

from hushcall.audit.mutants import MUTANTS
from hushcall.cli import main
from hushcall.cli.app import app
from hushcall.server.settings import example

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]


def test_the_two_commands_come_first() -> None:
    assert README.index("make demo") < README.index("make test") < README.index("## ")


def test_readme_examples_run() -> None:
    assert doctest.testfile(str(ROOT / "README.md"), module_relative=False).failed == 0


def test_every_command_is_in_the_readme_and_has_help_with_an_example() -> None:
    group = typer.main.get_group(app)
    for name, command in group.commands.items():
        assert f"`hushcall {name}`" in README, name
        assert f"hushcall {name}" in COMMANDS, name
        assert command.help, name
        for inner, sub in getattr(command, "commands", {}).items():
            assert f"`{inner}`" in README, (name, inner)
            assert sub.help, (name, inner)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), (page.name, target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_named_in_the_docs_exist(page: Path) -> None:
    for module in set(
        re.findall(r"`((?:src/hushcall|tests|benchmarks|docs)/[\w/]+\.(?:py|md|json))`", page.read_text("utf-8"))
    ):
        assert (ROOT / module).exists(), (page.name, module)


def test_the_figures_of_the_readme_are_those_of_the_code() -> None:
    done = subprocess.run([*HUSHCALL, "plan", "--json"], capture_output=True, text=True, check=True)
    rows = {row["profile"]: row for row in json.loads(done.stdout)["rows"]}
    for name, label in (
        ("paper", "the paper"),
        ("strong", "`strong`"),
        ("balanced", "`balanced`"),
        ("sensitive", "`sensitive`"),
    ):
        line = next(line for line in README.splitlines() if label in line and line.count("|") > 4 and "ε" not in line)
        cells = [cell.strip() for cell in line.strip(" |").split("|")]
        row = rows[name]
        assert cells[1:4] == [f"{row['epsilon']:g}", str(row["report_bytes"]), str(row["detectable"])]
        assert cells[4:] == ([str(row["in_window"])] if row["in_window"] else [])
    words = {20: "twenty", 21: "twenty-one", 22: "twenty-two", 23: "twenty-three"}
    assert f"{words[len(MUTANTS)]} deliberately broken randomisers" in README


@pytest.mark.slow
def test_the_simulated_day_of_the_docs_is_what_the_command_prints() -> None:
    done = subprocess.run(
        [*HUSHCALL, "simulate"], capture_output=True, text=True, check=True, env={"COLUMNS": "80", "PATH": ""}
    )
    numbers = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert len(numbers) == 15
    for line in numbers:
        assert line.rstrip() in COMMANDS


@pytest.mark.slow
def test_the_plan_of_the_readme_is_what_the_command_prints() -> None:
    done = subprocess.run(
        [*HUSHCALL, "plan"], capture_output=True, text=True, check=True, env={"COLUMNS": "80", "PATH": ""}
    )
    for line in done.stdout.splitlines():
        assert line.rstrip() in README, line


def test_the_real_figures_of_the_readme_are_those_of_the_results() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").partition("# Real complaints: real\n")[2]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")
    ]
    head = next(line for line in lines if line[0] == "mechanism")
    rows = [dict(zip(head, line, strict=True)) for line in lines if len(line) == len(head)]
    for label, window in (("decided day by day", "1"), ("decided over 1, 2, 4 and 7 days", "1, 2, 4, 7")):
        shown = next(line for line in README.splitlines() if label in line).strip(" |").split("|")[1:]
        wanted = {"mechanism": "subspace", "window": window, "level": "0.25", "tolerance": "0"}
        for epsilon, cell in zip(("4", "6", "8"), shown, strict=True):
            row = next(row for row in rows if {**row, **wanted, "epsilon": epsilon} == row)
            assert float(cell) == pytest.approx(float(row["relative_cbr"]), abs=0.006)


def test_the_inverse_plans_of_the_docs_are_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = re.findall(r"\$ hushcall (plan --find .*)\n((?:[^$`].*\n)+)", COMMANDS)
    assert len(shown) == 3
    for arguments, said in shown:
        monkeypatch.setattr(sys, "argv", ["hushcall", *arguments.split()])
        with pytest.raises(SystemExit, match="0"):
            main()
        assert capsys.readouterr().out.split() == said.split()


def test_the_changelog_has_something_to_say() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for wanted in {re.split(r"[<>=;~! ]", line)[0] for group in groups for line in group}:
        assert wanted.startswith("hushcall[") or f"| {wanted} |" in page, wanted


def test_every_setting_is_explained_to_operators() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for line in example().splitlines():
        if name := re.match(r"# (\w+) = ", line):
            assert f"| `{name[1]}` |" in page, name[1]
