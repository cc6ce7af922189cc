"""The commands as a user runs them: output, --json, pictures, and errors that name field, rule and value."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import typer.main
from rich.console import Console
from tests.commands import command_line, run_main

from hushcall.cli import show
from hushcall.cli.server import admin
from hushcall.version import __version__


@dataclass
class Said:
    """What a command printed."""

    stdout: str
    stderr: str


def run(*arguments: str, code: int = 0) -> Said:
    """Run a command in this process: the compiled kernels are loaded once, and not for every command."""
    out, err, ended = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["hushcall", *arguments])
        try:
            run_main(*arguments)
        except SystemExit as end:
            ended = int(end.code or 0)
    said = Said(out.getvalue(), err.getvalue())
    assert ended == code, said
    return said


def run_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def test_help_lists_every_command() -> None:
    text = run("--help").stdout
    for command in ("serve", "round", "phone", "plan", "export"):
        assert command in text
    assert run("--version").stdout == f"hushcall {__version__}\n"


def alone(*arguments: str, hash_seed: int = 0) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run(command_line(*arguments), capture_output=True, text=True, check=False, env=environment)


def test_a_process_of_its_own_says_and_returns_the_same() -> None:
    for arguments, code in (("--version",), 0), (("plan", "--epsilon", "0"), 2):
        said, done = run(*arguments, code=code), alone(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (code, said.stdout, said.stderr)


def test_what_takes_longer_than_a_moment_is_said_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = Event()
    monkeypatch.setattr(show, "aside", lambda _: spoken.set())
    with show.remark_if_slow("compiling", after_seconds=0):
        assert spoken.wait(60)
    spoken.clear()
    with show.remark_if_slow("compiling", after_seconds=3600):
        pass
    assert not spoken.is_set()


@pytest.mark.slow
def test_simulate_shows_truth_beside_estimate(tmp_path: Path) -> None:
    picture = tmp_path / "day.svg"
    text = run("simulate", "--users", "3000", "--spammers", "4", "--picture", str(picture)).stdout
    assert "estimated" in text
    assert "found" in text
    assert picture.read_text().startswith("<?xml")


@pytest.mark.slow
def test_simulate_in_json_is_the_same_every_time() -> None:
    arguments = ("simulate", "--users", "3000", "--spammers", "4", "--seed", "9", "--json")
    said = run(*arguments).stdout
    assert said == alone(*arguments, hash_seed=7).stdout
    first = json.loads(said)
    assert first["found"] + first["missed"] == 4
    assert first["wrong"] == []


@pytest.mark.parametrize("mechanism", ["sh-basic", "sh-extended", "sh-tuned", "subspace"])
def test_simulate_runs_every_mechanism_with_buckets(mechanism: str) -> None:
    epsilon = "4" if mechanism == "subspace" else "15"
    outcome = run_json("simulate", "--mechanism", mechanism, "--epsilon", epsilon, "--users", "4000")
    assert outcome["mechanism"] == mechanism
    assert outcome["found"] >= 1


@pytest.mark.slow
def test_simulate_with_list_decoding_finds_at_least_as_many() -> None:
    arguments = ("simulate", "--mechanism", "sh-extended", "--epsilon", "11.8", "--users", "4000")
    hard, listed = run_json(*arguments), run_json(*arguments, "--list-size", "50")
    assert listed["found"] >= hard["found"]


def test_plan_compares_all_profiles(tmp_path: Path) -> None:
    document = run_json("plan", "--users", "1000", "--spam", "150")
    assert document["words"][0].startswith("Of 1,000 phones in one area code, a caller is found when ")
    assert document["recommended"] == ["sensitive-whole", "crowd"], "23,188 phones carry both"
    rows = {row["profile"]: row for row in document["rows"]}
    assert (rows["balanced"]["detectable"], rows["balanced"]["in_window"]) == (78, 185)
    assert (rows["balanced"]["tolerance"], rows["balanced"]["window"]) == (5, 7)
    assert rows["paper"]["detectable"] > 2 * rows["balanced"]["detectable"]
    assert rows["balanced"]["found"] > 0.99 > rows["paper"]["found"]
    assert "gate" in run("plan", "--profile", "balanced").stdout


def test_plan_at_one_budget_shows_every_mechanism() -> None:
    rows = run_json("plan", "--epsilon", "8")["rows"]
    assert {row["mechanism"] for row in rows} == {
        *("subspace", "whole-number", "sh-basic", "sh-extended", "sh-tuned", "sh-original"),
        *("pem", "treehist"),
    }
    # At ε = 2 nothing is left to find with once the histograms' frequency report has taken its 3.
    cheap = {row["mechanism"] for row in run_json("plan", "--epsilon", "2")["rows"]}
    assert cheap == {"subspace", "whole-number", "sh-original", "pem", "treehist"}


@pytest.mark.slow
def test_audit_in_json() -> None:
    document = run_json("audit", "--epsilon", "2")
    assert document["ok"]
    for row in document["rows"]:
        assert {"randomiser", "claimed", "exact", "ok", "paper"} <= set(row)
        assert row["ok"]
    basic = next(row for row in document["rows"] if row["randomiser"] == "basic, one round")
    assert (basic["claimed"], basic["paper"]) == (2.0, 4.0)


@pytest.mark.slow
def test_audit_with_the_black_box() -> None:
    document = run_json("audit", "--epsilon", "2", "--blackbox", "--samples", "2000", "--seed", "1")
    assert document["ok"]
    assert len(document["blackbox"]) >= 8
    assert all(row["lower"] <= row["claimed"] for row in document["blackbox"])


@pytest.mark.slow
def test_audit_of_mutants_catches_all() -> None:
    document = run_json("audit", "--mutants")
    assert document["ok"]
    assert len(document["rows"]) >= 8
    assert not any(row["ok"] for row in document["rows"])


def test_bench_of_the_phone() -> None:
    document = run_json("bench", "phone")
    assert {"subspace", "whole-number", "sh-extended"} <= {row["mechanism"] for row in document["reports"]}
    assert all(row["milliseconds"] > 0 and row["bytes"] > 0 for row in document["reports"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate", "--epsilon", "-1"), "epsilon must be a positive finite number, got -1.0"),
        (("simulate", "--epsilon", "nan"), "epsilon must be a positive finite number, got nan"),
        (("simulate", "--epsilon", "1e9"), "epsilon must be at most 40, got 1000000000.0"),
        (("simulate", "--mechanism", "magic"), "mechanism must be one of subspace"),
        (("simulate", "--profile", "magic"), "profile must be one of paper"),
        (("simulate", "--mechanism", "sh-extended", "--epsilon", "2"), "epsilon must exceed epsilon_olh (3)"),
        (("simulate", "--users", "100", "--largest", "99999"), "users must leave room for the spammers'"),
        (("simulate", "--picture", "nowhere/there.png"), "picture must be in a folder that exists"),
        (("simulate", "--picture", "day.gif"), "picture must end with .png, .svg or .pdf"),
        (("plan", "--users", "5", "--spam", "6"), "spam must be at most the 5 users of the bucket, got 6"),
        (("plan", "--spam", "2000"), "spam must be at most the 1000 users of the bucket, got 2000"),
        (("plan", "--epsilon", "0"), "epsilon must be a positive finite number, got 0.0"),
        (("plan", "--epsilon", "1e-5", "--mechanism", "subspace"), "epsilon must be at least 0.1"),
        (("experiment", "magic"), "experiment must be one of theory, optimality, f1"),
        (("experiment", "real"), "data must name a file or folder of real complaints"),
        (("experiment", "theory", "--out", "/dev/null/x"), "out must be a folder that can be made and written to"),
        (("experiment", "f1", "--data", "synth:x"), "data must be synth, synth:SEED or a path"),
        (("audit", "--epsilon", "inf"), "epsilon must be a positive finite number, got inf"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments, code=2)
    assert done.stdout == ""
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_the_server_extra_commands_say_what_to_install() -> None:
    hide = "import sys\nfor name in ('numpy','scipy','numba','matplotlib'): sys.modules[name]=None\n"
    asked = [["plan"], ["learn", "nowhere"], ["archive", "verify", "nowhere"]]
    code = f"""{hide}
