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

from hushcall.errors import InvalidParameter
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service, open_service
from hushcall_lab.proofs import crash, kill_points
from hushcall_lab.proofs.crash_clients import Admin
from hushcall_lab.proofs.kill_points import Hook, KillPoint
from hushcall_lab.proofs.processes import Program, free_port
from hushcall_lab.proofs.server_bugs import CRASH_BUGS
from hushcall_lab.proofs.tally_check import Comparison, Sent, compare

CALLERS = ["+12025550143", "+12025550177", "+13035550100", "+13035550101"] * 6


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Service, Sent]:
    """A service with a sealed round, and what its phones sent."""
    settings = settings_for(tmp_path_factory.mktemp("crash"), round={"windows": [1, 2]})
    clock = Clock()
    service = open_service(settings, seeded(b"a round to compare"), clock)
    Village(service, clock).to("collecting", CALLERS)
    newest_round, reports = newest(service), service.store.rows(sa.select(schema.reports))
    sent = Sent(
        newest_round.id, bytes(newest_round.seed), {bytes(row.ticket): (row.bucket, bytes(row.body)) for row in reports}
    )
    sent.acknowledged |= set(sent.bodies)
    service.rounds.close(newest_round.id)
    service.rounds.learn(newest_round.id)
    return service, sent


def test_a_round_in_which_nothing_went_wrong(sealed: tuple[Service, Sent]) -> None:
    service, sent = sealed
    assert compare(service.store, sent) == Comparison(1, len(CALLERS), 0, 0, 0)
    assert compare(service.store, sent).broken == ""


def test_a_report_that_is_in_no_tally_is_lost(sealed: tuple[Service, Sent]) -> None:
    service, sent = sealed
    more = {**sent.bodies, bytes(16): next(iter(sent.bodies.values()))}
    comparison = compare(service.store, Sent(1, sent.seed, more, set(more)))
    assert (comparison.lost, comparison.twice, comparison.foreign) == (1, 0, 0)
    assert "1 of 25 acknowledged reports were lost" in comparison.broken
    again = compare(service.store, Sent(1, sent.seed, sent.bodies, set(sent.bodies), {next(iter(sent.bodies))}))
    assert again.lost == 1, "one that was new to the server when it came again"
    unacknowledged = compare(service.store, Sent(1, sent.seed, more, set(sent.bodies)))
    assert unacknowledged.broken == "", "one that nobody acknowledged may be there or not"


def test_a_report_that_nobody_sent_is_made_up(sealed: tuple[Service, Sent]) -> None:
    service, sent = sealed
    fewer = dict(list(sent.bodies.items())[1:])
    comparison = compare(service.store, Sent(1, sent.seed, fewer, set(fewer)))
    assert (comparison.lost, comparison.twice, comparison.foreign) == (0, 0, 1)


def test_other_bytes_under_a_ticket_are_a_loss_and_made_up(sealed: tuple[Service, Sent]) -> None:
    service, sent = sealed
    ticket, (bucket, body) = next(iter(sent.bodies.items()))
    other = {**sent.bodies, ticket: (bucket, body[:-1] + bytes([body[-1] ^ 1]))}
    comparison = compare(service.store, Sent(1, sent.seed, other, set(other)))
    assert (comparison.lost, comparison.twice, comparison.foreign) == (1, 0, 1)


def test_a_kill_point_fires_once(tmp_path: Path) -> None:
    kill_points.arm(tmp_path, KillPoint("seal bucket: before commit", 2))
    hook = Hook(tmp_path)
    child = os.fork()
    if child == 0:
        for bucket in (202, 303, 404):
            hook(f"seal bucket {bucket}: after commit")
            (tmp_path / "reached").write_text(str(bucket), "ascii")
            hook(f"seal bucket {bucket}: before commit")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert kill_points.fired(tmp_path)
    assert (tmp_path / "reached").read_text("ascii") == "303"
    for bucket in (202, 303):
        Hook(tmp_path)(f"seal bucket {bucket}: before commit")  # another process of the same server


def test_all_threads_of_a_process_stall_until_it_resumes(tmp_path: Path) -> None:
    kill_points.arm(tmp_path, KillPoint("seal bucket: after commit", stalls=True))
    hook, passed = Hook(tmp_path), list[str]()

    def passes(name: str) -> None:
        hook(name)
        passed.append(name)

    threads = [Thread(target=passes, args=[name]) for name in ("seal bucket 202: after commit", "lease: after commit")]
    threads[0].start()
    while not kill_points.fired(tmp_path):
        time.sleep(0.001)
    threads[1].start()
    passes("lease: before commit")
    assert passed == ["lease: before commit"], "whoever is in a transaction ends it"
    assert all(thread.is_alive() for thread in threads)
    kill_points.resume(tmp_path)
    for thread in threads:
        thread.join(60)
    assert len(passed) == 3


@pytest.mark.slow
def test_a_server_that_is_killed_loses_nothing() -> None:
    result = crash.prove(7, seed=3)
    assert result.broken == ""
    assert result.kills >= result.cycles >= 7
    assert result.acknowledged > crash.CLIENTS / 2


@pytest.mark.slow
def test_a_server_whose_workers_are_killed_loses_nothing() -> None:
    result = crash.prove(7, seed=1, workers=2)
    assert result.broken == ""
    assert result.workers == 2
    assert result.kills >= result.cycles >= 7
    assert 0 < result.anonymous < result.acknowledged


def test_rounds_that_a_scheduler_moves_are_waited_for_and_not_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever forces a round that somebody else has just opened would force it out of what is waited for."""
    asked: list[str] = []
    operator: Any = SimpleNamespace(ask=lambda _, path: asked.append(path))
    restarter: Any = SimpleNamespace(wait=lambda: None)
    admin = Admin(cast("Any", None), restarter, operator)
    seen = iter([(0, "published"), (0, "published"), (0, "published"), (0, "published"), (1, "announcing")])
    monkeypatch.setattr(admin, "newest", lambda: next(seen))
    admin.move("announcing")
    assert asked == []
    seen = iter([(1, "published"), (1, "published"), (1, "published"), (1, "published"), (3, "announcing")])
    admin.move("announcing")
    assert asked == ["/v1/admin/rounds/advance?force=true&round=1&state=published"]


def test_a_free_port_is_none_that_the_system_hands_out() -> None:
    with bound("127.0.0.1", free_port()) as listener:
        port = port_of(listener)
        assert free_port() > port >= 20_000
        assert port < 32_768


def test_a_process_can_be_killed_from_any_thread(tmp_path: Path) -> None:
    wrong = Program(["serve", "--no-such-option"], free_port(), tmp_path)
    wrong.start()
    with pytest.raises(InvalidParameter, match="no-such-option"):
        wrong.ready()
    relay = Program.relay(1, tmp_path, free_port())
    relay.start()
    ending = Thread(target=relay.process.wait)
    ending.start()
    assert relay.ready()
    relay.kill()
    ending.join(60)
    assert relay.process.poll() == -signal.SIGKILL
    relay.kill()  # it is dead already


@pytest.mark.slow
@pytest.mark.parametrize("bug", CRASH_BUGS)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    result = crash.prove(5, seed=1, bug=bug, waves=1)
    assert result.broken
    assert ("counted more than once" in result.broken) == (bug == "retry-counted")
