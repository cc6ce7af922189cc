"""The device key determines every draw of the client, so that its copies send the same bytes.

A store with another inode, or a counter file ahead of its ledger, is a copy: made-up callers only for one horizon.
"""

from __future__ import annotations

from pathlib import Path

from hushcall.client.storage.store import DAY_SECONDS, Store
from hushcall.client.storage.trouble import COUNTER, FILE
from hushcall.protocol.randomness import ByteSource, read

KEY_BYTES = 32
_KEY, _INODE, _COPIED = "device_key", "inode", "copied_at"


def device_key(store: Store, rand: ByteSource) -> bytes:
    if not store.get(_KEY):
        store.put(_KEY, read(rand, KEY_BYTES).hex())
    return bytes.fromhex(store.get(_KEY))


def made_up_until(store: Store, now: int, horizon_days: int) -> int:
    """Until when (unix seconds) the client reports made-up callers only, because its store is a copy. 0 if not now."""
    if store.folder is None:
        return 0
    inode = str((store.folder / FILE).stat().st_ino)
    if (store.get(_INODE, inode) != inode) or counted_reports(store.folder) > store.reports():
        mark_as_copy(store, now)
        store.write_counter()
    if store.get(_INODE) != inode:
        store.put(_INODE, inode)
    copied_at = store.get(_COPIED)
    until = int(copied_at) + horizon_days * DAY_SECONDS if copied_at else 0
    return until if now < until else 0


def mark_as_copy(store: Store, now: int) -> None:
    store.put(_COPIED, str(now))


def counted_reports(folder: Path) -> int:
    try:
        return int((folder / COUNTER).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
