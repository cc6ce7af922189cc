"""Disk, database or keys in trouble: probes say so in time, uploads are told to come back, logs name the cause."""

from __future__ import annotations

import errno
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Handset, Village, bearer, operator_token, serving
from tests.server.test_probes import samples

from hushcall.server import metrics
from hushcall.server.db.engine import make_engine
from hushcall.server.http import readiness
from hushcall.server.ingest.group_commit import MAX_SPREAD_SECONDS, RetrySpread
from hushcall.server.ingest.ingest import Intake
from hushcall.server.logs import JsonLines, cause_of
from hushcall.server.problems import Problem
from hushcall.server.rounds import holding
from hushcall.server.serve import metrics_folder
from hushcall.server.service import Service


@contextmanager
def _locked(service: Service) -> Iterator[None]:
    """Somebody else holds what every upload needs."""
    other = make_engine(service.settings.url)
    with other.connect().execution_options(writes=True) as connection, connection.begin():
        if service.store.postgres:
            connection.execute(sa.text("LOCK TABLE announcements, leases IN SHARE ROW EXCLUSIVE MODE"))
        yield
    other.dispose()


@contextmanager
def _read_only(service: Service) -> Iterator[None]:
    """Nothing can be written."""

    def on_connect(connection: Any, _: Any) -> None:
        connection.cursor().execute("PRAGMA query_only=ON")

    def on_begin(connection: Any) -> None:
        connection.exec_driver_sql("SET LOCAL transaction_read_only=on")

    name, listener = ("begin", on_begin) if service.store.postgres else ("connect", on_connect)
    service.store.engine.dispose()
    sa.event.listen(service.store.engine, name, listener)
    yield
    sa.event.remove(service.store.engine, name, listener)
    service.store.engine.dispose()


