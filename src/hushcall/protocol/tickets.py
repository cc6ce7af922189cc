"""A ticket: the right to send one report, 16 bytes that the server gives out, written as 32 hexadecimal digits.

>>> ticket_text(ticket_bytes("00112233445566778899aabbccddeeff"))
'00112233445566778899aabbccddeeff'
"""

from __future__ import annotations

import re

from hushcall.errors import InvalidParameter

TICKET_BYTES = 16
TICKET_PATTERN = "[0-9a-f]{32}"
"""As servers write it. A server reads capitals too: it puts what it is sent into small letters first."""
_TICKET = re.compile(TICKET_PATTERN, re.ASCII)


def ticket_text(ticket: bytes) -> str:
    """A ticket as it travels."""
    return ticket.hex()


def ticket_bytes(text: str) -> bytes:
    """Read it back; anything but 32 small hexadecimal digits is an :class:`InvalidParameter`."""
    if not isinstance(text, str) or not _TICKET.fullmatch(text):
        raise InvalidParameter("ticket", "be 32 hexadecimal digits", text)
    return bytes.fromhex(text)
