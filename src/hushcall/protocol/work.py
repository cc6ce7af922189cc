"""Proof of work: a challenge comes in, a nonce leaves that took about 2^bits tries to find, and is checked with one.

For services that let anybody enrol: a phone pays a second of its time once, a thousand fakes pay a thousand. The server
gives out the challenge, which changes every few minutes, and takes each answer once.

>>> nonce = solve(b"a challenge", 8)
>>> proves(b"a challenge", nonce, 8), proves(b"another", nonce, 24)
(True, False)
"""

from __future__ import annotations

from itertools import count

from hushcall import checks
from hushcall.protocol.seeds import SEED_BYTES, derive

MOST_BITS = 32
"""A phone refuses to work for more: that is an hour of its battery."""
NONCE_BYTES = 8


def solve(challenge: bytes, bits: int) -> bytes:
    """The first nonce that proves the work."""
    checks.whole("bits", bits, 0, MOST_BITS)
    for tried in count():
        nonce = tried.to_bytes(NONCE_BYTES, "big")
        if proves(challenge, nonce, bits):
            return nonce
    raise AssertionError("there are more nonces than tries")  # pragma: no cover


def proves(challenge: bytes, nonce: bytes, bits: int) -> bool:
    """Whether derive("work", challenge, nonce) begins with so many zero bits."""
    found = int.from_bytes(derive("work", challenge, nonce), "big")
    return len(nonce) == NONCE_BYTES and found >> (8 * SEED_BYTES - bits) == 0
