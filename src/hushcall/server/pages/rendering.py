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


@dataclass(frozen=True)
class StaticFile:
    """A file as it is served."""

    data: bytes
    media: str
    etag: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Every file of the folder, by name: what is not in here is not served, whatever the address looks like."""
    found = {}
    for path in sorted((_FOLDER / "static").iterdir()):
        if path.suffix in TYPES and path.is_file():
            data = path.read_bytes()
            found[path.name] = StaticFile(data, TYPES[path.suffix], etag_of(data))
    return found


def etag_of(data: bytes) -> str:
    """The tag of some content."""
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


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
