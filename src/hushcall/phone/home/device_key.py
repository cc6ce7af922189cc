"""The phone's own secret: made once, kept in the store, never sent; every draw of the phone follows from it.

So two copies of a phone (a restored backup, a cloned machine) say the same bytes when they are asked the same, and an
honest ledger on each of them is honest about both. What a copy has forgotten it cannot know, so a store looks for signs
that it *is* a copy: the file has another inode than the one that was written down, or the counter beside the file is
ahead of the store's. Then its phone keeps quiet about real callers for one horizon (made-up ones are reported as ever).
A copy that took the counter with it, on a file system that gives it the old inode, is not recognised.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from hushcall.phone.home.store import Store
from hushcall.phone.home.trouble import COUNTER, FILE
from hushcall.privacy.coins import ByteSource, read

KEY_BYTES = 32
_KEY, _INODE, _COPIED = "device_key", "inode", "copied_at"


def device_key(store: Store, coins: ByteSource) -> bytes:
    """The secret, made of ``coins`` where there is none yet."""
    if not store.get(_KEY):
        store.put(_KEY, read(coins, KEY_BYTES).hex())
    return bytes.fromhex(store.get(_KEY))


def look_for_copies(store: Store, now: int) -> int | None:
    """When this store was first found to be a copy (unix seconds); None as far as can be told it is none."""
    if store.folder is None:
        return None
    inode = str((store.folder / FILE).stat().st_ino)
    if (store.get(_INODE, inode) != inode) or beside(store.folder) > reports(store):
        is_a_copy(store, now)
        count(store)
    if store.get(_INODE) != inode:
        store.put(_INODE, inode)
    copied = store.get(_COPIED)
    return int(copied) if copied else None


def reports(store: Store) -> int:
    """How many reports this store has recorded, ever."""
    return int(store.row("SELECT count(*) FROM ledger")[0])


def count(store: Store) -> None:
    """Write the number of reports beside the store; a folder that cannot be written to is no reason to stop."""
    if store.folder is not None:
        with contextlib.suppress(OSError):
            (store.folder / COUNTER).write_text(f"{reports(store)}\n", encoding="ascii")


def is_a_copy(store: Store, now: int) -> None:
    """From here on this store counts as a copy: real callers are not reported for one horizon."""
    store.put(_COPIED, str(now))


def beside(folder: Path) -> int:
    """How many reports the counter in a folder says that its store has recorded; 0 where it says nothing."""
    try:
        return int((folder / COUNTER).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
