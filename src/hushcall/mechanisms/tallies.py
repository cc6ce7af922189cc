"""Tallies and their bytes: a tally is the sum of some reports, merged in any order.

Layout: ``HCT1`` · 32 bytes that name the mechanism and its parameters · the arrays, sorted by name, each as name length
(1), name, dtype length (1), dtype, dimensions (1), sizes (8 each), data · SHA-256 of everything before. Integers are
most significant byte first. Array data is little-endian, in C order. Equal tallies have equal bytes.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidTally

MAGIC = b"HCT1"
_DIGEST = 32
REPORTS = -1
"""A dimension as long as the number of reports: the same in all arrays of a tally."""
Arrays: TypeAlias = dict[str, NDArray[np.generic]]
_DTYPES = {"<i4", "<i8", "<u4", "<u8", "|u1"}


def fingerprint(parameters: object) -> bytes:
    """32 bytes that name a mechanism with all its parameters. Only tallies of equal fingerprints merge."""
    return hashlib.sha256(repr(parameters).encode()).digest()


def pack(made_by: bytes, arrays: Arrays) -> bytes:
    out = bytearray(MAGIC + made_by)
    for name, array in sorted(arrays.items()):
        plain = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        label, dtype = name.encode(), plain.dtype.str.encode()
        out += bytes([len(label)]) + label + bytes([len(dtype)]) + dtype + bytes([plain.ndim])
        out += b"".join(size.to_bytes(8, "big") for size in plain.shape) + plain.tobytes()
    return bytes(out) + hashlib.sha256(out).digest()


def unpack(made_by: bytes, data: bytes) -> Arrays:
    """The arrays of a tally. Anything but intact bytes of these parameters is an :class:`InvalidTally`."""
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if data[:4] != MAGIC:
        raise InvalidTally("tally", f"start with {MAGIC!r}", data[:4])
    if hashlib.sha256(body).digest() != digest:
        raise InvalidTally("checksum", "match the tally's bytes (it is cut short or damaged)", digest.hex()[:16])
    if body[4:36] != made_by:
        raise InvalidTally("tally", f"be made by parameters {made_by.hex()[:16]}", body[4:36].hex()[:16])
    arrays: Arrays = {}
    reader = _Reader(body, 36)
    while reader.at < len(body):
        name, dtype = reader.text(), reader.text()
        if dtype not in _DTYPES:
            raise InvalidTally(f"array {name}", f"have one of the types {sorted(_DTYPES)}", dtype)
        dimensions = reader.take(1)[0]
        if dimensions > 3:
            raise InvalidTally(f"array {name}", "have at most 3 dimensions", dimensions)
        shape = tuple(int.from_bytes(reader.take(8), "big") for _ in range(dimensions))
        if max(shape, default=0) > len(body):
            raise InvalidTally(f"array {name}", "be no larger than the tally", shape)
        raw = reader.take(math.prod(shape) * np.dtype(dtype).itemsize)
        if name in arrays:
            raise InvalidTally("tally", "hold each array once", name)
        arrays[name] = np.frombuffer(raw, dtype=dtype).reshape(shape).copy()
    return arrays


def shaped(arrays: Arrays, **shapes: tuple[int, ...]) -> Arrays:
    """Checks the names and shapes of a tally's arrays, because the kernels that read them check nothing."""
    if set(arrays) != set(shapes):
        raise InvalidTally("tally", f"hold the arrays {', '.join(sorted(shapes))}", ", ".join(sorted(arrays)) or "none")
    reports = {arrays[name].shape[:1] for name, shape in shapes.items() if shape[:1] == (REPORTS,)}
    for name, shape in shapes.items():
        actual = arrays[name].shape
        expected = actual[:1] + shape[1:] if shape[:1] == (REPORTS,) else shape
        if actual != expected or len(reports) > 1:
            raise InvalidTally(f"array {name}", f"be {' x '.join('n' if s < 0 else str(s) for s in shape)}", actual)
    return arrays


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise InvalidTally("tally", f"hold {count} more bytes at {self.at}", len(self.data) - self.at)
        self.at += count
        return self.data[self.at - count : self.at]

    def text(self) -> str:
        return self.take(self.take(1)[0]).decode("ascii", errors="replace")


class Tally(Protocol):
    @property
    def count(self) -> int:
        """How many reports it sums up."""

    def merge(self, other: Self) -> Self:
        """The sum of both. Associative and commutative."""

    def to_bytes(self) -> bytes:
        """Equal tallies give equal bytes, in whatever order their reports came."""


def same_maker(mine: bytes, theirs: bytes) -> None:
    if mine != theirs:
        raise InvalidTally("tally", f"be made by parameters {mine.hex()[:16]} to be merged", theirs.hex()[:16])


@dataclass(frozen=True)
class SparseTally:
    """Reports one by one: the words of each report's hash (the matrix rows of a linear one), and its value."""

    made_by: bytes
    rows: NDArray[np.uint64] = field(repr=False)
    values: NDArray[np.uint32] = field(repr=False)
    words: ClassVar = "rows"
    """Their name in the tally's bytes."""

    @property
    def count(self) -> int:
        return len(self.values)

    def merge(self, other: Self) -> Self:
        same_maker(self.made_by, other.made_by)
        rows, values = np.concatenate([self.rows, other.rows]), np.concatenate([self.values, other.values])
        return replace(self, rows=rows, values=values)

    def arrays(self) -> Arrays:
        """In canonical order."""
        order = np.lexsort((self.values, *self.rows.T[::-1]))
        return {self.words: self.rows[order], "values": self.values[order]}

    def to_bytes(self) -> bytes:
        return pack(self.made_by, self.arrays())


class HashTally(SparseTally):
    """OLH's reports: (a, b, value)."""

    words = "seeds"


@dataclass(frozen=True)
class DenseTally:
    """One integer per item: the Walsh spectrum of the counts or, where that is cheaper, the counts themselves."""

    made_by: bytes
    cells: NDArray[np.int32] = field(repr=False)
    count: int

    def merge(self, other: DenseTally) -> DenseTally:
        same_maker(self.made_by, other.made_by)
        return DenseTally(self.made_by, self.cells + other.cells, self.count + other.count)

    def to_bytes(self) -> bytes:
        return pack(self.made_by, {"cells": self.cells, "count": np.array([self.count], dtype=np.int64)})


PooledTally: TypeAlias = SparseTally | DenseTally
"""The tallies whose counts add up over rounds."""
