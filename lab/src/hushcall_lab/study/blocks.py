"""What it buys to ask some phones about hundreds of numbers: on rented hundreds, and on complaints.

The first part decodes simulated reports of one bucket with the server's own code. The second draws the counts of a
month from their laws, as :mod:`bucket_model` does, with each complaint standing for so many phones.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure

from hushcall.decoding.hints import Hints
from hushcall.decoding.pooled import PooledSupport
from hushcall.decoding.task import BucketSpec, DecodeTask
from hushcall.decoding.window import Passed, decode, exceeds
from hushcall.mechanisms.bucket_setup import aggregator_of, open_bucket
from hushcall.mechanisms.kernels.shake256 import report_rows
from hushcall.mechanisms.mechanism import OneResponse
from hushcall.mechanisms.parameters import about_hundreds, to_plain
from hushcall.mechanisms.profiles import PROFILES, Profile
from hushcall.mechanisms.tallies import SparseTally, fingerprint
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import ONE
from hushcall.protocol.seeds import SEED_BYTES
from hushcall_lab.data.datasets import Calls
from hushcall_lab.figures import PALETTE, name_axes, save, tidy
from hushcall_lab.proofs.statistics import one_thread
from hushcall_lab.study.bucket_model import Bucket, Ints, _BucketMonth, _by_part, _draw, _Drawn, buckets_of
from hushcall_lab.study.experiments import Statement
from hushcall_lab.study.metrics import blocking_rates

SHIPPED = PROFILES["nation"]
PROFILE = replace(SHIPPED, hundreds=50)
"""Of the rented hundreds."""
AREA, START, PHONES = 202, 5_550_100, 1000
CASES: dict[str, tuple[int, ...]] = {
    "100 numbers, 3 reports each": (3,) * 100,
    "10 numbers, 30 each": (30,) * 10,
    "2 numbers, 150 each": (150,) * 2,
    "1 number, 300 reports": (300,),
    "nobody": (),
}
"""The reports about each number of one hundred. All other phones report dummies."""
RENTED, ONE_NUMBER, NOBODY = (list(CASES)[place] for place in (0, 3, 4))
DAYS, NUMBERS_DAYS, QUICK_DAYS = 1000, 50, 20
"""Numbers are decoded on the first so many days only: they take thirty times as long."""
SCALES, PERCENTS = (1, 10, 100), (0, 25, 50)
SCALE = 100
"""Of the statement: each complaint stands for so many phones."""


@dataclass(frozen=True)
class Day:
    """What one day lists: the range, others, and how many numbers. None: those were not decoded."""

    found: bool
    other_ranges: int
    numbers: int | None


def play(case: Sequence[int], seed: int, *, numbers_too: bool = True) -> Day:
    """One bucket, by the decoder of a server. A public coin says what each phone is asked about."""
    profile, phones = PROFILE, PHONES
    generator = np.random.default_rng([seed, len(case), sum(case)])
    suffixes = generator.integers(NANP.first_suffix, NANP.suffixes, phones)
    suffixes[: sum(case)] = np.repeat(np.arange(START, START + len(case)), case)
    coins = generator.random(phones) < profile.hundreds / 100
    numbers = _spec(profile, phones)
    task = DecodeTask.of_sealed(numbers, [_sealed(numbers, suffixes[~coins], generator)])
    hundreds = numbers.hundreds
    asked = DecodeTask.of_sealed(hundreds, [_sealed(hundreds, suffixes[coins] // 100, generator)])
    with one_thread():
        listed = len(decode(task).hitters) if numbers_too else None
        ranges = {number.suffix for number, _ in decode(replace(asked, numbers=task)).figures(hundreds)}
    return Day(START in ranges, len(ranges - {START}), listed)


@lru_cache
def _spec(profile: Profile, phones: int) -> BucketSpec:
    aggregator = open_bucket(profile, NANP, phones, bytes(SEED_BYTES))
    assert aggregator is not None
    return BucketSpec(1, AREA, phones, 1, profile, NANP, to_plain(aggregator.mechanism))


def _sealed(bucket: BucketSpec, items: Ints, generator: np.random.Generator) -> tuple[int, Any, bytes]:
    """A tally of honest reports, all at once."""
    aggregator = bucket.aggregator
    mechanism, count = cast(OneResponse, aggregator.mechanism), len(items)
    rows = report_rows(generator.integers(0, 256, (count, SEED_BYTES), np.uint8), mechanism.bits, mechanism.item_bits)
    parities = np.bitwise_count(rows & items.astype(np.uint64)[:, None]).astype(np.uint32) & np.uint32(1)
    values = (parities << np.arange(mechanism.bits, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
    lies = generator.random(count) >= mechanism.response.keep / ONE
    others = (values + generator.integers(1, mechanism.size, count, np.uint32)) % np.uint32(mechanism.size)
    tally = SparseTally(fingerprint(mechanism), rows, np.where(lies, others, values).astype(np.uint32))
    return 1, bucket.parameters, tally.to_bytes()


def rented(days: int, seed: int, progress: Callable[[int, int], None]) -> Iterator[dict[str, Any]]:
    for place, (name, case) in enumerate(CASES.items()):
        played = []
        for day in range(days):
            played.append(play(case, seed * DAYS + day, numbers_too=day < NUMBERS_DAYS))
            progress(place * days + day + 1, len(CASES) * days)
        yield {
            "part": "rented",
            "case": name,
            "days": days,
            "range_found": sum(day.found for day in played) / days,
            "number_found": statistics.fmean(day.numbers > 0 for day in played if day.numbers is not None),
            "other_ranges": sum(day.other_ranges for day in played) / days,
        }


def covered(calls: Calls, profile: Profile, scale: int, seed: int, hints: float = 1.0) -> dict[str, float]:
    """The share of calls from numbers that the service lists, and of these or from ranges."""
    generator, users, days = (
        np.random.default_rng([seed, scale, profile.hundreds]),
        int(calls.per_day.max()),
        calls.days,
    )
    month = [
        {area: Bucket(each.items, each.counts * scale, each.dummies * scale) for area, each in buckets.items()}
        for buckets in (buckets_of(calls, day, users, generator, SUFFIX) for day in range(days))
    ]
    truth = [calls.counts_by_number(day) for day in range(days)]
    in_hundred: dict[int, set[int]] = {}
    for number in set().union(*truth):
        in_hundred.setdefault(number // 100, set()).add(number)
    listed: list[set[int]] = [set() for _ in range(days)]
    ranges: list[set[int]] = [set() for _ in range(days)]
    wrong = 0
    for area in sorted(set().union(*month)):
        bucket = _Area(profile, area, month, generator)
        for day in range(days):
            before = month[day - 1].get(area) if day else None
            hinted = before.items[generator.binomial(before.counts, hints) > 0].tolist() if before and hints else []
            listed[day] |= {area * 10**7 + item for item in bucket.numbers.decide(day, Hints(frozenset(hinted)))}
            for item in bucket.ranges(day):
                inside = in_hundred.get(area * 10**5 + item, set())
                ranges[day] |= inside
                wrong += not inside
    both = [numbers | more for numbers, more in zip(listed, ranges, strict=True)]
    shares = [statistics.fmean(blocking_rates(lists, truth) or [0.0]) for lists in (listed, both)]
    return {"numbers": shares[0], "covered": shares[1], "wrong_ranges_a_day": wrong / days}


class _Area:
    """A month of one area code: the counts of numbers and of hundreds, each from its own reports."""

    def __init__(
        self, profile: Profile, area: int, month: list[dict[int, Bucket]], generator: np.random.Generator
    ) -> None:
        items = np.unique(np.concatenate([buckets[area].items for buckets in month if area in buckets]))
        blocks = np.unique(items // 100)
        drawn: tuple[list[_Drawn], list[_Drawn]] = ([], [])
        for day, buckets in enumerate(month):
            if area not in buckets or (opened := _opened(profile, buckets[area].users, len(buckets))) is None:
                continue
            bucket, share = buckets[area], profile.hundreds / 100
            asked, dummies = generator.binomial(bucket.counts, share), int(generator.binomial(bucket.dummies, share))
            halves = (
                (bucket.counts - asked, bucket.dummies - dummies, items, bucket.items),
                (asked, dummies, blocks, bucket.items // 100),
            )
            for half, aggregator, (counts, others, domain, places) in zip(drawn, opened, halves, strict=False):
                holders = np.bincount(np.searchsorted(domain, places), counts, len(domain)).astype(np.int64)
                law = aggregator.law(int(counts.sum()) + others)
                half.append(_Drawn(day, aggregator, law, _draw(law, holders, generator)))
        self.generator = generator
        self.numbers, self.hundreds = (
            _BucketMonth(profile, half, known, generator) for half, known in zip(drawn, (items, blocks), strict=True)
        )

    def ranges(self, day: int) -> list[int]:
        found = self.hundreds.decide(day, Hints()) if self.hundreds.drawn else {}
        return [item for item, passed in found.items() if self._many_numbers(day, item, passed)]

    def _many_numbers(self, today: int, item: int, passed: Passed) -> bool:
        """As ``find_hundreds`` has it. Numbers that nobody reported have the noise of a count."""
        inside = [past for past in self.numbers.drawn if 0 <= today - past.day < passed.length]
        law, inside_hundred = PooledSupport.of([past.law for past in inside]), self.numbers.items // 100 == item
        known = _by_part(inside, law)[:, inside_hundred]
        absent = [self.generator.binomial(part.reports, part.q, 100 - known.shape[1]) for part in law.parts]
        columns = np.concatenate([known, np.array(absent)], axis=1).T.tolist()
        return exceeds(passed.span.law, passed.counts, law, max(columns, key=law.estimate))


@lru_cache(maxsize=1 << 16)
def _opened(profile: Profile, users: int, buckets: int) -> tuple[Any, ...] | None:
    numbers = open_bucket(profile, NANP, users, bytes(SEED_BYTES), buckets)
    if numbers is None or not profile.hundreds:
        return None if numbers is None else (numbers,)
    return numbers, aggregator_of(profile, NANP, about_hundreds(numbers.mechanism, NANP), buckets)


def document(
    calls: Calls | None, quick: bool, seed: int = 1, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> dict[str, Any]:
    """Without ``calls``, only the rented hundreds."""
    rows = list(rented(QUICK_DAYS if quick else DAYS, seed, progress))
    settings = [(scale, percent) for scale in ((SCALE,) if quick else SCALES) for percent in PERCENTS]
    for done, (scale, percent) in enumerate(settings if calls else (), 1):
        assert calls is not None
        figures = covered(calls, replace(PROFILE, hundreds=percent), scale, seed)
        rows.append({"part": "month", "scale": scale, "hundreds": percent, **figures})
        progress(done, len(settings))
    return {
        "title": "Asking about hundreds of numbers",
        "about": "blocks: rented hundreds, and the calls of a month",
        "rows": rows,
        "statements": [asdict(statement) for statement in statements(rows)],
    }


def statements(rows: Sequence[dict[str, Any]]) -> list[Statement]:
    cases = {row["case"]: row for row in rows if row["part"] == "rented"}
    month = {(row["scale"], row["hundreds"]): row for row in rows if row["part"] == "month"}
    rented_out, single, null = (cases[name] for name in (RENTED, ONE_NUMBER, NOBODY))
    level = max(PROFILE.warn_level, PROFILE.level) / 2
    found, alone = rented_out["range_found"], rented_out["number_found"]
    made = [
        Statement("a rented hundred is found on 90 % of days", f"{found:.1%}", found >= 0.9),
        Statement("and none of its numbers is listed", f"{alone:.1%}", alone == 0),
        Statement("one number instead is found", f"{single['number_found']:.1%}", single["number_found"] >= 0.9),
        Statement("and never makes its hundred a range", f"{single['range_found']:.1%}", single["range_found"] == 0),
        Statement(
            f"ranges that nobody reported: at most {level:g} a day", f"{null['other_ranges']:.4f}",
            null["other_ranges"] <= level,
        ),
    ]  # fmt: skip
    if month:
        numbers, asked = month[SCALE, 0]["covered"], month[SCALE, SHIPPED.hundreds]["covered"]
        says = f"with {SCALE} phones for each complaint, 1.2 times the calls of numbers alone"
        made.append(
            Statement(says, f"{asked:.1%} to {numbers:.1%}, {asked / numbers:.2f} times", asked >= 1.2 * numbers)
        )
    return made


def draw(rows: Sequence[dict[str, Any]], title: str, path: Path) -> None:
    month = [row for row in rows if row["part"] == "month"]
    cases = [row for row in rows if row["part"] == "rented"][::-1]
    figure = Figure(figsize=(10, 4), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2) if month else (figure.subplots(), None)
    for offset, (name, label) in enumerate((("range_found", "the range"), ("number_found", "a number"))):
        places = [place + 0.4 * offset for place in range(len(cases))]
        left.barh(places, [row[name] for row in cases], 0.4, color=PALETTE[offset], label=f"{label} is found")
    left.set_yticks([place + 0.2 for place in range(len(cases))], [row["case"] for row in cases])
    name_axes(left, "one hundred, 1,000 phones, a day", "share of days", "")
    left.legend(frameon=False)
    tidy(left)
    if right is not None:
        for place, scale in enumerate(dict.fromkeys(row["scale"] for row in month)):
            points = [row for row in month if row["scale"] == scale]
            shares = [100 * row["covered"] for row in points]
            right.plot([row["hundreds"] for row in points], shares, "o-", color=PALETTE[place], label=f"{scale}")
        name_axes(
            right, "calls covered, by phones for each complaint", "per cent of reports about hundreds", "% of calls"
        )
        right.legend(frameon=False)
        tidy(right)
    save(figure, path)
