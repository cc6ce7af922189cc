"""Yet Another Call Blocker and Tranquille (Android): a list comes in, their blacklist backup leaves.

``creationTimestamp`` is when the number was first seen, in milliseconds; the two columns about calls are the phone's
own statistics, so they start at nothing.
"""

from __future__ import annotations

import re

from hushcall.formats.blocklists.writer import WHY, Writer, after_header, captured, checked, text_lines, why
from hushcall.protocol.blocklist import Blocklist

_HEADER = "ID,name,pattern,creationTimestamp,numberOfCalls,lastCallTimestamp"
_LINE = re.compile(rf"[0-9]+,{WHY},(\+[0-9]+),-?[0-9]+,0,")


def write(blocklist: Blocklist) -> bytes:
    """A header and one row a number, in the line breaks that the apps write themselves."""
    rows = [f"{row},{why(e)},{e.number},{e.first * 1000},0," for row, e in enumerate(blocklist.entries, 1)]
    return "".join(f"{line}\r\n" for line in (_HEADER, *rows)).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file, as the app would take them: how tests check what was written."""
    return checked(captured(after_header(text_lines(data, "\r\n"), _HEADER), _LINE))


YACB = Writer("yacb", "Yet Another Call Blocker, Tranquille (Android)", "yacb.csv", "text/csv", write, read)
