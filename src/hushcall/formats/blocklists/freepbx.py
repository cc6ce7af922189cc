"""FreePBX's blacklist module: a list comes in, a CSV for its bulk import leaves.

As for Asterisk, which it drives, every number is there in every form that a trunk may use.
"""

from __future__ import annotations

import re

from hushcall.formats.blocklists.writer import (
    WHY,
    Writer,
    after_header,
    captured,
    numbers_behind,
    reasons_by_form,
    text_lines,
)
from hushcall.protocol.blocklist import Blocklist

_HEADER = "number,description"
_LINE = re.compile(rf"(\+?[0-9]+),{WHY}")


def write(blocklist: Blocklist) -> bytes:
    """A header and one row for each form of each number."""
    rows = (f"{form},{reason}" for form, reason in reasons_by_form(blocklist))
    return "".join(f"{line}\n" for line in (_HEADER, *rows)).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file, as the app would take them: how tests check what was written."""
    return numbers_behind(captured(after_header(text_lines(data), _HEADER), _LINE))


FREEPBX = Writer("freepbx", "FreePBX", "freepbx.csv", "text/csv", write, read)
