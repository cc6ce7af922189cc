"""Bearer tokens: 256 random bits that are shown once and kept as a hash.

A fast hash does: nobody can guess 256 bits, slow hashing protects only passwords that people make up.
"""

from __future__ import annotations

import hashlib

from hushcall.privacy.coins import ByteSource, read

DEVICE = "hcd_"
ADMIN = "hca_"
INVITE = "hci_"
_BYTES = 32


def new_token(prefix: str, coins: ByteSource) -> str:
    """A new one. The prefix tells a person, and a scanner for leaked secrets, what it is."""
    return prefix + read(coins, _BYTES).hex()


def token_hash(token: str) -> bytes:
    """What is stored: SHA-256, which is enough for 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", errors="replace")).digest()
