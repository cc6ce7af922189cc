"""A phone changes its server: the new one's terms come in, and what was believed because of the old one goes."""

from __future__ import annotations

import shutil

from hushcall.errors import InvalidData
from hushcall.phone.home.store import Store

STALE = "stale_list"
"""The setting that says: the list in the folder, with the keys it was believed for, is of a server that was left."""


def move_to(
    store: Store,
    url: str,
    token: str,
    device: int,
    root: str,
    root_sha256: str = "",
    *,
    plan: str = "",
    plan_file: str = "",
) -> None:
    """Change to a server, all of it or nothing: at no moment is one server believed by what was pinned for another.

    The old list goes afterwards (:func:`drop_stale_list`). Were it to go before, a power cut in between would leave the
    old server to be believed anew, whoever answers in its name.
    """
    with store.transaction():
        before = store.get("server")
        store.put("server", url)
        store.put("token", token)
        store.put("device", str(device))
        store.put("plan", plan)
        store.put("plan_file", plan_file)
        if before not in ("", url):
            store.put("root", "")
            store.put("root_sha256", "")
            store.put(STALE, "yes")
        pin(store, root, root_sha256)
    drop_stale_list(store)


def pin(store: Store, root: str, root_sha256: str) -> None:
    """Keep where trust starts: the operator's root, or its digest; what is not given stays as it was."""
    for name, value in (("root", root), ("root_sha256", root_sha256)):
        if value:
            store.put(name, value)


def drop_stale_list(store: Store) -> None:
    """Drop the signed list of a server that was left, and its metadata: the next sync starts anew."""
    if not store.get(STALE):
        return
    try:
        if store.lists.exists():
            shutil.rmtree(store.lists)
    except OSError as error:
        raise InvalidData("the phone's list", f"be erasable ({error.strerror})", str(store.lists)) from None
    store.put(STALE, "")
