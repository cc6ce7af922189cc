"""Slow loops that say what the fast kernels compute, straight from the definitions."""

from collections.abc import Sequence


def parity(number: int) -> int:
    return number.bit_count() & 1


def walsh_hadamard(values: Sequence[int]) -> list[int]:
    """The sum over u of (-1)^parity(u & x) values[u], for every x."""
    return [sum(-v if parity(u & x) else v for u, v in enumerate(values)) for x in range(len(values))]


def support_counts(rows: Sequence[Sequence[int]], values: Sequence[int], bits: int) -> list[int]:
    """For every x, how many reports have parity(row_i & x) = bit i of the value, for all i."""
    return [
        sum(
            all(parity(row & x) == value >> i & 1 for i, row in enumerate(matrix))
            for matrix, value in zip(rows, values, strict=True)
        )
        for x in range(1 << bits)
    ]
