"""The public seeds of a round, as phone, server, tour and lab derive them alike: public parts come in, 32 bytes leave.

Nothing here is secret. A round publishes one seed; with a ticket it becomes the public seed of one report, with a
bucket the seed of that bucket's hash functions.

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
    """What selects a report's hash: neither the phone, which got its ticket, nor the server chooses it alone."""
    return derive("report", round_seed, ticket)


def bucket_seed(round_seed: bytes, bucket: int) -> bytes:
    """What selects the hash functions that all phones of a bucket share."""
    return derive("bucket", round_seed, bucket.to_bytes(4, "big"))
