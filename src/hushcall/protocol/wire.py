"""The envelope of a report: one byte of version, one byte of mechanism, then a body of exactly known length.

A report's length follows from the round's parameters alone: it is the same for every number, and for a dummy. The round
and the ticket are in the address that the report is sent to.
"""

from __future__ import annotations

from enum import IntEnum

from hushcall.errors import InvalidReport, WrongLength, WrongMechanism, WrongSymbol, WrongVersion

VERSION = 1
HEADER_BYTES = 2
COVER = b"\0"
"""The version byte of a cover upload. Random bytes follow, and the server discards all of it."""


class Kind(IntEnum):
    """The second byte of a report."""

    ORIGINAL_HISTOGRAM = 1
    SUCCINCT_HISTOGRAM = 2
    LOCAL_HASHING = 3
    SUBSPACE = 4
    WHOLE_NUMBER = 5
    PREFIX_EXTENDING = 6
    TREE_HISTOGRAM = 7
    RAPPOR = 8
    SUBSPACE_HUNDREDS = 9


def seal(kind: Kind, body: bytes) -> bytes:
    return bytes((VERSION, kind)) + body


def pad(report: bytes, size: int | None) -> bytes:
    """A report with zeros up to the upload size of its round. None: the server knows no such size."""
    return report.ljust(size or 0, b"\0")


def strip(body: bytes, length: int, size: int) -> bytes:
    """The report of ``length`` in a zero-padded upload of ``size`` bytes. Any other upload is returned as it is."""
    return body[:length] if len(body) == size and not any(body[length:]) else body


def unseal(kind: Kind, length: int, report: bytes) -> bytes:
    if not isinstance(report, bytes):
        raise InvalidReport("report", "be bytes", report)
    if len(report) != HEADER_BYTES + length:
        raise WrongLength("report", f"be {HEADER_BYTES + length} bytes long", f"{len(report)} bytes")
    if report[0] != VERSION:
        raise WrongVersion("version byte", f"be {VERSION}", report[0])
    if report[1] != kind:
        raise WrongMechanism("mechanism byte", f"be {int(kind)} ({kind.name.lower()})", report[1])
    return report[HEADER_BYTES:]


_SYMBOL = {0: 0, 1: 1, -1: 2}
_SIGN = (0, 1, -1)


def pack_channel(position: int, symbol: int) -> int:
    """One channel in one byte: the symbol in the upper two bits (0: zero, 1: plus, 2: minus), then the position."""
    return _SYMBOL[symbol] << 6 | position


def unpack_channel(place: int, byte: int, length: int, *, zero_allowed: bool) -> tuple[int, int]:
    """(position, symbol) of one channel's byte. ``place`` names it in errors."""
    code, position = byte >> 6, byte & 63
    if code == 3 or position >= length or (code == 0 and not zero_allowed):
        rule = f"hold a position below {length} and a symbol {'0, 1 or 2' if zero_allowed else '1 or 2'}"
        raise WrongSymbol(f"channel {place}", rule, f"position {position}, symbol {code}")
    return position, _SIGN[code]


def value_bytes(size: int) -> int:
    return ((size - 1).bit_length() + 7) // 8 or 1


def pack_value(value: int, size: int) -> bytes:
    return value.to_bytes(value_bytes(size), "big")


def unpack_value(field: str, data: bytes, size: int) -> int:
    value = int.from_bytes(data, "big")
    if value >= size:
        raise WrongSymbol(field, f"be below {size}", value)
    return value
