"""Prepares pages for the site: links out of docs/ become text, and each public name gets a section."""

from __future__ import annotations

import re
from typing import Any

import hushcall

OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./([^)#]+)(?:#[^)]*)?\)")
SURFACE = "<!-- the public surface -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this for each page. Code and tests are not on the site, so links to them show their path."""
    return OUTSIDE.sub(lambda link: _named(*link.groups()), markdown).replace(SURFACE, surface())


def _named(words: str, path: str) -> str:
    return words if path.strip("/") in words else f"{words} (`{path}`)"


def surface() -> str:
    """A section for each public name, in the order of the alphabet."""
    modules: dict[str, str] = vars(hushcall)["_MODULE_OF"]
    return "\n\n".join(f"::: hushcall.{modules[name]}.{name}" for name in sorted(modules, key=str.lower))
