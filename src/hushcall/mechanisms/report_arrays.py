"""The reports of a bucket as flat arrays: no Python object per report.

Seeds and checksums equal those of one report at a time, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.errors import InvalidParameter, InvalidReport
from hushcall.mechanisms.kernels.sha256 import sha256_all
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.protocol.seeds import SEED_BYTES, TICKET_BYTES
from hushcall.protocol.wire import HEADER_BYTES, VERSION, seal

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class ReportArrays:
    """Row i of both is one report: its ticket, and its bytes as they were sent."""

    tickets: Bytes = field(repr=False)
    bodies: Bytes = field(repr=False)

    def __post_init__(self) -> None:
        for name, array, width in (("tickets", self.tickets, TICKET_BYTES), ("bodies", self.bodies, None)):
            fits = array.dtype == np.uint8 and array.ndim == 2 and width in (None, array.shape[-1])
            if not fits or len(array) != len(self.tickets):
                raise InvalidParameter(name, "be bytes, one row a report", (array.dtype, array.shape))

    def __len__(self) -> int:
        return len(self.tickets)

    @classmethod
    def of(cls, pairs: Sequence[tuple[bytes, bytes]]) -> ReportArrays:
        tickets, bodies = b"".join(ticket for ticket, _ in pairs), b"".join(body for _, body in pairs)
        size = len(pairs[0][1]) if pairs else 0
        if len(tickets) != TICKET_BYTES * len(pairs) or any(len(body) != size for _, body in pairs):
            raise InvalidParameter("reports", f"have tickets of {TICKET_BYTES} bytes and one length", "others")
        return cls(
            np.frombuffer(tickets, np.uint8).reshape(len(pairs), TICKET_BYTES),
            np.frombuffer(bodies, np.uint8).reshape(len(pairs), size),
        )

    def seeds(self, round_seed: bytes) -> Bytes:
        checks.length("seed", round_seed, SEED_BYTES)
        parts = (b"hushcall/1/report", round_seed)
        prefix = b"".join(len(part).to_bytes(4, "big") + part for part in parts) + TICKET_BYTES.to_bytes(4, "big")
        return sha256_all(prefix, self.tickets)

    def reported(self, round_seed: bytes) -> Iterator[tuple[bytes, bytes]]:
        """One (public seed, report) at a time, for mechanisms that have no faster way."""
        for seed, body in zip(self.seeds(round_seed), self.bodies, strict=True):
            yield seed.tobytes(), body.tobytes()

    def checksum(self) -> int:
        """Σ SHA-256(ticket ‖ body) mod 2²⁵⁶: the same in any order, and added up over parts."""
        digests = sha256_all(b"", np.concatenate([self.tickets, self.bodies], axis=1))
        words = digests.reshape(-1).view(">u4").reshape(len(self), 8).sum(axis=0, dtype=np.uint64)
        return sum(int(word) << 32 * (7 - place) for place, word in enumerate(words)) % (1 << 256)


def bodies(mechanism: Mechanism, reports: Bytes) -> Bytes:
    """The bodies of an array of reports. The parser words the error of a bad envelope."""
    if reports.shape[1] != HEADER_BYTES + mechanism.body_bytes:
        return matrix(mechanism, [report.tobytes() for report in reports[:1]])
    for place in np.flatnonzero((reports[:, 0] != VERSION) | (reports[:, 1] != mechanism.kind))[:1]:
        mechanism.parse(reports[place].tobytes())
    return reports[:, HEADER_BYTES:]


def matrix(mechanism: Mechanism, reports: Sequence[bytes]) -> Bytes:
    size = HEADER_BYTES + mechanism.body_bytes
    for report in reports:
        if len(report) != size or report[0] != VERSION or report[1] != mechanism.kind:
            mechanism.parse(report)
    return np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), size)[:, HEADER_BYTES:]


def refuse(mechanism: Mechanism, bodies: Bytes, bad: NDArray[np.bool_]) -> None:
    """Raises the parser's error for the first body that a fast check marked bad."""
    for place in np.flatnonzero(bad)[:1]:
        report = seal(mechanism.kind, bodies[place].tobytes())
        mechanism.parse(report)
        raise InvalidReport("report", "pass the fast check and the parser alike", report)


def hash_words(publics: Sequence[bytes]) -> NDArray[np.uint64]:
    """(n, 2): the a and b of the multiply-shift hash that each report's public seed selects."""
    for public in publics:
        checks.length("public", public, SEED_BYTES)
    words = np.frombuffer(b"".join(publics), dtype=">u8").reshape(len(publics), SEED_BYTES // 8)
    return words[:, :2].astype(np.uint64)


def read_values(rows: Bytes) -> NDArray[np.uint32]:
    """Big-endian integers of up to four bytes, one a row."""
    value = np.zeros(len(rows), dtype=np.uint32)
    for column in range(rows.shape[1]):
        value = (value << np.uint32(8)) | rows[:, column]
    return value
