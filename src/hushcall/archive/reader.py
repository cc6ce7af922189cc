"""Parquet files of an archive come in, batches of report arrays leave: no copy beyond Parquet's own decompression."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hushcall.archive.manifest import Address, ArchivedFile, ArchivedRound
from hushcall.errors import InvalidArchive
from hushcall.learn.feed.report_arrays import ReportArrays

BATCH = 1 << 18
COLUMNS = ("ticket", "body")


def read_file(address: Address, found: ArchivedRound, file: ArchivedFile, batch: int = BATCH) -> Iterator[ReportArrays]:
    """The reports of one file, a batch at a time."""
    path = address.path(found.folder, file.path)
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
    """A column of fixed width as rows of bytes, in place."""
    if not pa.types.is_fixed_size_binary(column.type) or column.null_count:
        raise InvalidArchive("column", "hold bytes of one width in every row", str(column.type))
    width = column.type.byte_width
    flat = np.frombuffer(column.buffers()[1], np.uint8)
    return flat[column.offset * width : (column.offset + len(column)) * width].reshape(len(column), width)
