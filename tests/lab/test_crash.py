"""The proof of a server that is killed: what it compares is seen, and each planted bug is noticed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.serving import Clock, Village, newest, settings_for

from hushcall.lab.prove import crash, mortal
from hushcall.lab.prove.mortal import Fate, Hook
from hushcall.lab.prove.planted_server import BUGS
from hushcall.lab.prove.tallied import Sent, Tallied, compared
from hushcall.privacy.coins import seeded
from hushcall.server.db import schema
from hushcall.server.service import Service, open_service

CALLERS = ["+12025550143", "+12025550177", "+13035550100", "+13035550101"] * 6


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Service, Sent]:
    """A service with a sealed round, and what its phones sent."""
    settings = settings_for(tmp_path_factory.mktemp("crash"), round={"windows": [1, 2]})
    clock = Clock()
    service = open_service(settings, seeded(b"a round to compare"), clock)
    Village(service, clock).to("collecting", CALLERS)
    row, reports = newest(service), service.store.rows(sa.select(schema.reports))
    sent = Sent(row.id, bytes(row.seed), {bytes(one.ticket): (one.bucket, bytes(one.body)) for one in reports})
    sent.acknowledged |= set(sent.bodies)
    service.rounds.close(row.id)
    service.rounds.learn(row.id)
    return service, sent


def test_a_round_in_which_nothing_went_wrong(sealed: tuple[Service, Sent]) -> None:
    service, sent = sealed
    assert compared(service.store, sent) == Tallied(1, len(CALLERS), 0, 0, 0)
    assert compared(service.store, sent).broken == ""


def test_a_report_that_is_in_no_tally_is_lost(sealed: tuple[Service, Sent]) -> None:
    service, sent = sealed
    more = {**sent.bodies, bytes(16): next(iter(sent.bodies.values()))}
    found = compared(service.store, Sent(1, sent.seed, more, set(more)))
    assert (found.lost, found.twice, found.foreign) == (1, 0, 0)
    assert "1 of 25 acknowledged reports are in no tally" in found.broken
    unacknowledged = compared(service.store, Sent(1, sent.seed, more, set(sent.bodies)))
    assert unacknowledged.broken == "", "one that nobody acknowledged may be there or not"


def test_a_report_that_nobody_sent_is_made_up(sealed: tuple[Service, Sent]) -> None:
    service, sent = sealed
    fewer = dict(list(sent.bodies.items())[1:])
    found = compared(service.store, Sent(1, sent.seed, fewer, set(fewer)))
    assert (found.lost, found.twice, found.foreign) == (0, 0, 1)


def test_other_bytes_under_a_ticket_are_a_loss_and_made_up(sealed: tuple[Service, Sent]) -> None:
    service, sent = sealed
    ticket, (bucket, body) = next(iter(sent.bodies.items()))
    other = {**sent.bodies, ticket: (bucket, body[:-1] + bytes([body[-1] ^ 1]))}
    found = compared(service.store, Sent(1, sent.seed, other, set(other)))
    assert (found.lost, found.twice, found.foreign) == (1, 0, 1)


@pytest.mark.parametrize("stops", [False, True])
def test_a_process_meets_its_fate_once(tmp_path: Path, stops: bool) -> None:
    mortal.lay(tmp_path, Fate("seal bucket: before commit", 2, stops))
    hook = Hook(tmp_path)
    child = os.fork()
    if child == 0:
        for bucket in (202, 303, 404):
            hook(f"seal bucket {bucket}: after commit")
            (tmp_path / "reached").write_text(str(bucket), "ascii")
            hook(f"seal bucket {bucket}: before commit")
        os._exit(0)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert mortal.met(tmp_path)
    assert (tmp_path / "reached").read_text("ascii") == "303"
    if stops:
        assert os.WIFSTOPPED(status)
        os.kill(child, signal.SIGCONT)
        assert os.waitpid(child, 0)[1] == 0, "woken, it goes on, and is not stopped again"
    else:
        assert os.WTERMSIG(status) == signal.SIGKILL
        Hook(tmp_path)("seal bucket 202: before commit")  # another process of the same server
        Hook(tmp_path)("seal bucket 303: before commit")


@pytest.mark.slow
def test_a_server_that_is_killed_loses_nothing() -> None:
    found = crash.prove(7, seed=3)
    assert found.broken == ""
    assert found.ok
    assert found.kills >= found.cycles >= 7
    assert found.acknowledged > crash.PHONES / 2


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    found = crash.prove(5, seed=1, plant=bug, waves=1)
    assert found.broken
    assert not found.ok
    assert ("counted more than once" in found.broken) == (bug == "retry-counted")
