"""The store is precious: each thing that can be wrong with it has its own words, advice and exit status, and when the
cause is gone everything is there again. Nobody is told to erase what can still be read."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.client.conftest import Run

from hushcall.client.calls import candidates
from hushcall.client.health import examine_folder
from hushcall.client.reporting import ledger
from hushcall.client.screening.agi import AgiServer
from hushcall.client.screening.screen import Screen
from hushcall.client.storage import store as stores
from hushcall.client.storage.folder import erase_all
from hushcall.client.storage.store import Store
from hushcall.client.storage.trouble import COUNTER, FILE, Cause, StoreTrouble
from hushcall.errors import InvalidData
from hushcall.protocol.numbers import NANP

SPEND = "INSERT INTO ledger VALUES (?, 's', ?, 5, '4', 4.0, 'subspace', 'report', '')"
ERASING = "forget --all"


@pytest.fixture
def phone(tmp_path: Path) -> Path:
    """A phone's folder with three spends, closed."""
    folder = tmp_path / "home"
    fill(folder)
    return folder


def fill(folder: Path) -> None:
    store = Store.open(folder)
    store.put("server", "http://127.0.0.1:9")
    store.run_many(SPEND, [(seq, seq) for seq in (1, 2, 3)])
    candidates.note(store, [(NANP.number(202, 5_550_100 + i), 1_800_000_000) for i in range(300)])
    store.close()


def spends(folder: Path) -> int:
    store = Store.open(folder)
    found = len(ledger.spends(store))
    store.close()
    return found


def trouble_of(folder: Path) -> StoreTrouble:
    with pytest.raises(StoreTrouble) as caught:
        Store.open(folder)
    return caught.value


def flip(file: Path, page: int = 4096) -> None:
    data = file.read_bytes()
    middle = len(data) // page // 2 * page
    file.write_bytes(data[:middle] + bytes(255 - byte for byte in data[middle : middle + page]) + data[middle + page :])


