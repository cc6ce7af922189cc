"""Templates and static files: a name and values come in, bytes with their type leave. Nothing comes from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from hushcall.server.pages.words import FILTERS

_FOLDER = Path(__file__).parent
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Served:
    """Bytes as they are served: what they are, and the tag by which a caller knows that it has them."""

    data: bytes
    media: str
    etag: str

    @classmethod
    def of(cls, data: bytes, media: str = HTML) -> Served:
        """With the tag of the bytes themselves: the same bytes have the same one, in every worker."""
        return cls(data, media, f'"{hashlib.sha256(data).hexdigest()}"')


@cache
def static_files() -> Mapping[str, Served]:
    """Every file of the folder, by name: what is not in here is not served, whatever the address looks like."""
    found = {}
    for path in sorted((_FOLDER / "static").iterdir()):
        if path.suffix in TYPES and path.is_file():
            found[path.name] = Served.of(path.read_bytes(), TYPES[path.suffix])
    return found


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    return made


def render(template: str, **values: Any) -> bytes:
    """A page, or a part of one."""
    return _templates().get_template(template).render(**values).encode()
