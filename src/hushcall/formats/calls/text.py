"""Encodings, lines, JSON and XML: the first step of every reader."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from typing import Any

from hushcall.errors import InvalidData

MAX_BYTES = 256 * 1024 * 1024
HEAD_BYTES = 8192  # enough of a file to detect its format
MAX_XML_DEPTH = 16
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_REFERENCE = re.compile(
    rb"&#(?:x([0-9a-fA-F]{1,8})|([0-9]{1,8}));(?:&#(?:x([dD][c-fC-F][0-9a-fA-F]{2})|(5[67][0-9]{3}));)?"
)


def check_size(field: str, data: bytes) -> None:
    if len(data) > MAX_BYTES:
        rule = f"have at most {MAX_BYTES} bytes (export fewer days, or split it)"
        raise InvalidData(field, rule, f"{len(data)} bytes")


def is_utf_16(data: bytes) -> bool:
    return data.startswith(_UTF_16)


def decode(data: bytes) -> str:
    """Text by its byte order mark, else UTF-8, else ISO-8859-1, which any bytes are."""
    if is_utf_16(data):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.removeprefix(codecs.BOM_UTF8).decode("iso-8859-1")


def lines(text: str) -> list[str]:
    """Splits at line breaks only. ``splitlines`` also splits at characters that names may contain."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def first_lines(head: bytes, count: int = 10) -> list[str]:
    return [line for line in lines(head_text(head)) if line.strip()][:count]


def head_text(head: bytes) -> str:
    """The beginning of a file as text, without leading blanks."""
    # The cut may split a character, which must not turn UTF-8 into ISO-8859-1.
    return head.decode("utf-16" if is_utf_16(head) else "utf-8-sig", "replace").lstrip()


def json_list(title: str, data: bytes) -> list[Any]:
    import json

    try:
        value = json.loads(decode(data))
    except (ValueError, RecursionError):
        raise InvalidData(f"{title} file", "be one complete JSON document", f"{len(data)} bytes") from None
    if not isinstance(value, list):  # Termux:API answers with an object where it may not read the log
        rule = "be a JSON list (was Termux:API given the permission to read?)"
        raise InvalidData(f"{title} file", rule, type(value).__name__)
    return value


def json_text(record: Any, key: str) -> str:
    """The text under ``key``, ``""`` for null. A record may also be the text itself."""
    value = record.get(key, "") if isinstance(record, dict) else record
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidData(key, "be a text in an object", type(value).__name__)
    return value


def xml_records(title: str, data: bytes, root: str, record: str) -> Iterator[dict[str, str]]:
    """Attributes and children's texts of each ``record`` right under ``root``. DTDs and entities are refused."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, iterparse

    depth = 0
    top: Any = None
    try:
        for event, element in iterparse(io.BytesIO(_repaired(data)), events=("start", "end"), forbid_dtd=True):
            if event == "start":
                depth += 1
                top = element if top is None else top
                if top.tag != root:
                    rule = f"have <{root}> as its outermost element"
                    raise InvalidData(f"{title} file", rule, f"<{top.tag}>")
                if depth > MAX_XML_DEPTH:
                    raise InvalidData(f"{title} file", f"nest at most {MAX_XML_DEPTH} elements", depth)
                continue
            depth -= 1
            if depth == 1:
                if element.tag == record:
                    yield {**element.attrib, **{child.tag: child.text or "" for child in element}}
                top.clear()
    except DefusedXmlException:
        raise InvalidData(f"{title} file", "have no DTD and no entities", "one with them") from None
    except (ParseError, ValueError, LookupError):
        raise InvalidData(f"{title} file", "be one complete XML document", f"{len(data)} bytes") from None


def _repaired(data: bytes) -> bytes:
    """Mends references that XML forbids: Android writes an emoji as two UTF-16 surrogates (``&#55357;&#56836;``)."""
    if is_utf_16(data):
        text = decode(data)
        return data if "&#" not in text else _REFERENCE.sub(_combined, text.encode()).decode().encode("utf-16")
    return _REFERENCE.sub(_combined, data) if b"&#" in data else data


def _combined(match: re.Match[bytes]) -> bytes:
    first, second = _code_point(match[1], match[2]), _code_point(match[3], match[4])
    if 0xD800 <= first < 0xDC00 <= second < 0xE000:
        return b"&#%d;" % (0x10000 + (first - 0xD800 << 10) + (second - 0xDC00))
    allowed = first in (9, 10, 13) or 0x20 <= first < 0xD800 or 0xE000 <= first < 0xFFFE or 0x10000 <= first < 0x110000
    lone_surrogate = b"" if second < 0 else b"&#65533;"
    return (b"&#%d;" % first if allowed else b"&#65533;") + lone_surrogate


def _code_point(hexadecimal: bytes | None, decimal: bytes | None) -> int:
    return int(hexadecimal, 16) if hexadecimal else int(decimal) if decimal else -1
