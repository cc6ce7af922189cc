"""The server's half of the paper's protocol (modified SH-Server): reports come in, heavy hitters of a bucket leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushcall.learn import tally_codec as files
from hushcall.learn.channels import bad_symbols, channel_sums, decode_hard
from hushcall.learn.decision import HeavyHitter
from hushcall.learn.learner import Reported, matrix, refuse, seeds
from hushcall.learn.list_decoding import decode_list
from hushcall.learn.local_hashing import HashTally, LocalHashingLearner, read_values, same_maker
from hushcall.report.succinct_histogram import SuccinctHistogram


@dataclass(frozen=True)
class HistogramTally:
    """Per channel and position, pluses minus minuses; and OLH's reports."""

    made_by: bytes
    sums: NDArray[np.int32] = field(repr=False)
    oracle: HashTally

    @property
    def count(self) -> int:
        """N."""
        return self.oracle.count

    def merge(self, other: HistogramTally) -> HistogramTally:
        """Both together: the sums add up."""
        same_maker(self.made_by, other.made_by)
        return HistogramTally(self.made_by, self.sums + other.sums, self.oracle.merge(other.oracle))

    def to_bytes(self) -> bytes:
        """Versioned and checksummed."""
        return files.pack(self.made_by, {"sums": self.sums, **self.oracle.arrays()})


@dataclass(frozen=True)
class SuccinctHistogramLearner:
    """The modified protocol's server for one bucket. ``domain`` holds the suffixes that exist."""

    mechanism: SuccinctHistogram
    domain: range
    list_size: int = 0  # L: candidates kept per channel; 0 is the paper's hard decoder

    @cached_property
    def made_by(self) -> bytes:
        """Names the parameters."""
        return files.fingerprint(self.mechanism)

    @cached_property
    def oracle(self) -> LocalHashingLearner:
        """The judge of the candidates."""
        return LocalHashingLearner(self.mechanism.oracle, self.domain)

    def tally(self, reports: Iterable[Reported]) -> HistogramTally:
        """Sum up every channel."""
        pairs, chosen = list(reports), self.mechanism
        bodies = matrix(chosen, [report for _, report in pairs])
        symbols, values = bodies[:, : chosen.total_channels], read_values(bodies[:, chosen.total_channels :])
        zero = chosen.randomiser.kind != "basic"
        bad = bad_symbols(symbols, chosen.code.length, zero_allowed=zero) | (values >= chosen.oracle.size)
        refuse(chosen, [report for _, report in pairs], bad)
        oracle = HashTally(self.oracle.made_by, seeds([public for public, _ in pairs]), values)
        return HistogramTally(self.made_by, channel_sums(symbols, chosen.code.length), oracle)

    def from_bytes(self, data: bytes) -> HistogramTally:
        """Read a tally back."""
        arrays = files.unpack(self.made_by, data)
        oracle = HashTally(self.oracle.made_by, arrays["seeds"].astype(np.uint64), arrays["values"].astype(np.uint32))
        return HistogramTally(self.made_by, arrays["sums"].astype(np.int32), oracle)

    def estimate(self, tally: HistogramTally, items: Sequence[int]) -> NDArray[np.float64]:
        """OLH's estimate."""
        return self.oracle.estimate(tally.oracle, items)

    def candidates(self, tally: HistogramTally) -> list[int]:
        """Γ before filtering: what the channels of all rounds spell out."""
        chosen = self.mechanism
        if not self.list_size:
            return decode_hard(tally.sums, chosen.code, chosen.item_bits, self.domain)
        return decode_list(tally.sums, chosen.hashes, chosen.code, chosen.item_bits, self.domain, self.list_size)

    def find(self, tally: HistogramTally, tau: float) -> list[HeavyHitter]:
        """The candidates whose OLH estimate is above τ (the paper uses τ, since η is far below it)."""
        return self.oracle.judge(tally.oracle, self.candidates(tally), tau)
