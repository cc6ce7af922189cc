"""What an owner dialled comes in, a bare number leaves: nobody whom the owner called may pass for a stranger.

People put codes before a number that are no part of it: ``*67`` and ``#31#`` hide their own number, ``*82`` and
``*31#`` show it, ``1167`` is ``*67`` on a rotary telephone, ``10-10-220`` or ``01033`` chooses a carrier. They also
dial without the area code. A log keeps all that, and shows the same person under another number when they call back.

>>> without_codes("*67 202 555 0143"), without_codes("*31#+12025550143"), without_codes("*31*2025550143#")
('202 555 0143', '+12025550143', '2025550143')
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SHORTEST_TAIL = 4
"""Digits that stand for a number without its area code. Fewer are service numbers, and would hide too much."""

# Codes that end in a star or hash have two or three digits; a star alone is followed by two.
_CODE = re.compile(r"^\s*(?:[*#]{1,2}[0-9]{2,3}[*#]+|\*[0-9]{2}(?![*#0-9]*[*#]))[\s.-]*(?=.*[0-9])")
_KEYS_AFTER = re.compile(r"(?<=[0-9])\s*(?:[pPwWtT,;].*|#)\s*$", re.DOTALL)


def without_codes(text: str) -> str:
    """The number behind service codes, and before what was typed after a pause."""
    if not isinstance(text, str) or not re.search(r"[*#pwtPWT]", text):
        return text
    return _KEYS_AFTER.sub("", _CODE.sub("", text))


def endings(text: str) -> Iterator[str]:
    """What may be the number at the end of what was dialled: its digits without the first, and so on.

    >>> list(endings("10-10-220 5550"))[:3]
    ['0102205550', '102205550', '02205550']
    """
    digits = "".join(char for char in without_codes(text) if char.isdecimal())
    for start in range(1, len(digits) - SHORTEST_TAIL):
        yield digits[start:]


def tail(text: str) -> str:
    """The digits that a full number ends with if this was dialled without its area code, or nothing.

    >>> tail("555-0143"), tail("911"), tail("+44 20 7946 0958")
    ('5550143', '', '')
    """
    bare = without_codes(text).strip()
    digits = "".join(char for char in bare if char.isdecimal())
    whole = bare.startswith(("+", "0")) or not SHORTEST_TAIL <= len(digits) <= 9
    return "" if whole else digits
