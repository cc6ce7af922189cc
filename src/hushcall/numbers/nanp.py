"""North America's plan: the area codes of country code 1.

>>> len(NANP.area_codes), NANP.suffixes, NANP.valid_suffixes
(469, 10000000, 8000000)
"""

from __future__ import annotations

from hushcall.numbers.nanp_callers import COMPLAINTS
from hushcall.numbers.plan import NumberingPlan

# The area codes of country code 1 that phonenumberslite 9.0 takes for valid, by first digit: geographic,
# toll-free, personal and premium. A test compares the list with the installed library.
_NANP_AREAS = {
    2: (
        "01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 23 24 25 26 27 28 29 31 34 35 36 39 40 42 "
        "46 48 49 50 51 52 53 54 56 57 60 62 63 64 67 68 69 70 72 73 74 76 79 81 83 84 89"
    ),
    3: (
        "01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 21 23 24 25 26 27 29 30 31 32 34 36 37 39 "
        "40 41 43 45 46 47 50 51 52 53 54 60 61 63 64 65 67 68 69 80 82 85 86"
    ),
    4: (
        "01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 23 24 25 28 30 31 32 34 35 37 38 40 41 42 43 "
        "45 47 48 50 58 63 64 68 69 70 72 73 74 75 78 79 80 84"
    ),
    5: (
        "00 01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 "
        "34 39 40 41 44 48 51 57 59 61 62 63 64 66 67 70 71 72 73 74 75 77 79 80 81 82 84 85 86 87 88"
    ),
    6: (
        "00 01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 22 23 26 28 29 30 31 33 36 39 40 41 45 "
        "46 47 49 50 51 56 57 58 59 60 61 62 64 67 69 70 71 72 78 80 81 82 83 84 86 89"
    ),
    7: (
        "01 02 03 04 05 06 07 08 09 12 13 14 15 16 17 18 19 20 21 24 25 26 27 28 30 31 32 34 37 38 40 42 43 "
        "47 48 53 54 57 58 60 62 63 65 67 69 70 71 72 73 74 75 78 79 80 81 82 84 85 86 87"
    ),
    8: (
        "00 01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 21 25 26 28 29 30 31 32 33 35 38 39 40 "
        "43 44 45 47 48 49 50 54 55 56 57 58 59 60 62 63 64 65 66 67 68 69 70 72 73 76 77 78 79 88"
    ),
    9: (
        "00 01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 25 28 29 30 31 34 36 37 38 39 40 41 42 "
        "43 45 47 48 49 51 52 54 56 59 70 71 72 73 75 78 79 80 83 84 85 86 89"
    ),
}

NANP = NumberingPlan(
    name="nanp-2026",
    country_code=1,
    region="US",
    area_codes=tuple(100 * first + int(rest) for first, row in _NANP_AREAS.items() for rest in row.split()),
    suffix_digits=7,
    first_suffix=2_000_000,
    complaints=COMPLAINTS,
)
"""North America: 469 area codes; exchanges start with 2 to 9, so suffixes run from 2 000 000 to 9 999 999."""
