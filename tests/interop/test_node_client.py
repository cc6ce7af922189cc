"""The client in JavaScript, written from ``docs/protocol.md``: its vectors, and nine days on a server."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.server.anonymous import Neighbourhood, neighbourhood
from tests.server.serving import Clock, Village, newest, settings_for, shared_rand

from hushcall import Client
from hushcall.formats.calls.call import Call, CallKind
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service, open_service

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "examples" / "node-client"
PLANS = ROOT / "src" / "hushcall" / "protocol" / "numbers" / "data"
DAY = 86_400
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node, to run the client in JavaScript")


def node(*arguments: object) -> list[dict[str, Any]]:
    """One run of the client; its lines."""
    done = subprocess.run(["node", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=CLIENT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_passes_every_vector_of_what_it_does() -> None:
    (result,) = node("vectors.mjs", ROOT / "tests" / "vectors", PLANS)
    assert result["failed"] == []
    assert result["passed"] > 200
    histograms = {"olh", "sh-basic", "sh-extended", "sh-tuned", "encode", "decode", "channel", "channel_weights"}
    shared = {"channel_draw", "multiply_shift", "multiply_shift_below"}
    hundreds = {"kind_of_report", "subspace-hundreds", "hundred_in_plan", "verdict_in_range"}
    assert set(result["leftOut"]) == histograms | shared | hundreds | {
        "sh-original",
        "pem",
        "treehist",
        "rappor",
        "projection_sign",
    }


@dataclass
class Phones:
    """So many phones of node, each with a folder."""

    folders: list[Path]
    clock: Clock

    def run(self, command: str, *words: object) -> list[dict[str, Any]]:
        return node("client.mjs", command, *words, *self.folders, "--now", int(self.clock.now))


def settled(service: Service, clock: Clock, moment: int) -> None:
    clock.now = moment
    service.rounds.advance(service.now)


def nine_days(tmp_path: Path, street: Neighbourhood, days: int) -> None:
    service, clock = street.service, street.clock
    named = Phones([tmp_path / f"named-{i}" for i in range(3)], clock)
    nameless = Phones([tmp_path / f"nameless-{i}" for i in range(3)], clock)
    limits = ("--epsilon", 16, "--caps", 1000)
    named.run("init", street.url, *limits)
    nameless.run("init", street.url, *limits, "--relay", street.relay)
    village = Village(service, clock, shared_rand("a village"))
    python = street.phone("python")
    reader = Client.set_up(tmp_path / "reader", street.url)
    for day in range(days):
        service.rounds.advance(service.now)
        row = newest(service)
        theirs, ours = f"+12025550{100 + day}", f"+12025550{200 + day}"
        for phones in (named, nameless):
            phones.run("call", theirs)
        python.ingest([Call(ours, int(clock.now), CallKind.MISSED)])
        middle = (row.opens + row.collects) // 2
        for moment in (row.opens, middle - 2, middle - 1, row.collects - 1):
            settled(service, clock, moment)
            steps = named.run("report") + nameless.run("report")
            python.report()
        assert [(step["stage"], step["number"], step["halted"]) for step in steps] == [("announced", theirs, None)] * 6
        village.announce([ours] * 5)
        settled(service, clock, row.collects)
        village.report([ours] * 5)
        settled(service, clock, row.closes - 1)
        steps = named.run("report") + nameless.run("report")
        assert python.report().action == "sent"
        assert [(step["stage"], step["halted"]) for step in steps] == [("sent", None)] * 6
        settled(service, clock, row.closes)
        (mine, *others) = named.run("sync") + nameless.run("sync")
        assert all({**mine, "folder": other["folder"]} == other for other in others)
        assert mine["version"] == day + 1
        reader.sync()
        assert mine["list"] == (tmp_path / "reader" / "lists" / "list.jsonl").read_text(encoding="ascii")
        assert {theirs, ours} <= {json.loads(line).get("number") for line in mine["list"].splitlines()}
        assert {verdict["action"] for verdict in named.run("check", theirs)} == {reader.check(theirs).action.value}
        settled(service, clock, row.next)
    reader.close()


@pytest.mark.parametrize("days", [2, pytest.param(9, marks=pytest.mark.slow)])
def test_days_by_name_and_without_beside_phones_of_python_give_one_list(tmp_path: Path, days: int) -> None:
    listener, clock = bound("127.0.0.1", 0), Clock()
    rounds = {"period": DAY, "anonymous": True, "relay": f"http://127.0.0.1:{port_of(listener)}"}
    settings = settings_for(tmp_path / "server", round=rounds, intake={"per_device": 10_000, "sealed": 100_000})
    service = open_service(settings, shared_rand("nine days"), clock)
    with neighbourhood(service, clock, listener) as street:
        nine_days(tmp_path, street, days)
    service.close()
