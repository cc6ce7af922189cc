"""A server that begins again from a backup: phones sync and take part at once, and nothing before the backup is lost.

Between backup and restore the lost server decides the round, opens and publishes others, and a phone takes part in all
of it: so it has seen round documents and versions that the backup knows nothing of.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, downgraded, newest

from hushcall.client.client import Client
from hushcall.client.reporting import split_view
from hushcall.errors import InvalidParameter, UntrustedList
from hushcall.server import effective_settings
from hushcall.server.backup import back_up
from hushcall.server.db import schema
from hushcall.server.db.rows import existing_round
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.restore import _set_aside, move_up, restore
from hushcall.server.rounds import holding
from hushcall.server.serve import bound
from hushcall.server.service import Service, open_service
from hushcall.server.settings import load_settings
from hushcall.server.signing import ceremony
from hushcall_lab.servers import running

SEEN, NEW = [SPAM] * 8, ["+12125550199"] * 8
OTHER_PHASES = ("announcing", "closed", "decoded", "held", "held while collecting", "published")


def step(service: Service, clock: Clock, moment: int) -> None:
    clock.now = moment
    service.rounds.advance(service.now)


def a_round(service: Service, clock: Clock, village: Village, phone: Client, callers: list[str]) -> None:
    """One more round, with everybody."""
    service.rounds.open(service.now)
    assert phone.report(skip_delays=True).action == "announced"
    village.announce(callers)
    step(service, clock, newest(service).collects)
    assert phone.report(skip_delays=True).action in ("sent", "skipped")
    village.report(callers)
    step(service, clock, newest(service).closes)
    clock.now = newest(service).next


def bring(service: Service, clock: Clock, village: Village, phone: Client, phase: str) -> None:
    """Round 2 to where the backup is made."""
    number = service.rounds.open(service.now)
    assert phone.report(skip_delays=True).action == "announced"
    village.announce(NEW)
    if phase == "announcing":
        return
    clock.now = newest(service).collects
    service.rounds.start_collecting(number, service.now)
    village.report(NEW)
    if phase == "held while collecting":
        holding.hold(service.store, number, "to have a look")
    if phase in ("collecting", "held while collecting"):
        return
    clock.now = newest(service).closes
    service.rounds.close(number)
    if phase == "held":
        holding.hold(service.store, number, "to have a look")
    if phase in ("closed", "held"):
        return
    service.rounds.learn(number)
    if phase == "published":
        service.rounds.publish(number, service.now)


def lose(service: Service, clock: Clock, village: Village, phone: Client) -> None:
    """What happens after the backup: the round ends, with a phone more in it, and another one passes."""
    row = newest(service)
    if row.state == "held":
        holding.release(service.store, row.id)
    if row.phase == "announcing":
        step(service, clock, row.collects)
    phone.report(skip_delays=True)
    step(service, clock, newest(service).closes)
    clock.now = newest(service).next
    a_round(service, clock, village, phone, SEEN)
    phone.sync()


@pytest.mark.parametrize("phase", ["collecting", *(pytest.param(one, marks=pytest.mark.slow) for one in OTHER_PHASES)])
def test_phones_go_on_with_a_restored_server_at_once(
    make_service: MakeService, database: str, clients: None, empty: str, clock: Clock, tmp_path: Path, phase: str
) -> None:
    service = make_service(database)
    village = Village(service, clock)
    village.to("published", SEEN)
    with running(service, scheduler=False) as address:
        port = int(address.rpartition(":")[2])
        phone = Client.set_up(tmp_path / "phone", address, limits={"report": 16, "rounds_per_day": 100})
        phone.sync()
        bring(service, clock, village, phone, phase)
        back_up(service, tmp_path / "backup")
        lose(service, clock, village, phone)
        before = phone.sync().version

    done = restore(tmp_path / "backup", tmp_path / "new", empty, clock=clock)
    assert done.restart is not None
    assert done.restart.was == 2
    assert done.restart.now % 1000 == 2
    assert done.restart.now > newest(service).id, "no phone can have joined it"
    again = open_service(done.settings, service.rand, clock)
    with running(again, bound("127.0.0.1", port), scheduler=False):
        synced = phone.sync()  # at once: no waiting until versions overtake
        assert synced.version > before
        assert phone.check(SPAM).entry
        crowd = Village(again, clock, tokens=village.tokens)
        held = existing_round(again.store.engine.connect(), done.restart.now)
        if phase.startswith("held"):
            assert (held.state, held.held_from) == ("held", "closed")
            holding.release(again.store, done.restart.now)
        again.rounds.advance(again.now)  # what was under way is learnt, and the next round opens
        found = again.store.rows(sa.select(schema.hitters.c.number).where(schema.hitters.c.round == done.restart.now))
        assert [row.number for row in found] == ([] if phase == "announcing" else NEW[:1])
        clock.now = max(clock.now, newest(again).next if newest(again).state == "published" else clock.now)
        a_round(again, clock, crowd, phone, SEEN)
        assert phone.sync().version > synced.version
        assert split_view.rejection(phone.store, phone.transport.url) is None
        assert phone.check(SPAM).entry  # of rounds before and after: windows did not tear
        phone.close()


def test_without_moving_on_a_phone_would_refuse(make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
    """What the numbers are moved for; and what --as-it-was must not be used for."""
    service = make_service()
    village = Village(service, clock)
    village.to("published", SEEN)
    with running(service, scheduler=False) as address:
        phone = Client.set_up(tmp_path / "phone", address, limits={"report": 16, "rounds_per_day": 100})
        back_up(service, tmp_path / "backup")
        a_round(service, clock, village, phone, NEW)
        phone.sync()
    done = restore(tmp_path / "backup", tmp_path / "new", as_it_was=True, clock=clock)
    assert done.restart is None
    again = open_service(done.settings, service.rand, clock)
    with running(again, bound("127.0.0.1", int(address.rpartition(":")[2])), scheduler=False):
        with pytest.raises(UntrustedList, match="older than the one that this phone has seen"):
            phone.sync()
        again.rounds.open(again.now)
        assert phone.report(skip_delays=True).action == "done"  # it was in a round 2 already
    phone.close()


def test_every_acknowledged_report_before_the_backup_is_in_it(
    make_service: MakeService, database: str, clients: None, empty: str, clock: Clock, tmp_path: Path
) -> None:
    """While uploads come in: what was acknowledged before the backup began is in what is restored."""
    service = make_service(database)
    village = Village(service, clock)
    village.to("collecting", SEEN)
    reports = sa.select(schema.reports.c.ticket)
    acknowledged, stop = {bytes(row.ticket) for row in service.store.rows(reports)}, threading.Event()

    def enrol() -> None:
        while not stop.is_set():
            service.devices.enrol("open", service.now)

    writer = threading.Thread(target=enrol)
    writer.start()
    try:
        back_up(service, tmp_path / "backup")
    finally:
        stop.set()
        writer.join(60)
    done = restore(tmp_path / "backup", tmp_path / "new", empty, clock=clock)
    again = open_service(done.settings, clock=clock)
    assert acknowledged <= {bytes(row.ticket) for row in again.store.rows(reports)}
    assert len(acknowledged) == len(SEEN)
    again.close()


def test_what_is_there_is_not_overwritten_unless_told_and_then_kept(
    make_service: MakeService, database: str, clients: None, clock: Clock, tmp_path: Path
) -> None:
    service = make_service(database)
    Village(service, clock).to("published", SEEN)
    back_up(service, tmp_path / "backup")
    service.devices.enrol_many(3, service.now)
    where = database or "data"
    elsewhere = tmp_path / ("other" if database else "data")
    with pytest.raises(InvalidParameter, match=r"be empty, or to be overwritten \(--overwrite"):
        restore(tmp_path / "backup", elsewhere, database, clock=clock)
    assert service.term.take()
    with pytest.raises(InvalidParameter, match="service must be stopped before its data are replaced") as refused:
        restore(tmp_path / "backup", elsewhere, database, overwrite=True, clock=clock)
    assert where.rpartition("/")[2].partition("?")[0] in str(refused.value)
    service.term.give_up()
    service.close()
    done = restore(tmp_path / "backup", elsewhere, database, overwrite=True, clock=clock)
    again = open_service(done.settings, clock=clock)
    assert len(again.devices.devices(100)) == 8
    again.close()
    if not database:
        assert done.aside is not None
        kept = open_service(service.settings.model_copy(update={"data": done.aside}), clock=clock)
        assert len(kept.devices.devices(100)) == 11
        kept.close()
    assert not (elsewhere / "restore.part").exists()


def test_a_restore_that_breaks_off_leaves_nothing_or_a_folder_that_says_so(
    make_service: MakeService, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    Village(service, clock).to("published", SEEN)
    back_up(service, tmp_path / "backup")
    with monkeypatch.context() as patch:
        patch.setattr("hushcall.server.restore.go_on", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            restore(tmp_path / "backup", tmp_path / "new", clock=clock)
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "new" / "restore.part").mkdir()  # as a power cut leaves it
    with pytest.raises(InvalidParameter, match="a restore into it did not end"):
        open_service(service.settings.model_copy(update={"data": tmp_path / "new"}), clock=clock)
    restore(tmp_path / "backup", tmp_path / "new", clock=clock)
    clock.now -= 10
    with pytest.raises(InvalidParameter, match="clock must not be before the moment at which the backup was made"):
        restore(tmp_path / "backup", tmp_path / "newer", clock=clock)


def test_settings_travel_with_the_backup(make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
    service = make_service(
        round={"epsilon": 8.0, "windows": [1, 3]}, list={"exports": ["plain"]}, guard={"devices": 5.0}
    )
    back_up(service, tmp_path / "backup")
    done = restore(tmp_path / "backup", tmp_path / "new", clock=clock)
    assert done.settings.round == service.settings.round
    assert load_settings(tmp_path / "new" / "restored.toml") == done.settings.model_copy(
        update={"data": tmp_path / "new"}
    )
    assert effective_settings.of_folder(data=tmp_path / "new") == (done.settings, [])
    with pytest.raises(InvalidParameter, match="database must be left out"):
        restore(tmp_path / "backup", tmp_path / "more", "postgresql://u@h/n", clock=clock)


def test_rounds_move_up_with_everything_that_names_them(village: Village) -> None:
    service = village.service
    village.to("published", SEEN)
    village.to("collecting", NEW)
    rows = {t.name: service.store.rows(sa.select(t)) for t in schema.metadata.sorted_tables if "round" in t.c}
    move_up(service, 3000)
    for table in schema.metadata.sorted_tables:
        if "round" in table.c:
            moved = sorted(row.round for row in service.store.rows(sa.select(table)))
            assert moved == sorted(row.round + 3000 for row in rows[table.name]), table.name
    assert [row.id for row in service.store.rows(sa.select(schema.rounds.c.id).order_by("id"))] == [3001, 3002]
    with service.store.read() as connection:
        assert newest_list(connection) is not None


def test_after_a_rotation_that_was_lost_one_more_than_that_brings_phones_back(
    make_service: MakeService, clock: Clock, tmp_path: Path
) -> None:
    service = make_service()
    Village(service, clock).to("published", SEEN)
    moment, root_key = datetime.fromtimestamp(clock.now, UTC), service.settings.keys / "offline" / "root.pem"
    with running(service, scheduler=False) as address:
        phone = Client.set_up(tmp_path / "phone", address)
        back_up(service, tmp_path / "backup")
        ceremony.rotate(service.store, service.settings.keys, "timestamp", moment, lambda _: b"")
        phone.sync()
    done = restore(tmp_path / "backup", tmp_path / "new", clock=clock)
    again = open_service(done.settings, service.rand, clock)
    with running(again, bound("127.0.0.1", int(address.rpartition(":")[2])), scheduler=False):
        with pytest.raises(UntrustedList):
            phone.sync()
        for _ in range(2):
            ceremony.rotate(again.store, again.settings.keys, "timestamp", moment, lambda _: b"", root_key)
        assert phone.sync().entries == 1
    phone.close()


@pytest.mark.parametrize("release", ["this", "an earlier"])
def test_a_backup_is_restored_over_rounds_that_came_after_it(
    make_service: MakeService, database: str, clients: None, clock: Clock, tmp_path: Path, release: str
) -> None:
    """A round that was collecting comes back with its reports, whichever rounds the database has reports of now."""
    service = make_service(database)
    village = Village(service, clock)
    number = village.to("collecting", SEEN)
    kept = {bytes(row.ticket) for row in service.store.rows(sa.select(schema.reports.c.ticket))}
    assert len(kept) == len(SEEN)
    if release == "an earlier":
        downgraded(service.settings.url, "0006")
    back_up(service, tmp_path / "backup")
    service.close()
    service = make_service(database)
    Village(service, clock, tokens=village.tokens)
    clock.now = newest(service).closes
    service.rounds.advance(service.now)
    clock.now = newest(service).next
    Village(service, clock, tokens=village.tokens).to("collecting", NEW)
    service.close()
    elsewhere = tmp_path / ("other" if database else "data")
    done = restore(tmp_path / "backup", elsewhere, database, overwrite=True, clock=clock)
    again = open_service(done.settings, clock=clock)
    assert {bytes(row.ticket) for row in again.store.rows(sa.select(schema.reports.c.ticket))} == kept
    assert done.restart is not None
    assert done.restart.now > number
    again.rounds.advance(again.now)
    found = again.store.rows(sa.select(schema.hitters.c.number).where(schema.hitters.c.round == done.restart.now))
    assert {row.number for row in found} == {SPAM}
    again.close()


def test_a_log_that_goes_while_the_folder_is_set_aside_is_not_missed(tmp_path: Path) -> None:
    kept, gone = tmp_path / "hushcall.db", tmp_path / "hushcall.db-wal"
    kept.write_bytes(b"pages")
    aside = _set_aside(tmp_path, [gone, kept], 0.0)
    assert [one.name for one in aside.iterdir()] == [kept.name]
    assert not kept.exists()
    with pytest.raises(FileNotFoundError):  # somebody else takes the database away: that is no time to go on
        _set_aside(tmp_path, [kept], 1.0)
