"""The XML readers' first step: a document comes in, flat records leave. No DTD, no entities, nothing fetched."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from hushcall.errors import InvalidData
from hushcall.formats.calls.texts import decode, is_utf_16

DEEPEST = 16
_REFERENCE = re.compile(
    rb"&#(?:x([0-9a-fA-F]{1,8})|([0-9]{1,8}));(?:&#(?:x([dD][c-fC-F][0-9a-fA-F]{2})|(5[67][0-9]{3}));)?"
)


def records(title: str, data: bytes, root: str, record: str) -> Iterator[dict[str, str]]:
    """Attributes and children's texts of each ``record`` right under ``root``, one at a time, whatever the size."""
    from defusedxml import DefusedXmlException  # only those who read XML pay for it
    from defusedxml.ElementTree import ParseError, iterparse

    depth = 0
    top: Any = None
    try:
        for event, element in iterparse(io.BytesIO(_mended(data)), events=("start", "end"), forbid_dtd=True):
            if event == "start":
                depth += 1
                top = element if top is None else top
                _check(title, root, top.tag, depth)
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


def _mended(data: bytes) -> bytes:
    """``data`` with character references as XML allows them.

    Android's own writers put an emoji as the two halves that Java keeps of it (``&#55357;&#56836;``), which no parser
    takes. What stands for no character at all becomes the replacement character: a name is not worth the file.
    """
    if is_utf_16(data):
        text = decode(data)
        return data if "&#" not in text else _REFERENCE.sub(_whole, text.encode()).decode().encode("utf-16")
    return _REFERENCE.sub(_whole, data) if b"&#" in data else data


def _whole(found: re.Match[bytes]) -> bytes:
    first = _code(found[1], found[2])
    second = _code(found[3], found[4])
    if 0xD800 <= first < 0xDC00 <= second < 0xE000:
        return b"&#%d;" % (0x10000 + (first - 0xD800 << 10) + (second - 0xDC00))
    allowed = first in (9, 10, 13) or 0x20 <= first < 0xD800 or 0xE000 <= first < 0xFFFE or 0x10000 <= first < 0x110000
    rest = b"" if second < 0 else b"&#65533;"  # half of one, without the other
    return (b"&#%d;" % first if allowed else b"&#65533;") + rest


def _code(hexadecimal: bytes | None, decimal: bytes | None) -> int:
    return int(hexadecimal, 16) if hexadecimal else int(decimal) if decimal else -1


def _check(title: str, root: str, tag: str, depth: int) -> None:
    if tag != root:
        raise InvalidData(f"{title} file", f"have <{root}> as its outermost element", f"<{tag}>")
    if depth > DEEPEST:
        raise InvalidData(f"{title} file", f"nest at most {DEEPEST} elements", depth)
