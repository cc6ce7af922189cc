"""What was sent and what was counted: reports and a database come in; which are lost, twice or nobody's leaves.

Each report of a sparse tally is its matrix rows and its value. Both follow from ticket and bytes, and two reports have
the same with a chance below 2⁻⁴⁰: every report has a cell of its own, and a tally is read as a multiset of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from hushcall.learn.feed.report_arrays import ReportArrays
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.rounds import decoding

Cell = tuple[bytes, int]


@dataclass
class Sent:
    """What phones sent in a round: ticket → bucket and bytes; and what they were told."""

    round: int
    seed: bytes
    bodies: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    acknowledged: set[bytes] = field(default_factory=set)
    forgotten: set[bytes] = field(default_factory=set)  # acknowledged, and new to the server when it came again
    refused: dict[bytes, str] = field(default_factory=dict)  # ticket → problem: none of these is expected


@dataclass(frozen=True)
class Tallied:
    """A round's reports beside its tallies."""

    round: int
    acknowledged: int
    lost: int
    twice: int
    foreign: int
    refused: tuple[str, ...] = ()
    sums_agree: bool = True

    @property
    def broken(self) -> str:
        """What is not as it should be; empty: nothing."""
        found = []
        if self.lost:
            found.append(f"{self.lost} of {self.acknowledged} acknowledged reports were lost")
        if self.twice:
            found.append(f"{self.twice} reports were counted more than once")
        if self.foreign:
            found.append(f"{self.foreign} reports were counted that nobody sent")
        if self.refused:
            found.append(f"{len(self.refused)} honest reports were refused ({', '.join(sorted(set(self.refused)))})")
        if not self.sums_agree:
            found.append("a tally's count or checksum is not that of its reports")
        return f"round {self.round}: " + "; ".join(found) if found else ""


def compared(store: Store, sent: Sent) -> Tallied:
    """Every sealed tally of a round, against what its phones sent."""
    table = schema.tallies.c
    rows = {row.bucket: row for row in store.rows(sa.select(schema.tallies).where(table.round == sent.round))}
    counted, whose, agree = Counter[Cell](), dict[Cell, bytes](), True
    for opened in decoding.opened_buckets(store, sent.round):
        learner: Any = opened.learner
        mine = [(ticket, body) for ticket, (bucket, body) in sent.bodies.items() if bucket == opened.bucket]
        for ticket, body in mine:
            (cell,) = _cells(learner.tally_arrays(sent.seed, ReportArrays.of([(ticket, body)])))
            whose[cell] = ticket
        if opened.bucket in rows:
            row = rows[opened.bucket]
            found = Counter(_cells(learner.from_bytes(bytes(row.data))))
            counted += found
            total = sum(number * _digest(sent, whose[cell]) for cell, number in found.items() if cell in whose)
            right = row.count == found.total() and bytes(row.checksum) == (total % (1 << 256)).to_bytes(32, "big")
            agree = agree and (right or any(cell not in whose for cell in found))
    there = {whose[cell] for cell in counted if cell in whose}
    return Tallied(
        sent.round,
        len(sent.acknowledged),
        lost=len((sent.acknowledged - there) | sent.forgotten),
        twice=sum(1 for number in counted.values() if number > 1),
        foreign=sum(number for cell, number in counted.items() if cell not in whose),
        refused=tuple(sent.refused.values()),
        sums_agree=agree,
    )


def _cells(tally: Any) -> list[Cell]:
    return [(rows.tobytes(), int(value)) for rows, value in zip(tally.rows, tally.values, strict=True)]


def _digest(sent: Sent, ticket: bytes) -> int:
    return int.from_bytes(hashlib.sha256(ticket + sent.bodies[ticket][1]).digest(), "big")
