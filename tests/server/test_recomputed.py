"""A published list follows from the stored reports by the formulas of ``docs/mechanism.md``, written down once more."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from scipy import stats
from tests.server.conftest import MakeService
from tests.server.serving import Clock, Village

from hushcall.server.db import schema
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.service import Service

LEVEL, WARN_LEVEL, TOLERANCE, TAU, WINDOWS = 0.001, 0.05, 2, 10, (1, 2, 4)
NUMBERS, LOUD, QUIET, HINTED = 8_000_000, "+12025550143", "+12025550144", "+12025550145"
ROUNDS, PHONES = 3, 260


@dataclass(frozen=True)
class Round:
    """What a decision may know of a round: its odds, and its reports as matrices and values."""

    number: int
    p: float
    q: float
    reports: list[tuple[list[int], int]]

    def count(self, suffix: int) -> int:
        return sum(product(rows, suffix) == value for rows, value in self.reports)


def product(rows: list[int], item: int) -> int:
    return sum((bin(row & item).count("1") % 2) << place for place, row in enumerate(rows))


def odds(epsilon: float, bits: int) -> tuple[float, float]:
    """Section 2."""
    below = Fraction(Context(prec=60).exp(Decimal(epsilon))) * (1 - Fraction(1, 10**50))
    weight = -(-(2**64) // (below + 2**bits - 1))
    return float(1 - (2**bits - 1) * Fraction(int(weight), 2**64)), 2.0**-bits


def rounds_of(service: Service) -> list[Round]:
    past = []
    for row in service.store.rows(sa.select(schema.rounds).order_by(schema.rounds.c.id)):
        buckets = schema.buckets.c
        (bucket,) = service.store.rows(sa.select(schema.buckets).where(buckets.round == row.id, buckets.runs))
        about, reports = json.loads(bucket.parameters), []
        stored = sa.select(schema.reports).where(schema.reports.c.round == row.id)
        for report in service.store.rows(stored):
            parts = (b"hushcall/1/report", bytes(row.seed), bytes(report.ticket))
            public = hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()
            stream = hashlib.shake_256(b"hushcall/1/rows" + public).digest(5 * about["bits"])
            cut = [int.from_bytes(stream[at : at + 5], "big") % 2**24 for at in range(0, len(stream), 5)]
            reports.append((cut, int.from_bytes(bytes(report.body)[2:], "big")))
        past.append(Round(row.id, *odds(about["epsilon"], about["bits"]), reports))
    return past


def interval(reports: int, p: float, q: float, count: int) -> tuple[int, int]:
    """Section 4, by trying every number of holders."""
    accepted = []
    for holders in range(reports + 1):
        mass = np.convolve(
            stats.binom.pmf(np.arange(holders + 1), holders, p),
            stats.binom.pmf(np.arange(reports - holders + 1), reports - holders, q),
        )
        if mass[count:].sum() > 0.025 and mass[: count + 1].sum() > 0.025:
            accepted.append(holders)
    return accepted[0], accepted[-1]


def decided(past: list[Round], suffix: int, hints: set[int], listed: set[int]) -> dict[str, Any] | None:
    """Sections 5 to 9: what the rounds up to the last one say of a number, or None."""
    first: dict[str, Any] = {}
    lengths: dict[tuple[str, bool], int] = {}
    covered = 0
    for length in WINDOWS:
        inside = [each for each in past if past[-1].number - each.number < length]
        if len(inside) == covered:
            continue
        covered = len(inside)
        assert len({(each.p, each.q) for each in inside}) == 1, "one part: the counts are one binomial"
        p, q = inside[0].p, inside[0].q
        reports, count = sum(len(each.reports) for each in inside), sum(each.count(suffix) for each in inside)
        groups = [(hints, 0.5)] * bool(hints) + [(listed, 0.1)] * bool(listed and length == 1)
        shares = [((1 - sum(share for _, share in groups)) / NUMBERS, False)]
        shares += [(share / len(group), group is hints) for group, share in groups if suffix in group]
        for name, level, lies in (("warn", WARN_LEVEL, 0), ("strict", LEVEL, TOLERANCE * covered)):
            p_value = stats.binom.sf(count - lies - 1, reports - lies, q)
            enough = (count - lies - (reports - lies) * q) / (p - q) > TAU
            for share, hinted in shares:
                if enough and p_value <= level / len(WINDOWS) * share:
                    first.setdefault(name, (length, reports, p, q, count, p_value))
                    lengths.setdefault((name, hinted), length)
    if "warn" not in first:
        return None
    length, reports, p, q, count, p_value = first["warn"]
    low, high = interval(reports, p, q, count)
    estimate = min(max((count - reports * q) / (p - q), low), high)
    strict = first["strict"][0] if "strict" in first else 0
    alone = ("warn", False) in lengths
    unaided = lengths.get(("strict", False), 0)
    aid = 2 if not alone else int(strict != unaided)
    figures = {"estimate": round(estimate, 1), "low": float(low), "high": float(high), "window": length}
    return {**figures, "p_value": p_value, "strict": strict, "hinted": aid}


def test_a_published_list_follows_from_this_pages_formulas(
    make_service: MakeService, clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "hints").write_text(HINTED + "\n")
    settings = {"profile": "balanced", "windows": list(WINDOWS), "tolerance": TOLERANCE, "keep_reports": True}
    service = make_service(round=settings, hints={"sources": [str(tmp_path / "hints")], "max_age_days": 10_000})
    village = Village(service, clock)
    others = [f"+1202{2_000_000 + 7919 * place}" for place in range(PHONES - 130)]
    runs: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    listed, blocks = set[int](), set[str]()
    for number in range(1, ROUNDS + 1):
        village.to("published", [LOUD] * 70 + [QUIET] * 33 + [HINTED] * 27 + others)
        past = rounds_of(service)
        with service.store.read() as connection:
            blocklist = newest_list(connection)
        assert blocklist is not None
        for text in (LOUD, QUIET, HINTED, *others[:3]):
            if found := decided(past, int(text[5:]), {int(HINTED[5:])}, listed):
                runs.setdefault(text, []).append((number, found))
        assert {entry.number for entry in blocklist.entries} == set(runs)
        for entry in blocklist.entries:
            first, (_, newest) = runs[entry.number][0][0], runs[entry.number][-1]
            names = ("estimate", "low", "high", "window")
            assert {name: getattr(entry, name) for name in names} == {name: newest[name] for name in names}
            assert entry.p_value == float(f"{newest['p_value']:.2e}")
            strict = [
                each for each in runs[entry.number] if each[1]["strict"] and each[0] - each[1]["strict"] + 1 > first
            ]
            assert entry.block == bool(strict), entry
            hinted = [each["hinted"] for _, each in strict] if strict else []
            every = all(hinted) if strict else all(each["hinted"] == 2 for _, each in runs[entry.number])
            assert entry.hinted == every
            blocks |= {entry.number} if entry.block else set()
        listed = {int(entry.number[5:]) for entry in blocklist.entries if not entry.hinted}
    assert blocks >= {LOUD}
    assert set(runs) >= {LOUD, QUIET, HINTED}
