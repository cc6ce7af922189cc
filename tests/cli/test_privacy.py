"""``hushcall privacy`` as a user runs it: figures, words, JSON, without numpy, and what the docs show."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake_server import START, FakeService, over_http
from tests.pages import assert_example

from hushcall.mechanisms.parameters import to_plain
from hushcall.mechanisms.subspace.client import WholeNumber
from hushcall.protocol.anonymity.ohttp import KeyConfig
from hushcall.protocol.round_document import AnonymityInfo, bucket_parameters
from hushcall.server.anonymity import TokenSecret

HUSHCALL = "from hushcall.cli import main; main()"
WITHOUT = "import sys\nfor name in ('numpy', 'scipy', 'numba'):\n    sys.modules[name] = None\n"
PRINTED = Path(__file__).with_name("privacy_example.txt")
FLAGSHIP = ("--epsilon", "6", "--profile", "balanced-whole", "--crowd", "1000000", "--anonymous", "--relay")


def run(*arguments: str, code: int = 0, before: str = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", before + HUSHCALL, "privacy", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def test_the_example_of_the_docs_is_what_is_printed_without_numpy() -> None:
    printed = run(*FLAGSHIP, before=WITHOUT).stdout
    assert_example(f"hushcall privacy {shlex.join(FLAGSHIP)}", printed)
    assert [line.rstrip() for line in printed.splitlines()] == PRINTED.read_text(encoding="utf-8").splitlines()


def test_json_has_every_figure() -> None:
    found: dict[str, Any] = json.loads(run(*FLAGSHIP, "--json").stdout)
    assert [row["who"] for row in found["against"]] == ["readers", "server", "server and relay"]
    assert [round(row["report"], 2) for row in found["against"]] == [0.15, 0.15, 6.0]
    assert [row["delta"] for row in found["against"]] == [1e-6, 1e-6, 0.0]
    assert all(row["words"] for row in found["against"])


@pytest.mark.parametrize("anonymous", [False, True])
def test_a_server_says_how_it_runs_its_rounds(anonymous: bool) -> None:
    service = FakeService(lambda: START, epsilon=6.0, mechanism="whole-number")
    if anonymous:
        terms = AnonymityInfo(TokenSecret.generate().key, KeyConfig(1, bytes(range(32))), "https://relay.example/")
        buckets = {"0": bucket_parameters(3, to_plain(WholeNumber(6.0, 20)), 1_000_000)}
        service.changes = {"anonymous": terms.to_plain(), "buckets": buckets}
    with over_http(service) as url:
        found: dict[str, Any] = json.loads(run("--server", url, "--json").stdout)
    deployment = found["deployment"]
    assert (deployment["epsilon"], deployment["bucketed"], deployment["horizon"]) == (6.0, False, 30)
    assert (deployment["anonymous"], deployment["relay"]) == (anonymous, anonymous)
    assert deployment["crowd"] == (1_000_000 if anonymous else 10_000)
    assert [round(row["report"], 2) for row in found["against"]][1] == (0.15 if anonymous else 6.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--profile", "nonesuch"), "profile must be one of"),
        (("--epsilon", "-1"), "epsilon must be"),
        (("--server", "https://x.example", "--profile", "balanced"), "profile must not be given with a server"),
        (("--server", "nonsense"), "server must be an address"),
    ],
    ids=["profile", "epsilon", "both", "address"],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    assert said in run(*arguments, code=2).stderr
