"""What every mechanism's server half is: open a bucket, tally reports, merge tallies, find heavy hitters.

A half is a module, named by the mechanism's row in the scheme table. It offers what :class:`ServerHalf` lists, and
its learners what :class:`Learner` lists; callers ask for nothing else, and never for a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter, InvalidReport
from hushcall.learn.decision import HeavyHitter
from hushcall.numbers import NumberingPlan
from hushcall.profiles import Profile
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.wire import HEADER_BYTES, VERSION
from hushcall.report.mechanism import Mechanism

if TYPE_CHECKING:
    from hushcall.learn.feed.report_arrays import ReportArrays

Reported: TypeAlias = tuple[bytes, bytes]
"""(the report's 32-byte public seed, the report)"""
Progress: TypeAlias = Callable[[int, int], None]
"""Told (how much is done, of how much) while something takes long."""


def quiet(done: int, total: int) -> None:
    """A listener for progress that shows nothing."""


class Tally(Protocol):
    """What is left of reports once nothing but their sum matters."""

    @property
    def count(self) -> int:
        """How many reports went in."""

    def merge(self, other: Self) -> Self:
        """The tally of both, whatever the order: merging is associative and commutative."""

    def to_bytes(self) -> bytes:
        """Equal tallies give equal bytes, whatever the order of their reports."""


T = TypeVar("T", bound=Tally)


class Learner(Protocol[T]):
    """The server's half of one mechanism over one domain of items."""

    @property
    def mechanism(self) -> Mechanism:
        """The phone's half, whose odds the decision's law is made of."""

    @property
    def domain(self) -> range:
        """The items that exist: anything else is never listed."""

    def tally(self, reports: Iterable[Reported]) -> T:
        """Sum up reports. A malformed one raises the parser's own error: intake has refused it before."""

    def tally_arrays(self, round_seed: bytes, reports: ReportArrays) -> T:
        """The tally of a bucket's reports given as flat arrays: :meth:`tally` of the same, faster where it can be."""

    def compact(self, tally: T, users: int) -> T:
        """The form in which the tallies of so many phones are best added up; often the tally itself."""

    def grows(self, users: int) -> bool:
        """Whether that form grows with the reports. Where it does not, any part of them is as large as all of them."""

    def from_bytes(self, data: bytes) -> T:
        """A tally back from its bytes, in whichever form it was."""

    def estimate(self, tally: T, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ of each item, unbiased: how many phones hold it."""

    def find(self, tally: T, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        """The heavy hitters that this mechanism would list, largest first."""

    def find_part(self, tally: T, tau: float, part: int, parts: int) -> list[HeavyHitter]:
        """Those in one of so many parts of the domain: all parts together give what :meth:`find` gives."""

    @property
    def spectrum(self) -> int | None:
        """The bits of an item, where one Walsh spectrum holds the counts of all (``engines.gpu_card``); else None."""

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        """The probability that a number is listed, as a function of its holders among ``users`` reports."""

    def wrong(self, users: int, tau: float) -> float | None:
        """How many numbers that nobody holds a round lists, in expectation, at most; None: no such bound is known."""

    @property
    def setting(self) -> str:
        """What was chosen for this bucket's size, in a few letters."""


class InOnePart(Generic[T]):
    """The usual answers of a learner: one form of a tally, one part, no spectrum, no bound on wrong listings."""

    @property
    def spectrum(self) -> int | None:
        """None: there is no transform that an engine could share."""
        return None

    def tally(self, reports: Iterable[Reported]) -> T:
        """Sum up reports: each mechanism's own."""
        raise NotImplementedError

    def tally_arrays(self, round_seed: bytes, reports: ReportArrays) -> T:
        """One report after the other."""
        return self.tally(reports.reported(round_seed))

    def compact(self, tally: T, users: int) -> T:
        """The tally itself: it is as small as it gets."""
        return tally

    def grows(self, users: int) -> bool:
        """It may."""
        return True

    def find(self, tally: T, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        """What the mechanism would list."""
        raise NotImplementedError

    def find_part(self, tally: T, tau: float, part: int, parts: int) -> list[HeavyHitter]:
        """Everything in the first part."""
        if parts != 1:
            raise InvalidParameter("parts", "be 1 for this mechanism", parts)
        return self.find(tally, tau) if part == 0 else []

    def wrong(self, users: int, tau: float) -> float | None:
        """How many listings are expected to be wrong: unknown, no law of it is at hand."""
        return None


class ServerHalf(Protocol):
    """The module of one mechanism's server half."""

    def open_bucket(
        self, profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
    ) -> Learner[Any] | None:
        """The learner of a bucket of ``users`` phones, one of ``buckets`` decided together; None: not worth running."""

    def resume(self, profile: Profile, plan: NumberingPlan, mechanism: Any, buckets: int) -> Learner[Any]:
        """The learner of a bucket that was opened before, from the mechanism that its phones were given."""


def valid_suffixes(plan: NumberingPlan) -> range:
    """The items that exist where an item is a suffix."""
    return range(plan.first_suffix, plan.suffixes)


def bodies(mechanism: Any, reports: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bodies of reports that are one array already, envelopes checked; the slow parser words the error, if any."""
    size = HEADER_BYTES + mechanism.body_bytes
    if reports.shape[1] != size:
        return matrix(mechanism, [report.tobytes() for report in reports[:1]])
    for place in np.flatnonzero((reports[:, 0] != VERSION) | (reports[:, 1] != mechanism.kind))[:1]:
        mechanism.parse(reports[place].tobytes())
    return reports[:, HEADER_BYTES:]


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
