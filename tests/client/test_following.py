"""A log that grows, is rotated, and is read piece by piece."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.conftest import Run
from tests.formats.calls.writers import write

from hushcall.client.calls import ingest
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind

MINUTE = 1_710_497_460
CALLS = [Call(f"202555{100 + i:04d}", MINUTE + 60 * i, CallKind.INCOMING) for i in range(8)]


def lines(*calls: Call) -> bytes:
    return write("ncid", calls)


def read(store: Store, path: Path) -> list[str]:
    result, cursor = ingest.read_after(path, ingest.load_cursor(store, path))
    ingest.save_cursor(store, path, cursor)
    return [call.number for call in result.calls]


def numbers(*calls: Call) -> list[str]:
    return [call.number for call in calls]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "cidcall.log"


def test_only_what_is_new_is_read(log: Path) -> None:
    store = Store.in_memory()
    log.write_bytes(lines(*CALLS[:3]))
    assert read(store, log) == numbers(*CALLS[:3])
    assert read(store, log) == []
    with log.open("ab") as file:
        file.write(lines(*CALLS[3:5]))
    assert read(store, log) == numbers(*CALLS[3:5])
    assert numbers(*ingest.read_after(log, None)[0].calls) == numbers(*CALLS[:5])


@given(st.lists(st.integers(0, 600), max_size=8))
@settings(max_examples=40, deadline=None)
def test_however_the_log_grows_every_call_is_read_once(cuts: list[int]) -> None:
    import tempfile

    data, store, found = lines(*CALLS), Store.in_memory(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cidcall.log"
        path.touch()
        first = data.index(b"\n") + 1  # a format is known by a whole line
        for size in [*sorted(max(first, min(cut, len(data))) for cut in cuts), len(data)]:
            with path.open("r+b") as file:
                file.write(data[:size])
            found += read(store, path)
    assert found == numbers(*CALLS)
    store.close()


def test_rotation_by_moving_and_by_truncating(log: Path) -> None:
    store = Store.in_memory()
    log.write_bytes(lines(*CALLS[:3]))
    read(store, log)
    os.rename(log, log.with_suffix(".1"))
    log.write_bytes(lines(*CALLS[3:5]))
    assert read(store, log) == numbers(*CALLS[3:5])
    log.write_bytes(lines(CALLS[5]))  # the same file, cut off and begun anew
    assert read(store, log) == numbers(CALLS[5])
    log.write_bytes(lines(*CALLS[6:], *CALLS[:4]))  # and now even longer than it was
    assert read(store, log) == numbers(*CALLS[6:], *CALLS[:4])


@pytest.mark.parametrize("how", ["moved", "copied"])
@pytest.mark.parametrize("aside", ["cidcall.log.1", "cidcall.log-20240301"])
def test_what_was_written_just_before_a_rotation_is_read_too(log: Path, aside: str, how: str) -> None:
    store = Store.in_memory()
    log.write_bytes(lines(*CALLS[:3]))
    read(store, log)
    log.with_name("cidcall.log.9").write_bytes(lines(*CALLS[:1]))  # older ones lie about
    with log.open("ab") as file:
        file.write(lines(CALLS[3]))
    log.with_name(aside).write_bytes(log.read_bytes())
    if how == "moved":
        log.unlink()
    log.write_bytes(lines(CALLS[4]))
    assert read(store, log) == numbers(*CALLS[3:5])
    assert read(store, log) == []


def test_a_new_file_that_begins_with_half_a_line_is_waited_for(log: Path) -> None:
    store, line = Store.in_memory(), lines(CALLS[1])
    log.write_bytes(lines(CALLS[0]))
    read(store, log)
    log.unlink()
    log.write_bytes(line[:30])
    assert read(store, log) == []
    log.write_bytes(line)
    assert read(store, log) == numbers(CALLS[1])


def test_an_exported_file_is_read_whole_each_time(tmp_path: Path) -> None:
    store, path = Store.in_memory(), tmp_path / "calls.xml"
    path.write_bytes(write("sms-backup", CALLS[:2]))
    assert read(store, path) == numbers(*CALLS[:2])
    path.write_bytes(write("sms-backup", CALLS[:4]))
    assert read(store, path) == numbers(*CALLS[:4])


def test_an_empty_log_is_no_error_and_a_missing_one_is(log: Path) -> None:
    store = Store.in_memory()
    log.write_bytes(b"")
    assert read(store, log) == []
    log.write_bytes(lines(CALLS[0]))
    assert read(store, log) == numbers(CALLS[0])
    with pytest.raises(InvalidData, match="be readable"):
        ingest.read_after(log.with_name("missing"), None)


def test_the_command_reads_what_is_new_through_pieces_and_rotation(run: Run, home: Path, log: Path) -> None:
    def callers() -> int:
        return int(run("ingest", log, "--format", "ncid", "--json").json["logs"][0]["callers"])

    log.write_bytes(lines(*CALLS[:2]))
    assert callers() == 2
    assert "no new calls" in run("ingest", log).text
    with log.open("ab") as file:
        file.write(lines(*CALLS[2:4])[:-25])  # half a line stays for the next time
    assert callers() == 1
    with log.open("ab") as file:
        file.write(lines(*CALLS[2:4])[-25:] + lines(CALLS[4]))
    os.rename(log, log.with_name("cidcall.log.1"))
    log.write_bytes(lines(CALLS[5]))
    assert callers() == 3
