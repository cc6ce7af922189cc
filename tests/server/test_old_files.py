"""Archive, backups and list of an earlier release: they are read, and a server and a phone go on from them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.kept import unpacked
from tests.server.serving import SPAM, Clock, Village

from hushcall.client import saving
from hushcall.client.reporting import ledger
from hushcall.client.storage.store import Store
from hushcall.decoding.archive.files import problems
from hushcall.decoding.archive.learn import learn
from hushcall.decoding.archive.manifest import Address
from hushcall.decoding.backends import ProcessBackend
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.randomness import seeded
from hushcall.protocol.states import PUBLISHED
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.restore import restore
from hushcall.server.service import open_service

OLD = Path(__file__).parent / "old" / "files.tar.xz"
OTHER = "+13035550100"


@pytest.fixture
def known(tmp_path: Path) -> dict[str, Any]:
    return unpacked(OLD, tmp_path)


def test_its_archive_is_whole_and_says_the_same(tmp_path: Path, known: dict[str, Any]) -> None:
    address = Address(str(tmp_path / "archive"))
    rounds = address.rounds()
    assert [list(problems(address, archived, deep=True)) for archived in rounds] == [[], []]
    for archived in rounds:
        before = known["learnt"][str(archived.round)]
        for row in before:  # that release printed estimates beyond their intervals here, and clamped ones on a server
            row["estimate"] = min(max(row["estimate"], row["low"]), row["high"])
            row |= {"strict": row["length"], "hinted": 0}  # as a round of one tier has them
        now = learn(address, archived, ProcessBackend(0), archive=rounds).listed
        assert sorted(now, key=lambda row: row["number"]) == sorted(before, key=lambda row: row["number"])
        assert {row["number"] for row in now} == {SPAM, OTHER}


def test_its_list_is_the_same_bytes(known: dict[str, Any]) -> None:
    data = known["list"].encode()
    assert Blocklist.from_bytes(data).to_bytes() == data


def test_a_server_goes_on_from_its_backup(tmp_path: Path, known: dict[str, Any]) -> None:
    clock = Clock(known["now"] + 100)
    restored = restore(tmp_path / "server.tar", tmp_path / "server", clock=clock)
    with closing(open_service(restored.settings, seeded(b"today"), clock)) as service:
        with service.store.read() as connection:
            before = newest_list(connection)
        assert before is not None
        old = Blocklist.from_bytes(known["list"].encode())
        assert before.version > old.version
        assert before.entries == old.entries
        Village(service, clock, seeded(b"phones of today"), known["tokens"]).to(PUBLISHED, [SPAM] * 12)
        with service.store.read() as connection:
            after = newest_list(connection)
    assert after is not None
    assert after.version == before.version + 1
    assert SPAM in {entry.number for entry in after.entries}


def test_a_phone_goes_on_from_its_backup(tmp_path: Path, known: dict[str, Any]) -> None:
    restored = saving.restore(tmp_path / "phone", tmp_path / "phone.backup", known["now"])
    assert restored.reports == len(known["spends"]) == 2
    assert restored.assumed > 0  # what it may have spent since
    with closing(Store.open(tmp_path / "phone")) as store:
        spends = [[spend.round, str(spend.epsilon), spend.what] for spend in ledger.spends(store)]
    assert spends[:2] == known["spends"]
