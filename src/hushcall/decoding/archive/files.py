"""The Parquet files of an archived round: written while reports stream by, read in batches, verified.

Memory is bounded by one row group. A file is hashed while it is written. Reading copies nothing beyond Parquet's own
decompression.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import RawIOBase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hushcall.decoding.archive.manifest import MANIFEST, Address, ArchivedBucket, ArchivedFile, ArchivedRound
from hushcall.errors import InvalidArchive
from hushcall.mechanisms.report_arrays import ReportArrays

BATCH = 1 << 18
COLUMNS = ("ticket", "body")
ROWS_A_FILE = 1 << 21
ROWS_A_GROUP = 1 << 17
_CHUNK = 1 << 22
_MODULUS = 1 << 256


class _Hashed(RawIOBase):
    """A file that knows its length and its SHA-256 while it is written from the first byte to the last."""

    def __init__(self, file: Any) -> None:
        self.file, self.digest, self.length = file, hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.length += len(data)
        self.file.write(bytes(data))
        return len(data)

    def tell(self) -> int:
        return self.length

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()


def _table(reports: ReportArrays) -> pa.Table:
    columns = {}
    for name, array in (("ticket", reports.tickets), ("body", reports.bodies)):
        kind = pa.binary(array.shape[1])
        columns[name] = pa.FixedSizeBinaryArray.from_buffers(kind, len(array), [None, pa.py_buffer(array.tobytes())])
    return pa.table(columns)


def write_bucket(
    address: Address,
    round_folder: str,
    bucket: int,
    users: int,
    parameters: dict[str, Any],
    chunks: Iterable[ReportArrays],
) -> ArchivedBucket:
    system, folder, files = address.system, f"bucket={bucket}", list[ArchivedFile]()
    system.makedirs(address.path(round_folder, folder), exist_ok=True)
    checksum, waiting = 0, iter(chunks)
    chunk = next(waiting, None)
    while chunk is not None:
        path, rows = f"{folder}/part-{len(files):05d}.parquet", 0
        out, width = _Hashed(system.open(address.path(round_folder, path), "wb")), chunk.bodies.shape[1]
        schema = pa.schema([("ticket", pa.binary(16)), ("body", pa.binary(width))])
        # Tickets are random bytes: neither a dictionary nor statistics can do anything with them.
        options = {"compression": "zstd", "compression_level": 1, "use_dictionary": ["body"], "write_statistics": False}
        with pq.ParquetWriter(pa.PythonFile(out, mode="w"), schema, **options) as writer:
            while chunk is not None and rows < ROWS_A_FILE:
                writer.write_table(_table(chunk), row_group_size=ROWS_A_GROUP)
                checksum, rows = (checksum + chunk.checksum()) % _MODULUS, rows + len(chunk)
                chunk = next(waiting, None)
        out.close()
        files.append(ArchivedFile(path, rows, out.length, out.digest.hexdigest()))
    reports = sum(file.reports for file in files)
    return ArchivedBucket(bucket, users, parameters, reports, checksum.to_bytes(32, "big").hex(), tuple(files))


def start_round(address: Address, number: int) -> str:
    """The folder of a round that is about to be written. A finished round is never written over."""
    folder = f"round={number}"
    if address.system.exists(address.path(folder, MANIFEST)):
        raise InvalidArchive("round", "be one that this archive does not hold yet", number)
    address.system.makedirs(address.path(folder), exist_ok=True)
    return folder


def finish_round(
    address: Address,
    number: int,
    seed: bytes,
    plan: str,
    profile: Mapping[str, Any],
    buckets: Iterable[ArchivedBucket],
    skipped: Mapping[int, int],
    times: Mapping[str, int],
    hints: Mapping[str, Any] | None = None,
) -> ArchivedRound:
    """Write the manifest: from now on the round is in the archive."""
    ordered = tuple(sorted(buckets, key=lambda bucket: bucket.bucket))
    left_out = {str(bucket): users for bucket, users in sorted(skipped.items())}
    opened = (number, seed.hex(), plan, dict(profile))
    archived = ArchivedRound(*opened, ordered, left_out, dict(times), hints=dict(hints or {}))
    address.system.pipe_file(address.path(archived.folder, MANIFEST), archived.to_bytes())
    return archived


def read_file(address: Address, folder: str, file: ArchivedFile, batch: int = BATCH) -> Iterator[ReportArrays]:
    path = address.path(folder, file.path)
    try:
        with address.system.open(path, "rb") as source:
            # Parquet's own threads are left alone: cores are shared out by file and by bucket.
            for part in pq.ParquetFile(source).iter_batches(batch, columns=list(COLUMNS), use_threads=False):
                if sorted(part.schema.names) != sorted(COLUMNS):  # none missing, none twice
                    raise InvalidArchive("columns", f"be {' and '.join(COLUMNS)}", part.schema.names)
                yield ReportArrays(*(_bytes(part.column(name)) for name in COLUMNS))
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a name that is no UTF-8
        raise InvalidArchive("file", f"be a readable Parquet file ({error})", path) from None


def _bytes(column: pa.Array) -> NDArray[np.uint8]:
    if not pa.types.is_fixed_size_binary(column.type) or column.null_count:
        raise InvalidArchive("column", "hold bytes of one width in every row", str(column.type))
    width = column.type.byte_width
    flat = np.frombuffer(column.buffers()[1], np.uint8)
    return flat[column.offset * width : (column.offset + len(column)) * width].reshape(len(column), width)


def problems(
    address: Address,
    archived: ArchivedRound,
    *,
    deep: bool = False,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[str]:
    yield from _surplus(address, archived)
    yield from _doubled(archived)
    for done, bucket in enumerate(archived.buckets, 1):
        damage = [text for file in bucket.files for text in _damage(address, archived, file)]
        yield from damage
        reports = sum(file.reports for file in bucket.files)
        if reports != bucket.reports:
            yield f"bucket {bucket.bucket}: its files hold {reports} of {bucket.reports} reports"
        if deep and not damage:
            yield from _content(address, archived, bucket)
        progress(done, len(archived.buckets))


def _surplus(address: Address, archived: ArchivedRound) -> Iterator[str]:
    """Files that the manifest does not name: a reader that takes the whole folder would count them."""
    root = address.path(archived.folder) + "/"
    named = {file.path for bucket in archived.buckets for file in bucket.files} | {MANIFEST}
    for path in sorted(map(str, address.system.find(address.path(archived.folder)))):
        if path.removeprefix(root) not in named:
            yield f"{path.removeprefix(root)}: not in the manifest (a copy, or left over)"


def _doubled(archived: ArchivedRound) -> Iterator[str]:
    files = [file for bucket in archived.buckets for file in bucket.files]
    for digest, count in Counter(file.sha256 for file in files).items():
        if count > 1:
            same = ", ".join(file.path for file in files if file.sha256 == digest)
            yield f"{same}: the same reports {count} times"


def _damage(address: Address, archived: ArchivedRound, file: ArchivedFile) -> Iterator[str]:
    digest, length = hashlib.sha256(), 0
    try:
        with address.system.open(address.path(archived.folder, file.path), "rb") as source:
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


def _content(address: Address, archived: ArchivedRound, bucket: ArchivedBucket) -> Iterator[str]:
    total, count = 0, 0
    try:
        for file in bucket.files:
            for reports in read_file(address, archived.folder, file):
                total, count = (total + reports.checksum()) % _MODULUS, count + len(reports)
    except InvalidArchive as error:
        yield f"bucket {bucket.bucket}: {error}"
        return
    if (count, f"{total:064x}") != (bucket.reports, bucket.checksum):
        yield f"bucket {bucket.bucket}: its reports are not those that were archived (checksum)"
