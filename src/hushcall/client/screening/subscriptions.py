"""Lists of other servers, in the owner's order. They are only read: nothing is reported to these servers.

With a relay for reports, each of them is fetched through a relay of its own server, or directly if its owner says so,
and at a moment drawn for it alone: no run of the program fetches two lists.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hushcall.atomic_file import atomic_write
from hushcall.client.screening.lookup import ROOT_FILE
from hushcall.client.storage.store import SUBSCRIBED, Store
from hushcall.errors import HushcallError, InvalidData, InvalidParameter, NotFound, Refused
from hushcall.protocol.pairing import split
from hushcall.protocol.randomness import ByteSource

if TYPE_CHECKING:
    from hushcall.client.reporting.transport import Answer
    from hushcall.client.screening.list_sync import SyncResult

SETTING = "subscriptions"
OWN = "own"
"""Stands for the list of the phone's own server in an order."""
MAX_LISTS = 20


@dataclass(frozen=True)
class Subscription:
    """Another server's list. ``url`` is empty for the phone's own server. ``trouble``: why the last sync failed."""

    url: str
    root_sha256: str = ""
    relay: str = ""
    sync_at: int = 0
    trouble: str = ""

    @property
    def name(self) -> str:
        return host_of(self.url)

    def folder(self, store: Store) -> Path:
        if not self.url:
            return store.lists
        return store.lists.with_name(SUBSCRIBED) / hashlib.sha256(self.url.encode()).hexdigest()[:16]


OF_SERVER = Subscription("")


def host_of(url: str) -> str:
    return urlsplit(url).netloc or url


def in_order(store: Store) -> list[Subscription]:
    """All lists, the own server's among them, first the one that decides first."""
    try:
        rows = [Subscription(**row) for row in json.loads(store.get(SETTING, "[]"))]
    except (ValueError, TypeError):
        raise InvalidData("subscriptions", "be as this release stores them", "another") from None
    return [row for row in rows if row.url != store.get("server")] or [OF_SERVER]  # the phone may have moved there


def add(store: Store, address: str, root_sha256: str, relay: str, *, direct: bool) -> Subscription:
    """Subscribes to the list of a server, after the others, or changes how it is fetched.

    Without a digest the root that the server shows now is trusted.
    """
    from hushcall.client.reporting import anonymity
    from hushcall.client.reporting.transport import checked_url
    from hushcall.client.screening.list_sync import check_root

    url, named = split(address)
    url, digest = checked_url(url, "list"), root_sha256 or named
    if url == store.get("server"):
        raise InvalidParameter("list", "be of another server than the phone's own", url)
    if relay and direct:
        raise InvalidParameter("relay", "be left out where the list is fetched directly", relay)
    if anonymity.route_of(store) and not (relay or direct):
        rule = "be given, as this phone has one: --relay URL of that server's, or --direct, which shows it your address"
        raise InvalidParameter("relay", rule, "none")
    relay = anonymity.require_other_host("relay", relay, url) if relay else ""
    rows = in_order(store)
    row = Subscription(url, digest.lower(), relay)
    if all(each.url != url for each in rows) and len(rows) >= MAX_LISTS:
        raise InvalidParameter("lists", f"be at most {MAX_LISTS}", len(rows) + 1)
    root = check_root(url, digest or None, _files(row))
    row = replace(row, root_sha256=hashlib.sha256(root).hexdigest())
    _remove_folder(row, store)
    try:
        row.folder(store).mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise InvalidData("the phone's folder", f"be writable ({error.strerror})", str(row.folder(store))) from None
    atomic_write(row.folder(store) / ROOT_FILE, root)
    _save(
        store,
        [row if each.url == url else each for each in rows] if any(each.url == url for each in rows) else [*rows, row],
    )
    return row


def remove(store: Store, address: str) -> Subscription:
    rows = in_order(store)
    row = _named(rows, address)
    if not row.url:
        raise InvalidParameter("list", "be of another server than the phone's own", address)
    _save(store, [each for each in rows if each.url != row.url])
    _remove_folder(row, store)
    return row


def reorder(store: Store, names: Sequence[str]) -> list[Subscription]:
    """The named lists first, in this order. The others keep theirs."""
    rows = in_order(store)
    first = list(dict.fromkeys(_named(rows, name) for name in names))
    _save(store, rows := [*first, *(row for row in rows if row not in first)])
    return rows


def sync(
    store: Store, rand: ByteSource, clock: Callable[[], float], *, force: bool = False, only: str | None = None
) -> list[tuple[Subscription, SyncResult | HushcallError]]:
    """Fetches the other servers' lists that are due. An error of one is its result, and the others go on."""
    from hushcall.client.reporting import anonymity
    from hushcall.client.screening.list_sync import ListClient

    drawn = anonymity.route_of(store) is not None
    results: list[tuple[Subscription, SyncResult | HushcallError]] = []
    for row in in_order(store):
        now = int(clock())
        waits = (drawn or row.relay) and now < row.sync_at < now + 2 * anonymity.SYNC_SECONDS
        if not row.url or only not in (None, row.url) or (waits and not force):
            continue
        result: SyncResult | HushcallError
        try:
            row.folder(store).mkdir(mode=0o700, parents=True, exist_ok=True)
            result = ListClient(row.folder(store), row.url, None, row.root_sha256, _files(row)).sync()
        except (HushcallError, OSError) as error:
            result = error if isinstance(error, HushcallError) else InvalidData("list", "be writable", str(error))
        no_list = isinstance(result, Refused) and result.problem == "no-list"
        trouble = str(result) if isinstance(result, HushcallError) and not no_list else ""
        _update(store, replace(row, trouble=trouble, sync_at=anonymity.next_sync(rand, now)))
        results.append((row, result))
        if drawn and not force:
            break
    return results


def _files(row: Subscription) -> Callable[[str], Answer] | None:
    if not row.relay:
        return None
    from hushcall.client.reporting import anonymity
    from hushcall.client.reporting.transport import HttpTransport

    route = anonymity.Route(anonymity.gateway_by(row.relay), row.relay)
    return HttpTransport(row.url).anonymous(route).file


def _named(rows: Iterable[Subscription], name: str) -> Subscription:
    """By address, by host, or ``own``."""
    wanted = "" if name == OWN else name.rstrip("/")
    for row in rows:
        if row.url == wanted or (row.url and row.name == wanted):
            return row
    raise NotFound("list", "be subscribed to", name, f"This phone has no list of {name}.")


def _update(store: Store, row: Subscription) -> None:
    _save(store, [row if each.url == row.url else each for each in in_order(store)])


def _save(store: Store, rows: Sequence[Subscription]) -> None:
    store.put(SETTING, json.dumps([asdict(row) for row in rows]))


def _remove_folder(row: Subscription, store: Store) -> None:
    try:
        if row.folder(store).exists():
            shutil.rmtree(row.folder(store))
    except OSError as error:
        raise InvalidData("the phone's list", f"be erasable ({error.strerror})", str(row.folder(store))) from None
