"""The support C(x) of every x at once, from reports with a linear hash.

Report j carries a public binary matrix A of b rows, each a number below 2^bits, and a value y of b bits. Bit i of y
(the lowest is row 0) answers row i. The report supports the affine subspace {x : A x = y} over GF(2), and C(x) counts
the reports that support x. With χ(u, x) = (-1)^parity(u & x), ::

    2^b [A x = y] = Σ_u χ(u, y) χ(uᵀA, x)        u over {0,1}^b, uᵀA the XOR of the rows that u picks

so the reports add up as ±1 at the positions uᵀA of a spectrum, and one Walsh-Hadamard transform turns it into 2^b C.
Where b is large the subspaces are small, and listing their members is cheaper.

Both ways add a sign along a coset of a linear space, by the same kernel. A position p and its sign s are one word
2p + s, so that one XOR moves both. Each space is a basis whose leading bits fall: only then is its part in one
cache-sized block of the domain a coset again. Blocks share no memory, so any number of threads writes the same numbers.

>>> rows, values = np.array([[0b01], [0b11]], np.uint32), np.array([1, 0], np.uint32)
>>> support(rows, values, bits=2)
array([1, 1, 0, 2], dtype=int32)
"""

from collections.abc import Iterator, Sequence
from typing import SupportsIndex, TypeAlias

import numpy as np
from numba import prange
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.kernels.compiled import kernel

Ints: TypeAlias = NDArray[np.int32]
Words: TypeAlias = NDArray[np.uint32]
Cosets: TypeAlias = tuple[Words, Words, Ints, Ints]  # origins, bases of shape (n, bits), dimensions, weights

_MAX_BITS = 30  # a word, 2p + s, has to fit 32 bits
_TILE = 4096  # numbers that are transformed inside the first-level cache: 64 x 64, 16 KiB
_SIDE = 64
_BATCH = 1 << 15  # reports whose bases exist at a time: 4 MiB, small beside the domain


def transform(array: Ints) -> None:
    """Replace the array by its unnormalised Walsh-Hadamard transform. Sums wrap around at 2^32."""
    _bits("array", array)
    _transform(array)


def accumulate(
    spectrum: Ints, rows: Words, values: Words, scale: int | None = None, fields: Ints | None = None
) -> None:
    """Add 2^(scale-b) (-1)^parity(u & y) at uᵀA for every report and every u in {0,1}^b. The default scale is b.

    After `transform`, a spectrum that started at zero holds 2^scale C(x), so reports with different b share one
    spectrum. All reports of a spectrum together must keep n 2^scale below 2^31. `fields` moves each report by so many
    bits: several counts share a word if each has as many bits as its reports need (`some_at_least`).
    """
    bits = _bits("spectrum", spectrum)
    n, b = _reports(rows, values, bits)
    scale = b if scale is None else scale
    if scale < b:
        raise InvalidParameter("scale", f"be at least b, {b}", scale)
    if n << scale >= 1 << 31:
        raise InvalidParameter("n * 2**b", "stay below 2**31", n << scale)
    for words, moved in _equations(rows, values, fields):
        origins, bases, dimensions, weights = _row_spaces(words, bits)
        _spread(spectrum, origins, bases, dimensions, weights << (scale - b) << moved)


def count_members(counts: Ints, rows: Words, values: Words, fields: Ints | None = None) -> None:
    """Add 1 at every member of every report's {x : A x = y}, which is empty if the equations contradict."""
    bits = _bits("counts", counts)
    _reports(rows, values, bits)
    for words, moved in _equations(rows, values, fields):
        origins, bases, dimensions, weights = _solutions(words, bits)
        _spread(counts, origins, bases, dimensions, weights << moved)


def cheaper_direct(b: int, bits: int, n: int) -> bool:
    """Whether `count_members` beats `accumulate` and `transform` for one tally of n reports.

    Transforming and dividing cost about three updates a cell (measured at 24 bits). From n 2^b = 2^31 on the spectrum
    would overflow.
    """
    spectral = n << b
    return spectral >= 1 << 31 or n << max(bits - b, 0) <= spectral + (3 << bits)


