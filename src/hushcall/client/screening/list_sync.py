"""Fetches the signed list of a server, and verifies it with python-tuf, which takes a while to import.

The change since the client's version is fetched first, the complete list where that fails. The bytes are compared with
the signed digest before they replace anything.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

import urllib3
from tuf.api.exceptions import (
    BadVersionNumberError,
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
)
from tuf.api.metadata import Metadata, TargetFile, Timestamp
from tuf.ngclient import Updater, UpdaterConfig, Urllib3Fetcher

from hushcall.atomic_file import atomic_write
from hushcall.client.reporting.transport import Answer
from hushcall.client.screening.lookup import (
    IMPORTED_FILE,
    LIST_FILE,
    ROOT_FILE,
    STATE_FILE,
    LoadedList,
    read_header,
)
from hushcall.errors import InvalidList, InvalidParameter, Refused, Unreachable, UntrustedList
from hushcall.protocol.blocklist import blocks_of, iso, patched
from hushcall.protocol.imported import require_header
from hushcall.protocol.list_index import checked
from hushcall.protocol.ranges import RANGES_TARGET, RangeList
from hushcall.protocol.round_commitment import ROUNDS_TARGET, read_rounds_file

LIST_TARGET = "blocklist.jsonl"
METADATA_FOLDER = "metadata"
NO_LIST = "no-list"
"""The problem of a server that has signed nothing yet, before the end of its first round."""
TIMEOUT_SECONDS = 20
MAX_ROOT_BYTES = UpdaterConfig().root_max_length
How = Literal["unchanged", "delta", "full"]


@dataclass(frozen=True)
class SyncResult:
    """The result of a sync: the version before (None if there was none) and now, and what it cost."""

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
    """Keeps the list of one server in one folder. Only one process at a time may use it.

    Without the operator's ``root`` the server's own (with the digest ``root_sha256``, if given) is pinned at the first
    sync. Only its keys are trusted, and those that they hand over to.
    """

    folder: Path
    server_url: str
    root: bytes | None = None
    root_sha256: str | None = None
    files: Callable[[str], Answer] | None = None
    """How to fetch a file by its address. Default: directly."""

    def sync(self, now: datetime | None = None) -> SyncResult:
        """Fetch the newest list. After ``Unreachable``, ``Refused`` or ``UntrustedList`` the old one stays."""
        fetcher = _CountingFetcher(self.files)
        url = self.server_url.rstrip("/") + "/v1/lists"
        root = self.root or _content(self.folder / ROOT_FILE) or _first_root(url, self.root_sha256, fetcher)
        source = _TrustedSource(self.folder / METADATA_FOLDER, url, root, fetcher)
        info, file = source.info(LIST_TARGET), self.folder / LIST_FILE
        times = {"synced": _iso(now or datetime.now(UTC)), "expires": _iso(source.expires)}
        if info is None:
            if _update_imported(source, self.folder / IMPORTED_FILE):
                atomic_write(self.folder / ROOT_FILE, root)
                atomic_write(self.folder / STATE_FILE, json.dumps({"version": 0, **times}).encode() + b"\n")
            raise Refused(NO_LIST, 404, "the server has published no list yet.", "Try again after its first round.")
        before = _header(file)
        how = _update(source, info, file, before)
        header = read_header(_first_line(file))
        atomic_write(self.folder / ROOT_FILE, root)
        _update_imported(source, self.folder / IMPORTED_FILE)
        self._fetch(source, ROUNDS_TARGET)
        if not self._fetch(source, RANGES_TARGET, RangeList.from_bytes):
            (self.folder / RANGES_TARGET).unlink(missing_ok=True)
        state = {"version": header["version"], "bytes": file.stat().st_size, **times}
        atomic_write(self.folder / STATE_FILE, json.dumps(state).encode() + b"\n")
        numbers = int(header["version"]), int(header["entries"])
        cost = fetcher.requests, fetcher.bytes
        old_version = int(before["version"]) if before else None
        return SyncResult(old_version, *numbers, how, *cost, source.expires, int(header["round"]))

    def _fetch(self, source: _TrustedSource, name: str, check: Callable[[bytes], object] = lambda _: None) -> bool:
        """Keeps a small file beside the list, if there is one and it passes its check."""
        if (info := source.info(name)) is None:
            return False
        with source.download(info) as signed:
            data = signed.read()
        try:
            check(data)
        except InvalidList:
            return False  # of a later release, perhaps: the list is good
        atomic_write(self.folder / name, data)
        return True

    def named_rounds(self) -> dict[int, dict[str, str]]:
        """The digests of rounds by the newest list: round → part → digest."""
        return read_rounds_file(_content(self.folder / ROUNDS_TARGET) or b"{}")

    def load(self) -> LoadedList:
        """The list of the last sync."""
        return LoadedList.load(self.folder)


class _CountingFetcher(Urllib3Fetcher):
    def __init__(self, files: Callable[[str], Answer] | None = None) -> None:
        super().__init__(socket_timeout=TIMEOUT_SECONDS, app_user_agent="hushcall")
        self.requests = self.bytes = 0
        self._files = files

    def _fetch(self, url: str) -> Iterator[bytes]:
        self.requests += 1
        if self._files is None:
            return self._count(super()._fetch(url))
        answer = self._files(url)
        if answer.status != 200:
            raise DownloadHTTPError(f"status {answer.status}", answer.status)
        return self._count(iter([answer.data]))

    def _count(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.bytes += len(chunk)
            yield chunk


class _TrustedSource:
    """A server's signed files as of one refresh. Everything is trusted because of ``root``."""

    def __init__(self, folder: Path, url: str, root: bytes, fetcher: _CountingFetcher) -> None:
        self.folder = folder
        with _own_errors():
            folder.mkdir(parents=True, exist_ok=True)
            self._updater = Updater(str(folder), f"{url}/metadata/", None, f"{url}/targets/", fetcher, bootstrap=root)
            self._updater.refresh()

    @property
    def expires(self) -> datetime:
        """When the first of the signatures behind the current files expires."""
        roles = ("root", "timestamp", "snapshot", "targets")
        with _own_errors():
            files: list[Metadata[Timestamp]] = [Metadata.from_file(str(self.folder / f"{role}.json")) for role in roles]
        return min(metadata.signed.expires for metadata in files)

    def info(self, name: str) -> TargetFile | None:
        with _own_errors():
            return self._updater.get_targetinfo(name)

    @contextmanager
    def download(self, info: TargetFile) -> Iterator[BinaryIO]:
        """A verified file, for as long as the block lasts."""
        with tempfile.TemporaryDirectory() as folder:
            with _own_errors():
                path = Path(self._updater.download_target(info, f"{folder}/target"))
            with path.open("rb") as file:
                yield file


