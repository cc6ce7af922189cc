"""The XML readers' first step: a document comes in, flat records leave. No DTD, no entities, nothing fetched."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from hushcall.errors import InvalidData

DEEPEST = 16


def records(title: str, data: bytes, root: str, record: str) -> Iterator[dict[str, str]]:
    """Attributes and children's texts of each ``record`` right under ``root``, one at a time, whatever the size."""
    from defusedxml import DefusedXmlException  # only those who read XML pay for it
    from defusedxml.ElementTree import ParseError, iterparse

    depth = 0
    top: Any = None
    try:
        for event, element in iterparse(io.BytesIO(data), events=("start", "end"), forbid_dtd=True):
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


def _check(title: str, root: str, tag: str, depth: int) -> None:
    if tag != root:
        raise InvalidData(f"{title} file", f"have <{root}> as its outermost element", f"<{tag}>")
    if depth > DEEPEST:
        raise InvalidData(f"{title} file", f"nest at most {DEEPEST} elements", depth)
