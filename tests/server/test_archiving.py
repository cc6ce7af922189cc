"""Rounds between servers and archives: out and in again with the same checksums, and the same numbers found."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.serving import Clock, settings_for

from hushcall.decoding.archive.files import problems
from hushcall.decoding.archive.learn import learn
from hushcall.decoding.archive.manifest import Address, ArchivedRound
from hushcall.decoding.backends import ProcessBackend
from hushcall.errors import InvalidArchive, InvalidParameter
from hushcall.mechanisms.profiles import PROFILES
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.rounds import archiving
from hushcall.server.service import Service, open_service
from hushcall_lab.data import archive_synthesis


def quiet(done: int, total: int) -> None:
    assert done <= total


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return open_service(settings_for(tmp_path / "data"), seeded(b"archiving"), Clock())


@pytest.fixture
def invented(tmp_path: Path) -> tuple[Address, ArchivedRound]:
    url = str(tmp_path / "first")
    found, _ = archive_synthesis.invent(url, 1500, PROFILES["sensitive"], 2, seed=3, areas=2, workers=0)
    return Address(url), found


def checksums(found: ArchivedRound) -> list[tuple[int, int, str]]:
    return [(bucket.bucket, bucket.reports, bucket.checksum) for bucket in found.buckets]


def test_a_round_comes_in_goes_out_again_and_is_decoded(
    service: Service, invented: tuple[Address, ArchivedRound], tmp_path: Path
) -> None:
    address, found = invented
    archiving.import_round(service.store, address, found, quiet)
    again = Address(str(tmp_path / "second"))
    written = archiving.export_round(service.store, 1, again, quiet)
    assert checksums(written) == checksums(found)
    assert (written.seed, written.profile, written.skipped) == (found.seed, found.profile, found.skipped)
    assert list(problems(again, written, deep=True)) == []

    service.rounds.learn(1)
    rows = service.store.rows(sa.select(schema.hitters).order_by(schema.hitters.c.number))
    listed = sorted(learn(address, found, ProcessBackend(0)).listed, key=lambda row: row["number"])
    assert [(row.number, row.p_value) for row in rows] == [(row["number"], row["p_value"]) for row in listed]
    assert len(rows) == 2
    with pytest.raises(InvalidParameter, match="keep_reports"):
        archiving.export_round(service.store, 1, Address(str(tmp_path / "third")), quiet)


def test_an_import_that_was_cut_off_goes_on_and_one_that_is_done_is_refused(
    service: Service, invented: tuple[Address, ArchivedRound]
) -> None:
    address, found = invented

    def cut_off(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archiving.import_round(service.store, address, found, cut_off)
    assert service.store.rows(sa.select(schema.rounds.c.state))[0].state == "held"
    archiving.import_round(service.store, address, found, quiet)
    assert service.store.rows(sa.select(sa.func.count()).select_from(schema.reports))[0][0] == 1500
    with pytest.raises(InvalidParameter, match="does not have"):
        archiving.import_round(service.store, address, found, quiet)


def test_a_round_that_takes_reports_or_is_not_there_is_not_exported(service: Service, tmp_path: Path) -> None:
    address = Address(str(tmp_path / "archive"))
    number = service.rounds.open(service.now)
    with pytest.raises(InvalidParameter, match="still takes reports"):
        archiving.export_round(service.store, number, address, quiet)
    with pytest.raises(InvalidParameter, match=r"There is no round 2; the newest is 1\."):
        archiving.export_round(service.store, number + 1, address, quiet)
    with pytest.raises(InvalidArchive):
        address.rounds()
