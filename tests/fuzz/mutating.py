"""Honest inputs come in, damaged ones leave: the same each time, for what a test run tries without a fuzzer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence


def mutated(honest: Sequence[bytes], count: int, seed: int = 1) -> Iterator[bytes]:
    """``count`` inputs, each with one to four kinds of damage; all follow from ``seed``."""
    dice = random.Random(seed)
    for _ in range(count):
        data = bytearray(dice.choice(honest))
        for _ in range(dice.randint(1, 4)):
            _damage(data, honest, dice)
        yield bytes(data)


def _damage(data: bytearray, honest: Sequence[bytes], dice: random.Random) -> None:
    """Change a byte, put some in, take some out, repeat a piece, or take one from another input."""
    start = dice.randrange(len(data) + 1)
    stop = min(len(data), start + dice.randint(0, 40))
    other = dice.choice(honest)
    place = dice.randrange(len(other) + 1)
    data[start:stop] = dice.choice(
        [
            bytes([dice.randrange(256)]),
            dice.randbytes(dice.randint(1, 8)) + data[start:stop],
            b"",
            data[start:stop] * 3,
            other[place : place + dice.randint(1, 80)],
        ]
    )
