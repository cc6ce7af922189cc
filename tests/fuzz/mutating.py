"""Honest inputs come in, damaged ones leave: the same each time, for what a test run tries without a fuzzer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence


def mutated(honest: Sequence[bytes], count: int, seed: int = 1) -> Iterator[bytes]:
    """``count`` inputs, each with one to four kinds of damage; all follow from ``seed``."""
    draw = random.Random(seed).getrandbits
    for _ in range(count):
        bits = draw(16)
        data = bytearray(honest[(bits >> 2) % len(honest)])
        for _ in range(1 + (bits & 3)):
            _damage(data, honest, draw(128))
        yield bytes(data)


def _damage(data: bytearray, honest: Sequence[bytes], bits: int) -> None:
    """Change a byte, put some in, take some out, repeat a piece, or take one from another input.

    One number decides on everything, cut into pieces: millions of inputs cost what their readers do.
    """
    start = (bits & 0xFFFFFF) % (len(data) + 1)
    length, kind, few = (bits >> 24) % 41, (bits >> 32) % 5, bits >> 40 & 7
    stop = min(len(data), start + length)
    if kind == 0:
        data[start:stop] = bytes((bits >> 48 & 0xFF,))
    elif kind == 1:
        data[start:start] = (bits >> 48 & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")[: few + 1]
    elif kind == 2:
        del data[start:stop]
    elif kind == 3:
        data[start:stop] = data[start:stop] * 3
    else:
        other = honest[(bits >> 48 & 0xFFFF) % len(honest)]
        place = (bits >> 64 & 0xFFFFFF) % (len(other) + 1)
        data[start:stop] = other[place : place + 1 + (bits >> 96) % 80]
