"""Several decoders on one database share a round; a dead one's jobs go on elsewhere, a late one writes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from tests.postgres import Postgres
from tests.server.conftest import MakeService
from tests.server.serving import PERIOD, Clock, Village, everything, newest, settings_for, shared_rand, state

from hushcall.decoding import backends
from hushcall.errors import InvalidParameter
from hushcall.server.db import leases as leasing
from hushcall.server.db import schema
from hushcall.server.db.leases import LEASE_SECONDS, Lease, Leases, LostLease
from hushcall.server.db.rows import existing_round
from hushcall.server.db.store import Store
from hushcall.server.rounds import holding, round_data
from hushcall.server.scheduler import Scheduler, decoder
from hushcall.server.service import Service

AREAS = ("202", "303", "404", "505", "606")
CALLERS = [f"+1{area}5550143" for area in AREAS for _ in range(8)]
RESULTS = ("tallies", "hitters", "decodings", "versions", "changes")
Hook = Callable[[int], None]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The database's clock."""
    seconds = [1000.0]
    monkeypatch.setattr(Store, "now", lambda _: seconds[0])
    return seconds


def closed(make_service: MakeService, database: str, clock: Clock, **sections: Any) -> tuple[Service, int]:
    """A server with a round to be decoded; the same one whenever it is made."""
    service = make_service(database, shared_rand("one or many"), **sections)
    return service, Village(service, clock).to("closed", CALLERS)


def results(service: Service) -> dict[str, list[tuple[Any, ...]]]:
    found = everything(service)
    return {name: found[name] for name in RESULTS}


def hook(monkeypatch: pytest.MonkeyPatch, moment: str, called: Hook) -> None:
    """Have ``called`` called with the bucket, once it is tallied or decoded and before that is written."""
    module, name = (round_data, "sealed_tally") if moment == "seal" else (backends, "decode")
    work: Callable[..., Any] = getattr(module, name)

    def interrupted(first: Any, *rest: Any) -> Any:
        found = work(first, *rest)
        called(first.bucket if moment == "seal" else first.bucket.bucket)
        return found

    monkeypatch.setattr(module, name, interrupted)


@pytest.fixture
def alone(make_service: MakeService) -> dict[str, list[tuple[Any, ...]]]:
    """What one process finds, on SQLite."""
    clock = Clock()
    service, number = closed(make_service, "", clock, folder="alone")
    service.rounds.advance(service.now)
    assert state(service, number) == "published"
    return results(service)


@pytest.mark.parametrize("moment", ["seal", "decode"])
def test_two_share_a_round_and_find_what_one_finds(
    make_service: MakeService,
    database: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    alone: dict[str, list[tuple[Any, ...]]],
    moment: str,
) -> None:
    leader, number = closed(make_service, database, clock)
    other = make_service(database)
    assert leader.term.take()
    done: list[int] = []

    def while_the_first_is_at_it(bucket: int) -> None:
        done.append(bucket)
        if len(done) == 1:
            assert Scheduler(other, helps=True).turn()  # it does not lead, and takes everything else

    hook(monkeypatch, moment, while_the_first_is_at_it)
    assert leader.rounds.advance(leader.now)[-1] == f"round {number} is published"
    assert sorted(done) == sorted(map(int, AREAS)), "each once"
    assert results(leader) == alone
    assert leader.store.rows(sa.select(schema.leases.c.name).where(schema.leases.c.name.like("round%"))) == []


def test_a_decoder_needs_nothing_but_the_database(
    make_service: MakeService, clock: Clock, tmp_path: Path, alone: dict[str, list[tuple[Any, ...]]]
) -> None:
    service, number = closed(make_service, "", clock)
    elsewhere = settings_for(tmp_path / "elsewhere", service.settings.url)
    helper = decoder(elsewhere, leads=False)
    assert Scheduler(helper, leads=False, helps=True).turn()
    assert not elsewhere.keys.exists()
    assert (state(service, number), helper.term.lease) == ("closed", None), "somebody else leads"
    helper.close()
    with pytest.raises(InvalidParameter, match="hold the online keys"):
        decoder(elsewhere, leads=True)
    assert service.rounds.advance(service.now)[-1] == f"round {number} is published"
    assert results(service) == alone


def test_a_dead_ones_jobs_are_done_by_another_when_its_leases_ran_out(
    make_service: MakeService, database: str, clock: Clock, now: list[float], alone: dict[str, list[tuple[Any, ...]]]
) -> None:
    service, number = closed(make_service, database, clock)
    dead = Leases(service.store, "killed")
    assert len(dead.take_some([f"round {number}/202/seal", f"round {number}/303/seal"], 2)) == 2
    assert service.term.take()
    assert service.rounds.advance(service.now) == [], "two buckets are in its hands"
    assert sorted(row.bucket for row in service.store.rows(sa.select(schema.decodings.c.bucket))) == [404, 505, 606]
    now[0] += LEASE_SECONDS + 1
    assert service.term.take()
    assert service.rounds.advance(service.now)[-1] == f"round {number} is published"
    assert results(service) == alone


