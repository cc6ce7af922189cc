"""Asterisk: a list comes in, console commands leave that fill the family ``blacklist`` of its database.

The dialplan compares the caller's number as a text, and trunks present it in different ways: so every number is there
in every form that a trunk may use.
"""

from __future__ import annotations

import re

from hushcall.formats.blocklists.writer import WHY, Writer, captured, numbers_behind, reasons_by_form, text_lines
from hushcall.protocol.blocklist import Blocklist

_LINE = re.compile(rf'database put blacklist (\+?[0-9]+) "{WHY}"')


def write(blocklist: Blocklist) -> bytes:
    """One command a line, for ``asterisk -rx``."""
    rows = (f'database put blacklist {form} "{reason}"\n' for form, reason in reasons_by_form(blocklist))
    return "".join(rows).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such commands."""
    return numbers_behind(captured(text_lines(data), _LINE))


ASTERISK = Writer("asterisk", "Asterisk's database", "asterisk.txt", "text/plain", write, read)
