"""SpamBlocker (Android): a list comes in, a CSV of patterns leaves.

One column, ``pattern``. The app strips the plus of an incoming number before it compares, and takes a pattern for a
regular expression, in which a leading plus would be an error: so digits only.
"""

from __future__ import annotations

import re

from hushcall.formats.blocklists.writer import Writer, after_header, captured, digits, text_lines, with_plus
from hushcall.protocol.blocklist import Blocklist

_HEADER = "pattern"
_LINE = re.compile("([0-9]+)")


def write(blocklist: Blocklist) -> bytes:
    """A header and one number a line."""
    return "".join(f"{line}\n" for line in (_HEADER, *digits(blocklist))).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file, as the app would take them: how tests check what was written."""
    return with_plus(captured(after_header(text_lines(data), _HEADER), _LINE))


SPAMBLOCKER = Writer("spamblocker", "SpamBlocker (Android)", "spamblocker.csv", "text/csv", write, read)
