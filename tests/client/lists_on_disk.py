"""A list as a sync leaves it in a phone's folder, for tests that look callers up."""

import json
from pathlib import Path

from hushcall.client.screening.lookup import LIST_FILE, STATE_FILE
from hushcall.client.storage.store import LISTS
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader, iso

TERMS = ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 7)
BLOCKED, WARNED, CLEAN = "+12025550143", "+12025550144", "+12025550145"


def put_list(home: Path, now: int, expires: int, extra: int = 0) -> None:
    """One number seen on three days, one on a single day and barely, and as many others as wanted."""
    entries = [
        Entry(BLOCKED, now - 9, now - 5, 3, 118.2, 97.0, 140.1, 1e-9),
        Entry(WARNED, now - 9, now - 5, 1, 12.0, 4.0, 20.0, 1e-4),
        *(Entry(f"+1203{5_000_000 + i}", now - 9, now - 5, 2, 50.0, 40.0, 60.0, 1e-9) for i in range(extra)),
    ]
    folder = home / LISTS
    folder.mkdir(exist_ok=True)
    (folder / LIST_FILE).write_bytes(Blocklist(5, 12, now, TERMS, tuple(entries)).to_bytes())
    state = {"version": 5, "synced": iso(now), "expires": iso(expires)}
    (folder / STATE_FILE).write_text(json.dumps(state))
