"""Decoding on a graphics card: tallies come in from the CPU, candidates come back, and the CPU counts them again.

The card proposes and the processor judges: a number is listed only by counts that were made here, so a card that errs
can miss a number and never list one. What has no Walsh spectrum, or would overflow one, is decoded on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcall.engines.evidence import Evidence, Findings, find
from hushcall.gpu.spectrum import Spectrum, plan

BLOCKS = 512
"""Buckets that share one array: with 24 bits each it has 2³³ cells, as the whole-number spectrum has."""


@dataclass(frozen=True)
class _Waiting:
    """A bucket in line. Its learner tests every number by one Walsh spectrum (``learn.subspace.EveryNumberTested``)."""

    evidence: Evidence
    learner: Any
    tally: Any


class GpuEngine:
    """One card. ``spectrum`` makes the array of a given size on it."""

    def __init__(self, spectrum: Callable[[int], Any] = Spectrum, blocks: int = BLOCKS) -> None:
        self._make, self._blocks, self._made = spectrum, blocks, dict[int, Any]()
        self._make(8)  # says at once if there is no card

    def find(self, evidence: Iterable[Evidence]) -> Iterator[Findings]:
        """Decode every part; those of one bucket together, as the card does not need them apart."""
        waiting: dict[int, list[_Waiting]] = {}
        for one in evidence:
            if one.learner.spectrum is None:
                yield find(one)
            elif one.key[2] != 0:
                yield Findings(one.key, 0, ())  # the first part's findings are the whole bucket's
            else:
                yield from self._take(one, waiting)
        for bits, some in waiting.items():
            yield from self._decode(bits, some)

    def _take(self, one: Evidence, waiting: dict[int, list[_Waiting]]) -> Iterator[Findings]:
        """Put a bucket into the array that is being filled, and decode a full one."""
        learner: Any = one.learner
        tally, bits = one.tally(), learner.spectrum
        if not learner.fits_spectrum(tally):
            yield Findings(one.key, tally.count, tuple(learner.find(tally, one.tau)))
            return
        waiting.setdefault(bits, []).append(_Waiting(one, learner, tally))
        if len(waiting[bits]) == max(self._blocks >> max(bits - 24, 0), 1):
            yield from self._decode(bits, waiting.pop(bits))

    def _decode(self, bits: int, some: list[_Waiting]) -> Iterator[Findings]:
        cells = self._spectrum(bits + (len(some) - 1).bit_length())
        cells.clear()
        for place, one in enumerate(some):
            cells.spread(one.tally.rows, one.tally.values, place << bits)
        cells.transform(plan(bits))
        for one, items in zip(some, self._candidates(cells, bits, some), strict=True):
            hitters = one.learner.confirm(one.tally, one.evidence.tau, items)
            yield Findings(one.evidence.key, one.tally.count, tuple(hitters))

    def _candidates(self, cells: Any, bits: int, some: list[_Waiting]) -> Iterator[list[int]]:
        """Items of each bucket that reach its threshold; for whole numbers every area code has the same one."""
        learner = some[0].learner
        areas, suffix = learner.areas, bits - (learner.areas - 1).bit_length()
        least = np.repeat([one.learner.least_sum(one.tally.count, one.evidence.tau) for one in some], areas)
        places, _ = cells.at_least(least.astype(np.int64), learner.domain.start, learner.domain.stop)
        buckets = places >> bits if len(some) > 1 else np.zeros(len(places), np.int64)
        assert len(some) == 1 or suffix == bits  # noqa: S101 - whole numbers fill an array by themselves
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
        """Let the card's arrays go."""
        self._made.clear()
