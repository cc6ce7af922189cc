"""README, docs and --help agree with the code: commands, links, examples and figures."""

import doctest
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel
from tests.commands import command_line
from tests.pages import COMMANDS, assert_example

from hushcall.cli import app, main
from hushcall.mechanisms.profiles import DEFAULT, PROFILES
from hushcall.server.http import connection, limits
from hushcall.server.http.routes import admin, carddav, gateway, lists, pages, phoneblock, phones, probes
from hushcall.server.settings import Settings, example
from hushcall_lab.audit.mutants import MUTANTS
from hushcall_lab.cli import app as lab_app
from hushcall_lab.study import real

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
OF_TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]


def test_the_two_commands_come_first() -> None:
    assert README.index("make demo") < README.index("make test") < README.index("## ")


def test_readme_examples_run() -> None:
    assert doctest.testfile(str(ROOT / "README.md"), module_relative=False).failed == 0


def test_every_command_has_help_and_is_on_its_page() -> None:
    for program, commands in (("hushcall", app), ("hushcall-lab", lab_app)):
        for name, command in typer.main.get_group(commands).commands.items():
            if command.hidden:
                continue
            assert f"{program} {name}" in COMMANDS, name
            assert command.help, name
            for inner, sub in getattr(command, "commands", {}).items():
                assert sub.hidden or sub.help, (name, inner)
                assert sub.hidden or f"{program} {name} {inner}" in COMMANDS, (name, inner)


