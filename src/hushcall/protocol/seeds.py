"""Tickets, and the public seeds of a round: nothing here is secret.

A ticket is the right to send one report: 16 bytes that the server gives out, written as 32 hexadecimal digits. A round
publishes one seed. With a ticket it becomes the public seed of one report, with a bucket the seed of that bucket's hash
functions.

>>> report_seed(bytes(32), ticket_bytes(32 * "0")).hex()[:16]
'adc7e80418d39ada'
"""

from __future__ import annotations

import hashlib
import re

from hushcall.errors import InvalidParameter
from hushcall.protocol.randomness import WORD_BYTES, uniform

SEED_BYTES = 32
TICKET_BYTES = 16
TICKET_PATTERN = "[0-9a-f]{32}"
"""As servers write it. A server reads capitals too: it lowers the case first."""
_TICKET = re.compile(TICKET_PATTERN, re.ASCII)


def ticket_text(ticket: bytes) -> str:
    return ticket.hex()


def ticket_bytes(text: str) -> bytes:
    """Reads a ticket. Anything but 32 lower-case hexadecimal digits is an :class:`InvalidParameter`."""
    if not isinstance(text, str) or not _TICKET.fullmatch(text):
        raise InvalidParameter("ticket", "be 32 hexadecimal digits", text)
    return bytes.fromhex(text)


def derive(label: str, *parts: bytes) -> bytes:
    """A 32-byte seed from public parts: SHA-256 of the label and the parts, each behind its length."""
    digest = hashlib.sha256()
    for part in (f"hushcall/1/{label}".encode(), *parts):
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()


def report_seed(round_seed: bytes, ticket: bytes) -> bytes:
    """Selects a report's hash. Neither the client, which was given its ticket, nor the server chooses it alone."""
    return derive("report", round_seed, ticket)


def about_hundred(public: bytes, percent: int) -> bool:
    """Whether a report is about the hundred that its number lies in: a public coin, thrown by the report's seed."""
    word = int.from_bytes(derive("hundred", public)[:WORD_BYTES], "big")
    return uniform(word, 100) < percent


def bucket_seed(round_seed: bytes, bucket: int) -> bytes:
    """Selects the hash functions that all clients of a bucket share."""
    return derive("bucket", round_seed, bucket.to_bytes(4, "big"))
