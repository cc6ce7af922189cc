"""Backup and restore: a client in one file, and a client out of it that never has less in its ledger than it spent.

A restore merges a backup into a ledger that still exists, with the backup's settings. Where the newer ledger is lost,
everything that the limits allowed since the backup is charged, and real callers are not reported for one horizon.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from hushcall.atomic_file import sync_to_disk
from hushcall.client import setup
from hushcall.client.reporting import ledger
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.participation import CLOSED, COLUMNS, UNFINISHED
from hushcall.client.screening.lookup import ROOT_FILE
from hushcall.client.setup import STALE, drop_stale_list
from hushcall.client.storage import device_key
from hushcall.client.storage.folder import DAMAGED, TIMEOUT_SECONDS, locked
from hushcall.client.storage.store import ENDINGS, LISTS, READABLE, SYNC_TROUBLE, Row, Store
from hushcall.client.storage.trouble import FILE, Cause, StoreTrouble, of_system
from hushcall.deprecation import renamed
from hushcall.errors import InvalidData
from hushcall.protocol.randomness import ByteSource, os_entropy

_SAVED_AT = "saved_at"
_UNUSABLE = frozenset({Cause.DAMAGED, Cause.GONE})
"""Stores that a backup may replace. Any other trouble is temporary, or the store is not the client's."""
_FOLDER_SETTINGS = frozenset({"inode", "copied_at", "split_view", STALE, SYNC_TROUBLE})
"""Settings about this folder and its server's documents, which a backup does not change."""
_, *_COLUMNS = COLUMNS  # without the place in the ledger
_ROUND, _STATE_COLUMN = ", ".join(_COLUMNS), _COLUMNS.index("state")
_MERGED = (
    ("INSERT OR IGNORE INTO contacts VALUES (?)", "SELECT number FROM contacts"),
    (
        "INSERT INTO callers (number, last, known, virtual) VALUES (?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET"
        " last = max(last, excluded.last), known = max(known, excluded.known),"
        " virtual = min(virtual, excluded.virtual)",
        "SELECT number, last, known, virtual FROM callers",
    ),
    (
        "INSERT INTO reported VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET at = max(at, excluded.at)",
        "SELECT number, seq, at FROM reported",
    ),
    (
        "INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?, ?)",
        "SELECT server, round, part, sha256, body, seen FROM documents",
    ),
)


@dataclass(frozen=True)
class Saved:
    """The content of a backup, read back from its file. ``only_read``: why the client's store cannot be written."""

    path: Path
    bytes: int
    reports: int
    epsilon: Fraction
    only_read: StoreTrouble | None = None


@dataclass(frozen=True)
class Restored:
    """The result of a restore. ``assumed``: reports that may have been made since the backup, all charged."""

    saved_at: int
    reports: int
    epsilon: Fraction
    assumed: int
    merged: bool
    kept: Path | None  # the damaged store, where there was one


def back_up(folder: Path, path: Path, now: int, rand: ByteSource = os_entropy) -> Saved:
    """Write a client's store into one file, completely or not at all, and read it back."""
    draft = path.with_name(f".{path.name}.{FILE}")
    with closing(setup.opened(folder, reading=True)) as store:
        if path.exists() and not _is_backup(path):
            raise InvalidData("backup", "take the place of nothing but an older backup", str(path))
        try:
            device_key.device_key(store, rand)  # from now on a copy of this client sends the same bytes
        except StoreTrouble as trouble:  # without a key nothing was sent that a copy could send differently
            if trouble.cause not in READABLE:
                raise
        before = _totals(store)
        try:
            draft.unlink(missing_ok=True)
            store.copy_to(draft)
            with closing(Store(str(draft), new=False)) as copy, copy.transaction():
                copy.put(_SAVED_AT, str(now))
                if not copy.get("root"):  # the root that the list was trusted for, which another machine has not seen
                    with suppress(OSError):
                        copy.put("root", (folder / LISTS / ROOT_FILE).read_text(encoding="utf-8"))
            with closing(Store(str(draft), new=False)) as copy:
                after = _totals(copy)
            if after < before:  # more is fine: a report may have been recorded meanwhile
                raise InvalidData("backup", "hold the whole ledger", f"{after[0]} of {before[0]} reports")
            sync_to_disk(draft)
            size = draft.stat().st_size
            draft.replace(path)
        except OSError as error:
            raise InvalidData("backup", f"be a file that can be written ({error.strerror})", str(path)) from None
        finally:
            for ending in ENDINGS:
                draft.with_name(draft.name + ending).unlink(missing_ok=True)
    return Saved(path, size, *after, store.only_read)


def _totals(store: Store) -> tuple[int, Fraction]:
    return len(ledger.spends(store)), ledger.spent(store)


@renamed(patience="timeout_seconds")
def restore(
    folder: Path, path: Path, now: int, stopped: int | None = None, timeout_seconds: float = TIMEOUT_SECONDS
) -> Restored:
    """Create a backup's client, or merge it into the folder's. Nothing is charged after ``stopped``."""
    until = now if stopped is None else min(now, stopped)
    with (
        _draft_folder(folder) as draft,
        _opened_backup(path, draft / "backup") as backup,
        locked(folder, timeout_seconds),
    ):
        present = _usable_store(folder)
        if present is None:
            return _replace(folder, draft / "new", backup, now, until)
        with closing(present):
            return _merge(present, backup, now, until)


