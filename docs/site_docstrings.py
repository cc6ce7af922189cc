"""Docstrings as the site shows them: roles become code, examples become blocks."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

ROLE = re.compile(r":(?:class|func|meth|data|attr|mod):`~?([^`]+)`")
EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.M | re.S)


def as_markdown(text: str) -> str:
    """Sphinx's roles and doctest's prompts, as Markdown has them."""
    plain = ROLE.sub(r"`\1`", text).replace("``", "`")
    return EXAMPLE.sub(lambda example: f"```python\n{example.group()}\n```", plain)


class Docstrings(Extension):
    """Griffe calls this for everything that it reads."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring, where there is one."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
