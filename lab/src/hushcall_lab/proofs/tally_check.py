"""Compares the reports that clients sent with the tallies that a server made of them.

A report in a sparse tally is a cell of matrix rows and a value, which follows from ticket and bytes. Two reports share
one with probability below 2⁻⁴⁰.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.rounds import round_data

Cell = tuple[bytes, int]


@dataclass
class Sent:
    """The reports of a round: ticket → bucket and bytes, and how the server answered."""

    round: int
    seed: bytes
    bodies: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    acknowledged: set[bytes] = field(default_factory=set)
    forgotten: set[bytes] = field(default_factory=set)  # acknowledged, but new to the server when sent again
    refused: dict[bytes, str] = field(default_factory=dict)  # ticket → problem: none of these is expected


@dataclass(frozen=True)
class Comparison:
    round: int
    acknowledged: int
    lost: int
    twice: int
    foreign: int
    refused: tuple[str, ...] = ()
    sums_agree: bool = True

    @property
    def broken(self) -> str:
        refused = ", ".join(sorted(set(self.refused)))
        differences = {
            f"{self.lost} of {self.acknowledged} acknowledged reports were lost": self.lost,
            f"{self.twice} reports were counted more than once": self.twice,
            f"{self.foreign} reports were counted that nobody sent": self.foreign,
            f"{len(self.refused)} honest reports were refused ({refused})": self.refused,
            "a tally's count or checksum is not that of its reports": not self.sums_agree,
        }
        text = "; ".join(words for words, applies in differences.items() if applies)
        return text and f"round {self.round}: {text}"


def compare(store: Store, sent: Sent) -> Comparison:
    table = schema.tallies.c
    rows = {row.bucket: row for row in store.rows(sa.select(schema.tallies).where(table.round == sent.round))}
    counts, tickets, sums_agree = Counter[Cell](), dict[Cell, bytes](), True
    for opened in round_data.bucket_specs(store, sent.round):
        aggregator: Any = opened.aggregator
        for ticket, (bucket, body) in sent.bodies.items():
            if bucket == opened.bucket:
                (cell,) = _cells(aggregator.tally_arrays(sent.seed, ReportArrays.of([(ticket, body)])))
                tickets[cell] = ticket
        if opened.bucket in rows:
            row = rows[opened.bucket]
            cells = Counter(_cells(aggregator.from_bytes(bytes(row.data))))
            counts += cells
            if cells.keys() <= tickets.keys():
                checksum = sum(number * _digest(sent, tickets[cell]) for cell, number in cells.items()) % (1 << 256)
                expected = cells.total(), checksum.to_bytes(32, "big")
                sums_agree = sums_agree and (row.count, bytes(row.checksum)) == expected
    counted = {tickets[cell] for cell in counts if cell in tickets}
    return Comparison(
        sent.round,
        len(sent.acknowledged),
        lost=len((sent.acknowledged - counted) | sent.forgotten),
        twice=sum(1 for number in counts.values() if number > 1),
        foreign=sum(number for cell, number in counts.items() if cell not in tickets),
        refused=tuple(sent.refused.values()),
        sums_agree=sums_agree,
    )


def _cells(tally: Any) -> list[Cell]:
    return [(rows.tobytes(), int(value)) for rows, value in zip(tally.rows, tally.values, strict=True)]


def _digest(sent: Sent, ticket: bytes) -> int:
    return int.from_bytes(hashlib.sha256(ticket + sent.bodies[ticket][1]).digest(), "big")