def foreign(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")


def newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("PRAGMA user_version = 99")


SPOILT: dict[str, tuple[Callable[[Path], object], Cause, str]] = {
    "emptied": (lambda file: os.truncate(file, 0), Cause.DAMAGED, "it is empty"),
    "one byte": (lambda file: os.truncate(file, 1), Cause.DAMAGED, "only 1 byte of it is left"),
    "99 bytes": (lambda file: os.truncate(file, 99), Cause.DAMAGED, "only 99 bytes of it are left"),
    "half": (lambda file: os.truncate(file, file.stat().st_size // 2), Cause.DAMAGED, "bytes are left"),
    "flipped page": (flip, Cause.DAMAGED, ""),
    "overwritten": (lambda file: file.write_bytes(b"x" * 9000), Cause.DAMAGED, "beginning is overwritten"),
    "deleted": (lambda file: file.unlink(), Cause.GONE, "no such file"),
    "foreign database": (foreign, Cause.FOREIGN, "a database of something else"),
    "newer": (newer, Cause.NEWER, "schema 99; this release knows"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_is_told_and_nothing_is_lost_when_it_is_put_right(phone: Path, run: Run, name: str) -> None:
    spoil, cause, words = SPOILT[name]
    file = phone / FILE
    good = file.read_bytes()
    spoil(file)
    bad = file.read_bytes() if file.exists() else None
    trouble = trouble_of(phone)
    assert trouble.cause is cause
    assert words in str(trouble)
    assert (ERASING in trouble.todo) == (cause in (Cause.DAMAGED, Cause.GONE))  # only where it cannot be read
    said = run("ledger")
    assert (said.code, said.err) == (cause.value[0], f"hushcall: {trouble}\n")
    assert said.out == ""
    (finding,) = examine_folder(phone)
    assert (finding.ok, finding.words, finding.todo) == (False, trouble.words, trouble.todo)
    assert run("init", "--server", "http://127.0.0.1:9").code == cause.value[0]  # no new phone over an old one
    assert (file.read_bytes() if file.exists() else None) == bad  # looking has changed nothing
    file.write_bytes(good)
    assert spends(phone) == 3


def test_exit_statuses_and_words_are_all_different() -> None:
    assert len({cause.value[0] for cause in Cause}) == len(Cause)
    assert len({cause.value[1] for cause in Cause}) == len(Cause)
    assert all(cause.value[3] for cause in Cause)
    assert {cause.value[0] for cause in Cause}.isdisjoint({0, 1, 2})


def test_another_programs_file_is_left_alone_even_by_forget(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / FILE).write_bytes(b"a letter to my aunt, " * 50)
    assert trouble_of(folder).cause is Cause.FOREIGN
    with pytest.raises(StoreTrouble, match="another program's file"):
        erase_all(folder)
    assert (folder / FILE).read_bytes().startswith(b"a letter to my aunt")


def test_a_store_that_was_never_whole_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "_migrate", crash)
    with pytest.raises(KeyboardInterrupt):
        Store.open(tmp_path)
    monkeypatch.undo()
    assert not (tmp_path / FILE).exists()  # so an empty file of that name was a store once
    Store.open(tmp_path).close()
    assert {path.name for path in tmp_path.iterdir()} == {FILE, COUNTER}


def test_where_there_are_no_hard_links_a_store_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    fill(tmp_path)
    assert spends(tmp_path) == 3


def test_two_who_make_a_store_at_once_get_the_same_one(tmp_path: Path) -> None:
    first = Store.open(tmp_path)
    first.put("a", "1")
    stores._make(tmp_path)  # the slower one, who saw none a moment ago
    second = Store.open(tmp_path)
    assert second.get("a") == "1"


def test_a_store_of_an_older_release_is_marked_and_brought_up(phone: Path) -> None:
    (phone / COUNTER).unlink()
    assert spends(phone) == 3
    assert (phone / COUNTER).read_text() == "3\n"


def test_text_that_is_none_is_damage(phone: Path) -> None:
    with closing(sqlite3.connect(phone / FILE, isolation_level=None)) as raw:
        raw.execute("UPDATE ledger SET server = CAST(x'ff80ff' AS TEXT) WHERE seq = 2")
    store = Store.open(phone)
    with pytest.raises(StoreTrouble) as caught:
        ledger.spends(store)
    assert caught.value.cause is Cause.DAMAGED


def test_a_full_disk_in_the_middle_of_work_loses_nothing(phone: Path) -> None:
    """As SQLite tells of it, wherever tests run: the file may not grow. Then there is room again."""
    store = Store.open(phone)
    pages = store.count("PRAGMA page_count")
    store.row(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreTrouble) as caught:
        candidates.note(store, [(NANP.number(203, 5_550_100 + i), 1_800_000_000) for i in range(9000)])
    assert caught.value.cause is Cause.FULL
    assert "its disk is full" in str(caught.value)
    assert ERASING not in str(caught.value)
    store.row("PRAGMA max_page_count = 100000")
    candidates.note(store, [(NANP.number(203, 5_550_100), 1_800_000_000)])
    assert (len(ledger.spends(store)), store.row("SELECT count(*) FROM callers")) == (3, (301,))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill_up(file: Path) -> None:
    """Until there is no room for 64 bytes more."""
    with file.open("wb", buffering=0) as opened:
        for _ in range(200_000):
            opened.write(bytes(64))


def reads_on(run: Run, home: Path, elsewhere: Path, why: str) -> None:
    """What only reads answers as ever, with one line that says what is wrong; a backup elsewhere is whole."""
    for words, answer in ((["ledger"], "subspace"), (["own"], "empty"), (["check", "+12025550143"], "allow")):
        said = run(*words, "--home", home)
        assert (said.code, answer in said.out) == (0, True), (words, said)
        assert why in said.err
        assert said.err.splitlines()[0].endswith("It is only read here.")
    saved = run("backup", elsewhere / "phone.backup", "--home", home)
    assert (saved.code, why in saved.err) == (0, True), saved
    back = elsewhere / "back"
    assert run("restore", elsewhere / "phone.backup", "--yes", "--home", back).code == 0
    store = Store.open(back)
    assert store.row("SELECT count(*) FROM callers") == (300,)
    assert store.row("SELECT count(*) FROM ledger WHERE what = 'report'") == (3,)
    store.close()


def test_a_full_file_system_of_200_kilobytes(small_disk: Path, run: Run, tmp_path: Path) -> None:
    home = small_disk / "home"
    fill(home)
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        fill_up(ballast)
    log = tmp_path / "calls.xml"
    calls = "".join(f'<call number="+1202555{i:04}" duration="0" date="18000000{i:05}" type="3"/>' for i in range(3000))
    log.write_text(f'<?xml version="1.0"?><calls count="3000">{calls}</calls>')
    for words in (["ingest", log], ["own", "--remove", "+1900*"], ["allow", "+1900*"], ["init", "--max-epsilon", "2"]):
        said = run(*words, "--home", home)
        assert said.code == Cause.FULL.value[0], (words, said)
        assert "its disk is full" in said.err
        assert ERASING not in said.err
        assert "Make room" in said.err
    reads_on(run, home, tmp_path, "its disk is full")
    (finding,) = examine_folder(home)
    assert "its disk is full" in finding.words
    fresh = run("init", "--server", "http://127.0.0.1:9", "--home", small_disk / "another")
    assert fresh.code == Cause.FULL.value[0]
    assert not (small_disk / "another" / FILE).exists()
    ballast.unlink()
    assert spends(home) == 3
    store = Store.open(home)
    assert store.row("SELECT count(*) FROM callers") == (300,)
    assert store.row("PRAGMA integrity_check") == ("ok",)
    store.close()


def test_a_read_only_file_system(small_disk: Path, run: Run, tmp_path: Path) -> None:
    home = small_disk / "home"
    fill(home)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    trouble = trouble_of(home)
    said = run("allow", "+1900*", "--home", home)
    reads_on(run, home, tmp_path, "cannot be written")
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert trouble.cause is Cause.READ_ONLY
    assert "writable for the user" in trouble.todo
    assert (said.code, ERASING in said.err) == (Cause.READ_ONLY.value[0], False)
    assert spends(home) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any folder")
def test_a_read_only_folder(phone: Path) -> None:
    phone.chmod(0o500)
    trouble = trouble_of(phone)
    with closing(Store.open(phone, reading=True)) as store:
        assert len(ledger.spends(store)) == 3
    phone.chmod(0o700)
    assert trouble.cause is Cause.READ_ONLY
    assert spends(phone) == 3


def cannot_be_written(monkeypatch: pytest.MonkeyPatch, cause: Cause = Cause.FULL) -> None:
    """Wherever tests run: opening a store for writing fails as on a full disk."""

    def refuse(folder: Path) -> Store:
        raise StoreTrouble(cause, str(folder / FILE), "disk I/O error")

    monkeypatch.setattr(Store, "_open", refuse)


@pytest.mark.parametrize("cause", Cause)
def test_what_only_reads_goes_on_where_the_store_can_be_read(
    phone: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: Cause
) -> None:
    before = sorted((path.name, path.stat().st_mtime_ns) for path in phone.iterdir())
    cannot_be_written(monkeypatch, cause)
    if cause not in (Cause.FULL, Cause.READ_ONLY, Cause.DISK):
        assert run("check", "+12025550143").code == cause.value[0]
        return
    for words in (["check", "+12025550143"], ["own"], ["ledger"], ["backup", tmp_path / "phone.backup"]):
        said = run(*words)
        assert (said.code, said.err.count("It is only read here.\n")) == (0, 1), said
    for words in (["allow", "+1900*"], ["own", "--remove", "+1900*"]):
        assert run(*words).code == cause.value[0]
    assert sorted((path.name, path.stat().st_mtime_ns) for path in phone.iterdir()) == before


def test_a_store_that_is_only_read_refuses_to_write_and_recovers(phone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cannot_be_written(monkeypatch)
    store = Store.open(phone, reading=True)
    noted = [(NANP.number(203, 5_550_100), 5)]
    writes: tuple[Callable[[], None], ...] = (lambda: store.put("a", "1"), lambda: candidates.note(store, noted))
    for write in writes:
        with pytest.raises(StoreTrouble) as caught:
            write()
        assert caught.value is store.only_read
    store.try_writing()
    assert store.only_read is not None
    monkeypatch.undo()
    store.try_writing()
    assert store.only_read is None
    store.put("a", "1")
    store.close()
    assert Store.open(phone).get("a") == "1"


def test_the_exchange_is_answered_and_callers_are_noted_once_there_is_room(
    phone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(phone).put("policy", "warn")
    cannot_be_written(monkeypatch)
    heard: list[str] = []
    server = AgiServer(Screen(Store.open(phone, reading=True)), say=heard.append)
    server._notes[NANP.number(203, 5_550_100)] = 1_800_000_000
    server.flush()
    server._notes[NANP.number(203, 5_550_101)] = 1_800_000_001
    server.flush()
    server._refresh()
    assert len(heard) == 1  # not every second
    assert "its disk is full" in heard[0]
    monkeypatch.undo()
    server._refresh()
    server.flush()
    with closing(Store.open(phone)) as store:
        assert store.row("SELECT count(*) FROM callers") == (302,)


def test_what_is_in_the_log_only_is_read_too(phone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut, on a disk that is then full: the log holds the newest, and its index cannot be made."""
    store = Store.open(phone)
    store.put("late", "1")
    torn = tmp_path / "torn"
    shutil.copytree(phone, torn, ignore=shutil.ignore_patterns("*-shm"))
    store.close()
    assert b"late" not in (torn / FILE).read_bytes()
    files = {path.name: path.read_bytes() for path in torn.iterdir() if path.is_file()}

    def no_index(address: str) -> sqlite3.Connection:
        if "mode=ro" in address:
            raise sqlite3.OperationalError("disk I/O error")
        return copied(address)

    copied = stores._copied
    monkeypatch.setattr(stores, "_copied", no_index)
    cannot_be_written(monkeypatch)
    assert Store.open(torn, reading=True).get("late") == "1"
    assert {path.name: path.read_bytes() for path in torn.iterdir() if path.is_file()} == files


def test_an_upgrade_on_a_full_disk_leaves_the_older_store_alone(phone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Store) -> None:
        raise self._broken(sqlite3_full())

    monkeypatch.setattr(stores, "_MIGRATIONS", (*stores._MIGRATIONS, "CREATE TABLE later (x)"))
    monkeypatch.setattr(Store, "_migrate", full)
    before = (phone / FILE).read_bytes()
    assert trouble_of(phone).cause is Cause.FULL
    assert (phone / FILE).read_bytes() == before
    monkeypatch.undo()
    assert spends(phone) == 3


def sqlite3_full() -> sqlite3.Error:
    """What SQLite raises where the disk is full."""
    raw = sqlite3.connect(":memory:", isolation_level=None)
    raw.execute("CREATE TABLE a (x)")
    raw.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as caught:
        raw.execute("INSERT INTO a VALUES (zeroblob(100000))")
    raw.close()
    return caught.value


def test_what_stays_unnamed_is_told_as_it_is(phone: Path) -> None:
    store = Store.open(phone)
    with pytest.raises(InvalidData, match="no such table") as caught:
        store.rows("SELECT * FROM nowhere")
    assert not isinstance(caught.value, StoreTrouble)


def test_a_log_beside_an_emptied_store_is_not_thrown_away(phone: Path, tmp_path: Path) -> None:
    """SQLite would take the empty file for a new database and delete the log; here it is still there to be rescued."""
    store = Store.open(phone)
    store.put("late", "1")
    shutil.copytree(phone, tmp_path / "torn")
    store.close()
    os.truncate(tmp_path / "torn" / FILE, 0)
    log = (tmp_path / "torn" / f"{FILE}-wal").read_bytes()
    assert len(log) > 0
    assert trouble_of(tmp_path / "torn").cause is Cause.DAMAGED
    assert (tmp_path / "torn" / f"{FILE}-wal").read_bytes() == log