@pytest.mark.parametrize(("trouble", "said"), [(_locked, "locked"), (_read_only, "read-only")])
def test_a_database_that_cannot_be_written_is_not_ready(
    service: Service, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[Service], Any], said: str
) -> None:
    monkeypatch.setattr(readiness, "CACHE_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "LOCK_SECONDS", 0.5)
    with serving(service) as client:
        with trouble(service):
            answer = client.get("/readyz")
            assert (answer.status_code, said in answer.json()["missing"]["database"]) == (503, True)
        monkeypatch.setattr(readiness, "LOCK_SECONDS", 60.0)
        assert client.get("/readyz").status_code == 200


def test_a_worker_without_its_keys_is_not_ready(lite: Service, client: httpx.Client) -> None:
    next(lite.settings.keys.glob("snapshot*.pem")).unlink()
    answer = client.get("/readyz")
    assert (answer.status_code, list(answer.json()["missing"])) == (503, ["keys"])
    assert "snapshot" in answer.json()["missing"]["keys"]


def test_a_round_that_does_not_move_is_told_while_uploads_go_on(
    lite: Service, client: httpx.Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "CACHE_SECONDS", 0.0)
    Village(lite, clock).to("announcing", [SPAM] * 6)
    token = operator_token(lite, "read")
    row = lite.rounds.newest()
    assert row is not None
    assert samples(client, token)["hushcall_overdue_seconds"] == 0
    clock.now = row.collects + 4000
    answer = client.get("/readyz").json()
    assert (answer["status"], answer["late"]) == ("ready", {"rounds": "should have moved 4000 s ago"})
    assert samples(client, token)["hushcall_overdue_seconds"] == 4000
    holding.hold(lite.store, 1, "somebody looks")
    after = samples(client, token)
    assert (after["hushcall_overdue_seconds"], after["hushcall_rounds_held"]) == (0, 1)


def test_a_database_that_hangs_hangs_no_probe(
    lite: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = operator_token(lite, "read")
    assert samples(client, token)["hushcall_database_up"] == 1
    answered = threading.Event()
    monkeypatch.setattr(readiness, "TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(readiness, "check", lambda *_: answered.wait(60) and readiness.Standing())
    try:
        for _ in range(2):
            answer = client.get("/readyz")
            assert (answer.status_code, answer.json()["missing"]) == (503, {"database": readiness.SILENT})
        assert samples(client, token)["hushcall_database_up"] == 0
        assert client.get("/healthz").status_code == 200
    finally:
        answered.set()


def test_many_probes_cost_one_look(make_service: MakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    service, beats = make_service(), list[str]()
    monkeypatch.setattr(readiness, "CACHE_SECONDS", 3600.0)
    object.__setattr__(service.store, "fault", beats.append)
    with serving(service) as client:
        assert {client.get("/readyz").status_code for _ in range(20)} == {200}
    assert beats.count("heartbeat: after commit") == 1


def test_an_upload_that_cannot_be_stored_is_told_to_come_back(
    make_service: MakeService, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = make_service(database, intake={"patience": 0.5})
    service.rounds.open(service.now)
    with serving(service) as client, caplog.at_level(logging.ERROR, logger="hushcall"):
        phone = Handset.enrolled(client)
        with _locked(service):
            for _ in range(2):
                answer = phone.announce()
                assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (503, "busy")
                assert int(answer.headers["retry-after"]) >= 1
        assert phone.announce().status_code in (200, 201)  # one that was turned away by its age may be stored yet
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    failed = [line for line in lines if line["event"] == "uploads cannot be stored"]
    assert [line["cause"] for line in failed] in ([], ["database locked"])  # or turned away by age before
    assert not [line for line in lines if line["event"] == "request failed"]


def test_an_upload_whose_commit_hangs_is_answered_in_time_and_kept(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(intake={"patience": 0.2})
    service.rounds.open(service.now)
    accept, hangs = Intake.accept, threading.Event()

    def slowly(intake: Intake, asked: Any) -> Any:
        hangs.wait(60)
        return accept(intake, asked)

    with serving(service) as client:
        phone = Handset.enrolled(client)
        monkeypatch.setattr(Intake, "accept", slowly)
        assert phone.announce().status_code == 503, "in its batch"
        assert phone.announce().status_code == 503, "behind it"
        hangs.set()
        monkeypatch.setattr(Intake, "accept", accept)
        while (answer := phone.announce()).status_code == 503:  # each waits for a fifth of a second, at most
            pass
        assert answer.status_code == 200, "the first one was stored"


def test_a_full_queue_is_told_before_anything_is_read(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(intake={"queue": 1})
    service.rounds.open(service.now)
    accept, hangs, begun = Intake.accept, threading.Event(), threading.Event()

    def slowly(intake: Intake, asked: Any) -> Any:
        begun.set()
        hangs.wait(60)
        return accept(intake, asked)

    monkeypatch.setattr(Intake, "accept", slowly)
    statuses: list[int] = []
    with serving(service) as client:
        phones = [Handset.enrolled(client) for _ in range(3)]

        def announce(phone: Handset) -> None:
            statuses.append(phone.announce().status_code)

        threads = [threading.Thread(target=announce, args=(phone,)) for phone in phones[:2]]
        threads[0].start()
        assert begun.wait(60)
        threads[1].start()
        body = b"no JSON at all"
        path, headers = "/v1/rounds/1/announcements", bearer(phones[2].token)
        while (answer := client.post(path, content=body, headers=headers)).status_code == 400:
            pass  # the second one is on its way
        assert answer.status_code == 503
        hangs.set()
        for thread in threads:
            thread.join(60)
    assert statuses == [201, 201]


def test_those_turned_away_come_back_spread_over_a_time_that_grows() -> None:
    now = [1000.0]
    spread = RetrySpread(lambda: now[0])

    def told(count: int) -> list[int]:
        return [spread.next_seconds() for _ in range(count)]

    first = told(1000)
    assert set(first) == {1, 2, 3, 4}
    assert max(first.count(seconds) for seconds in set(first)) < 300, "evenly"
    for _ in range(30):
        now[0] += 1
        later = told(100)
    assert max(later) > 50
    assert len(set(later)) > 40
    now[0] += 10_000
    assert max(told(100)) == 4, "calm again"
    for _ in range(1000):
        now[0] += 1
        last = told(10)
    assert max(last) <= 1 + MAX_SPREAD_SECONDS


def test_causes_are_named_and_messages_are_not(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "small.db")) as small:
        small.execute("PRAGMA max_page_count=3")
        small.execute("CREATE TABLE t (x)")
        with pytest.raises(sqlite3.Error) as full:
            small.execute("INSERT INTO t VALUES (zeroblob(100000))")
    wrapped = sa.exc.OperationalError("INSERT …", {}, full.value)
    assert (cause_of(full.value), cause_of(wrapped)) == ("disk full", "disk full")
    assert cause_of(OSError(errno.EMFILE, SPAM)) == "too many open files"
    assert cause_of(OSError(errno.EIO, SPAM)) == "disk error"
    assert cause_of(sa.exc.TimeoutError()) == "no free connection to the database"
    assert [cause_of(error) for error in (None, ValueError(SPAM), Problem("busy"))] == ["", "", ""]


def test_metrics_of_several_workers_are_added_up_and_survive_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()
    monkeypatch.setenv(metrics.SHARED, str(folder))
    monkeypatch.setattr(metrics, "_own_worker", "me")
    name = "hushcall_refused_total"
    metrics.REFUSED.labels("busy").inc(0)
    before = metrics.exposition({}).decode()
    other = [[name, [["problem", "busy"]], 5.0], [name, [["problem", "odd"]], 2.0]]
    (folder / "other.json").write_text(json.dumps(other), encoding="utf-8")
    (folder / "broken.json").write_text("[", encoding="utf-8")
    after = metrics.exposition({}).decode()

    def value(text: str, problem: str) -> float:
        found = [line for line in text.splitlines() if line.startswith(f'{name}{{problem="{problem}"}}')]
        return float(found[0].split()[1]) if found else 0.0

    assert value(after, "busy") - value(before, "busy") == 5
    assert value(after, "odd") - value(before, "odd") == 2
    shared = metrics.Sharing("me")
    shared.write()
    assert value(metrics.exposition({}).decode(), "busy") == value(after, "busy"), "its own file is not added again"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    shared.write()
    metrics.REFUSED.labels("never met before").inc()
    assert "never met before" in metrics.exposition({}).decode()


def test_what_a_killed_server_left_of_its_metrics_is_swept_away(tmp_path: Path) -> None:
    mine = metrics_folder(tmp_path)
    (tmp_path / "metrics-4194305").mkdir()  # above the largest number that a process can have
    assert metrics_folder(tmp_path) == mine
    assert [path.name for path in tmp_path.iterdir()] == [mine.name]
