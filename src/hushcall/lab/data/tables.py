"""Files of calls come in, as people publish them; rows of text leave; and the other way.

A file tells what it is by its first bytes and its header, never by its name: gzip, Parquet or text; the FTC's daily
layout or a ``date,caller`` table. Only what makes a whole file useless is an error here; a bad row is the caller's to
count.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hushcall.errors import InvalidData, InvalidParameter, MissingExtra

Row = tuple[str, str, str, int]
"""Date, caller, consumer's area code; and a fingerprint of the whole line where the FTC wrote it, else 0."""

# (date, caller, consumer's area code). A complaint belongs to the day on which it was filed: Violation_Date is what
# the consumer remembers, often weeks back and sometimes years.
FTC = ("created_date", "company_phone_number", "consumer_area_code")
TABLE = ("date", "caller", "consumer_area_code")
EXPECTED = "name the columns Company_Phone_Number and Created_Date (the FTC's), or date and caller"
ENDINGS = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class Layout:
    """Where a file keeps its three columns; ``area`` is None where it does not say who complained."""

    ftc: bool
    date: int
    caller: int
    area: int | None

    @property
    def last(self) -> int:
        """The last column that a row must have."""
        return max(self.date, self.caller)

    def pick(self, line: str) -> Row | None:
        """The row in a line, if the line is long enough to have one."""
        cells = _cells(line)
        if len(cells) <= self.last:
            return None
        area = cells[self.area] if self.area is not None and self.area < len(cells) else ""
        return cells[self.date], cells[self.caller], area, hash(line) if self.ftc else 0


def layout(names: Sequence[str], path: Path) -> Layout:
    """Which layout a header has, in any order of columns and with others between them."""
    found = [name.strip().strip('"').lower().replace(" ", "_") for name in names]
    for columns in (FTC, TABLE):
        if columns[0] in found and columns[1] in found:
            area = found.index(columns[2]) if columns[2] in found else None
            return Layout(columns is FTC, found.index(columns[0]), found.index(columns[1]), area)
    raise InvalidData(f"header of {path}", EXPECTED, ",".join(names))


def find(paths: Sequence[Path]) -> tuple[list[Path], int]:
    """(the files that ``paths`` name, each once, folders opened and sorted; how many in folders were foreign).

    A folder may hold a README beside its tables: what does not end like a table is passed over and counted. What does
    end like one must be one, for a day that is silently missing is worse than an error.
    """
    files: list[Path] = []
    foreign = 0
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            tables = [file for file in inside if file.name.lower().endswith(ENDINGS) and file.name[0] != "."]
            foreign += len(inside) - len(tables)
            if not tables:
                raise InvalidData(f"folder {path}", "hold .csv, .csv.gz or .parquet files", f"{len(inside)} others")
            files += tables
        elif path.is_file():
            files.append(path)
        else:
            raise InvalidData("data", "be files or folders that exist", str(path))
    return list({file.resolve(): file for file in files}.values()), foreign


@contextmanager
def opened(path: Path) -> Iterator[Iterator[Row | None]]:
    """The rows of a file; None stands for a row that is too short to have a date and a caller."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
            file.seek(0)
            if not start:
                raise InvalidData(str(path), "hold a header and rows", "an empty file")
            if start == b"PAR1":
                yield _parquet(path)
            elif start[:2] == b"\x1f\x8b":
                with gzip.open(file) as unpacked:
                    yield _text(unpacked, path)
            else:
                yield _text(file, path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidData(str(path), "be a whole gzip file", str(error)) from None
    except OSError as error:
        raise InvalidData(str(path), "be readable", error.strerror or str(error)) from None


def _text(raw: Any, path: Path) -> Iterator[Row | None]:
    stream = io.BufferedReader(raw, 1 << 16) if not hasattr(raw, "peek") else raw
    if b"\0" in stream.peek(1 << 12):
        raise InvalidData(str(path), "be a text, gzip or Parquet file", "binary data")
    # Names of cities come in any encoding, and we read none of them: what is no UTF-8 must not stop us.
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline=None)
    header = text.readline()
    if not header.strip():
        raise InvalidData(str(path), "start with a header", "an empty line")
    where = layout(_cells(header), path)
    return (where.pick(line) for line in text if line != "\n")


def _cells(line: str) -> list[str]:
    """The cells of one line. Line by line, so that a quote that nobody closed spoils one row and not the file."""
    line = line.rstrip("\n")
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line]))
    except (csv.Error, StopIteration):
        return []


def _parquet(path: Path) -> Iterator[Row | None]:
    parquet, arrow = _parquet_library()
    try:
        file = parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise InvalidData(str(path), "be a whole Parquet file", str(error)) from None
    where = layout(file.schema_arrow.names, path)
    return _batches(file, where, arrow, path)


def _batches(file: Any, where: Layout, arrow: Any, path: Path) -> Iterator[Row | None]:
    wanted = [file.schema_arrow.names[place] for place in (where.date, where.caller, where.area) if place is not None]
    try:
        for batch in file.iter_batches(columns=wanted):
            columns = [_as_text(batch.column(name), arrow) for name in wanted]
            blank = [""] * batch.num_rows
            yield from zip(*columns, *[blank] * (3 - len(columns)), [0] * batch.num_rows, strict=True)
    except (arrow.ArrowException, OSError) as error:
        raise InvalidData(str(path), "be a whole Parquet file with dates and numbers", str(error)) from None


def _as_text(column: Any, arrow: Any) -> list[str]:
    """Any type that people store dates and numbers as; a float is what pandas makes of integers with gaps."""
    if arrow.types.is_floating(column.type):
        column = column.cast(arrow.int64(), safe=False)
    return ["" if cell is None else cell for cell in column.cast(arrow.string()).to_pylist()]


def _parquet_library() -> tuple[Any, Any]:
    """pyarrow.parquet and pyarrow, which only Parquet files need. By name, for pyarrow says nothing of its types."""
    try:
        return import_module("pyarrow.parquet"), import_module("pyarrow")
    except ImportError:
        raise MissingExtra("Parquet files", "lab") from None


def check_path(path: Path) -> None:
    """Refuse a file that could not be written, before the work that would fill it."""
    if not path.name.lower().endswith(ENDINGS):
        raise InvalidParameter("file", f"end with {', '.join(ENDINGS)}", str(path))
    if not path.absolute().parent.is_dir():
        raise InvalidParameter("file", "be in a folder that exists", str(path))


def write(path: Path, dates: list[str], callers: list[str], areas: list[str]) -> None:
    """A table of three columns, in the format that the file's name ends with; never half of it."""
    check_path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.suffix.lower() == ".parquet":
            parquet, arrow = _parquet_library()
            parquet.write_table(arrow.table(dict(zip(TABLE, (dates, callers, areas), strict=True))), unfinished)
        else:
            rows = map(",".join, zip(dates, callers, areas, strict=True))
            text = "\n".join([",".join(TABLE), *rows, ""]).encode()
            # No time inside the gzip header: the same calls give the same bytes.
            unfinished.write_bytes(gzip.compress(text, mtime=0) if path.suffix.lower() == ".gz" else text)
        os.replace(unfinished, path)
    except OSError as error:
        raise InvalidData(str(path), "be a file that can be written", error.strerror or str(error)) from None
    finally:
        unfinished.unlink(missing_ok=True)