from hushcall.cli import main
for arguments in {asked!r}:
    sys.argv = ['hushcall', *arguments]
    try:
        main()
    except SystemExit as end:
        print(end.code, *arguments)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [" ".join(["2", *arguments]) for arguments in asked]
    assert done.stderr.count("pip install 'hushcall[") == len(asked)
    assert "Traceback" not in done.stderr


def test_commands_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run("--version")
    monkeypatch.setattr(typer.main, "get_command", lambda _: pytest.fail("again"))
    run("--version")


def test_simulate_fits_its_spammers_to_the_users_unless_it_is_told() -> None:
    outcome = run_json("simulate", "--users", "300")
    assert outcome["phones"] == 300
    assert 1 < outcome["numbers"][0]["true"] < 300
    told = run("simulate", "--users", "300", "--largest", "600", code=2)
    assert "users must leave room for the spammers' calls: 600 for the busiest of 15" in told.stderr


def test_a_narrow_table_of_the_operators_log_cuts_no_moment_and_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(show, "console", Console(file=out, width=70))
    row = {"id": 1, "at": 1_800_000_000, "who": "a.b@example.org", "what": "allow", "why": "many words " * 8}
    admin._table("What operators did", [row], False)
    assert "2027-01-15 08:00" in out.getvalue()
    assert "…" not in out.getvalue()
