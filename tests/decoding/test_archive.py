"""Archives: what goes in comes out, every kind of damage is found, a stranger's tool reads them."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcall.decoding.archive import files
from hushcall.decoding.archive.files import finish_round, problems, start_round, write_bucket
from hushcall.decoding.archive.manifest import MANIFEST, Address, ArchivedRound
from hushcall.errors import InvalidArchive
from hushcall.mechanisms import parameters
from hushcall.mechanisms.profiles import PROFILES
from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.mechanisms.subspace.client import Subspace

PARAMETERS = parameters.to_plain(Subspace(3.0, 5))


def arrays(count: int, seed: int, width: int = 3) -> ReportArrays:
    rng = np.random.default_rng(seed)
    return ReportArrays(
        rng.integers(0, 256, (count, 16)).astype(np.uint8), rng.integers(0, 256, (count, width)).astype(np.uint8)
    )


def make(folder: Path, sizes: dict[int, list[int]], number: int = 7) -> tuple[Address, ArchivedRound]:
    """An archive with one round: bucket → sizes of its chunks."""
    address = Address(str(folder))
    name = start_round(address, number)
    buckets = [
        write_bucket(address, name, bucket, sum(counts), PARAMETERS, _chunks(counts, bucket))
        for bucket, counts in sizes.items()
    ]
    plain = PROFILES["strong"].to_plain()
    return address, finish_round(address, number, bytes(32), "nanp-2026", plain, buckets, {999: 3}, {"closes": 5})


def _chunks(counts: list[int], seed: int) -> Iterator[ReportArrays]:
    return (arrays(count, seed + place) for place, count in enumerate(counts))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 50), max_size=6), st.integers(1, 60), st.integers(1, 40))
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], rows: int, at: int) -> None:
    """In order, whatever the sizes of chunks, files and batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "ROWS_A_FILE", rows)
        address, found = make(tmp_path_factory.mktemp("archive"), {212: sizes})
    back = [part for file in found.buckets[0].files for part in files.read_file(address, found.folder, file, at)]
    wanted = list(_chunks(sizes, 212))
    for name in ("tickets", "bodies"):
        got = b"".join(getattr(part, name).tobytes() for part in back)
        assert got == b"".join(getattr(part, name).tobytes() for part in wanted)
    assert found.reports == sum(sizes)
    assert address.round(7) == found
    assert list(problems(address, found, deep=True)) == []


def test_a_flipped_byte_a_missing_and_a_doubled_file_are_found(tmp_path: Path) -> None:
    address, found = make(tmp_path, {212: [40], 415: [30], 702: [20]})
    files = {bucket.bucket: tmp_path / "round=7" / bucket.files[0].path for bucket in found.buckets}
    whole = {path: path.read_bytes() for path in files.values()}
    for at in range(0, len(whole[files[212]]), 37):
        damaged = bytearray(whole[files[212]])
        damaged[at] ^= 1
        files[212].write_bytes(damaged)
        assert list(problems(address, found)) == ["bucket=212/part-00000.parquet: damaged (its SHA-256 is another)"]
    files[212].write_bytes(whole[files[212]])
    files[415].unlink()
    assert list(problems(address, found)) == ["bucket=415/part-00000.parquet: missing"]
    files[415].write_bytes(whole[files[415]][:-1])
    assert len(list(problems(address, found))) == 1
    files[415].write_bytes(whole[files[415]])
    copy = files[702].with_name("part-00001.parquet")
    copy.write_bytes(whole[files[702]])
    assert [text.split(":")[0] for text in problems(address, found)] == ["bucket=702/part-00001.parquet"]


