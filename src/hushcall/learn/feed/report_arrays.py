"""Reports of one bucket as two flat arrays, and what a tally needs of them: no Python object per report.

An archive's columns, or a page of database rows, become such arrays without a copy or with one. Seeds and checksums
equal those of one report at a time, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.learn.feed.sha256 import sha256_all
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.tickets import TICKET_BYTES

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
        """(ticket, report) pairs, all reports of one length."""
        tickets, bodies = b"".join(ticket for ticket, _ in pairs), b"".join(body for _, body in pairs)
        size = len(pairs[0][1]) if pairs else 0
        if len(tickets) != TICKET_BYTES * len(pairs) or any(len(body) != size for _, body in pairs):
            raise InvalidParameter("reports", f"have tickets of {TICKET_BYTES} bytes and one length", "others")
        return cls(
            np.frombuffer(tickets, np.uint8).reshape(len(pairs), TICKET_BYTES),
            np.frombuffer(bodies, np.uint8).reshape(len(pairs), size),
        )

    def seeds(self, round_seed: bytes) -> Bytes:
        """(n, 32): ``protocol.seeds.report_seed`` of each."""
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