def _first_root(url: str, sha256: str | None, fetcher: _CountingFetcher) -> bytes:
    """The root that the server itself offers: accepted this once, or compared with a known digest."""
    with _own_errors():
        root = fetcher.download_bytes(f"{url}/root.json", MAX_ROOT_BYTES)
    digest = hashlib.sha256(root).hexdigest()
    if sha256 is not None and digest != sha256.strip().lower():
        raise UntrustedList(f"its root has the SHA-256 {digest}, not the one that you gave")
    return root


def check_root(server_url: str, sha256: str | None, files: Callable[[str], Answer] | None = None) -> bytes:
    """The root that a server offers, compared with a digest where one is known. Nothing is kept."""
    return _first_root(server_url.rstrip("/") + "/v1/lists", sha256, _CountingFetcher(files))


def _update_imported(source: _TrustedSource, path: Path) -> bool:
    """Brings the file of imported numbers up to date, or deletes it. Whether there is one."""
    info = source.info(IMPORTED_FILE)
    if info is None:
        path.unlink(missing_ok=True)
        return False
    if path.exists():
        with path.open("rb") as old:
            if _matches(info, old):
                return True
    with source.download(info) as new:
        try:
            require_header(new.readline())
        except InvalidList:  # of a later release, perhaps: the list is good
            path.unlink(missing_ok=True)
            return False
        new.seek(0)
        atomic_write(path, checked(blocks_of(new)))
    return True


