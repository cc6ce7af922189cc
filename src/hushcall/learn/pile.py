"""The server, over several rounds: a bucket's tallies come in, the numbers that enough reports support leave.

Rounds are added up from the newest to the oldest, and each window is asked for C(x) of all x. What a window adds to the
one before it has bits of its own in every cell (a *field*), and a Walsh–Hadamard transform adds and subtracts whole
cells: so one transform answers for all windows whose fields fit 32 bits together, and with buckets of some hundred
phones that is all of them. Where they do not fit, the next look starts from all rounds so far, in a field of its own.
One spectrum holds rounds of every b, because each is scaled to the largest; where all subspaces are small they are
listed instead, and nothing is transformed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushcall.learn import walsh
from hushcall.learn.subspace import SparseTally

WORD = 32
_TRANSFORM = 2
"""Updates a cell that a transform costs: between one and three were measured, by how busy the caches are."""
Tallied: TypeAlias = tuple[Any, Any]
"""A learner and its tally."""


@dataclass(frozen=True)
class Field:
    """What a window adds: the rounds from ``first`` to before ``last``, counted in ``width`` bits."""

    window: int
    first: int
    last: int
    width: int


def looks(sizes: Sequence[int], ends: Sequence[int], scale: int) -> list[list[Field]]:
    """Which windows share a transform: as many as fit a word, the shortest first.

    ``sizes`` are the reports of each round, ``ends`` how many rounds each window holds.
    """
    out: list[list[Field]] = []
    used = WORD
    for window, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
        width = sum(sizes[first:last]).bit_length()
        if used + width <= WORD:
            out[-1].append(Field(window, first, last, width))
            used += width
        else:
            width = sum(sizes[:last]).bit_length()
            out.append([Field(window, 0, last, width)])
            used = scale + width
    return out


class Pile:
    """C(x) of all x, growing round by round. Made once for a scan, and used for one area code after the other."""

    def __init__(self, bits: int, rounds: Sequence[tuple[int, int]], ends: Sequence[int]) -> None:
        """``rounds`` are (reports, b) of all that will be added, ``ends`` how many of them each window holds."""
        sizes = [n for n, _ in rounds]
        some = [(n, b) for n, b in rounds if 2 * b <= bits]
        scale = max((b for _, b in some), default=0)
        listing = sum(n << max(bits - b, 0) for n, b in some)
        summing = sum(n << b for n, b in some) + len(looks(sizes, ends, scale)) * (_TRANSFORM << bits)
        fits = sum(sizes) << scale < 1 << WORD
        self.scale = scale if fits and summing < listing else 0
        self.looks = looks(sizes, ends, self.scale)
        self._base, self._top = _Sums(bits, self.scale), _Sums(bits, self.scale)

    def at_least(
        self, rounds: Sequence[Tallied], least: Sequence[int], domain: range
    ) -> Iterator[tuple[int, list[int], list[int]]]:
        """(window, x, C(x)) of all x of the domain with so much support, window by window."""
        base, added = self._base, 0
        base.clear()
        for look in self.looks:
            whole = [(*one, 0) for one in rounds[added : look[0].last]]
            apart, added, place = [], look[0].last, look[0].width
            for field in look[1:]:
                apart += [(*one, place) for one in rounds[field.first : field.last]]
                place += field.width
            sums = base
            if look is self.looks[-1]:
                base.add(whole + apart)
            else:
                base.add(whole)
                sums = self._top
                sums.copy(base)
                sums.add(apart)
            yield from self._read(sums.words(), look, [least[field.window] for field in look], domain)

    def _read(
        self, words: NDArray[np.int32], look: Sequence[Field], least: Sequence[int], domain: range
    ) -> Iterator[tuple[int, list[int], list[int]]]:
        widths = [field.width for field in look]
        places = walsh.some_at_least(words, self.scale, widths, least, domain.start, domain.stop)
        rest, total = words[places].view(np.uint32) >> np.uint32(self.scale), np.zeros(len(places), np.int64)
        for field, threshold in zip(look, least, strict=True):
            total += rest & np.uint32((1 << field.width) - 1)
            rest = rest >> np.uint32(field.width)
            enough = total >= threshold
            yield field.window, places[enough].tolist(), total[enough].tolist()


class _Sums:
    """What was added: a spectrum that waits for its transform, and counts that need none; each when it is needed."""

    def __init__(self, bits: int, scale: int) -> None:
        self.bits, self.scale = bits, scale
        self.spectrum = self.listed = np.zeros(0, np.int32)

    def clear(self) -> None:
        """Start again, in the memory that is there."""
        self.spectrum.fill(0)
        self.listed.fill(0)

    def copy(self, other: _Sums) -> None:
        """Be the other."""
        self.spectrum, self.listed = _copied(self.spectrum, other.spectrum), _copied(self.listed, other.listed)

    def add(self, rounds: Sequence[tuple[Any, Any, int]]) -> None:
        """More rounds: (learner, tally, the bit from which on it is counted). Those of equal b in one go."""
        alike: dict[int, list[tuple[SparseTally, int]]] = {}
        for learner, tally, field in rounds:
            if isinstance(tally, SparseTally):
                alike.setdefault(learner.mechanism.bits, []).append((tally, field))
            else:
                self.listed = self._room(self.listed)
                self.listed += learner.support(tally) << field
        for b, some in alike.items():
            rows = np.concatenate([tally.rows for tally, _ in some]).astype(np.uint32)
            values = np.concatenate([tally.values for tally, _ in some])
            fields = np.repeat(np.array([field for _, field in some], np.int32), [tally.count for tally, _ in some])
            if self.scale and 2 * b <= self.bits:
                self.spectrum = self._room(self.spectrum)
                walsh.accumulate(self.spectrum, rows, values, self.scale, fields)
            else:
                self.listed = self._room(self.listed)
                walsh.count_members(self.listed, rows, values, fields)

    def words(self) -> NDArray[np.int32]:
        """2^scale·C, field beside field; the spectrum is used up."""
        if not self.spectrum.size:
            counts = self._room(self.listed)
            return counts << self.scale if self.scale else counts
        walsh.transform(self.spectrum)
        if self.listed.size:
            self.spectrum += self.listed << self.scale
        return self.spectrum

    def _room(self, array: NDArray[np.int32]) -> NDArray[np.int32]:
        return array if array.size else np.zeros(1 << self.bits, np.int32)


def _copied(mine: NDArray[np.int32], theirs: NDArray[np.int32]) -> NDArray[np.int32]:
    if mine.size != theirs.size:
        return theirs.copy()
    np.copyto(mine, theirs)
    return mine
