"""Days of many phones: who calls whom from when to when, and what has to come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hushcall.protocol.numbers import NANP
from hushcall_lab.simulation.stream import Campaign


def _campaign(name: str, area: int, line: int, reach: float, first: int = 1, last: int = 1 << 30) -> Campaign:
    return Campaign(name, NANP.number(area, 5_550_100 + line), reach, first, last)


@dataclass(frozen=True)
class Season:
    """So many phones for so many days: spammers, and three with every right to call, who never get onto the list."""

    phones: int
    days: int
    window: int
    spammers: tuple[Campaign, ...]
    pharmacy: Campaign
    clinic: Campaign
    school: Campaign

    @property
    def campaigns(self) -> tuple[Campaign, ...]:
        return (*self.spammers, self.pharmacy, self.clinic, self.school)

    def spammers_come_and_go(self, lists: list[dict[str, Any]]) -> None:
        """Listed within two days of their first, never before, and gone a window after anybody last reported them."""
        for one in self.spammers:
            days = [day for day, made in enumerate(lists, 1) if str(one.number) in made]
            assert days, one.name
            assert one.first <= days[0] <= one.first + 1, one.name
            if one.last < self.days:
                last = lists[days[-1] - 1][str(one.number)].last  # phones had some more to tell for a while
                assert days[-1] < self.days or last > lists[one.last - 1][str(one.number)].last, one.name


WHOLE = Season(
    phones=2000,
    days=9,
    window=3,
    spammers=(
        _campaign("steady", 202, 1, 0.06),
        _campaign("toll-free", 800, 2, 0.05),
        _campaign("late", 703, 3, 0.06, first=5),
        _campaign("early", 410, 4, 0.07, last=2),
        _campaign("moves", 571, 5, 0.06, last=4),
        _campaign("moved", 571, 6, 0.06, first=5),
    ),
    pharmacy=_campaign("on the allowlist", 301, 7, 0.06),
    clinic=_campaign("in the allowlist's file", 443, 8, 0.06),
    school=_campaign("appealed on its first day", 804, 9, 0.06),
)
SHORT = Season(
    phones=300,
    days=4,
    window=2,
    spammers=(
        _campaign("steady", 202, 1, 0.5),
        _campaign("late", 703, 3, 0.5, first=3),
        _campaign("early", 410, 4, 0.5, last=1),
    ),
    pharmacy=_campaign("on the allowlist", 301, 7, 0.3),
    clinic=_campaign("in the allowlist's file", 443, 8, 0.3),
    school=_campaign("appealed on its first day", 804, 9, 0.4),
)