def support(rows: Words, values: Words, bits: int) -> Ints:
    if not 1 <= bits <= _MAX_BITS:
        raise InvalidParameter("bits", f"lie in 1..{_MAX_BITS}", bits)
    n, b = _reports(rows, values, bits)
    counts = np.zeros(1 << bits, np.int32)
    if cheaper_direct(b, bits, n):
        count_members(counts, rows, values)
    else:
        accumulate(counts, rows, values)
        transform(counts)
        counts >>= b
    return counts


def at_least(counts: Ints, threshold: int, start: int, stop: int) -> NDArray[np.int64]:
    if counts.dtype != np.int32 or counts.ndim != 1:
        raise InvalidParameter("counts", "be a vector of int32", (counts.dtype, counts.shape))
    if not 0 <= start <= stop <= counts.size:
        raise InvalidParameter("start, stop", f"satisfy 0 <= start <= stop <= {counts.size}", (start, stop))
    return _at_least(counts[start:stop], threshold, start)


def some_at_least(
    words: Ints, first: int, widths: Sequence[int], thresholds: Sequence[int], start: int, stop: int
) -> NDArray[np.int64]:
    """The indices i, start <= i < stop, where c_0 or c_0 + c_1 or … reaches its threshold, ascending.

    The counts c lie side by side in the word's bits from `first` on, each in its width.
    """
    if sum(widths) + first > 32 or len(widths) != len(thresholds):
        raise InvalidParameter("widths", "be one for each threshold, and fit 32 bits", (first, *widths))
    if not 0 <= start <= stop <= words.size:
        raise InvalidParameter("start, stop", f"satisfy 0 <= start <= stop <= {words.size}", (start, stop))
    shifts = np.array([first + sum(widths[:place]) for place in range(len(widths))], np.uint32)
    masks = np.array([(1 << width) - 1 for width in widths], np.uint32)
    inside = words.view(np.uint32)[start:stop]
    return np.flatnonzero(_some_at_least(inside, shifts, masks, np.array(thresholds, np.uint32))) + start


def _bits(field: str, array: Ints) -> int:
    """log2 of the length of an array that the kernels can work on in place."""
    if array.dtype != np.int32 or array.ndim != 1 or not (array.flags.c_contiguous and array.flags.writeable):
        raise InvalidParameter(field, "be a contiguous writable vector of int32", (array.dtype, array.shape))
    bits = array.size.bit_length() - 1
    if not 1 <= bits <= _MAX_BITS or array.size != 1 << bits:
        raise InvalidParameter(field, f"have a length 2^k with 1 <= k <= {_MAX_BITS}", array.size)
    return bits


def _reports(rows: Words, values: Words, bits: int) -> tuple[int, int]:
    if rows.dtype != np.uint32 or rows.ndim != 2 or rows.shape[1] > 32:
        raise InvalidParameter("rows", "be uint32 of shape (n, b) with b <= 32", (rows.dtype, rows.shape))
    n, b = rows.shape
    if values.dtype != np.uint32 or values.shape != (n,):
        raise InvalidParameter("values", f"be uint32 of shape ({n},)", (values.dtype, values.shape))
    if np.any(rows >= 1 << bits):
        raise InvalidParameter("rows", f"stay below 2^{bits}", int(rows.max()))
    if np.any(values >= 1 << b):
        raise InvalidParameter("values", f"stay below 2^{b}", int(values.max()))
    return n, b


def _equations(rows: Words, values: Words, fields: Ints | None) -> Iterator[tuple[Words, Ints]]:
    """Batches of the reports' equations, one word 2 row_i + y_i each, and of their fields."""
    places, fields = (
        np.arange(rows.shape[1], dtype=np.uint32),
        np.zeros(len(rows), np.int32) if fields is None else fields,
    )
    if fields.shape != values.shape or np.any(fields > 31):
        raise InvalidParameter("fields", "be bits below 32, one for each report", fields.shape)
    for first in range(0, len(rows), _BATCH):
        batch = slice(first, first + _BATCH)
        yield (rows[batch] << np.uint32(1)) | (values[batch, None] >> places & np.uint32(1)), fields[batch]


