"""The same reports give the same list, byte for byte: any order, each sent twice, either database, 1 or 4 workers.

What is random about a server (its rounds' seeds, its tokens) comes from seeded coins here, and what is random about the
phones is fixed too, so that nothing but the order of arrival and the machinery differs.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.server.serving import START, Clock, newest, settings_for

from hushcall.mechanisms import parameters
from hushcall.protocol.numbers import NANP, Number
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import report_seed
from hushcall.server.ingest.ingest import ticket_for
from hushcall.server.rounds.round_data import bucket_specs
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings
from hushcall_lab.simulation.load import drive

PHONES, ROUNDS = 240, 2
SPAM = [NANP.number(202, 5_550_101), NANP.number(202, 5_550_102), NANP.number(303, 5_550_103)]
_SERVE = """
import socket, sys
from hushcall.server.serve import serve
from hushcall.server.settings import Settings
if __name__ == "__main__":
    serve(Settings.model_validate_json(sys.argv[2]), socket.socket(fileno=int(sys.argv[1])))
"""


def _caller(phone: int, number: int) -> Number:
    """Whom a phone reports in a round: half of them spam, the rest strangers; the third spammer stops."""
    world = random.Random(phone * 1000 + number)
    if world.random() < 0.6:
        return SPAM[phone % (3 if number == 1 else 2)]
    return NANP.number(world.choice([202, 303, 404]), world.randrange(NANP.first_suffix, NANP.suffixes))


def _put(method: str, path: str, token: str, body: bytes) -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@contextmanager
def _workers(settings: Settings, folder: Path) -> Iterator[int]:
    """A server with its worker processes; its port."""
    script = folder / "serve.py"
    script.write_text(_SERVE, encoding="utf-8")
    with bound("127.0.0.1", 0) as listener:
        port, handed = port_of(listener), listener.fileno()
        command = [sys.executable, str(script), str(handed), settings.model_dump_json()]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, pass_fds=[handed])
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=60)


def _run(folder: Path, url: str, workers: int, order: int) -> dict[str, bytes]:
    """Two rounds; what was published in the end, without the signatures."""
    folder.mkdir()
    clock = Clock()
    settings = settings_for(
        folder / "data",
        url,
        server={"workers": workers},
        round={"profile": "balanced"},
        list={"exports": ["all"]},
    )
    service = open_service(settings, seeded(b"the same server"), clock)
    try:
        devices = service.devices.enrol_many(PHONES, service.now)
        with _workers(settings, folder) as port:
            for number in range(1, ROUNDS + 1):
                _round(service, clock, number, devices, port, random.Random(order + number) if order else None)
        return {
            path.split("/", 1)[1]: data for path, data in service.store.files().items() if path.startswith("targets/")
        }
    finally:
        service.close()


def _round(
    service: Service,
    clock: Clock,
    number: int,
    devices: Sequence[tuple[int, str]],
    port: int,
    shuffled: random.Random | None,
) -> None:
    def send(requests: list[bytes]) -> None:
        if shuffled:  # every upload twice, all in any order
            requests = shuffled.sample(requests * 2, 2 * len(requests))
        outcome = asyncio.run(drive("127.0.0.1", port, requests, 16, 0.0))
        assert outcome.statuses["201"] >= PHONES  # two workers that get the same at once both say "created"
        assert outcome.statuses["201"] + outcome.statuses.get("200", 0) == len(requests)

    clock.now = START + (number - 1) * 1000
    assert service.rounds.open(service.now) == number
    row = newest(service)
    callers = [_caller(phone, number) for phone in range(PHONES)]
    send(
        [
            _put("POST", f"/v1/rounds/{number}/announcements", token, f'{{"bucket": {caller.area}}}'.encode())
            for (_, token), caller in zip(devices, callers, strict=True)
        ]
    )
    clock.now = row.collects
    service.rounds.start_collecting(number, service.now)
    mechanisms = {one.bucket: parameters.from_plain(one.parameters) for one in bucket_specs(service.store, number)}
    uploads = []
    for (device, token), caller in zip(devices, callers, strict=True):
        ticket = ticket_for(bytes(row.secret), device)
        public, rand = report_seed(bytes(row.seed), ticket), seeded(b"phone %d %d" % (device, number))
        body = mechanisms[caller.area].privatise(caller.suffix, public, rand)
        uploads.append(_put("PUT", f"/v1/rounds/{number}/reports/{ticket.hex()}", token, body))
    send(uploads)
    clock.now = row.closes
    assert service.rounds.advance(service.now)[-1] == f"round {number} is published"


@pytest.fixture(scope="module")
def once_in_order(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every upload once, in order, one worker, SQLite."""
    return _run(tmp_path_factory.mktemp("same") / "first", "", 1, 0)


@pytest.mark.parametrize("workers", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_any_order_twice_either_database_any_workers(
    once_in_order: dict[str, bytes], database: str, workers: int, tmp_path: Path
) -> None:
    found = _run(tmp_path / "again", database, workers, order=workers + 10 * bool(database))
    assert found == once_in_order
    lists = [data for path, data in found.items() if path.endswith(".blocklist.jsonl") and "/" not in path]
    assert len(lists) == ROUNDS
    assert all(str(number).encode() in data for data in lists for number in SPAM[:2])
    assert len(found) > 10, "deltas and exports were compared too"