def anchors(page: Path) -> set[str]:
    """Of its headings, as the forge makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    heads = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head) for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^) ]+)\)", page.read_text(encoding="utf-8")):
        if ":" in target:  # elsewhere: nothing is asked for in a test
            assert re.fullmatch(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/\S*)?", target), (page.name, target)
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), (page.name, target)
        assert not anchor or file.suffix != ".md" or anchor in anchors(file), (page.name, target)


def named(pattern: str) -> list[tuple[str, str]]:
    """(page, name) of all matches in the pages."""
    return [(page.name, name) for page in OF_TODAY for name in re.findall(pattern, page.read_text(encoding="utf-8"))]


def test_files_named_in_the_docs_exist() -> None:
    folders = (ROOT / name for name in (".github", "src", "lab", "home", "tests", "deploy", "docs"))
    paths = [f"/{path.relative_to(ROOT)}" for folder in folders for path in (*folder.rglob("*"), *ROOT.glob("*.md"))]
    names = named(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|js|html|yml))`")
    assert len(names) > 100
    assert [name for name in names if not any(path.endswith(f"/{name[1]}") for path in paths)] == []


def test_settings_named_in_the_docs_exist() -> None:
    fields = {
        name: type(field.default).model_fields
        for name, field in Settings.model_fields.items()
        if isinstance(field.default, BaseModel)
    }
    names = named(rf"`((?:{'|'.join(fields)})\.(?!py)\w+)[ `]")
    assert names
    assert [name for name in names if name[1].partition(".")[2] not in fields[name[1].partition(".")[0]]] == []


def test_options_named_in_the_docs_exist() -> None:
    commands = {"hushcall": typer.main.get_group(app), "hushcall-lab": typer.main.get_group(lab_app)}
    lines = named(r"(?:^|[`$] ?)(hushcall(?:-lab)? [a-z][^`\n|;&>]+)")
    assert len(lines) > 200
    for page, line in lines:
        words = line.split()
        command: Any = commands[words[0]]
        for word in words[1:]:
            command = getattr(command, "commands", {}).get(word) or command
        options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        assert {word for word in words if re.fullmatch(r"--[a-z][\w-]*", word)} <= options, (page, line)


def test_addresses_named_in_the_docs_exist() -> None:
    routers = (admin, carddav, gateway, lists, pages, phoneblock, phones, probes)
    routes = [re.sub(r"\{.*?\}", "[^/]+", route.path) for module in routers for route in module.router.routes]
    names = named(r"`(?:GET |POST |PUT )?(/(?:v1|api|dav|healthz|readyz|metrics)[\w/{}.-]*)[`?…]")
    assert names
    known = re.compile("|".join(f"{route}/?" for route in routes))
    begun = {"/".join(route.split("/")[:depth]) for route in routes for depth in range(2, 6)}
    assert [name for name in names if not known.fullmatch(name[1]) and name[1].rstrip("/") not in begun] == []


def test_the_figures_of_the_readme_are_those_of_the_code() -> None:
    done = subprocess.run(command_line("plan", "--json"), capture_output=True, text=True, check=True)
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
        assert cells[4] == (str(row["in_window"]) if row["in_window"] else "")
    words = {20: "twenty", 21: "twenty-one", 22: "twenty-two", 23: "twenty-three"}
    assert f"{words[len(MUTANTS)]} deliberately broken randomisers" in README


@pytest.mark.slow
def test_the_simulated_day_of_the_docs_is_what_the_command_prints() -> None:
    done = subprocess.run(
        command_line("simulate"), capture_output=True, text=True, check=True, env={"COLUMNS": "80", "PATH": ""}
    )
    numbers = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert len(numbers) == 15
    assert_example("hushcall-lab simulate", done.stdout)


@pytest.mark.slow
def test_the_plan_of_the_docs_is_what_the_command_prints() -> None:
    done = subprocess.run(
        command_line("plan"), capture_output=True, text=True, check=True, env={"COLUMNS": "80", "PATH": ""}
    )
    assert_example("hushcall plan", done.stdout)


def test_the_real_figures_of_the_readme_are_those_of_the_results() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").partition("<!-- figures: real -->\n")[2]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.partition("<!-- end -->")[0].splitlines()
        if line.startswith("|")
    ]
    head = next(line for line in lines if line[0] == "decided")
    rows = [dict(zip(head, line, strict=True)) for line in lines if len(line) == len(head)]
    prices = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").partition("<!-- figures: defaults -->\n")[2]
    alone = re.search(r"\| without hints \| warned or blocked \| ([\d.]+) ", prices)
    said = re.search(r"`balanced` warns of or\s+blocks ([\d.]+)\. ", README)
    assert alone
    assert said
    assert float(said[1]) == pytest.approx(float(alone[1]), abs=0.006)
    shipped = {"decided": real.decided(asdict(real.shipped(DEFAULT)))}
    for place, verdict in ((-2, "warned or blocked"), (-1, "blocked")):
        row = next(row for row in rows if {**row, **shipped, "verdict": verdict} == row)
        for name in ("strong", "balanced", "sensitive"):
            line = next(line for line in README.splitlines() if f"`{name}`" in line)
            shown = re.findall(r"[\d.e-]+", line.strip(" |").split("|")[place])
            relative, absolute = re.findall(r"[\d.e-]+", row[f"{PROFILES[name].epsilon:g}"])
            assert float(shown[0]) == pytest.approx(float(relative), abs=0.006)
            assert float(shown[1]) == pytest.approx(100 * float(absolute), abs=0.06)


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


def test_the_picture_of_an_upload_has_the_limits_of_the_code() -> None:
    settings = Settings()
    picture = (
        (ROOT / "docs" / "deploying.md").read_text("utf-8").partition("## What an upload passes")[2].split("```")[1]
    )
    for limit in (
        f"head of {connection.HEAD_BYTES >> 10} KB, {connection.HEAD_FIELDS} fields",
        f"{connection.REQUEST_SECONDS:g} s per request; {settings.server.connections:,} connections",
        f"body of {settings.intake.max_body >> 10} KB",
        f"ReadThrottle, {limits.READS_AT_ONCE} at once",
        f"RateLimit: {settings.intake.per_device} requests a minute per device",
        f"queue of {settings.intake.queue:,}, each for {settings.intake.patience:g} s",
        f"up to {settings.intake.batch} uploads in one commit",
    ):
        assert limit in picture
