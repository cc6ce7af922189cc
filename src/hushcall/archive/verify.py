"""An archive comes in, everything that is wrong with it leaves, in words: damaged, missing, surplus and doubled files.

A file is wrong if one bit of it is: its SHA-256 stands in the manifest. With ``deep`` the reports are read as well and
the checksum of every bucket is worked out again, which is the one that the server's own sealed tally has.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator

from hushcall.archive.manifest import MANIFEST, Address, ArchivedBucket, ArchivedFile, ArchivedRound
from hushcall.archive.reader import read_file
from hushcall.errors import InvalidArchive

_CHUNK = 1 << 22


def problems(
    address: Address,
    found: ArchivedRound,
    *,
    deep: bool = False,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[str]:
    """What is wrong with one round."""
    yield from _surplus(address, found)
    yield from _doubled(found)
    for done, bucket in enumerate(found.buckets, 1):
        wrong = [text for file in bucket.files for text in _file(address, found, file)]
        yield from wrong
        held = sum(file.reports for file in bucket.files)
        if held != bucket.reports:
            yield f"bucket {bucket.bucket}: its files hold {held} of {bucket.reports} reports"
        if deep and not wrong:
            yield from _content(address, found, bucket)
        progress(done, len(found.buckets))


def _surplus(address: Address, found: ArchivedRound) -> Iterator[str]:
    """Files that lie there and belong to nobody: a reader that takes the whole folder would count them."""
    root = address.path(found.folder) + "/"
    known = {file.path for bucket in found.buckets for file in bucket.files} | {MANIFEST}
    for path in sorted(str(one) for one in address.system.find(address.path(found.folder))):
        if path.removeprefix(root) not in known:
            yield f"{path.removeprefix(root)}: not in the manifest (a copy, or left over)"


def _doubled(found: ArchivedRound) -> Iterator[str]:
    files = [file for bucket in found.buckets for file in bucket.files]
    for digest, count in Counter(file.sha256 for file in files).items():
        if count > 1:
            same = ", ".join(file.path for file in files if file.sha256 == digest)
            yield f"{same}: the same reports {count} times"


def _file(address: Address, found: ArchivedRound, file: ArchivedFile) -> Iterator[str]:
    digest, length = hashlib.sha256(), 0
    try:
        with address.system.open(address.path(found.folder, file.path), "rb") as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                length += len(chunk)
    except OSError:
        yield f"{file.path}: missing"
        return
    if length != file.bytes:
        yield f"{file.path}: {length} bytes instead of {file.bytes}"
    elif digest.hexdigest() != file.sha256:
        yield f"{file.path}: damaged (its SHA-256 is another)"


def _content(address: Address, found: ArchivedRound, bucket: ArchivedBucket) -> Iterator[str]:
    total, count = 0, 0
    try:
        for file in bucket.files:
            for reports in read_file(address, found, file):
                total, count = (total + reports.checksum()) % (1 << 256), count + len(reports)
    except InvalidArchive as error:
        yield f"bucket {bucket.bucket}: {error}"
        return
    if (count, f"{total:064x}") != (bucket.reports, bucket.checksum):
        yield f"bucket {bucket.bucket}: its reports are not those that were archived (checksum)"
