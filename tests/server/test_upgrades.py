"""Servers of four earlier schemas, on both databases, and their phones go on. Data of newer releases is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.client.fake_server import FakeServer, FakeService
from tests.kept import unpacked
from tests.server.serving import SPAM, Clock, Village, newest, settings_for

from hushcall.client.client import Client
from hushcall.client.reporting import ledger
from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import Store
from hushcall.client.storage.trouble import Cause, StoreTrouble
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.randomness import seeded
from hushcall.protocol.states import ANNOUNCING, PUBLISHED
from hushcall.server.db.engine import make_engine
from hushcall.server.db.rows import existing_round
from hushcall.server.publishing import exclusions
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.service import Service, open_service

OLD = sorted((Path(__file__).parent / "old").glob("schema-*.tar.xz"))
OTHER, THIRD = "+13035550100", "+12025550199"
CALLERS = [SPAM] * 12 + [OTHER] * 9 + [THIRD] * 9
STORES = {"0002": 1, "0003": 3, "0006": 4, "0009": 4}
"""Schema of the server → of the phone's store."""


@pytest.fixture(params=OLD, ids=lambda path: path.name[7:11])
def packed(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def known(tmp_path: Path, packed: Path) -> dict[str, Any]:
    return unpacked(packed, tmp_path)


@pytest.fixture
def old(tmp_path: Path, known: dict[str, Any], database: str, packed: Path) -> Iterator[Service]:
    folder = tmp_path / ("postgresql" if database else "sqlite")
    if database:
        engine = make_engine(database)
        with engine.begin() as connection:
            connection.exec_driver_sql((folder / "dump.sql").read_text(encoding="utf-8"))
        engine.dispose()
    else:
        with closing(sqlite3.connect(folder / "hushcall.db")) as raw:
            assert raw.execute("SELECT version_num FROM alembic_version").fetchone() == (packed.name[7:11],)
    now = known[folder.name]["now"]
    service = open_service(settings_for(folder, database), seeded(b"today"), Clock(now))
    yield service
    service.close()


def listed(service: Service) -> list[str]:
    with service.store.read() as connection:
        made = newest_list(connection)
    assert made is not None
    return sorted(entry.number for entry in made.entries)


def test_an_earlier_server_opens_with_everything_and_its_round_goes_on(
    old: Service, known: dict[str, Any], database: str
) -> None:
    before = known["postgresql" if database else "sqlite"]
    with old.store.read() as connection:
        assert [existing_round(connection, number).state for number in (1, 2, 3)] == [PUBLISHED, PUBLISHED, ANNOUNCING]
    assert listed(old) == before["listed"] == [SPAM, OTHER]
    assert [(row.number, row.closed) for row in exclusions.appeals(old.store)] == [(THIRD, None)]
    assert old.devices.enrol("invite", old.now, invite=before["invite"])[0] > 0
    clock = Clock(newest(old).collects)
    old.clock = clock
    old.rounds.advance(old.now)
    answers = Village(old, clock, seeded(b"phones of today"), before["tokens"]).report(CALLERS)
    assert {getattr(answer, "status", answer) for answer in answers} == {201}
    clock.now = newest(old).closes
    assert old.rounds.advance(old.now)[-1] == "round 3 is published"
    assert old.corrections.close(1, "it was no school", old.now)
    assert listed(old) == [SPAM, THIRD, OTHER]


def test_an_earlier_phone_opens_with_its_ledger_and_its_list(
    tmp_path: Path, known: dict[str, Any], packed: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "phone" / "phone.db")) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (STORES[packed.name[7:11]],)
    now = known["sqlite"]["now"]
    server = FakeServer(FakeService(lambda: now))
    with closing(Client(Store.open(tmp_path / "phone"), server, rand=seeded(b"today"), clock=lambda: now)) as phone:
        spends = [[spend.round, str(spend.epsilon), spend.what] for spend in ledger.spends(phone.store)]
        assert spends == known["sqlite"]["spends"]
        assert [phone.check(number).action is Action.ALLOW for number in (SPAM, OTHER, THIRD)] == [False, False, True]
        assert phone.ingest([Call(THIRD, now - 60, CallKind.MISSED)])


def test_a_database_of_a_newer_release_is_refused_and_left_alone(tmp_path: Path, database: str) -> None:
    settings = settings_for(tmp_path, database)
    service = open_service(settings)
    with service.store.write("a later release") as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    service.close()
    with pytest.raises(InvalidParameter, match=r"a newer hushcall has used it\. Nothing was changed: update this one"):
        open_service(settings)
    engine = make_engine(settings.url)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == "9999"
    engine.dispose()


def test_a_store_of_a_newer_release_is_refused_and_nobody_is_told_to_erase_it(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "phone.db")) as raw:
        raw.execute("PRAGMA user_version = 99")
    with pytest.raises(
        StoreTrouble, match=r"was written by a newer hushcall .* Nothing was changed\. Update"
    ) as caught:
        Store.open(tmp_path)
    assert caught.value.cause is Cause.NEWER
    assert not {"forget", "delete", "remove", "erase", "restore"} & set(str(caught.value).lower().split())
