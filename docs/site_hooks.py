"""What the site does to a page before it is built: links out of docs/ become words, public names get a section each."""

from __future__ import annotations

import re
from typing import Any

import hushcall

OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((?:\.\./)+([^)#]+)(?:#[^)]*)?\)")
SURFACE = "<!-- the public surface -->"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page as the site has it. Code and tests are no pages of it: their path is told instead."""
    depth = page.file.src_uri.count("/")
    found = OUTSIDE.sub(lambda link: link.group() if _inside(link.group(), depth) else _named(*link.groups()), markdown)
    return found.replace(SURFACE, surface())


def _inside(link: str, depth: int) -> bool:
    return link.count("../") <= depth


def _named(words: str, path: str) -> str:
    return words if path.strip("/") in words else f"{words} (`{path}`)"


def surface() -> str:
    """A section for each public name, by the module that it lives in."""
    rooms: dict[str, str] = vars(hushcall)["_ROOM_OF"]
    return "\n\n".join(f"::: hushcall.{rooms[name]}.{name}" for name in sorted(rooms, key=str.lower))