def _update(source: _TrustedSource, info: TargetFile, path: Path, header: dict[str, Any] | None) -> How:
    """Brings the list's file up to date, block by block. It is replaced once it is the signed one."""
    if header is not None:
        with path.open("rb") as old:
            if _matches(info, old):
                return "unchanged"
        if _by_delta(source, info, path, header):
            return "delta"
    with source.download(info) as new:
        read_header(new.readline())
        new.seek(0)
        atomic_write(path, checked(blocks_of(new)))
    return "full"


def _by_delta(source: _TrustedSource, info: TargetFile, path: Path, header: dict[str, Any]) -> bool:
    """Applies the delta to the list. False where there is none, or it is longer than the list, or it fails."""
    delta = source.info(f"delta-{header['version']}-{(info.custom or {}).get('version')}.jsonl")
    if delta is None or delta.length >= info.length:
        return False
    try:
        with source.download(delta) as file:
            change = file.read()
        with path.open("rb") as old:
            atomic_write(path, checked(_signed(patched(blocks_of(old), change), info)))
    except (InvalidList, UntrustedList, Refused, ValueError, KeyError, TypeError, RecursionError):
        return False  # a delta is only a shortcut: the complete list decides
    return True


def _signed(blocks: Iterable[bytes], info: TargetFile) -> Iterator[bytes]:
    """The blocks, if all together have the signed digest."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
        yield block
    if digest.hexdigest() != info.hashes.get("sha256"):
        raise InvalidList("list", "have the signed digest", digest.hexdigest())


def _matches(info: TargetFile, file: BinaryIO) -> bool:
    try:
        info.verify_length_and_hashes(file)
    except LengthOrHashMismatchError:
        return False
    return True


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline()


def _header(path: Path) -> dict[str, Any] | None:
    """The header of the list, or None where it cannot be read: then no delta starts from it."""
    try:
        return read_header(_first_line(path))
    except (FileNotFoundError, InvalidList):
        return None
    except OSError as error:
        raise InvalidParameter("folder", f"be readable ({error.strerror})", str(path)) from error


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidParameter("folder", f"be readable ({error.strerror})", str(path)) from error


def _iso(at: datetime) -> str:
    return iso(int(at.timestamp()))


@contextmanager
def _own_errors() -> Iterator[None]:
    """Turn errors of tuf and urllib3 into those of :mod:`hushcall.errors`."""
    try:
        yield
    except ExpiredMetadataError as error:
        causes = "its operator is late, somebody holds news back, or this phone's clock is wrong"
        raise UntrustedList(f"{error}: {causes}"[:300]) from error
    except BadVersionNumberError as error:
        causes = "the server was set back to an older state (not by 'hushcall restore'), or somebody replays one"
        raise UntrustedList(f"it is older than the one that this phone has seen: {causes}") from error
    except RepositoryError as error:
        raise UntrustedList(f"{error}"[:200] or type(error).__name__) from error
    except DownloadLengthMismatchError as error:
        raise UntrustedList("a file is longer than was signed") from error
    except DownloadHTTPError as error:
        if error.status_code == 429 or error.status_code >= 500:
            raise Unreachable(f"the server is in trouble (HTTP status {error.status_code}): try again later") from error
        todo = "Is this the address of a hushcall server, and has its operator run hushcall keys init?"
        raise Refused("not-found", error.status_code, "a file of the list is not there.", todo) from error
    except (DownloadError, urllib3.exceptions.HTTPError) as error:
        cause = getattr(error.__cause__, "reason", None) or error.__cause__ or error
        raise Unreachable(f"the server could not be asked for its list ({type(cause).__name__})") from error
    except OSError as error:
        raise InvalidParameter("folder", f"be writable ({error.strerror})", error.filename) from error
