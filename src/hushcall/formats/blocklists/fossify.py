"""Fossify Phone (Android), and Simple Dialer before it: a list comes in, one comma-joined line leaves.

No line break at its end: older versions take it for a part of the last number, and drop that number.
"""

from __future__ import annotations

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.writer import Writer, checked
from hushcall.protocol.blocklist import Blocklist


def write(blocklist: Blocklist) -> bytes:
    """All numbers in one line: the app splits at commas and knows no line ends."""
    return ",".join(entry.number for entry in blocklist.entries).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file, as the app would take them: how tests check what was written."""
    try:
        return checked(data.decode("ascii").split(",") if data else ())
    except UnicodeDecodeError:
        raise InvalidList("export", "be plain ASCII", data) from None


FOSSIFY = Writer("fossify", "Fossify Phone (Android)", "fossify.txt", "text/plain", write, read)
