"""The proof of a server that is killed: what it compares is seen, and each planted bug is noticed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa
from tests.server.serving import Clock, Village, newest, settings_for

from hushcall.lab.prove import crash, mortal
from hushcall.lab.prove.child import Child, Cold, Forked
from hushcall.lab.prove.keeper import Relay, free_port
from hushcall.lab.prove.mortal import Fate, Hook
from hushcall.lab.prove.moving import Mover
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
    assert "1 of 25 acknowledged reports were lost" in found.broken
    again = compared(service.store, Sent(1, sent.seed, sent.bodies, set(sent.bodies), {next(iter(sent.bodies))}))
    assert again.lost == 1, "one that was new to the server when it came again"
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


def test_a_process_meets_its_fate_once(tmp_path: Path) -> None:
    mortal.lay(tmp_path, Fate("seal bucket: before commit", 2))
    hook = Hook(tmp_path)
    child = os.fork()
    if child == 0:
        for bucket in (202, 303, 404):
            hook(f"seal bucket {bucket}: after commit")
            (tmp_path / "reached").write_text(str(bucket), "ascii")
            hook(f"seal bucket {bucket}: before commit")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert mortal.met(tmp_path)
    assert (tmp_path / "reached").read_text("ascii") == "303"
    for bucket in (202, 303):
        Hook(tmp_path)(f"seal bucket {bucket}: before commit")  # another process of the same server


def test_all_of_a_process_stands_still_until_it_is_woken(tmp_path: Path) -> None:
    mortal.lay(tmp_path, Fate("seal bucket: after commit", stops=True))
    hook, passed = Hook(tmp_path), list[str]()

    def passes(name: str) -> None:
        hook(name)
        passed.append(name)

    threads = [Thread(target=passes, args=[name]) for name in ("seal bucket 202: after commit", "lease: after commit")]
    threads[0].start()
    while not mortal.met(tmp_path):
        time.sleep(0.001)
    threads[1].start()
    passes("lease: before commit")
    assert passed == ["lease: before commit"], "whoever is in a transaction ends it"
    assert all(thread.is_alive() for thread in threads)
    mortal.wake(tmp_path)
    for thread in threads:
        thread.join(60)
    assert len(passed) == 3


@pytest.mark.slow
def test_a_server_that_is_killed_loses_nothing() -> None:
    found = crash.prove(7, seed=3)
    assert found.broken == ""
    assert found.ok
    assert found.kills >= found.cycles >= 7
    assert found.acknowledged > crash.PHONES / 2


@pytest.mark.slow
def test_a_server_whose_workers_are_killed_loses_nothing() -> None:
    found = crash.prove(7, seed=1, workers=2)
    assert found.broken == ""
    assert found.workers == 2
    assert found.kills >= found.cycles >= 7
    assert 0 < found.nameless < found.acknowledged


def test_rounds_that_a_scheduler_moves_are_waited_for_and_not_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever forces a round that somebody else has just opened would force it out of what is waited for."""
    asked: list[str] = []
    operator: Any = SimpleNamespace(ask=lambda _, path: asked.append(path))
    keeper: Any = SimpleNamespace(wait=lambda: None)
    mover = Mover(cast("Any", None), keeper, operator)
    seen = iter([(0, "published"), (0, "published"), (0, "published"), (0, "published"), (1, "announcing")])
    monkeypatch.setattr(mover, "newest", lambda: next(seen))
    mover.move("announcing")
    assert asked == []
    seen = iter([(1, "published"), (1, "published"), (1, "published"), (1, "published"), (3, "announcing")])
    mover.move("announcing")
    assert asked == ["/v1/admin/rounds/advance?force=true&round=1&state=published"]


@pytest.mark.parametrize("kind", [Cold, Forked])
def test_a_process_can_be_killed_from_any_thread(kind: type[Child], tmp_path: Path) -> None:
    child = kind(["serve", "--no-such-option"], {}, tmp_path / "log")
    child.wait()
    assert child.status() == 2
    assert "no-such-option" in (tmp_path / "log").read_text("utf-8")
    relay = Relay(1, tmp_path, free_port())
    relay.start(cold=kind is Cold)
    ending = Thread(target=relay.child.wait)
    ending.start()
    assert relay.ready()
    relay.child.kill()
    ending.join(60)
    assert relay.child.status() == -signal.SIGKILL
    relay.child.kill()  # it is dead already


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    found = crash.prove(5, seed=1, plant=bug, waves=1)
    assert found.broken
    assert not found.ok
    assert ("counted more than once" in found.broken) == (bug == "retry-counted")
