"""The readers' first step: bytes of a file come in, text in whatever encoding leaves."""

from __future__ import annotations

import codecs

from hushcall.errors import InvalidData

MOST_BYTES = 256 * 1024 * 1024
HEAD_BYTES = 8192  # enough of a file to know what it is
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def check_size(field: str, data: bytes) -> None:
    """A whole file is read into memory, so there is a limit to it."""
    if len(data) > MOST_BYTES:
        rule = f"have at most {MOST_BYTES} bytes (export fewer days, or split it)"
        raise InvalidData(field, rule, f"{len(data)} bytes")


def is_utf_16(data: bytes) -> bool:
    """Whether the file says so: Windows PowerShell writes such files when output is sent to one."""
    return data.startswith(_UTF_16)


def decode(data: bytes) -> str:
    """UTF-16 or UTF-8 where the file says so, else UTF-8, else ISO-8859-1, in which any bytes are text."""
    if is_utf_16(data):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.removeprefix(codecs.BOM_UTF8).decode("iso-8859-1")


def lines(text: str) -> list[str]:
    """The lines of ``text``: not ``splitlines``, which also cuts at characters that names may hold."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def first_lines(head: bytes, count: int = 10) -> list[str]:
    """The first lines of a file that are not blank, for guessing what it is."""
    return [line for line in lines(head_text(head)) if line.strip()][:count]


def head_text(head: bytes) -> str:
    """The beginning of a file as text without leading blanks, for guessing what it is."""
    # The cut may run through a character, which must not turn UTF-8 into ISO-8859-1.
    return head.decode("utf-16" if is_utf_16(head) else "utf-8-sig", "replace").lstrip()
