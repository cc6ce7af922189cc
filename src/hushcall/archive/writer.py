"""Reports come in as arrays, bucket after bucket; Parquet files with checksums leave, and at the end a manifest.

Memory is bounded by one row group. A file is hashed while it is written, so that nothing is read twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hushcall.archive.manifest import MANIFEST, Address, ArchivedBucket, ArchivedFile, ArchivedRound
from hushcall.errors import InvalidArchive
from hushcall.learn.feed.report_arrays import ReportArrays

ROWS_A_FILE = 1 << 21
ROWS_A_GROUP = 1 << 17
_MODULUS = 1 << 256


class _Hashed:
    """A file that knows its length and its SHA-256 while it is written from the first byte to the last."""

    def __init__(self, file: Any) -> None:
        self.file, self.digest, self.length, self.closed = file, hashlib.sha256(), 0, False

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.length += len(data)
        self.file.write(bytes(data))
        return len(data)

    def tell(self) -> int:
        return self.length

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


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
    """Write one bucket's reports, a chunk at a time, into as many files as it takes."""
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
    """The folder of a round that is about to be written; a finished one is never written over."""
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
) -> ArchivedRound:
    """Write the manifest: from now on the round is in the archive."""
    ordered = tuple(sorted(buckets, key=lambda one: one.bucket))
    left_out = {str(bucket): users for bucket, users in sorted(skipped.items())}
    found = ArchivedRound(number, seed.hex(), plan, dict(profile), ordered, left_out, dict(times))
    address.system.pipe_file(address.path(found.folder, MANIFEST), found.to_bytes())
    return found
