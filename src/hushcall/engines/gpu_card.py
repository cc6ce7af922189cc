"""Decoding on a graphics card: tallies come in from the CPU, candidates come back, and the CPU counts them again.

The card proposes and the processor judges: a number is listed only by counts that were made here, so a card that errs
can miss a number and never list one. Reports are read by processes of this machine, which take longer than the card
does; what has no Walsh spectrum, or would overflow one, they decode themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcall.engines.evidence import Evidence, Findings, find
from hushcall.engines.local import LocalEngine
from hushcall.gpu.spectrum import Spectrum, plan
from hushcall.learn.pooled import Span
from hushcall.learn.subspace import SparseTally
from hushcall.learn.window import Past, decisions, find_among, find_in_rounds

BLOCKS = 512
"""Buckets that share one array: with 24 bits each it has 2³³ cells, as the whole-number spectrum has."""


@dataclass(frozen=True)
class _Waiting:
    """A bucket in line: the rounds that hold reports, newest first, and the decisions over them, shortest first."""

    evidence: Evidence
    past: Sequence[Past]
    held: Sequence[Past]
    spans: Sequence[Span]

    @property
    def reports(self) -> int:
        """The newest round's."""
        return int(self.past[0].tally.count)

    @property
    def scale(self) -> int:
        """The largest b: a cell of the transformed spectrum is 2^scale·C(x), whatever each round's b is."""
        return max((one.learner.mechanism.bits for one in self.held), default=0)

    @property
    def fits(self) -> bool:
        """Whether the reports are still there to be spread, and their sums stay below 2³¹."""
        together = sum(one.tally.count for one in self.held) << self.scale
        return together < 1 << 31 and all(isinstance(one.tally, SparseTally) for one in self.held)

    def least(self, length: int) -> int:
        """What a cell has to reach for that window to list its number; more than a cell can hold where none decides."""
        return next((span.least << self.scale for span in self.spans if span.length == length), 1 << 31)

    def inside(self, length: int) -> Iterator[Past]:
        """The rounds of one window; none where it is no decision."""
        if any(span.length == length for span in self.spans):
            yield from (one for one in self.held if one.age < length)


def prepared(one: Evidence) -> Findings | _Waiting:
    """Read a bucket for the card, or decode it here where that is no use; parts of one bucket go together."""
    if one.learner.spectrum is None:
        return find(one)
    if one.key[2] != 0:
        return Findings(one.key, 0, ())  # should there be parts, the first one's findings are the whole bucket's
    profile, past = one.profile, one.past()
    mine = _Waiting(one, past, *decisions(past, profile.windows, profile.tau))
    return mine if mine.fits else Findings(one.key, mine.reports, tuple(find_in_rounds(profile, past)))


class GpuEngine:
    """One card. ``spectrum`` makes the array of a given size on it; ``readers`` feed it, by default this process."""

    def __init__(
        self, spectrum: Callable[[int], Any] = Spectrum, blocks: int = BLOCKS, readers: LocalEngine | None = None
    ) -> None:
        self._make, self._blocks, self._made = spectrum, blocks, dict[int, Any]()
        self._readers = LocalEngine(0) if readers is None else readers
        self._make(8)  # says at once if there is no card

    width = 1
    """The card needs no parts: it takes all area codes at once."""

    def find(self, evidence: Iterable[Evidence]) -> Iterator[Findings]:
        """Decode every part; those of one bucket together, as the card does not need them apart."""
        waiting: dict[int, list[_Waiting]] = {}
        for one in self._readers.each(prepared, evidence):
            if isinstance(one, Findings):
                yield one
                continue
            bits = int(one.evidence.learner.spectrum or 0)
            waiting.setdefault(bits, []).append(one)
            if len(waiting[bits]) == max(self._blocks >> max(bits - 24, 0), 1):
                yield from self._decode(bits, waiting.pop(bits))
        for bits, some in waiting.items():
            yield from self._decode(bits, some)

    def _decode(self, bits: int, some: list[_Waiting]) -> Iterator[Findings]:
        """One transform for each length of a window, of all buckets at once; the CPU judges what they propose."""
        proposed: list[set[int]] = [set() for _ in some]
        for length in sorted({span.length for one in some for span in one.spans}):
            for items, more in zip(proposed, self._reached(bits, some, length), strict=True):
                items.update(more)
        for one, items in zip(some, proposed, strict=True):
            profile = one.evidence.profile
            hitters = find_among(one.past, profile.windows, profile.tau, sorted(items))
            yield Findings(one.evidence.key, one.reports, tuple(hitters))

    def _reached(self, bits: int, some: list[_Waiting], length: int) -> Iterator[list[int]]:
        """Items of each bucket that reach one window's threshold; for whole numbers all area codes have the same."""
        cells: Any = self._spectrum(bits + (len(some) - 1).bit_length())
        first: Any = some[0].evidence.learner  # one that tests every number (``learn.subspace.EveryNumberTested``)
        cells.clear()
        for place, one in enumerate(some):
            for past in one.inside(length):
                weight = 1 << (one.scale - past.learner.mechanism.bits)
                cells.spread(past.tally.rows, past.tally.values, place << bits, weight)
        cells.transform(plan(bits))
        areas, domain = first.areas, first.domain
        least = np.repeat([one.least(length) for one in some], areas)
        places, _ = cells.at_least(least.astype(np.int64), domain.start, domain.stop)
        buckets = places >> bits if len(some) > 1 else np.zeros(len(places), np.int64)
        assert len(some) == 1 or areas == 1  # noqa: S101 - whole numbers fill an array by themselves
        for place in range(len(some)):
            yield (places[buckets == place] - (place << bits)).tolist()

    def _spectrum(self, bits: int) -> Any:
        """The array of that size; only the last one is kept, as two would not fit."""
        bits = max(bits, 8)
        if bits not in self._made:
            self._made.clear()
            self._made[bits] = self._make(bits)
        return self._made[bits]

    def close(self) -> None:
        """Let the card's arrays and the readers go."""
        self._made.clear()
        self._readers.close()
