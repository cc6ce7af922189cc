"""Backup and restore: a phone becomes one file, and the file a phone again, which never says less than it has spent.

A backup is a copy of the store as one SQLite file: the ledger, the callers, the settings, and the phone's secrets.
What a phone spends afterwards is not in it. Where the newer ledger is still there, the two are merged. Where it is
gone, everything that the owner's limits allowed since the backup is charged, and real callers are not reported for one
horizon, since nobody knows any more which of them already were.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from hushcall.errors import InvalidData
from hushcall.phone import merging, setup
from hushcall.phone.home import device_key
from hushcall.phone.home.change_server import STALE, drop_stale_list
from hushcall.phone.home.erasing import DAMAGED
from hushcall.phone.home.lock import PATIENCE, locked
from hushcall.phone.home.snapshot import READABLE
from hushcall.phone.home.store import ENDINGS, LISTS, Store
from hushcall.phone.home.trouble import FILE, Cause, StoreTrouble, of_system
from hushcall.phone.reporting import ledger
from hushcall.phone.screening.list_sync import ROOT_FILE
from hushcall.privacy.coins import ByteSource, os_entropy

_SAVED_AT = "saved_at"
_UNUSABLE = frozenset({Cause.DAMAGED, Cause.GONE})
"""What a backup may take the place of. Whatever else is wrong with a store passes, or is not the phone's."""


@dataclass(frozen=True)
class Saved:
    """What is in a backup: read back from the file that was written."""

    path: Path
    bytes: int
    reports: int
    epsilon: Fraction
    only_read: StoreTrouble | None = None  # why the phone's own store cannot be written, where it cannot


@dataclass(frozen=True)
class Restored:
    """What a restore came to. ``assumed``: reports that may have been made since the backup, all charged."""

    saved_at: int
    reports: int
    epsilon: Fraction
    assumed: int
    merged: bool
    kept: Path | None  # the damaged store, where there was one


def back_up(folder: Path, path: Path, now: int, coins: ByteSource = os_entropy) -> Saved:
    """Write a phone's store into one file, whole or not at all, and read it back.

    A store that can only be read (its disk is full, or failing) is saved as well: that is when it is needed most.
    """
    draft = path.with_name(f".{path.name}.{FILE}")
    with closing(setup.opened(folder, reading=True)) as store:
        if path.exists() and not _is_backup(path):
            raise InvalidData("backup", "take the place of nothing but an older backup", str(path))
        try:
            device_key.device_key(store, coins)  # from now on a copy of this phone says the same bytes
        except StoreTrouble as trouble:  # one that never drew has said nothing that a copy could say otherwise
            if trouble.cause not in READABLE:
                raise
        before = len(ledger.spends(store)), ledger.spent(store)
        try:
            draft.unlink(missing_ok=True)
            store.copy_to(draft)
            with closing(Store(str(draft), new=False)) as copy, copy.transaction():
                copy.put(_SAVED_AT, str(now))
                if not copy.get("root"):  # what the list was believed for: another machine has not seen it
                    with suppress(OSError):
                        copy.put("root", (folder / LISTS / ROOT_FILE).read_text(encoding="utf-8"))
            with closing(Store(str(draft), new=False)) as copy:
                after = len(ledger.spends(copy)), ledger.spent(copy)
            if after < before:  # a report that was recorded meanwhile may be in it already
                raise InvalidData("backup", "hold the whole ledger", f"{after[0]} of {before[0]} reports")
            size = _on_disk(draft)
            draft.replace(path)
        except OSError as error:
            raise InvalidData("backup", f"be a file that can be written ({error.strerror})", str(path)) from None
        finally:
            for ending in ENDINGS:
                draft.with_name(draft.name + ending).unlink(missing_ok=True)
    return Saved(path, size, *after, store.only_read)


def restore(folder: Path, path: Path, now: int, stopped: int | None = None, patience: float = PATIENCE) -> Restored:
    """Make the phone of a backup out of it, or merge it into the phone that is there; all or nothing.

    ``stopped``: since when the phone certainly took no part any more (its owner says so); nothing is charged after it.
    """
    until = now if stopped is None else min(now, stopped)
    with _workplace(folder) as draft, _opened_backup(path, draft / "backup") as backup, locked(folder, patience):
        present = _present(folder)
        if present is None:
            return _put_back(folder, draft / "new", backup, now, until)
        with closing(present):
            return _merge(present, backup, now, until)


def _merge(store: Store, backup: Store, now: int, until: int, at_least: int = 0) -> Restored:
    """Take the backup in, and charge what neither ledger can know. ``at_least``: reports that the lost one had."""
    sure, saved_at = merging.goes_on_from(store, backup), int(backup.get(_SAVED_AT))
    with store.transaction():
        merging.merge(store, backup)
        store.run("DELETE FROM settings WHERE name = ?", _SAVED_AT)
        known, charged = len(ledger.spends(store)), 0
        if not sure:
            charged = ledger.assume(store, ledger.Limits.load(store), saved_at, until, at_least - known)
            device_key.is_a_copy(store, now)
    device_key.count(store)
    drop_stale_list(store)
    return Restored(saved_at, known, ledger.spent(store), charged, sure, None)


def _put_back(folder: Path, draft: Path, backup: Store, now: int, until: int) -> Restored:
    """Where no store can be used: a new one is made aside, and takes its place when it is whole."""
    with closing(Store.open(draft)) as store:
        restored = _merge(store, backup, now, until, device_key.beside(folder))
        root, seen = store.get("root"), folder / LISTS / ROOT_FILE
        if root and seen.exists() and seen.read_text(encoding="utf-8") != root:
            store.put(STALE, "yes")  # the list here is of another server than the backup's
    damaged = folder / DAMAGED
    for ending in ENDINGS:
        with suppress(FileNotFoundError):
            (folder / f"{FILE}{ending}").replace(damaged.with_name(damaged.name + ending))
    (draft / FILE).replace(folder / FILE)
    with closing(Store.open(folder)) as store:
        device_key.count(store)
        drop_stale_list(store)
    return replace(restored, kept=damaged if damaged.exists() else None)


def _present(folder: Path) -> Store | None:
    """The store that is there; None where there is none, or none that can be used."""
    try:
        return Store.open(folder) if setup.is_set_up(folder) else None
    except StoreTrouble as trouble:
        if trouble.cause in _UNUSABLE:
            return None
        raise


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A place for drafts in the phone's folder, for as long as it is needed; a folder that was made for it goes too."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder) as place:
            yield Path(place)
    except OSError as error:
        raise of_system(error, folder) from None
    finally:
        with suppress(OSError):  # it stays unless it is empty
            folder.rmdir()


@contextmanager
def _opened_backup(path: Path, draft: Path) -> Iterator[Store]:
    """A backup, opened as a copy: the file itself is not written to."""
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


def _on_disk(path: Path) -> int:
    """Make sure that a file's bytes are on the disk; how many they are."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size
