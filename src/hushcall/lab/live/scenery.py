"""Where the demo plays: a region comes in, its area codes and the numbers of its cast leave.

Numbers are such as regulators keep for films and books (555-01xx, Germany's drama numbers, France's 01 99 00 …), or
made up where none are kept: nobody is called a spammer who is somebody.
"""

from __future__ import annotations

from dataclasses import dataclass

from hushcall.errors import InvalidParameter
from hushcall.numbers import NANP, Number, NumberingPlan, plan_named

ROLES = (
    *("car warranty", "tax office", "holiday prize", "bank alert", "bank alert (moved)", "debt relief", "parcel fee"),
    *("crypto tip", "power company", "survey", "one ring", "the school", "the pharmacy"),
)


@dataclass(frozen=True)
class Scenery:
    """A plan, the area codes where the phones are, those that anybody may call from, and each role's number."""

    plan: NumberingPlan
    region: tuple[int, ...]
    toll_free: tuple[int, ...]
    numbers: tuple[str, ...]

    def number(self, role: str) -> Number:
        """The phone number of a caller of the play, by its part's name."""
        return self.plan.parse(self.numbers[ROLES.index(role)])


def _american() -> Scenery:
    region, toll_free = (202, 301, 410, 443, 540, 571, 703, 804), (800, 888, 877, 866)
    areas = (
        *(toll_free[0], region[0], toll_free[1], region[6], region[6], region[2], region[3]),
        *(toll_free[2], region[5], region[1], region[4], region[7], region[0]),
    )
    lines = (*range(11, 22), 31, 32)
    return Scenery(NANP, region, toll_free, tuple(f"+1{a}55501{b}" for a, b in zip(areas, lines, strict=True)))


def _of(region: str, numbers: str, toll_free: str) -> Scenery:
    plan = plan_named(region)
    cast = tuple(numbers.split(","))
    areas = sorted({plan.parse(number).area for number in cast})
    return Scenery(plan, tuple(areas), tuple(int(code) for code in toll_free.split()), cast)


def scenery(region: str) -> Scenery:
    """The scenery of a region that has one."""
    if region == "NANP":
        return _american()
    if region == "DE":  # drama numbers, and villages' short ones: six to eleven digits
        numbers = (
            "0800 1234561,030 23125012,069 90009013,040 66969014,040 66969015,0221 4710016,089 99998017,"
            "0152 28817386,0172 9925904,0171 3920020,0176 04069021,03303 22,04664 331"
        )
        return _of(region, numbers, "800 900 180")
    if region == "FR":
        numbers = (
            "08 00 19 90 11,01 99 00 12 12,02 61 91 13 13,03 53 01 14 14,03 53 01 15 15,04 65 71 16 16,"
            "05 36 49 17 17,06 39 98 18 18,06 39 98 19 19,01 99 00 20 20,02 61 91 21 21,04 65 71 31 31,05 36 49 32 32"
        )
        return _of(region, numbers, "80 89")
    raise InvalidParameter("--plan", "be one of NANP, DE, FR: for others there is no scenery", region)
