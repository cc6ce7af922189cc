"""Counts in words.

>>> counted(1, "number"), counted(1200, "number"), counted(2, "entry")
('1 number', '1,200 numbers', '2 entries')
"""


def counted(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