def _late_decoder_writes_nothing(
    service: Service, other: Leases, number: int, now: list[float], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A decoder is held up over its lease, another has taken its job over and is not done yet."""
    name, taken = f"round {number}/202/{'seal' if moment == 'seal' else 0}", list[Lease | None]()

    def held_up(bucket: int) -> None:
        if bucket == 202 and not taken:
            now[0] += LEASE_SECONDS + 1
            taken.append(other.take(name))

    with monkeypatch.context() as patched:
        hook(patched, moment, held_up)
        assert service.term.take()
        assert service.rounds.advance(service.now) == []
    assert taken[0]
    assert taken[0].token == 2
    table = schema.tallies if moment == "seal" else schema.decodings
    assert sorted(row.bucket for row in service.store.rows(sa.select(table.c.bucket))) == [303, 404, 505, 606]
    assert state(service, number) == "closed"


@pytest.mark.parametrize("moment", ["seal", "decode"])
def test_a_late_decoder_writes_nothing(
    make_service: MakeService,
    database: str,
    clock: Clock,
    now: list[float],
    monkeypatch: pytest.MonkeyPatch,
    alone: dict[str, list[tuple[Any, ...]]],
    moment: str,
) -> None:
    service, number = closed(make_service, database, clock)
    _late_decoder_writes_nothing(service, Leases(service.store, "quick"), number, now, monkeypatch, moment)
    now[0] += LEASE_SECONDS + 1  # the other one died over it
    assert service.term.take()
    assert service.rounds.advance(service.now)[-1] == f"round {number} is published"
    assert results(service) == alone


@pytest.mark.parametrize("moment", ["seal", "decode"])
def test_a_lease_without_a_fence_would_be_noticed(
    make_service: MakeService, clock: Clock, now: list[float], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    service, number = closed(make_service, "", clock)
    monkeypatch.setattr(Leases, "check", lambda *_: None)
    with pytest.raises(AssertionError):
        _late_decoder_writes_nothing(service, Leases(service.store, "quick"), number, now, monkeypatch, moment)


STEPS: dict[str, tuple[str, Callable[[Service, int], object]]] = {
    "open": ("published", lambda service, _: service.rounds.open(service.now + PERIOD)),
    "collect": ("announcing", lambda service, number: service.rounds.start_collecting(number, service.now)),
    "close": ("collecting", lambda service, number: service.rounds.close(number, service.now)),
    "decode": ("closed", lambda service, number: service.rounds.learn(number)),
    "publish": ("decoded", lambda service, number: service.rounds.publish(number, service.now)),
    "forget": ("closed", lambda service, _: holding.forget_held(service.store, service.term, newest(service).next)),
    "bring back": ("announcing", lambda service, _: service.rounds.advance(service.now - 10 * PERIOD)),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_late_leader_moves_no_round(
    make_service: MakeService, clock: Clock, now: list[float], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    slow, quick = make_service(), make_service()
    before, act = STEPS[step]
    number = Village(slow, clock).to(before, CALLERS)

    def overtaken() -> list[tuple[Any, ...]]:
        assert slow.term.take()
        now[0] += LEASE_SECONDS + 1
        assert quick.term.take()
        with pytest.raises(LostLease):
            act(slow, number)
        found = everything(slow)
        return [tuple(row) for row in found["rounds"]] + found["versions"]

    if step == "forget":
        holding.hold(slow.store, number, "a look")
    rows = everything(slow)
    assert overtaken() == rows["rounds"] + rows["versions"]
    quick.term.give_up()
    monkeypatch.setattr(Leases, "check", lambda *_: None)
    with pytest.raises(pytest.fail.Exception):  # without a fence it would have
        overtaken()


def test_a_round_waits_for_an_earlier_one_that_others_are_decoding(
    make_service: MakeService, database: str, clock: Clock, now: list[float]
) -> None:
    service, first = closed(make_service, database, clock)
    assert Leases(service.store, "elsewhere").take(f"round {first}/202/seal")
    clock.now = newest(service).next
    second = Village(service, clock).to("closed", CALLERS)
    assert service.term.take()
    service.rounds.advance(service.now)
    assert (state(service, first), state(service, second)) == ("closed", "closed"), "its window needs the first"
    assert {row.round for row in service.store.rows(sa.select(schema.tallies.c.round))} == {first}
    now[0] += LEASE_SECONDS + 1
    assert service.term.take()
    service.rounds.advance(service.now)
    assert (state(service, first), state(service, second)) == ("published", "published")


def test_an_operators_own_step_takes_jobs_from_whoever_has_them(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    service, number = closed(make_service, database, clock)
    other = Leases(service.store, "at work")
    lease = other.take(f"round {number}/202/seal")
    assert lease
    assert service.rounds.advance(service.now)[-1] == f"round {number} is published"
    with pytest.raises(LostLease), service.store.write("too late") as connection:
        other.check(connection, lease)


def test_work_that_hangs_is_left_to_others(
    make_service: MakeService, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look of the keeping thread is one of these waits: it renews until nothing has changed for too long."""
    leases, looks = Leases(make_service().store, "hangs"), list[float]()
    lease = leases.take("a job")
    assert lease

    class Waits(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            now[0] += timeout or 0
            looks.append(now[0])
            return len(looks) > 200

    monkeypatch.setattr(leasing, "threading", SimpleNamespace(Event=Waits, Thread=threading.Thread))
    with leases.renewing(lambda: [lease]):
        pass
    (until,) = leases.store.rows(sa.select(schema.leases.c.until))[0]
    assert 600 <= until - 1000 <= 600 + 2 * LEASE_SECONDS
    assert len(looks) == 201
    assert Leases(leases.store, "another").take("a job")


def test_nobody_overtakes_between_the_check_and_the_commit(make_service: MakeService, postgres: Postgres) -> None:
    url = postgres.fresh()
    store = make_service(url).store
    leases = Leases(store, "at work")
    lease = leases.take("a job")
    assert lease
    taken = sa.update(schema.leases).values(holder="another", token=2)
    with store.write("a result") as connection:
        leases.check(connection, lease)
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), store.write("over", 0.1) as other:
            other.execute(taken)
    with store.write("over") as other:
        assert other.execute(taken).rowcount == 1
    store.close()
    postgres.drop(url)


def test_what_a_machine_that_is_gone_had_locked_is_free_again(make_service: MakeService, postgres: Postgres) -> None:
    """It vanished between its check and its commit: no connection was closed, and nobody says so."""
    url = postgres.fresh()
    gone, alive = Leases(make_service(url).store, "gone"), Leases(make_service(url).store, "alive")
    lease, taken = gone.take("a job"), list[Lease]()
    assert lease

    def vanish() -> None:
        with gone.store.write("a result") as connection:
            assert connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar() == "10min"
            gone.check(connection, lease)
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 100")  # the test's patience
            taken.extend(alive.take_some(["a job"], 1, by_force=True))  # it waits for the lock, and gets it
            connection.execute(sa.select(schema.leases))

    with pytest.raises(sa.exc.DBAPIError, match="idle-in-transaction"):
        vanish()
    assert [one.token for one in taken] == [2]
    for leases in (gone, alive):
        leases.store.close()
    postgres.drop(url)


def wait_for_its_lock(step: Future[Any], store: Store) -> None:
    """Until a step in another thread waits for a lock of PostgreSQL, or is over."""
    waiting = sa.text("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
    while not (step.done() or store.rows(waiting)):
        time.sleep(0.01)


def test_a_result_and_the_end_of_its_round_take_turns(
    make_service: MakeService, postgres: Postgres, clock: Clock
) -> None:
    """A result that locks its lease before its round is what PostgreSQL calls a deadlock."""
    url = postgres.fresh()
    service, number = closed(make_service, url, clock)
    with ThreadPoolExecutor(1) as pool:
        with service.store.write("discard") as connection:
            existing_round(connection, number, locked=True)
            helper = pool.submit(service.rounds.help)
            wait_for_its_lock(helper, service.store)
            leasing.forget_round(connection, number)
            round_data.set_round(connection, number, state="published")
        helper.result()
    assert service.store.rows(sa.select(schema.tallies)) == []
    service.store.close()
    postgres.drop(url)


@pytest.mark.parametrize("step", ["take", "give up", "forget"])
def test_leases_are_locked_in_the_order_of_their_names(
    make_service: MakeService, postgres: Postgres, step: str
) -> None:
    url = postgres.fresh()
    store = make_service(url).store
    leases, table = Leases(store, "at work"), schema.leases.c
    first, last = f"{leasing.round_prefix(1)}202/10", f"{leasing.round_prefix(1)}202/2"
    both = [leases.take(last), leases.take(first)]  # so they lie in the table, too

    def lock() -> None:
        if step == "take":
            leases.take_some([last, first], 2, by_force=True)
        elif step == "give up":
            leases.give_up(filter(None, both))
        else:
            with store.write("forget") as connection:
                leasing.forget_round(connection, 1)

    with ThreadPoolExecutor(1) as pool:
        with store.write("another") as connection:
            connection.execute(sa.update(schema.leases).where(table.name == first).values(holder="another"))
            locking = pool.submit(lock)
            wait_for_its_lock(locking, store)
            connection.execute(sa.update(schema.leases).where(table.name == last).values(holder="another"))
        locking.result()
    store.close()
    postgres.drop(url)
