"""What every mechanism's server half is: tally reports, merge tallies, find heavy hitters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter, InvalidReport
from hushcall.learn.decision import HeavyHitter
from hushcall.protocol.wire import HEADER_BYTES, VERSION
from hushcall.report.hashing import SEED_BYTES
from hushcall.report.mechanism import Mechanism

Reported: TypeAlias = tuple[bytes, bytes]
"""(the report's 32-byte public seed, the report)"""


class Tally(Protocol):
    """What is left of reports once nothing but their sum matters."""

    @property
    def count(self) -> int:
        """How many reports went in."""

    def merge(self, other: Self) -> Self:
        """The tally of both."""

    def to_bytes(self) -> bytes:
        """Equal tallies give equal bytes, whatever the order of their reports."""


T = TypeVar("T", bound=Tally)


class Learner(Protocol[T]):
    """The server's half of one mechanism over one domain of items."""

    @property
    def mechanism(self) -> Mechanism:
        """The phone's half."""

    @property
    def domain(self) -> range:
        """The items that exist: anything else is never listed."""

    def tally(self, reports: Iterable[Reported]) -> T:
        """Sum up reports. A malformed one raises the parser's own error: intake has refused it before."""

    def from_bytes(self, data: bytes) -> T:
        """A tally back from its bytes."""

    def estimate(self, tally: T, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ of each item, unbiased: how many phones hold it."""

    def find(self, tally: T, tau: float) -> list[HeavyHitter]:
        """The heavy hitters that this mechanism would list, largest first."""


def matrix(mechanism: Any, reports: Sequence[bytes]) -> NDArray[np.uint8]:
    """The bodies of many reports as one array, envelopes checked; the slow parser words the error, if any."""
    size = HEADER_BYTES + mechanism.body_bytes
    for report in reports:
        if len(report) != size or report[0] != VERSION or report[1] != mechanism.kind:
            mechanism.parse(report)
    return np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), size)[:, HEADER_BYTES:]


def refuse(mechanism: Any, reports: Sequence[bytes], bad: NDArray[np.bool_]) -> None:
    """Raise the parser's error for the first report that a fast check found bad."""
    for place in np.flatnonzero(bad).tolist():
        mechanism.parse(reports[place])
        raise InvalidReport("report", "pass the fast check and the parser alike", reports[place])


def seeds(publics: Sequence[bytes]) -> NDArray[np.uint64]:
    """(n, 2): the a and b that each report's public seed selects."""
    for public in publics:
        if len(public) != SEED_BYTES:
            raise InvalidParameter("public", f"be exactly {SEED_BYTES} bytes", public)
    whole = np.frombuffer(b"".join(publics), dtype=">u8").reshape(len(publics), SEED_BYTES // 8)
    return whole[:, :2].astype(np.uint64)
