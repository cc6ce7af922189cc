"""``kill -9`` at every boundary of issuer and intake: nobody is counted twice, and nobody loses a round to a crash.

The phone's side is written down before each step (``phone.reporting.blind_pass``), so it asks for the same again; here
the server dies before and after every commit in between, and the phone comes back with the same bytes.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.anonymous import told
from tests.server.serving import COLLECTS, Clock, settings_for

from hushcall.protocol.anonymity import tokens
from hushcall.protocol.randomness import seeded
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import schema
from hushcall.server.ingest.ingest import Announce, Answer, Decisions, Intake, Upload
from hushcall.server.service import Service, open_service

PHONES = 2


def opened(folder: Path, fault: Callable[[str], None] = lambda _: None) -> Service:
    return open_service(settings_for(folder, round={"anonymous": True}), seeded(b"server"), Clock(), fault)


def prepared(folder: Path) -> list[bytes]:
    """A server with a round open, and its phones' credentials."""
    service = opened(folder)
    service.rounds.open(service.now)
    made = service.devices.enrol_many(PHONES, service.now)
    service.close()
    return [token_hash(token) for _, token in made]


def played(folder: Path, devices: list[bytes], fault: Callable[[str], None]) -> None:
    """What is left of the round, for phones that always ask for the same."""
    service = opened(folder, fault)
    (terms, seed), intake = told(service), Intake(service.store, "kill")
    held = []
    for place, device in enumerate(devices):
        pending = tokens.prepare(terms.token_key, seed, seeded(b"phone %d" % place))
        request = tokens.write_request(terms.token_key, pending)
        kept = folder / f"token-{place}"
        if not kept.exists():
            signed = service.issuer.issue(device, 1, request)
            kept.write_bytes(tokens.token_of(terms.token_key, pending, signed))
        held.append(kept.read_bytes())
    _all_taken(intake.accept([Announce(token, 1, 202) for token in held]))
    service.rounds.start_collecting(1, COLLECTS)
    with service.store.read() as connection:
        mechanism = Decisions().of(connection, 1).mechanisms[202]
    assert mechanism is not None
    body = mechanism.privatise(5_550_143, bytes(32), seeded(b"report"))
    _all_taken(intake.accept([Upload(token, 1, bytes.fromhex(tokens.ticket_of_token(token)), body) for token in held]))
    service.close()


def _all_taken(answers: Sequence[object]) -> None:
    assert all(isinstance(answer, Answer) for answer in answers), answers


def dying(folder: Path, devices: list[bytes], place: int) -> None:
    passed = iter(range(place + 1))

    def fault(_: str) -> None:
        if next(passed, None) == place:
            os.kill(os.getpid(), signal.SIGKILL)

    played(folder, devices, fault)


def boundaries(folder: Path, devices: list[bytes]) -> list[str]:
    names: list[str] = []
    played(folder, devices, names.append)
    return names


def rows(folder: Path) -> tuple[int, ...]:
    service = opened(folder)
    tables = (schema.issued, schema.announcements, schema.reports)
    counts = tuple(len(service.store.rows(sa.select(table.c.round))) for table in tables)
    service.close()
    return counts


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["first of a kind", "every"])
def test_a_server_that_is_killed_anywhere_counts_everybody_once(tmp_path: Path, every: bool) -> None:
    start = tmp_path / "start"
    start.mkdir()
    devices = prepared(start)
    whole = tmp_path / "whole"
    shutil.copytree(start, whole)
    names = boundaries(whole, devices)
    assert {"issue a token: before commit", "issue a token: after commit", "intake: after commit"} <= set(names)
    assert rows(whole) == (PHONES, PHONES, PHONES)
    fork = multiprocessing.get_context("fork")
    first = [
        place for place, name in enumerate(names) if name not in names[:place] and name.startswith(("issue", "intake"))
    ]
    for place in range(len(names)) if every else first:
        folder = tmp_path / f"killed-{place}"
        shutil.copytree(start, folder)
        child = fork.Process(target=dying, args=(folder, devices, place))
        child.start()
        child.join(120)
        assert child.exitcode == -signal.SIGKILL, names[place]
        played(folder, devices, lambda _: None)
        assert rows(folder) == (PHONES, PHONES, PHONES), names[place]
        shutil.rmtree(folder)
