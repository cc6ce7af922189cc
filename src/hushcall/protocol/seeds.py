"""Public seeds: a label and parts that anybody may know come in, 32 bytes leave, the same on every machine.

Nothing that is made here is secret. A report's odds are the same whatever its seed is (``report.subspace``).

>>> report_seed(bytes(32), bytes(16)).hex()[:16]
'adc7e80418d39ada'
"""

from __future__ import annotations

import hashlib

SEED_BYTES = 32


def derive(label: str, *parts: bytes) -> bytes:
    """A 32-byte seed from public parts: SHA-256 of the label and the parts, each behind its length.

    A length is four bytes, most significant first, so that no two ways of cutting the same bytes into parts meet.
    """
    digest = hashlib.sha256()
    for part in (f"hushcall/1/{label}".encode(), *parts):
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()


def report_seed(round_seed: bytes, ticket: bytes) -> bytes:
    """The seed that one report is randomised under: its matrix, and in the histograms its place, follow from it."""
    return derive("report", round_seed, ticket)


def bucket_seed(round_seed: bytes, bucket: int) -> bytes:
    """The seed of what all reports of a bucket share: the hash functions of the histograms."""
    return derive("bucket", round_seed, bucket.to_bytes(4, "big"))
