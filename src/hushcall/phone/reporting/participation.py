"""How far the phone is with each round: one row a round, that only ever moves forward.

::

    planned ──► announced ─┬► recorded ──► sent
       │            │      └► covering ──► skipped (cover was sent, nothing spent)
       │            │             │
       └────────────┴─────────────┴──────► skipped (nothing spent) or closed (too late; what was spent stays spent)

The row is unique per server and round id, and takes its report once: whatever a server announces later under the same
id, this phone never makes a second report for it. Ids of a server only grow, and joining a round ends every other that
is unfinished, of whatever server: at any moment at most one report can be on its way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hushcall.errors import InvalidData
from hushcall.phone.home.store import BLANK, Store
from hushcall.phone.reporting.schedule import Moments
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import COLLECTING, OVER_FOR_PHONES

PLANNED, ANNOUNCED, RECORDED, SENT = "planned", "announced", "recorded", "sent"
COVERING = "covering"
SKIPPED, CLOSED = "skipped", "closed"
UNFINISHED = (PLANNED, ANNOUNCED, RECORDED, COVERING)
_NEXT = {PLANNED: "announcement", ANNOUNCED: "report", COVERING: "report"}
_COLUMNS = (
    "seq, server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state, ticket, public,"
    " parameters, report, why"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One round in the diary. ``report`` is kept once it is made; ``public`` and ``parameters`` say how."""

    seq: int
    server: str
    round: int
    joined: int
    mechanism: str
    number: str
    dummy: bool
    bucket: int
    announce_at: int
    report_at: int
    state: str
    ticket: str
    public: bytes | None
    parameters: dict[str, Any] | None
    report: bytes | None
    why: str


def find(store: Store, server: str, round_: int) -> Row | None:
    """The row of a round of a server; None where the phone has not joined it."""
    return _row(store.row(f"SELECT {_COLUMNS} FROM rounds WHERE server = ? AND round = ?", server, round_))


def latest(store: Store, *, reported: bool = False) -> Row | None:
    """The newest row, or the newest with a report."""
    condition = "WHERE parameters IS NOT NULL" if reported else ""
    return _row(store.row(f"SELECT {_COLUMNS} FROM rounds {condition} ORDER BY seq DESC LIMIT 1"))


def joined_between(store: Store, start: int, end: int) -> int:
    """How many rounds the phone has joined from ``start`` on and before ``end``.

    Those from a future that a wrong clock has seen don't count here: they would silence the phone until it comes. The
    caps count them (:func:`ledger.spent`).
    """
    return int(store.row("SELECT count(*) FROM rounds WHERE joined >= ? AND joined < ?", start, end)[0])


def blank_before(store: Store, moment: int) -> None:
    """Drop numbers and reports of rounds joined before then: only the newest report can still be asked about.

    The bucket, whether it was a dummy, and the ticket go too: an area code with a day is a trace of a call.
    """
    store.run(
        f"UPDATE rounds SET {BLANK} WHERE joined <= ? AND state IN (?, ?, ?)"
        " AND seq < (SELECT max(seq) FROM rounds WHERE parameters IS NOT NULL)",
        *(moment, SENT, SKIPPED, CLOSED),
    )


def highest(store: Store, server: str) -> int:
    """The largest id of a round of this server that the phone has joined; −1 before the first."""
    return int(store.row("SELECT coalesce(max(round), -1) FROM rounds WHERE server = ?", server)[0])


def join(
    store: Store, server: str, info: RoundInfo, now: int, number: str, bucket: int, moments: Moments, *, dummy: bool
) -> None:
    """Join a round: what will be said in it, and when, is settled here. Every other unfinished round ends."""
    for row in _unfinished(store):
        finished(store, row, CLOSED if row.state == RECORDED else SKIPPED, "the server opened another round")
    store.run(
        "INSERT INTO rounds (server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *(server, info.round, now, info.mechanism, number, dummy, bucket, moments.announce_at, moments.report_at),
        PLANNED,
    )


def announced(store: Store, row: Row, ticket: str) -> None:
    """The server has given a ticket."""
    _move(store, row, "state = ?, ticket = ?", ANNOUNCED, ticket)


def recorded(store: Store, row: Row, public: bytes, parameters: dict[str, Any], report: bytes) -> None:
    """The report exists: from now on these bytes, and no others, are the phone's word in this round.

    ``row`` says what is in them: the number that was chosen when the phone joined, or the dummy that took its place.
    """
    _move(
        store,
        row,
        "state = ?, number = ?, dummy = ?, public = ?, parameters = ?, report = ?",
        *(RECORDED, row.number, row.dummy, public, json.dumps(parameters), report),
    )


def covering(store: Store, row: Row, body: bytes, why: str) -> None:
    """No report will be made; these bytes are sent in its place, so that nobody on the way sees a difference."""
    _move(store, row, "state = ?, report = ?, why = ?", COVERING, body, why)


def finished(store: Store, row: Row, state: str, why: str = "") -> None:
    """Nothing more will happen in this round."""
    _move(store, row, "state = ?, why = ?", state, why)


def close_passed(store: Store, server: str, info: RoundInfo) -> None:
    """Give up what the server's clock has overtaken; a spend stays spent."""
    for row in _unfinished(store):
        if row.server != server or row.round > info.round:
            continue
        if not (row.round < info.round or info.state in OVER_FOR_PHONES or _missed(row, info)):
            continue
        if row.state == RECORDED:
            finished(store, row, CLOSED, "the round closed before the report arrived")
        else:
            finished(store, row, SKIPPED, row.why or f"the round went on before its {_NEXT[row.state]} was made")


def _unfinished(store: Store) -> list[Row]:
    marks = ", ".join("?" for _ in UNFINISHED)
    found = store.rows(f"SELECT {_COLUMNS} FROM rounds WHERE state IN ({marks})", *UNFINISHED)
    return [row for row in map(_row, found) if row is not None]


def _missed(row: Row, info: RoundInfo) -> bool:
    return row.state == PLANNED and info.state == COLLECTING


def _move(store: Store, row: Row, change: str, *values: object) -> None:
    where = "seq = ? AND state = ?" + (" AND report IS NULL" if row.report is None else "")
    if store.run(f"UPDATE rounds SET {change} WHERE {where}", *values, row.seq, row.state) != 1:
        raise InvalidData("round", f"still be {row.state} (another process moved it)", row.round)


def _row(found: Any) -> Row | None:
    if found is None:
        return None
    values = dict(zip(Row.__slots__, found, strict=True))
    values["dummy"] = bool(values["dummy"])
    values["parameters"] = json.loads(values["parameters"]) if values["parameters"] else None
    return Row(**values)
