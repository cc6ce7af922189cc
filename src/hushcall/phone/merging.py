"""A backup's store comes in, and this one knows all that either knew: it never says less than both have spent.

Spends, rounds and reported callers are the union of the two, and a caller was last reported when the later of them says
so. Settings are the backup's: that is what its owner asks for. A round that the backup had begun is given up, since
nobody here knows what became of it.
"""

from __future__ import annotations

from hushcall.phone.home.change_server import STALE
from hushcall.phone.home.store import SYNC_TROUBLE, Store
from hushcall.phone.reporting import ledger
from hushcall.phone.reporting.participation import CLOSED, UNFINISHED

_OF_THE_FOLDER = frozenset({"inode", "copied_at", "split_view", STALE, SYNC_TROUBLE})
"""Settings about this folder and what it was shown: a backup does not change them."""
_ROUND = (
    "server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state, ticket, public,"
    " parameters, report, why"
)
_COPIED = (
    ("INSERT OR IGNORE INTO contacts VALUES (?)", "SELECT number FROM contacts"),
    (
        "INSERT INTO callers (number, last, known, virtual) VALUES (?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET"
        " last = max(last, excluded.last), known = max(known, excluded.known),"
        " virtual = min(virtual, excluded.virtual)",
        "SELECT number, last, known, virtual FROM callers",
    ),
    (
        "INSERT INTO reported VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET at = max(at, excluded.at)",
        "SELECT number, seq, at FROM reported",
    ),
    (
        "INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?, ?)",
        "SELECT server, round, part, sha256, body, seen FROM documents",
    ),
)


def goes_on_from(newer: Store, older: Store) -> bool:
    """Whether a store is what an older copy of it has become: the same phone, and every spend is still there."""
    same = newer.get("device_key") == older.get("device_key") != ""
    return same and set(ledger.spends(older)) <= set(ledger.spends(newer))


def merge(into: Store, backup: Store) -> None:
    """Take in what a backup knows; part of a transaction of ``into``, which whoever asks opens."""
    if into.get("server") not in ("", backup.get("server")):
        into.put(STALE, "yes")  # the list here is of a server that is left
    for name, value in backup.rows("SELECT name, value FROM settings"):
        if name not in _OF_THE_FOLDER:
            into.put(name, value)
    for statement, query in _COPIED:
        into.run_many(statement, backup.rows(query))
    for row in backup.rows(f"SELECT {_ROUND} FROM rounds ORDER BY seq"):
        _take_round(into, row)
    known = set(ledger.spends(into))
    for spend in ledger.spends(backup):
        if spend not in known:
            ledger.record(into, _place(into, spend), spend)


def _take_round(into: Store, row: tuple[object, ...]) -> None:
    """A round that only the backup knows, so that this phone never makes a second report for it."""
    state = 9
    closed = (*row[:state], CLOSED, *row[state + 1 : -1], "restored from a backup") if row[state] in UNFINISHED else row
    into.run(f"INSERT OR IGNORE INTO rounds ({_ROUND}) VALUES ({', '.join('?' * len(closed))})", *closed)


def _place(into: Store, spend: ledger.Spend) -> int:
    """Where a spend goes in the books: beside its round, or behind everything."""
    found = into.row(
        "SELECT seq FROM rounds WHERE server = ? AND round = ? AND seq NOT IN (SELECT seq FROM ledger)",
        *(spend.server, spend.round),
    )
    return int(found[0]) if found else ledger.next_seq(into)