@kernel(inline="always")
def _radix8(tile: Ints, stride: int) -> None:
    """Three levels of butterflies on a tile; inlined, as LLVM only vectorises strides that it knows."""
    s = np.uint64(stride)  # unsigned, or numba would look for indices from the end
    for base in range(np.uint64(0), np.uint64(_TILE), np.uint64(8) * s):
        for offset in range(s):
            i = base + offset
            a, b, c, d = tile[i], tile[i + s], tile[i + 2 * s], tile[i + 3 * s]
            e, f, g, h = tile[i + 4 * s], tile[i + 5 * s], tile[i + 6 * s], tile[i + 7 * s]
            a, b, c, d, e, f, g, h = a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h
            a, b, c, d, e, f, g, h = a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h
            tile[i], tile[i + s], tile[i + 2 * s], tile[i + 3 * s] = a + e, b + f, c + g, d + h
            tile[i + 4 * s], tile[i + 5 * s], tile[i + 6 * s], tile[i + 7 * s] = a - e, b - f, c - g, d - h


@kernel(parallel=True)
def _transform(array: Ints) -> None:
    """Twelve levels in place, then six at a time through a copied tile, and what is left one by one."""
    size, span = array.size, 1
    if size >= _TILE:
        for t in prange(size // _TILE):
            tile = array[t * _TILE : (t + 1) * _TILE]
            _radix8(tile, 1)
            _radix8(tile, 8)
            _radix8(tile, 64)
            _radix8(tile, 512)
        span = _TILE
    while _TILE <= span <= size // _SIDE:
        strips = span // _SIDE
        for t in prange(size // _TILE):
            # 64 runs of 64 numbers, a span apart: a copy, since in place they would share few cache sets.
            first = t // strips * span * _SIDE + t % strips * _SIDE
            tile = np.empty(_TILE, np.int32)
            for r in range(_SIDE):
                for c in range(_SIDE):
                    tile[np.uint64(r * _SIDE + c)] = array[np.uint64(first + r * span + c)]
            _radix8(tile, 64)
            _radix8(tile, 512)
            for r in range(_SIDE):
                for c in range(_SIDE):
                    array[np.uint64(first + r * span + c)] = tile[np.uint64(r * _SIDE + c)]
        span *= _SIDE
    while span < size:
        for base in range(0, size, 2 * span):
            lower, upper = array[base : base + span], array[base + span : base + 2 * span]
            for i in range(span):
                lower[i], upper[i] = lower[i] + upper[i], lower[i] - upper[i]
        span *= 2


@kernel(parallel=True)
def _row_spaces(words: Words, bits: int) -> Cosets:
    """Where each report's spectrum lives: the signed span of its equations.

    An equation that depends on the others doubles the spectrum, and one that contradicts them cancels it.
    """
    n, b = words.shape
    origins, bases = np.empty(n, np.uint32), np.empty((n, bits), np.uint32)
    dimensions, weights = np.empty(n, np.int32), np.empty(n, np.int32)
    for j in prange(n):
        basis, dimension, weight = bases[j], 0, 1
        for i in range(b):
            v = words[j, i]
            for k in range(dimension):
                v = min(v, v ^ basis[k])  # clears the leading bit of basis[k], if v has it
            if v <= 1:
                weight = 0 if v else 2 * weight
                continue
            k = dimension
            while k > 0 and basis[k - 1] < v:
                basis[k] = basis[k - 1]
                k -= 1
            basis[k] = v
            dimension += 1
        origins[j], dimensions[j], weights[j] = 0, dimension, weight
    return origins, bases, dimensions, weights


@kernel()
def _pivot(word: SupportsIndex) -> int:
    position = int(word) & ~1
    return position & -position


@kernel(parallel=True)
def _solutions(words: Words, bits: int) -> Cosets:
    """Where each report's members live: a solution of its equations and the null space; eats the words.

    Pivots are lowest bits, so every null vector leads with its own free bit: a basis as `_spread` needs it.
    """
    n, b = words.shape
    origins, bases = np.empty(n, np.uint32), np.empty((n, bits), np.uint32)
    dimensions, weights = np.empty(n, np.int32), np.empty(n, np.int32)
    for j in prange(n):
        reduced, rank, pivots, origin, dimension, weight = words[j], 0, 0, 0, 0, 1
        for i in range(b):
            v = np.int64(words[j, i])
            for k in range(rank):  # products, as a branch would be a coin flip
                v ^= reduced[k] * ((v & _pivot(reduced[k])) > 0)
            if v <= 1:
                weight = 0 if v else weight
                continue
            for k in range(rank):
                reduced[k] ^= v * ((reduced[k] & _pivot(v)) > 0)
            reduced[rank] = v
            rank += 1
        for k in range(rank):
            pivots |= _pivot(reduced[k])
            origin |= _pivot(reduced[k]) * (reduced[k] & 1)
        for place in range(bits, 0, -1):
            free = 1 << place
            if not pivots & free:
                for k in range(rank):
                    free |= _pivot(reduced[k]) * (reduced[k] >> place & 1)
                bases[j, dimension] = free
                dimension += 1
        origins[j], dimensions[j], weights[j] = origin, dimension, weight
    return origins, bases, dimensions, weights


@kernel(parallel=True)
def _spread(array: Ints, origins: Words, bases: Words, dimensions: Ints, weights: Ints) -> None:
    """Add weight (-1)^s at p for every word 2p + s of every coset, one block of the domain after another."""
    deepest, one = 0, np.uint32(1)
    for j in range(origins.size):
        deepest = max(deepest, dimensions[j])
    # Six vectors a visit pay for finding the coset's part in the block; 2^7 blocks of 2^24 fit the cache.
    size = max(array.size >> min(max(deepest - 6, 1), 7), 1)
    for h in prange(array.size // size):
        block, start, end = array[h * size : (h + 1) * size], np.uint32(2 * size * h), np.uint32(2 * size)
        places = np.empty(min(1 << deepest, size), np.uint32)
        for j in range(origins.size):
            v, k = origins[j] ^ start, 0
            while k < dimensions[j] and bases[j, k] >= end:
                v = min(v, v ^ bases[j, k])
                k += 1
            if v >= end or weights[j] == 0:
                continue  # no word of the coset lies in this block
            weight = -weights[j] if v & one else weights[j]
            # One vector takes over the sign of all, so that places double without one and then mirror.
            places[0], filled, mirror = v >> one, np.uint64(1), np.uint32(0)
            for m in range(k, dimensions[j]):
                e = bases[j, m]
                if e & one:
                    if mirror == 0:
                        mirror = e
                        continue
                    e ^= mirror
                e >>= one
                for i in range(filled):
                    places[filled + i] = places[i] ^ e
                filled += filled
            mirror >>= one
            for i in range(filled):
                block[places[i]] += weight
                if mirror:
                    block[places[i] ^ mirror] -= weight


@kernel()
def _at_least(counts: Ints, threshold: int, start: int) -> NDArray[np.int64]:
    """Count, then fill: two passes are cheaper than a mask of the whole range."""
    found = 0
    for count in counts:
        found += count >= threshold
    indices, found = np.empty(found, np.int64), 0
    for i, count in enumerate(counts, start):
        if count >= threshold:
            indices[found] = i
            found += 1
    return indices


@kernel(parallel=True)
def _some_at_least(words: Words, shifts: Words, masks: Words, thresholds: Words) -> NDArray[np.bool_]:
    """Tile by tile and field by field: the inner loop knows its shift, so that LLVM vectorises it."""
    found = np.zeros(words.size, np.bool_)
    for t in prange((words.size + _TILE - 1) // _TILE):
        tile, flags = words[t * _TILE : (t + 1) * _TILE], found[t * _TILE : (t + 1) * _TILE]
        sums = np.zeros(_TILE, np.uint32)
        for k in range(shifts.size):
            shift, mask, threshold = shifts[k], masks[k], thresholds[k]
            for i in range(tile.size):
                sums[i] += tile[i] >> shift & mask
                flags[i] |= sums[i] >= threshold
    return found
