"""A tally on its way between shards, days and disks: arrays come in, versioned and checksummed bytes leave.

Tallies are a commutative monoid: they merge in any order, and equal tallies have equal bytes.

Layout: ``HCT1`` · 32 bytes, which mechanism and parameters made it · one array after the other, each as name length
(1), name, dtype length (1), dtype, dimensions (1), sizes (8 each), data · SHA-256 of everything before. Integers are
most significant byte first; array data is little-endian, in C order.
"""

from __future__ import annotations

import hashlib
import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidTally

MAGIC = b"HCT1"
_DIGEST = 32
REPORTS = -1
"""A dimension that is as long as there are reports: of one length in all arrays of a tally."""
Arrays: TypeAlias = dict[str, NDArray[np.generic]]
_DTYPES = {"<i4", "<i8", "<u4", "<u8", "|u1"}


def fingerprint(parameters: object) -> bytes:
    """32 bytes that name a mechanism with all its parameters: tallies merge only where these agree."""
    return hashlib.sha256(repr(parameters).encode()).digest()


def pack(made_by: bytes, arrays: dict[str, NDArray[np.generic]]) -> bytes:
    """The bytes of a tally."""
    out = bytearray(MAGIC + made_by)
    for name, array in sorted(arrays.items()):
        plain = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        label, dtype = name.encode(), plain.dtype.str.encode()
        out += bytes([len(label)]) + label + bytes([len(dtype)]) + dtype + bytes([plain.ndim])
        out += b"".join(size.to_bytes(8, "big") for size in plain.shape) + plain.tobytes()
    return bytes(out) + hashlib.sha256(out).digest()


def unpack(made_by: bytes, data: bytes) -> Arrays:
    """The arrays of a tally, or :class:`InvalidTally` that says why these bytes are none of ours."""
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
    """The same arrays if they are those of a tally, each with its shape: the kernels that read them check nothing."""
    if set(arrays) != set(shapes):
        raise InvalidTally("tally", f"hold the arrays {', '.join(sorted(shapes))}", ", ".join(sorted(arrays)) or "none")
    reports = {arrays[name].shape[:1] for name, shape in shapes.items() if shape[:1] == (REPORTS,)}
    for name, shape in shapes.items():
        found = arrays[name].shape
        wanted = found[:1] + shape[1:] if shape[:1] == (REPORTS,) else shape
        if found != wanted or len(reports) > 1:
            raise InvalidTally(f"array {name}", f"be {' x '.join('n' if s < 0 else str(s) for s in shape)}", found)
    return arrays


class _Reader:
    """A cursor that never reads past the end."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        if self.at + count > len(self.data):
            raise InvalidTally("tally", f"hold {count} more bytes at {self.at}", len(self.data) - self.at)
        self.at += count
        return self.data[self.at - count : self.at]

    def text(self) -> str:
        """A name behind its length."""
        return self.take(self.take(1)[0]).decode("ascii", errors="replace")
