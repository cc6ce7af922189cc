"""What a phone remembers: one file, one user, one process, and nothing left of what it forgets."""

import multiprocessing
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from hushcall.cli.options import folder_of
from hushcall.client.calls import candidates, ingest
from hushcall.client.storage.folder import erase_all, locked
from hushcall.client.storage.store import Store
from hushcall.client.storage.trouble import FILE
from hushcall.errors import InvalidData
from hushcall.protocol.numbers import NANP

NUMBERS = [str(NANP.number(202, 5_550_100 + i)) for i in range(60)]


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    Store.open(home).close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600


def test_commits_are_on_the_disk_before_they_return(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    assert store.row("PRAGMA synchronous") == (2,)  # FULL
    assert store.row("PRAGMA journal_mode") == ("wal",)


def test_settings_survive_and_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.put("a", "1")
    store.put("a", "2")

    def broken() -> None:
        with store.transaction():
            store.put("a", "3")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    store.close()
    again = Store.open(tmp_path)
    assert again.get("a") == "2"
    assert again.get("b", "none") == "none"


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidData, match="store cannot be written"):
        Store.open(tmp_path / "file" / "home")


def test_where_a_phone_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSHCALL_HOME", "/some/where")
    assert folder_of(None) == Path("/some/where")
    monkeypatch.delenv("HUSHCALL_HOME")
    assert folder_of(None) == Path.home() / ".hushcall"


def fill(folder: Path) -> Store:
    store = Store.open(folder)
    candidates.note(store, [(NANP.parse(number), 1_800_000_000) for number in NUMBERS])
    candidates.add_contacts(store, [str(NANP.number(203, 5_550_100 + i)) for i in range(60)], NANP)
    candidates.mark_reported(store, str(NANP.number(204, 5_550_199)), 1, 5)
    ingest.save_cursor(store, Path("/var/log/secret.csv"), ingest.Cursor("ncid", 1, 2, 3, ""))
    store.run(
        "INSERT INTO rounds (server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state,"
        " report) VALUES ('s', 1, 0, 'subspace', '+12055550199', 0, 205, 0, 0, 'recorded', x'010403')"
    )
    store.run("INSERT INTO ledger VALUES (1, 's', 1, 5, '4', 4.0, 'subspace', 'report', '')")
    store.put("token", "hcd_secret")
    return store


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_forgetting_leaves_no_number_in_any_file_and_keeps_the_ledger(tmp_path: Path) -> None:
    store = fill(tmp_path)
    traces = [b"+1202555", b"+1203555", b"+1204555", b"+1205555", b"secret.csv"]
    before = on_disk(tmp_path)
    assert all(trace in before for trace in traces)
    store.forget()
    after = on_disk(tmp_path)
    assert not any(trace in after for trace in traces)
    assert store.rows("SELECT epsilon FROM ledger") == [("4",)]
    assert store.get("token") == "hcd_secret"
    assert store.row("SELECT state, report FROM rounds") == ("closed", None)  # known, so never reported again


def test_forgetting_everything_leaves_no_file_of_ours_and_no_file_of_others_goes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    fill(home).close()
    (home / "lists").mkdir()
    (home / "lists" / "list.jsonl").write_text("x")
    (home / "notes.txt").write_text("mine")
    erase_all(home)
    assert [path.name for path in home.iterdir()] == ["notes.txt"]
    (home / "notes.txt").unlink()
    fill(home).close()
    erase_all(home)
    assert not home.exists()


def test_forgetting_leaves_no_area_code_no_dummy_and_no_ticket_in_the_diary(tmp_path: Path) -> None:
    store = fill(tmp_path)
    columns = "(server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state, ticket)"
    for round_, state in enumerate(("planned", "announced", "sent", "skipped", "closed"), 2):
        values = ("s", round_, 0, "subspace", NUMBERS[0], 1, 202, 0, 0, state, "ab" * 16)
        store.run(f"INSERT INTO rounds {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)  # noqa: S608
    store.forget()
    assert set(store.rows("SELECT number, dummy, bucket, ticket FROM rounds")) == {("", 0, 0, "")}
    assert {row[0] for row in store.rows("SELECT state FROM rounds")} == {"sent", "skipped", "closed"}
    assert b"abab" not in on_disk(tmp_path)


def damage_all(file: Path) -> None:
    file.write_bytes(b"no database, but +12025550143 is in it" * 1000)


def damage_pages(file: Path) -> None:
    """The header is fine, so it opens; the tables are not."""
    data = file.read_bytes()
    file.write_bytes(data[:8192] + bytes(255 - byte for byte in data[8192:]))


@pytest.mark.parametrize("damage", [damage_all, damage_pages])
def test_forgetting_everything_works_on_a_damaged_store_and_overwrites_it(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    home = tmp_path / "home"
    fill(home).close()
    damage(home / FILE)
    os.link(home / FILE, tmp_path / "same file")  # what a look at the disk would find
    with pytest.raises((InvalidData, sqlite3.Error)):
        Store.open(home).forget()
    erase_all(home)
    assert not home.exists()
    assert not (tmp_path / "same file").read_bytes().strip(b"\0")


def _hold(folder: Path, ready: "multiprocessing.synchronize.Event", done: "multiprocessing.synchronize.Event") -> None:
    with locked(folder):
        ready.set()
        done.wait(20)


def test_one_process_at_a_time_and_a_dead_one_locks_nobody_out(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, done))
    holder.start()
    try:
        assert ready.wait(20)
        with pytest.raises(InvalidData, match=f"process {holder.pid}"), locked(tmp_path, 0.1):
            pass
    finally:
        holder.kill()  # it never gets to clean up
        holder.join()
    with locked(tmp_path, 1.0):
        assert (tmp_path / "lock").read_text() == str(os.getpid())
