"""NoPhoneSpam (Android): a list comes in, lines ``number: name`` leave. The app stops at the first other line."""

from __future__ import annotations

import re

from hushcall.formats.blocklists.writer import WHY, Writer, captured, checked, text_lines, why
from hushcall.protocol.blocklist import Blocklist

_LINE = re.compile(rf"(\+[0-9]+): {WHY}")


def write(blocklist: Blocklist) -> bytes:
    """``number: why`` a line, as NoPhoneSpam imports it."""
    return "".join(f"{entry.number}: {why(entry)}\n" for entry in blocklist.entries).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file, as the app would take them: how tests check what was written."""
    return checked(captured(text_lines(data), _LINE))


NOPHONESPAM = Writer("nophonespam", "NoPhoneSpam (Android)", "NoPhoneSpam_blacklist.txt", "text/plain", write, read)
