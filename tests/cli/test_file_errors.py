"""Every command that takes a path: what the file system refuses is one line with the path, never a traceback."""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hushcall import cli
from hushcall.server import serve
from hushcall_lab.cli import app as lab

ARGUMENTS = {
    "number": "+12025550123",
    "entries": "+12025550123",
    "device": "1",
    "entry": "1",
    "name": "utility",
    "roles": "timestamp",
    "--gateway": "http://127.0.0.1:9/.well-known/ohttp-gateway",
    "--round": "1",
    "--why": "because",
    "region": "CZ",
    "address": "calls.csv",
    "url": "http://127.0.0.1:9",
    "names": "own",
}
"""What commands need beside the path."""
OPTIONS = {
    "hushcall phone init": ("--server", "http://127.0.0.1:9"),
    "hushcall phone ingest": ("--contacts", "contacts.vcf"),
    "hushcall export": ("--to", "asterisk"),
    "hushcall-lab archive": ("--reports", "1000", "--areas", "1", "--workers", "0"),
}
PLACES = {"where", "source", "--out", "paths", "files", "--folder"}
"""Parameters that take a path or something else."""
MEASURE_FIRST = {"hushcall-lab prove indistinguishable", "hushcall-lab bench all"}


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if members := getattr(command, "commands", None):
        for part, member in members.items():
            yield from commands(member, f"{name} {part}")
    else:
        yield name, command


def takes_path(parameter: Any) -> bool:
    return "Path" in type(parameter.type).__name__ or parameter.opts[0] in PLACES


PROGRAMS = {"hushcall": cli.app, "hushcall-lab": lab}
COMMANDS = {
    name: command
    for program, app in PROGRAMS.items()
    for name, command in commands(typer.main.get_command(app), program)
    if name not in MEASURE_FIRST
}
SLOW = {"hushcall learn", "hushcall-lab experiment", "hushcall-lab simulate", "hushcall-lab data synth"}
PATHS = [
    pytest.param(name, parameter.opts[0], marks=[pytest.mark.slow] * (name in SLOW))
    for name, command in COMMANDS.items()
    for parameter in command.params
    if takes_path(parameter)
]
MAKE_NOTHING = {"hushcall config show", "hushcall config check"}
"""A folder that nobody can write is none yet to these."""
Line = Callable[..., str]


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Line:
    """Runs a command that must fail. Returns the last line that it wrote."""

    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [*name.split(), *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.run(PROGRAMS[name.split(maxsplit=1)[0]])
        assert ended.value.code not in (0, None) or name in MAKE_NOTHING
        captured = capfd.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return (captured.err or captured.out).strip().splitlines()[-1]

    def runs(*_: Any, **__: Any) -> None:
        pytest.fail("the service starts")

    monkeypatch.setattr(serve, "serve", runs)
    monkeypatch.setattr("hushcall.server.relay.uvicorn.run", runs)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HUSHCALL_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("text")
    (tmp_path / "contacts.vcf").write_text("BEGIN:VCARD\nTEL:+12025550199\nEND:VCARD\n")
    (tmp_path / "calls.csv").write_text("date,caller\n2026-01-01,2025550123\n")
    return run


def with_path(name: str, option: str, path: Path) -> list[str]:
    """The arguments of a command with this path for that option."""
    arguments = list(OPTIONS.get(name, ()))
    for parameter in COMMANDS[name].params:
        flag = [parameter.opts[0]] if parameter.opts[0].startswith("-") else []
        if parameter.opts[0] == option:
            arguments += [*flag, str(path)]
        elif parameter.required:
            value = "calls.csv" if takes_path(parameter) else ARGUMENTS[parameter.opts[0]]
            arguments += [*flag, value]
    return arguments


def test_commands_with_paths_are_found() -> None:
    assert len(PATHS) > 80
    assert {("hushcall serve", "--data"), ("hushcall phone check", "--home"), ("hushcall-lab archive", "--out")} <= {
        case.values for case in PATHS
    }


@pytest.mark.parametrize(("name", "option"), PATHS)
def test_a_path_under_a_file_is_one_line(name: str, option: str, line: Line, tmp_path: Path) -> None:
    assert line(name, *with_path(name, option, tmp_path / "file" / "x"))


def refuse(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
    """The file system refuses what is in a folder: to write, or (EACCES) everything."""

    def refusing(module: Any, function: str, writes: Callable[[Any], bool]) -> None:
        before = getattr(module, function)

        def refused(path: Any, *arguments: Any, **named: Any) -> Any:
            inside = isinstance(path, str | os.PathLike) and str(path).startswith(str(folder))
            if inside and (number == errno.EACCES or writes(arguments)):
                raise OSError(number, os.strerror(number), str(path))
            return before(path, *arguments, **named)

        monkeypatch.setattr(module, function, refused)

    for module in (io, builtins):
        refusing(module, "open", lambda arguments: bool(arguments) and arguments[0].strip("rbt") != "")
    refusing(os, "open", lambda arguments: bool(arguments[0] & (os.O_WRONLY | os.O_RDWR)))
    refusing(os, "mkdir", lambda _: True)
    for function in ("stat", "scandir", "listdir"):
        refusing(os, function, lambda _: False)


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, pytest.param(errno.EROFS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "option"), PATHS)
def test_what_the_file_system_refuses_is_one_line(
    name: str, option: str, number: int, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's folder, a full and a read-only disk. Root could write anywhere, so the calls are replaced."""
    (tmp_path / "bad").mkdir()
    refuse(monkeypatch, tmp_path / "bad", number)
    assert line(name, *with_path(name, option, tmp_path / "bad" / "x.csv"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("hushcall serve --port 0 --data file/x", "file/x: Not a directory."),
        ("hushcall keys init --data file", "file: File exists."),
        ("hushcall keys init --data file/x", "file/x: Not a directory."),
        ("hushcall phone init --server http://127.0.0.1:9 --home file/x", "Not a directory"),
        (
            "hushcall relay --gateway http://127.0.0.1:9/.well-known/ohttp-gateway --log file/x",
            "file/x: Not a directory.",
        ),
        (
            "hushcall-lab data describe calls.csv --save file/x.csv",
            "file must be in a folder that exists, got 'file/x.csv'",
        ),
    ],
)
def test_the_line_names_path_and_cause(command: str, words: str, line: Line) -> None:
    program, *rest = command.split()
    assert words in line(program, *rest)


def test_an_error_without_a_number_is_no_fact_about_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("a library's own")

    monkeypatch.setattr(cli, "_built", lambda _: broken)
    with pytest.raises(OSError, match="a library's own"):
        cli.run(cli.app)
