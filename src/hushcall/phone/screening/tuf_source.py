"""The phone's end of TUF: a server's address and a root come in, only what the operator's keys signed last leaves.

python-tuf does the verifying. Here its state gets a folder, its errors a place in our tree, and what was downloaded is
counted. Imports tuf, which takes a while: import this module where it is used.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

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

from hushcall.errors import InvalidParameter, Refused, Unreachable, UntrustedList

TIMEOUT_SECONDS = 20
MOST_ROOT_BYTES = UpdaterConfig().root_max_length


class CountingFetcher(Urllib3Fetcher):
    """Downloads over HTTP, and counts requests and bytes."""

    def __init__(self) -> None:
        super().__init__(socket_timeout=TIMEOUT_SECONDS, app_user_agent="hushcall")
        self.requests = self.bytes = 0

    def _fetch(self, url: str) -> Iterator[bytes]:
        self.requests += 1
        return self._count(super()._fetch(url))

    def _count(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.bytes += len(chunk)
            yield chunk


def first_root(url: str, sha256: str | None, fetcher: CountingFetcher) -> bytes:
    """The root that the server itself hands out: believed, this once, or compared with a digest got elsewhere."""
    with our_errors():
        root = fetcher.download_bytes(f"{url}/root.json", MOST_ROOT_BYTES)
    found = hashlib.sha256(root).hexdigest()
    if sha256 is not None and found != sha256.strip().lower():
        raise UntrustedList(f"its root has the SHA-256 {found}, not the one that you gave")
    return root


class TrustedSource:
    """A server's signed files, as of one refresh."""

    def __init__(self, folder: Path, url: str, root: bytes, fetcher: CountingFetcher) -> None:
        """``root`` is the root to start from: everything else is believed because of it."""
        self.folder = folder
        with our_errors():
            folder.mkdir(parents=True, exist_ok=True)
            self._updater = Updater(str(folder), f"{url}/metadata/", None, f"{url}/targets/", fetcher, bootstrap=root)
            self._updater.refresh()

    @property
    def expires(self) -> datetime:
        """When the first of the signatures behind the current files runs out."""
        roles = ("root", "timestamp", "snapshot", "targets")
        return min(_expiry(self.folder / f"{role}.json") for role in roles)

    def info(self, name: str) -> TargetFile | None:
        """What was signed about a file: length, digest, and our own notes; None if there is no such file."""
        with our_errors():
            return self._updater.get_targetinfo(name)

    def download(self, info: TargetFile) -> bytes:
        """A file's content, compared with the length and the digest that were signed."""
        with our_errors(), tempfile.TemporaryDirectory() as folder:
            return Path(self._updater.download_target(info, f"{folder}/target")).read_bytes()


def _expiry(path: Path) -> datetime:
    """Of metadata that the updater has verified and stored."""
    with our_errors():
        metadata: Metadata[Timestamp] = Metadata.from_file(str(path))
    return metadata.signed.expires


def matches(info: TargetFile, data: bytes) -> bool:
    """Whether these bytes are what was signed."""
    try:
        info.verify_length_and_hashes(data)
    except LengthOrHashMismatchError:
        return False
    return True


@contextmanager
def our_errors() -> Iterator[None]:
    """Turn what tuf and urllib3 raise into our errors."""
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
