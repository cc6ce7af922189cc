"""NCID (Network Caller ID): a list comes in, ``ncidd.blacklist`` leaves.

NCID takes a part of a number for a match: a caret anchors it at the start, and in country 1 a ``^1?`` fits lines that
present the leading 1 and lines that don't. What follows ``#=`` is shown in place of the caller's name, and is cut off
after fifty characters: so it is shorter than elsewhere.
"""

from __future__ import annotations

import re

from hushcall.formats.blocklists.writer import Writer, captured, text_lines, why, with_plus
from hushcall.numbers.lookalikes import abroad_too
from hushcall.protocol.blocklist import Blocklist, Entry

MOST_CHARACTERS = 50
_REMARK = r"hushcall: [0-9]+ days? - about [0-9]+ phones?"
_LINE = re.compile(rf"\^(1\?[0-9]+|[0-9]+) #= {_REMARK}")


def write(blocklist: Blocklist) -> bytes:
    """One regular expression a line, with the reason as a comment."""
    return "".join(f"{_expression(entry.number)} #= {_remark(entry)}\n" for entry in blocklist.entries).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file, as the app would take them: how tests check what was written."""
    return with_plus(text.replace("?", "") for text in captured(text_lines(data), _LINE))


def _remark(entry: Entry) -> str:
    """The beginning of :func:`why`."""
    return why(entry).replace(" seen", "").partition(" on ")[0]


def _expression(number: str) -> str:
    """With the 1 or without it, unless the digits without it are a number of another country."""
    if number.startswith("+1") and not abroad_too(number[2:]):
        return f"^1?{number[2:]}"
    return f"^{number[1:]}"


NCID = Writer("ncid", "NCID", "ncidd.blacklist", "text/plain", write, read)
