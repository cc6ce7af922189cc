"""Corrections and forced steps that come at the same moment as something else: none is lost, none is done twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Barrier, Thread
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from tests.server.serving import SPAM, Clock, Village, newest, settings_for

from hushcall.server.db import schema, store
from hushcall.server.db.leases import Term
from hushcall.server.db.store import Store
from hushcall.server.publishing import exclusions, publisher
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import holding
from hushcall.server.service import Service

OTHER = "+12025550177"
CALLERS = [SPAM] * 8 + [OTHER] * 8
Correct = Callable[[Service], object]


def _appeal(service: Service) -> object:
    return service.corrections.appeal(SPAM, "mine", "its owner", service.now)


def _allow(service: Service) -> object:
    return service.corrections.allow(SPAM, "a school", "its owner", service.now)


def _listed(service: Service) -> list[str]:
    with service.store.read() as connection:
        found = newest_list(connection)
    return [entry.number for entry in found.entries] if found else []


def _once_looked_up(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Somebody acts right after the draft has read who must not be listed."""
    look: Callable[..., Any] = exclusions.never_listed
    acted: list[object] = []

    def slowly(*arguments: Any) -> Any:
        found = look(*arguments)
        if not acted:
            acted.append(None)
            acted.append(act())
        return found

    monkeypatch.setattr(publisher, "never_listed", slowly)


@pytest.mark.parametrize("correct", [_appeal, _allow])
def test_a_correction_that_comes_while_the_list_is_drafted_is_in_it(
    village: Village, monkeypatch: pytest.MonkeyPatch, correct: Correct
) -> None:
    service, number = village.service, village.to("decoded", CALLERS)
    _once_looked_up(monkeypatch, lambda: correct(service))
    service.rounds.publish(number, service.now)
    assert newest(service).state == "published"
    assert _listed(service) == [OTHER]


def test_a_number_whose_appeal_ends_while_the_list_is_drafted_is_on_it(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, number = village.service, village.to("decoded", CALLERS)
    entry = exclusions.appeal(service.store, SPAM, "mine", "its owner", service.now)
    _once_looked_up(monkeypatch, lambda: service.corrections.close(entry, "not theirs", service.now))
    service.rounds.publish(number, service.now)
    assert _listed(service) == [SPAM, OTHER]


@pytest.mark.parametrize("correct", [_appeal, _allow])
def test_a_correction_that_comes_while_the_list_is_put_into_force_takes_the_number_off(
    village: Village, monkeypatch: pytest.MonkeyPatch, correct: Correct
) -> None:
    service, number = village.service, village.to("decoded", CALLERS)
    put: Callable[..., Any] = store.put_files
    others: list[Thread] = []

    def slowly(*arguments: Any) -> Any:
        if not others:
            others.append(Thread(target=correct, args=(service,)))
            others[0].start()
            others[0].join(timeout=0.5)  # long enough to finish, if it did not wait for this transaction
        return put(*arguments)

    monkeypatch.setattr(publisher, "put_files", slowly)
    service.rounds.publish(number, service.now)
    others[0].join(timeout=60)
    assert not others[0].is_alive()
    assert _listed(service) == [OTHER]


def test_two_who_force_the_same_step_move_the_round_once(village: Village, monkeypatch: pytest.MonkeyPatch) -> None:
    service, number = village.service, village.to("announcing", CALLERS)
    others: list[list[str]] = []

    def overtaken(store: Store, term: Term, now: int) -> None:
        """Another operator, who pressed the button before this one: it is done by the time that we look."""
        monkeypatch.setattr(holding, "forget_held", forget)
        others.append(service.rounds.advance(service.now, force=True))
        forget(store, term, now)

    forget = holding.forget_held
    monkeypatch.setattr(holding, "forget_held", overtaken)
    assert service.rounds.advance(service.now, force=True) == []
    assert others == [[f"round {number} is collecting"]]
    assert newest(service).state == "collecting"


@pytest.mark.parametrize("write", ["announcing to collecting", "collecting to closed", "closed to decoded"])
def test_who_comes_second_in_the_middle_of_a_step_is_told_that_nothing_moved(village: Village, write: str) -> None:
    service = village.service
    number = village.to("announcing" if write.startswith("announcing") else "collecting", CALLERS)
    others: list[list[str]] = []
    write_now = type(service.rounds)._write

    @contextmanager
    def second(machine: object, name: str) -> Iterator[Connection]:
        if name == write and not others:
            others.append([])
            others[0] += service.rounds.advance(service.now, force=True)
        with write_now(service.rounds, name) as connection:
            yield connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(service.rounds), "_write", second)
        done = service.rounds.advance(service.now, force=True)
    told = [line for line in done + others[0] if line.startswith(f"round {number} is")]
    assert len(told) == len(set(told)) > 0
    assert not set(done) & set(others[0])


def test_what_is_forced_is_what_was_seen(village: Village) -> None:
    service, number = village.service, village.to("collecting", CALLERS)
    row = newest(service)
    assert service.rounds.advance(service.now, force=True, seen=(number, type(row.state)("announcing"))) == []
    assert newest(service).state == "collecting"
    assert service.rounds.advance(service.now, force=True, seen=(number, row.state))
    assert newest(service).state == "published"


def test_those_who_appeal_at_once_share_one_appeal(service: Service) -> None:
    together, made = Barrier(4), set()

    def appeal(place: int) -> None:
        together.wait(60)
        made.add(exclusions.appeal(service.store, SPAM, f"mine {place}", "its owner", service.now))

    threads = [Thread(target=appeal, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 1
    assert len(exclusions.appeals(service.store)) == 1
    exclusions.close_appeal(service.store, made.pop(), "no", service.now)
    exclusions.appeal(service.store, SPAM, "again", "its owner", service.now)
    assert len(exclusions.appeals(service.store)) == 2


def test_the_database_itself_refuses_a_second_open_appeal(service: Service) -> None:
    row = {"number": SPAM, "why": "mine", "who": "its owner", "at": service.now}
    with pytest.raises(sa.exc.IntegrityError), service.store.write("test") as connection:
        connection.execute(sa.insert(schema.appeals), [row, row])


def test_appeals_that_were_doubled_before_are_closed_by_the_migration(
    service: Service, clock: Clock, tmp_path: Any
) -> None:
    del clock
    row = {"number": SPAM, "why": "mine", "who": "its owner", "at": service.now}
    with service.store.write("as it was") as connection:
        connection.execute(sa.text("DROP INDEX appeals_open"))
        connection.execute(sa.insert(schema.appeals), [row, row, {**row, "number": OTHER}])
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0003'"))
    settings = settings_for(tmp_path / "data", service.settings.database)
    again = store.open_store(settings.url)
    found = exclusions.appeals(again)
    again.close()
    assert [(one.number, one.closed is None) for one in found] == [(OTHER, True), (SPAM, False), (SPAM, True)]
