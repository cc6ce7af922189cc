"""The rounds table: how far the client is with each round. A row only moves forward.

::

    planned ──► announced ─┬► recorded ──► sent
       │            │      └► covering ──► skipped (cover was sent, nothing spent)
       │            │             │
       └────────────┴─────────────┴──────► skipped (nothing spent) or closed (too late, what was spent stays spent)

A row is unique per server and round id, and takes its report once, whatever a server announces later under the same id.
Joining a round ends every other unfinished one, of whatever server: at most one report is on its way at any moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hushcall.client.storage.store import BLANK, Store
from hushcall.errors import InvalidData
from hushcall.protocol.round_document import MAX_ROUND, RoundInfo
from hushcall.protocol.states import COLLECTING, OVER_FOR_PHONES

PLANNED, ANNOUNCED, RECORDED, SENT = "planned", "announced", "recorded", "sent"
COVERING = "covering"
SKIPPED, CLOSED = "skipped", "closed"
UNFINISHED = (PLANNED, ANNOUNCED, RECORDED, COVERING)
_NEXT = {PLANNED: "announcement", ANNOUNCED: "report", COVERING: "report"}


@dataclass(frozen=True, slots=True)
class Participation:
    """One row. ``public`` and ``parameters`` are what ``report`` was made with. It is None until it is made."""

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


COLUMNS = Participation.__slots__


@dataclass(frozen=True, slots=True)
class Moments:
    """When to announce, to report and (anonymously) to ask for a token: unix seconds by the server's clock."""

    announce_at: int
    report_at: int
    issue_at: int = 0


def find(store: Store, server: str, round_: int) -> Participation | None:
    return next(_rows(store, "WHERE server = ? AND round = ?", server, round_), None)


def latest(store: Store, *, reported: bool = False) -> Participation | None:
    condition = "WHERE parameters IS NOT NULL" if reported else ""
    return next(_rows(store, f"{condition} ORDER BY seq DESC LIMIT 1"), None)


def joined_between(store: Store, start: int, end: int) -> int:
    """How many rounds were joined from ``start`` on and before ``end``, without a wrong clock's later ones."""
    return store.count("SELECT count(*) FROM rounds WHERE joined >= ? AND joined < ?", start, end)


def blank_before(store: Store, moment: int) -> None:
    """Erase the traces of calls in rounds joined before then, except for the newest report."""
    store.run(
        f"UPDATE rounds SET {BLANK} WHERE joined <= ? AND state IN (?, ?, ?)"
        " AND seq < (SELECT max(seq) FROM rounds WHERE parameters IS NOT NULL)",
        *(moment, SENT, SKIPPED, CLOSED),
    )


def highest(store: Store, server: str) -> int:
    """The largest id of a joined round of this server, or −1. Earlier releases joined ids that no server has."""
    query = "SELECT coalesce(max(round), -1) FROM rounds WHERE server = ? AND round <= ?"
    return store.count(query, server, MAX_ROUND)


def join(
    store: Store, server: str, info: RoundInfo, now: int, number: str, bucket: int, moments: Moments, *, dummy: bool
) -> None:
    """Add the row of a round. Every other unfinished round ends."""
    for row in _unfinished(store):
        finish(store, row, CLOSED if row.state == RECORDED else SKIPPED, "the server opened another round")
    store.run(
        "INSERT INTO rounds (server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *(server, info.round, now, info.mechanism, number, dummy, bucket, moments.announce_at, moments.report_at),
        PLANNED,
    )


def move(store: Store, row: Participation, state: str, **columns: object) -> None:
    """Move a row forward and set columns. A report is set once: from then on no other bytes are sent in this round."""
    changes = ", ".join(f"{column} = ?" for column in ("state", *columns))
    condition = "seq = ? AND state = ?" + (" AND report IS NULL" if row.report is None else "")
    values = (state, *columns.values(), row.seq, row.state)
    if store.run(f"UPDATE rounds SET {changes} WHERE {condition}", *values) != 1:
        raise InvalidData("round", f"still be {row.state} (another process moved it)", row.round)


def finish(store: Store, row: Participation, state: str, why: str = "") -> None:
    move(store, row, state, why=why)


def close_passed(store: Store, server: str, info: RoundInfo) -> None:
    """End the rounds that the server's clock has passed. What was spent stays spent."""
    for row in _unfinished(store):
        if row.server != server or row.round > info.round:
            continue
        missed = row.state == PLANNED and info.state == COLLECTING
        if row.round == info.round and info.state not in OVER_FOR_PHONES and not missed:
            continue
        if row.state == RECORDED:
            finish(store, row, CLOSED, "the round closed before the report arrived")
        else:
            finish(store, row, SKIPPED, row.why or f"the round went on before its {_NEXT[row.state]} was made")


def end_unfinished(store: Store, why: str) -> None:
    for row in _unfinished(store):
        finish(store, row, CLOSED if row.state == RECORDED else SKIPPED, why)


def _unfinished(store: Store) -> list[Participation]:
    return list(_rows(store, "WHERE state IN (?, ?, ?, ?)", *UNFINISHED))


def _rows(store: Store, condition: str, *values: object) -> Iterator[Participation]:
    for row in store.rows(f"SELECT {', '.join(COLUMNS)} FROM rounds {condition}", *values):
        columns = dict(zip(COLUMNS, row, strict=True))
        columns["dummy"] = bool(columns["dummy"])
        columns["parameters"] = json.loads(columns["parameters"]) if columns["parameters"] else None
        yield Participation(**columns)
