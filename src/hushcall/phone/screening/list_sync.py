"""The phone fetches the list: a server's signed files come in, a verified ``list.jsonl`` in the phone's folder leaves.

What changed since the phone's version is fetched first, the whole list where that does not work out; either way the
bytes are compared with the signed digest before they replace anything. On any error the old list stays as it was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hushcall.errors import InvalidList, InvalidParameter, Refused, UntrustedList
from hushcall.phone.home.action import Action
from hushcall.phone.screening.lookup import LIST_FILE, STATE_FILE, LoadedList, Policy, Verdict, check, read_header
from hushcall.protocol.blocklist import apply_delta, iso
from hushcall.protocol.charter import ROUNDS_TARGET, read_rounds_file
from hushcall.whole_file import write_whole

if TYPE_CHECKING:
    from tuf.api.metadata import TargetFile

    from hushcall.phone.screening.tuf_source import TrustedSource

__all__ = ["Action", "ListClient", "LoadedList", "Policy", "SyncResult", "Verdict", "check"]

LIST_TARGET = "blocklist.jsonl"
ROOT_FILE = "trusted-root.json"
METADATA_FOLDER = "metadata"
NO_LIST = "no-list"
"""The problem of a server that has signed nothing yet: that passes with its first round."""
How = Literal["unchanged", "delta", "full"]


@dataclass(frozen=True)
class SyncResult:
    """What a sync did: the version before (None if there was none) and now, and what it cost to get there."""

    before: int | None
    version: int
    entries: int
    how: How
    requests: int
    bytes: int
    expires: datetime
    round: int = 0


@dataclass(frozen=True)
class ListClient:
    """Keeps the list of one server in one folder; one process at a time.

    ``root`` is the operator's root, got in some trusted way. Without it the server's own is taken at the first
    successful sync (if it has the digest ``root_sha256``, where that is given) and pinned: from then on only its keys,
    and those that they hand over to, are believed.
    """

    folder: Path
    server_url: str
    root: bytes | None = None
    root_sha256: str | None = None

    def sync(self, now: datetime | None = None) -> SyncResult:
        """Fetch the newest list. Raises ``Unreachable``, ``Refused`` or ``UntrustedList``; nothing is lost then."""
        from hushcall.phone.screening import tuf_source  # tuf takes a while to import

        fetcher = tuf_source.CountingFetcher()
        url = self.server_url.rstrip("/") + "/v1/lists"
        root = self.root or _content(self.folder / ROOT_FILE) or tuf_source.first_root(url, self.root_sha256, fetcher)
        source = tuf_source.TrustedSource(self.folder / METADATA_FOLDER, url, root, fetcher)
        info = source.info(LIST_TARGET)
        if info is None:
            raise Refused(NO_LIST, 404, "the server has published no list yet.", "Try again after its first round.")
        held = _content(self.folder / LIST_FILE)
        how, data = _newest(source, info, held)
        loaded = LoadedList.from_bytes(data)
        if how != "unchanged":
            write_whole(self.folder / LIST_FILE, data)
        write_whole(self.folder / ROOT_FILE, root)
        if (rounds := source.info(ROUNDS_TARGET)) is not None:
            write_whole(self.folder / ROUNDS_TARGET, source.download(rounds))
        state = {"version": loaded.version, "synced": _text(now or datetime.now(UTC)), "expires": _text(source.expires)}
        write_whole(self.folder / STATE_FILE, json.dumps(state).encode() + b"\n")
        before = None if held is None else _version(held)
        cost = fetcher.requests, fetcher.bytes
        newest = int(read_header(data)["round"])
        return SyncResult(before, loaded.version, len(loaded), how, *cost, source.expires, newest)

    def named_rounds(self) -> dict[int, dict[str, str]]:
        """The digests of rounds that the list synced last names: round → part → digest."""
        return read_rounds_file(_content(self.folder / ROUNDS_TARGET) or b"{}")

    def load(self) -> LoadedList:
        """The list that was synced last."""
        return LoadedList.load(self.folder)


def _newest(source: TrustedSource, info: TargetFile, held: bytes | None) -> tuple[How, bytes]:
    from hushcall.phone.screening.tuf_source import matches

    if held is not None:
        if matches(info, held):
            return "unchanged", held
        data = _by_delta(source, info, held)
        if data is not None and matches(info, data):
            return "delta", data
    return "full", source.download(info)


def _by_delta(source: TrustedSource, info: TargetFile, held: bytes) -> bytes | None:
    """What a delta makes of the list we hold; None where there is none, or none that pays, or it leads nowhere."""
    change = source.info(f"delta-{_version(held)}-{(info.custom or {}).get('version')}.jsonl")
    if change is None or change.length >= info.length:
        return None
    try:
        return apply_delta(held, source.download(change))
    except (InvalidList, UntrustedList, Refused):  # a delta is only a shortcut: the whole list decides
        return None


def _version(data: bytes) -> int | None:
    """A list's version; None where it cannot be read, which only means that no delta starts from it."""
    try:
        return int(read_header(data)["version"])
    except InvalidList:
        return None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidParameter("folder", f"be readable ({error.strerror})", str(path)) from error


def _text(at: datetime) -> str:
    return iso(int(at.timestamp()))
