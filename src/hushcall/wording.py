"""Counts in words: a number and a noun come in, and they agree.

>>> counted(1, "number"), counted(1200, "number"), counted(2, "entry")
('1 number', '1,200 numbers', '2 entries')
"""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A count with its noun, one or many."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Many of it."""
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
