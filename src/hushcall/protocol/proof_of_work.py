"""Proof of work: a nonce that takes about 2^bits tries to find and one to check.

For services that let anybody enrol: a client pays one second once, a thousand fakes pay a thousand. The challenge
changes every few minutes, and the server takes each answer once.

>>> nonce = solve(b"a challenge", 8)
>>> proves(b"a challenge", nonce, 8), proves(b"another", nonce, 24)
(True, False)
"""

from __future__ import annotations

from itertools import count

from hushcall import checks
from hushcall.protocol.seeds import SEED_BYTES, derive

MAX_BITS = 32
"""A client refuses to work for more: that is an hour of a phone's battery."""
NONCE_BYTES = 8


def solve(challenge: bytes, bits: int, start: int = 0) -> bytes:
    """The first nonce from ``start`` on. A client draws it: those with one challenge must not give one answer."""
    checks.whole("bits", bits, 0, MAX_BITS)
    for number in count(start):
        nonce = number.to_bytes(NONCE_BYTES, "big")
        if proves(challenge, nonce, bits):
            return nonce
    raise AssertionError("there are more nonces than tries")  # pragma: no cover


def proves(challenge: bytes, nonce: bytes, bits: int) -> bool:
    """Whether derive("work", challenge, nonce) begins with so many zero bits."""
    digest = int.from_bytes(derive("work", challenge, nonce), "big")
    return len(nonce) == NONCE_BYTES and digest >> (8 * SEED_BYTES - bits) == 0
