"""How long after its hundredth call a campaign is listed, by the length of rounds and by what a complaint stands for.

Each complaint is ``scale`` calls to as many phones. Every phone takes part once a day, and reports the number in the
next round that it draws. Reports are as many as can be expected, and a number is listed with the first round whose
threshold they reach. A phone with other callers would report a part of them.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hushcall.decoding.planning import ROUND_HOURS, listed_at
from hushcall.errors import InvalidNumber
from hushcall.mechanisms.profiles import DEFAULT, Profile
from hushcall.protocol.numbers import NANP
from hushcall_lab.data import tables
from hushcall_lab.figures import PALETTE, name_axes, save, tidy

SCALES = (1, 10, 100, 1000)
QUICK_SCALES = (10, 100)
NTH_CALL = 100
AREAS = 400
CAMPAIGNS, QUICK_CAMPAIGNS = 200, 20
COMPLAINTS_A_DAY = 40
"""Of one area code, in the invented campaigns."""
Campaign = tuple[float, list[float]]
"""(complaints a day in its area code, hours of the complaints about it since the first midnight)"""


def invented(count: int, seed: int) -> list[Campaign]:
    """Of 1 to 300 complaints, half of them a few, on one to three days from nine to eight."""
    rng = np.random.default_rng([seed, 32])
    campaigns = []
    for _ in range(count):
        complaints = min(int(rng.pareto(0.9)) + 1, 300)
        days = 24 * rng.integers(0, rng.integers(1, 4), complaints) + 24 * rng.integers(0, 2)
        hours = sorted((days + rng.uniform(9, 20, complaints)).tolist())
        campaigns.append((COMPLAINTS_A_DAY + complaints / 2, hours))
    return campaigns


def complaints(path: Path) -> list[Campaign]:
    """The numbers of published complaints, by the moments at which these were filed."""
    by_number: dict[str, list[float]] = defaultdict(list)
    areas = Counter[int]()
    for number, moment in _moments(path):
        by_number[number].append(moment)
        areas[NANP.parse(number).area] += 1
    first = 24 * math.floor(min(map(min, by_number.values())) / 24)
    days = math.ceil((max(map(max, by_number.values())) - first) / 24)
    return [
        (areas[NANP.parse(number).area] / days, sorted(moment - first for moment in moments))
        for number, moments in sorted(by_number.items())
    ]


def _moments(path: Path) -> Iterator[tuple[str, float]]:
    files, _ = tables.find([path])
    for file in files:
        with tables.opened(file) as rows:
            for row in rows:
                try:
                    filed = datetime.fromisoformat(row[0] if row else "")
                    yield str(NANP.parse(row[1] if row else "")), filed.timestamp() / 3600
                except (ValueError, InvalidNumber):
                    continue


def listings(
    campaigns: Sequence[Campaign], scale: int, round_hours: int, profile: Profile = DEFAULT
) -> list[tuple[float, float]]:
    """(hours from the hundredth call to the list, share of calls after it) of every campaign that has so many.

    Infinite: never.
    """
    found = []
    for daily, moments in campaigns:
        if len(moments) * scale < NTH_CALL:
            continue
        calls = [(moment, float(scale)) for moment in moments]
        listed = listed_at(profile, round(daily * scale), calls, round_hours, AREAS)
        listed = math.inf if listed is None else listed
        nth = moments[(NTH_CALL - 1) // scale]
        found.append((max(listed - nth, 0.0), float(sum(moment > listed for moment in moments))))
    return found


def document(
    data: Path | None, quick: bool, seed: int = 1, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> dict[str, Any]:
    campaigns = invented(QUICK_CAMPAIGNS if quick else CAMPAIGNS, seed) if data is None else complaints(data)
    scales = QUICK_SCALES if quick else SCALES
    rows: list[dict[str, Any]] = []
    for scale in scales:
        large = [campaign for campaign in campaigns if len(campaign[1]) * scale >= NTH_CALL]
        calls = sum(len(moments) for _, moments in large)
        of_scale: list[dict[str, Any]] = []
        for hours in ROUND_HOURS if large else ():
            progress(len(rows) + len(of_scale), len(scales) * len(ROUND_HOURS))
            found = listings(large, scale, hours)
            listed = [time for time, _ in found if math.isfinite(time)]
            of_scale.append(
                {
                    "scale": scale,
                    "round_hours": hours,
                    "campaigns": len(found),
                    "listed": len(listed) / len(found),
                    "median_hours": round(statistics.median(listed), 1) if listed else None,
                    "warned_calls": sum(after for _, after in found) / calls,
                }
            )
        most = max((row["warned_calls"] for row in of_scale), default=0.0)
        pays = max((row["round_hours"] for row in of_scale if row["warned_calls"] >= most / 1.1), default=24)
        rows += [row | {"pays": row["round_hours"] == pays} for row in of_scale]
    title = "From a campaign's hundredth call to its listing"
    return {"title": title, "about": "latency: hours, by the length of rounds", "rows": rows, "statements": []}


def draw(rows: Sequence[dict[str, Any]], title: str, path: Path) -> None:
    """Bars of (median hours of the campaigns that are listed, share of the calls that come after)."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    scales = list(dict.fromkeys(row["scale"] for row in rows))
    width = 0.8 / len(ROUND_HOURS)
    values = {"median_hours": "median hours, of those listed", "warned_calls": "share of calls after the listing"}
    for axes, (value, words) in zip(figure.subplots(1, 2), values.items(), strict=True):
        for place, hours in enumerate(ROUND_HOURS):
            known = {row["scale"]: row[value] or 0.0 for row in rows if row["round_hours"] == hours}
            left = [position + (place - 1.5) * width for position in range(len(scales))]
            label = "a day" if hours == 24 else f"{hours} h"
            axes.bar(left, [known[scale] for scale in scales], width, color=PALETTE[place], label=label)
        axes.set_xticks(range(len(scales)), [f"S = {scale:,}" for scale in scales])
        name_axes(axes, "", "calls that a complaint stands for", words)
        tidy(axes)
    axes.legend(title="rounds of", frameon=False)
    figure.suptitle(title)
    save(figure, path)