def _merge(store: Store, backup: Store, now: int, until: int, at_least: int = 0) -> Restored:
    """Merge the backup, and charge what neither ledger has. ``at_least``: reports that the lost ledger had."""
    complete, saved_at = _descends(store, backup), int(backup.get(_SAVED_AT))
    with store.transaction():
        _merge_rows(store, backup)
        store.run("DELETE FROM settings WHERE name = ?", _SAVED_AT)
        reports, charged = store.reports(), 0
        if not complete:
            charged = ledger.assume(store, Limits.load(store), saved_at, until, at_least - reports)
            device_key.mark_as_copy(store, now)
    store.write_counter()
    drop_stale_list(store)
    return Restored(saved_at, reports, ledger.spent(store), charged, complete, None)


def _replace(folder: Path, draft: Path, backup: Store, now: int, until: int) -> Restored:
    """Build a new store beside the unusable one, which it replaces when it is complete."""
    with closing(Store.open(draft)) as store:
        restored = _merge(store, backup, now, until, device_key.counted_reports(folder))
        root, root_file = store.get("root"), folder / LISTS / ROOT_FILE
        if root and root_file.exists() and root_file.read_text(encoding="utf-8") != root:
            store.put(STALE, "yes")  # the list here is of another server than the backup's
    damaged = folder / DAMAGED
    for ending in ENDINGS:
        with suppress(FileNotFoundError):
            (folder / f"{FILE}{ending}").replace(damaged.with_name(damaged.name + ending))
    (draft / FILE).replace(folder / FILE)
    with closing(Store.open(folder)) as store:
        store.write_counter()
        drop_stale_list(store)
    return replace(restored, kept=damaged if damaged.exists() else None)


def _descends(newer: Store, older: Store) -> bool:
    """Whether a store continues an older copy of it: the same device key, and every spend is still there."""
    same_device = newer.get("device_key") == older.get("device_key") != ""
    return same_device and set(ledger.spends(older)) <= set(ledger.spends(newer))


def _merge_rows(into: Store, backup: Store) -> None:
    if into.get("server") not in ("", backup.get("server")):
        into.put(STALE, "yes")  # the list here is of a former server
    for name, value in backup.rows("SELECT name, value FROM settings"):
        if name not in _FOLDER_SETTINGS:
            into.put(name, value)
    for statement, query in _MERGED:
        into.run_many(statement, backup.rows(query))
    for row in backup.rows(f"SELECT {_ROUND} FROM rounds ORDER BY seq"):
        _merge_round(into, row)
    present = set(ledger.spends(into))
    for spend in ledger.spends(backup):
        if spend not in present:
            ledger.record(into, _seq_for(into, spend), spend)


def _merge_round(into: Store, row: Row) -> None:
    """Add a round that only the backup has, so that no second report is made for it."""
    if row[_STATE_COLUMN] in UNFINISHED:
        row = (*row[:_STATE_COLUMN], CLOSED, *row[_STATE_COLUMN + 1 : -1], "restored from a backup")
    into.run(f"INSERT OR IGNORE INTO rounds ({_ROUND}) VALUES ({', '.join('?' * len(row))})", *row)


def _seq_for(into: Store, spend: ledger.Spend) -> int:
    """The place of a spend in the ledger: that of its round, or a new last one."""
    row = into.row(
        "SELECT seq FROM rounds WHERE server = ? AND round = ? AND seq NOT IN (SELECT seq FROM ledger)",
        *(spend.server, spend.round),
    )
    return int(row[0]) if row else ledger.next_seq(into)


def _usable_store(folder: Path) -> Store | None:
    try:
        return Store.open(folder) if setup.is_set_up(folder) else None
    except StoreTrouble as trouble:
        if trouble.cause in _UNUSABLE:
            return None
        raise


@contextmanager
def _draft_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder in the client's folder. A client's folder that was created for it is deleted if empty."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder) as draft:
            yield Path(draft)
    except OSError as error:
        raise of_system(error, folder) from None
    finally:
        with suppress(OSError):  # it stays unless it is empty
            folder.rmdir()


@contextmanager
def _opened_backup(path: Path, draft: Path) -> Iterator[Store]:
    problem = ""
    try:
        draft.mkdir(mode=0o700)
        shutil.copyfile(path, draft / FILE)
        store = Store.open(draft)
    except StoreTrouble as trouble:
        if trouble.cause is Cause.FULL:
            raise
        problem = f" and whole ({trouble.detail})"
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        problem = f" and readable ({error.strerror})"
    else:
        with closing(store):
            if store.get(_SAVED_AT).isdecimal():
                yield store
                return
    raise InvalidData("backup", f"be a file that hushcall phone backup wrote{problem}", str(path))


def _is_backup(path: Path) -> bool:
    try:
        with closing(Store(str(path), new=False)) as store:
            return bool(store.get(_SAVED_AT))
    except InvalidData:
        return False