def test_a_manifest_that_names_a_file_twice_or_other_reports_is_found(tmp_path: Path) -> None:
    address, _ = make(tmp_path, {212: [40], 415: [30]})
    path = tmp_path / "round=7" / MANIFEST
    plain = json.loads(path.read_text())
    twice = {**plain, "buckets": [{**plain["buckets"][0], "files": plain["buckets"][0]["files"] * 2}]}
    path.write_text(json.dumps(twice))
    texts = " ".join(problems(address, address.round(7)))
    assert "the same reports 2 times" in texts
    assert "hold 80 of 40" in texts
    other = {**plain, "buckets": [{**plain["buckets"][0], "checksum": "0" * 64}, plain["buckets"][1]]}
    path.write_text(json.dumps(other))
    assert list(problems(address, address.round(7))) == []
    assert len(list(problems(address, address.round(7), deep=True))) == 1


def test_a_round_is_in_the_archive_once_it_is_finished_and_never_written_over(tmp_path: Path) -> None:
    address = Address(str(tmp_path / "new"))
    with pytest.raises(InvalidArchive):
        address.rounds()
    write_bucket(address, start_round(address, 7), 212, 5, PARAMETERS, iter([arrays(5, 1)]))
    with pytest.raises(InvalidArchive):
        address.rounds()
    make(tmp_path / "new", {212: [5]})
    with pytest.raises(InvalidArchive):
        start_round(address, 7)
    make(tmp_path / "new", {212: [5]}, number=8)
    assert [one.round for one in address.rounds()] == [7, 8]
    assert address.round(None).round == 8
    with pytest.raises(InvalidArchive):
        address.round(9)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "buckets": 3}'])
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    address, _ = make(tmp_path, {212: [5]})
    (tmp_path / "round=7" / MANIFEST).write_text(text)
    with pytest.raises(InvalidArchive):
        address.rounds()


def test_a_file_that_is_no_parquet_or_has_other_columns_is_refused(tmp_path: Path) -> None:
    address, found = make(tmp_path, {212: [5]})
    file = found.buckets[0].files[0]
    path = tmp_path / "round=7" / file.path
    whole = path.read_bytes()
    others = {
        b"PAR1 and then nothing": "be a readable Parquet file",
        whole.replace(b"ticket", b"ticked"): "be ticket and body",
        whole.replace(b"ticket", b"\x88icket"): "be a readable Parquet file",  # both of these the fuzzer found
    }
    assert len(others) == 3
    for data, rule in others.items():
        path.write_bytes(data)
        with pytest.raises(InvalidArchive, match=rule):
            list(files.read_file(address, found.folder, file))


def test_a_file_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    address, found = make(tmp_path, {212: [5]})
    file = found.buckets[0].files[0]
    rows = pa.array([bytes(16)], pa.binary(16))
    table = pa.Table.from_arrays([rows, rows, rows], names=["ticket", "ticket", "body"])
    pq.write_table(table, tmp_path / "round=7" / file.path)
    with pytest.raises(InvalidArchive, match="be ticket and body"):
        list(files.read_file(address, found.folder, file))


def test_an_archive_can_be_at_any_address() -> None:
    address = Address("memory://somewhere/archive")
    name = start_round(address, 3)
    bucket = write_bucket(address, name, 212, 9, PARAMETERS, iter([arrays(9, 2)]))
    plain = PROFILES["strong"].to_plain()
    found = finish_round(address, 3, bytes(32), "nanp-2026", plain, [bucket], {}, {})
    assert list(problems(address, address.round(3), deep=True)) == []
    address.system.rm(address.path(found.folder, bucket.files[0].path))
    assert list(problems(address, address.round(3))) == ["bucket=212/part-00000.parquet: missing"]


def test_duckdb_counts_reports_by_the_documented_query(tmp_path: Path) -> None:
    address, _ = make(tmp_path / "archive", {212: [40, 5], 415: [30]})
    docs = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
    query = docs.split("```sql\n")[1].split("```")[0].replace("ARCHIVE", str(tmp_path / "archive"))
    assert duckdb.execute(query).fetchall() == [(7, 212, 45), (7, 415, 30)]
    assert address.round(7).reports == 75
