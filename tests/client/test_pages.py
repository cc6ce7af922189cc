"""What the pages and examples for phone owners say is true: examples run, commands and options exist, files agree."""

import configparser
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hushcall.cli import app
from hushcall.cli.client.calls import ingest
from hushcall.client.reporting.consent import Limits
from hushcall.formats.calls.reading import READERS

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "docs" / name for name in ("home.md", "phone.md", "embedding.md", "formats.md", "commands.md")]
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*") if path.is_file())
UNITS = [path for path in EXAMPLES if path.suffix in (".service", ".timer")]


def commands(text: str) -> Iterator[list[str]]:
    """Every ``hushcall phone …``, ``hushcall home …`` and ``hushcall export …`` of a text, as words."""
    joined = re.sub(r"\n(?=--)", " ", text)
    for found in re.finditer(r"hushcall ((?:phone|home|export) [a-z-][^`\n|;&>)]*)", joined):
        line = re.split(r"\s#|: |, |\. |\.$|…", found[1].replace("\\!", "!"))[0]
        try:
            yield shlex.split(line)
        except ValueError:  # half a quotation: the regular expression cut it off
            yield line.split()


@cache
def everything() -> Any:
    """All commands."""
    return typer.main.get_group(app)


def check_words(words: list[str]) -> None:
    """The command exists, and so does each of its options."""
    command: Any = everything()
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        assert name in command.commands, words
        command = command.commands[name]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        if word.startswith("--"):
            assert word in known | {"--help"}, words


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: path.name)
def test_every_command_that_is_named_exists_with_its_options(path: Path) -> None:
    for words in commands(path.read_text(encoding="utf-8")):
        check_words(words)


def test_the_check_sees_a_command_and_an_option_that_do_not_exist() -> None:
    for line in ("hushcall phone dance", "hushcall phone sync --twice"):
        (words,) = commands(line)
        with pytest.raises(AssertionError):
            check_words(words)
    assert ingest.__doc__ is not None
    assert len(list(commands(ingest.__doc__))) == 4


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_well_formed_and_start_what_exists(unit: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(unit.read_text(encoding="utf-8"))
    assert parser["Unit"]["Description"].startswith("hushcall: ")
    if unit.suffix == ".timer":
        assert unit.with_suffix(".service") in UNITS
        assert parser["Timer"]["OnUnitActiveSec"] == "15min"
    else:
        assert "/hushcall phone " in parser["Service"]["ExecStart"]
    if "Install" in parser:
        assert parser["Install"]["WantedBy"] in ("timers.target", "multi-user.target")


def test_the_dialplan_asks_for_what_the_server_sets() -> None:
    dialplan = (ROOT / "examples" / "asterisk" / "extensions.conf").read_text(encoding="utf-8")
    source = (ROOT / "src" / "hushcall" / "client" / "screening" / "agi.py").read_text(encoding="utf-8")
    for name in set(re.findall(r"HUSHCALL_[A-Z]+", dialplan)):
        assert f'"{name}"' in source
    assert "agi://127.0.0.1:4573" in dialplan
    for label in re.findall(r"\?([a-z]+)\)", dialplan):
        assert f"n({label})" in dialplan


def test_the_page_tells_the_caps_that_there_are_and_every_format() -> None:
    page = (ROOT / "docs" / "phone.md").read_text(encoding="utf-8")
    limits = Limits()
    for value in (limits.report, limits.window, limits.life):
        assert re.search(rf"\| {float(value):g}\b", page), value
    formats = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert all(re.search(rf"^\| .*`{name}`", formats, re.M) for name in READERS)
