"""Reads and writes files of calls: gzip or text, in the FTC's daily layout or as a ``date,caller`` table.

The first bytes and the header tell the format, never the name. Bad rows are counted by the caller.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushcall.atomic_file import atomic_write
from hushcall.errors import InvalidData, InvalidParameter

Row = tuple[str, str, str, int]
"""Date, caller, consumer's area code, and a fingerprint of the line in the FTC's layout (else 0)."""

# (date, caller, consumer's area code). A complaint counts on the day it was filed: Violation_Date is what the consumer
# remembers, often weeks back and sometimes years.
FTC = ("created_date", "company_phone_number", "consumer_area_code")
TABLE = ("date", "caller", "consumer_area_code")
EXPECTED = "name the columns Company_Phone_Number and Created_Date (the FTC's), or date and caller"
ENDINGS = (".csv", ".csv.gz")


@dataclass(frozen=True)
class Layout:
    ftc: bool
    date: int
    caller: int
    area: int | None

    def pick(self, line: str) -> Row | None:
        cells = _cells(line)
        if len(cells) <= max(self.date, self.caller):
            return None
        area = cells[self.area] if self.area is not None and self.area < len(cells) else ""
        return cells[self.date], cells[self.caller], area, hash(line) if self.ftc else 0


def layout(names: Sequence[str], path: Path) -> Layout:
    """The layout of a header. Its columns may have any order, with others between them."""
    columns_of = [name.strip().strip('"').lower().replace(" ", "_") for name in names]
    for columns in (FTC, TABLE):
        if columns[0] in columns_of and columns[1] in columns_of:
            area = columns_of.index(columns[2]) if columns[2] in columns_of else None
            return Layout(columns is FTC, columns_of.index(columns[0]), columns_of.index(columns[1]), area)
    raise InvalidData(f"header of {path}", EXPECTED, ",".join(names))


def find(paths: Sequence[Path]) -> tuple[list[Path], int]:
    """(the files of ``paths`` and their folders, each once, and the number of files there with other endings)."""
    files: list[Path] = []
    foreign = 0
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            tables = [file for file in inside if file.name.lower().endswith(ENDINGS) and file.name[0] != "."]
            foreign += len(inside) - len(tables)
            if not tables:
                raise InvalidData(f"folder {path}", "hold .csv or .csv.gz files", f"{len(inside)} others")
            files += tables
        elif path.is_file():
            files.append(path)
        else:
            raise InvalidData("data", "be files or folders that exist", str(path))
    return list({file.resolve(): file for file in files}.values()), foreign


@contextmanager
def opened(path: Path) -> Iterator[Iterator[Row | None]]:
    try:
        with path.open("rb") as file:
            start = file.read(2)
            file.seek(0)
            if not start:
                raise InvalidData(str(path), "hold a header and rows", "an empty file")
            if start == b"\x1f\x8b":
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
        raise InvalidData(str(path), "be a text or gzip file", "binary data")
    # Names of cities come in any encoding. We do not read them, so they need not be UTF-8.
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline=None)
    header = text.readline()
    if not header.strip():
        raise InvalidData(str(path), "start with a header", "an empty line")
    where = layout(_cells(header), path)
    return (where.pick(line) for line in text if line != "\n")


def _cells(line: str) -> list[str]:
    """The cells of one line. An unclosed quote spoils one row, not the file."""
    line = line.rstrip("\n")
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line]))
    except (csv.Error, StopIteration):
        return []


def check_path(path: Path) -> None:
    if not path.name.lower().endswith(ENDINGS):
        raise InvalidParameter("file", f"end with {', '.join(ENDINGS)}", str(path))
    if not path.absolute().parent.is_dir():
        raise InvalidParameter("file", "be in a folder that exists", str(path))


def write(path: Path, dates: list[str], callers: list[str], areas: list[str]) -> None:
    check_path(path)
    rows = map(",".join, zip(dates, callers, areas, strict=True))
    data = "\n".join([",".join(TABLE), *rows, ""]).encode()
    if path.suffix.lower() == ".gz":
        data = gzip.compress(data, mtime=0)  # without a time, the same calls give the same bytes
    atomic_write(path, data)
