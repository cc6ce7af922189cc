"""Digits without a plus mean two things: ten digits come in, whether they are also a number of another country leaves.

A line that presents +32 3 234 56 78 (Antwerp) without its plus shows 3232345678, which is how one in North America
shows a number of Los Angeles. Whoever blocks by such digits would block the wrong one.

>>> abroad_too("3232345678"), abroad_too("2025550143")
(True, False)
"""

from __future__ import annotations

import re
from functools import cache

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata

TYPES = ("fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost", "voip", "personal_number", "uan")


def abroad_too(digits: str) -> bool:
    """Whether a plus in front of these digits makes a valid number of some country."""
    return any(
        pattern.fullmatch(digits, length) is not None
        for length in (1, 2, 3)
        for pattern in _patterns(digits[:length], len(digits) - length)
    )


@cache
def _patterns(code: str, length: int) -> tuple[re.Pattern[str], ...]:
    """What numbers of a country look like after its code, if they have so many digits."""
    regions = () if code == "1" else COUNTRY_CODE_TO_REGION_CODE.get(int(code), ())
    found = []
    for region in regions:
        metadata = PhoneMetadata.metadata_for_region(region)
        for kind in TYPES if metadata else ():
            described = getattr(metadata, kind)
            if described and described.national_number_pattern and length in described.possible_length:
                found.append(re.compile(described.national_number_pattern))
    return tuple(found)
