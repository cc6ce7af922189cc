"""What must be true after every step of a simulated run: a world comes in, the first broken promise leaves.

Worked out from the database's file, over a connection of its own, from what phones sent and were told, and from their
ledgers; not from what the service says about itself.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from typing import Any

from hushcall.lab.prove.tallied import Sent, compared
from hushcall.lab.prove.told import Told
from hushcall.lab.prove.world import Broken, World
from hushcall.phone.reporting import ledger
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, DECODED, HELD, PUBLISHED, TAKES_UPLOADS
from hushcall.protocol.wire import strip

REPORT_BYTES, LIMIT = 4, 16
"""What a report of the simulated rounds weighs, and what it costs."""
ORDER = (ANNOUNCING, COLLECTING, CLOSED, DECODED, PUBLISHED)


@dataclass
class Watch:
    """Looks at a world after each step, and remembers what it saw."""

    world: World
    states: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    versions: dict[int, str] = field(default_factory=dict)
    timestamp: tuple[int, bytes] = (0, b"")
    sealed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.file = sqlite3.connect(self.world.folder / "hushcall.db", isolation_level=None)
        self.told = Told(self.world, self._rows)

    def close(self) -> None:
        """Let the file go."""
        self.file.close()

    def look(self) -> None:
        """Everything; raises :class:`Broken`."""
        self.file.execute("BEGIN")
        try:
            self._rounds()
            self._lists()
            self._reports()
        finally:
            self.file.execute("COMMIT")
        self._phones()

    def ask(self) -> None:
        """Hold what the service says about itself against all this: :class:`Broken` where it is untrue."""
        self.told.look()

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self.file.execute(query, values).fetchall()

    def _rounds(self) -> None:
        taking = 0
        for number, state, held_from, reason in self._rows(
            "SELECT id, state, held_from, reason FROM rounds ORDER BY id"
        ):
            before = self.states.get(number)
            if before and not _may_follow(before, (state, held_from), reason):
                raise Broken(f"a round went from {before[0]} to {state}")
            self.states[number] = state, held_from
            taking += (held_from or state) in TAKES_UPLOADS
        if taking > 1:
            raise Broken(f"{taking} rounds take uploads at once")
        if list(self.states) != list(range(1, len(self.states) + 1)):
            raise Broken("rounds are not numbered one after the other")
        for table in ("announcements", "reports"):
            over = (
                "SELECT count(*) FROM {0} JOIN rounds ON rounds.id = {0}.round WHERE state IN ('decoded', 'published')"
            )
            if self._rows(over.format(table))[0][0]:
                raise Broken(f"{table} of a round that is over were kept")

    def _lists(self) -> None:
        (found,) = self._rows("SELECT data FROM files WHERE path = 'metadata/timestamp.json'")
        version = int(json.loads(found[0])["signed"]["version"])
        if version < self.timestamp[0] or (version == self.timestamp[0] and found[0] != self.timestamp[1]):
            raise Broken(f"what is signed changed from version {self.timestamp[0]} to {version}")
        self.timestamp = version, found[0]
        newest = max(self.versions, default=0)
        (highest,) = self._rows("SELECT coalesce(max(version), 0) FROM versions")[0]
        if highest < newest:
            raise Broken("a version of the list went away")
        for number, digest, data in self._rows("SELECT version, sha256, data FROM versions WHERE version >= ?", newest):
            if self.versions.setdefault(number, digest) != digest:
                raise Broken("a version of the list was changed after it was published")
            if number > newest and data is not None:
                self._entries(Blocklist.from_bytes(data), number == highest)

    def _entries(self, made: Blocklist, current: bool) -> None:
        off = {row[0] for row in self._rows("SELECT number FROM appeals WHERE closed IS NULL")}
        off |= {row[0] for row in self._rows("SELECT number FROM allowed")}
        if current and (wrong := off & {entry.number for entry in made.entries}):
            raise Broken(f"{len(wrong)} numbers that are appealed or allowed were published")

    def _reports(self) -> None:
        """What was acknowledged is stored until it is sealed, and then in the tally, once."""
        for number, (state, held_from) in self.states.items():
            acknowledged = {t: b for (_, r), (t, b) in self.world.heard.acknowledged.items() if r == number}
            if number in self.sealed or not acknowledged or self._discarded(number):
                continue
            if (held_from or state) in (DECODED, PUBLISHED):
                self._tally(number, set(acknowledged))
                continue
            stored = dict(self._rows("SELECT ticket, body FROM reports WHERE round = ?", number))
            tallied = {row[0] for row in self._rows("SELECT bucket FROM tallies WHERE round = ?", number)}
            for ticket, bucket in self._rows("SELECT ticket, bucket FROM announcements WHERE round = ?", number):
                if (
                    ticket in acknowledged
                    and bucket not in tallied
                    and _report(acknowledged[ticket]) != stored.get(ticket)
                ):
                    raise Broken("an acknowledged report is not in the database")

    def _discarded(self, number: int) -> bool:
        return bool(self._rows("SELECT 1 FROM rounds WHERE id = ? AND reason LIKE 'discarded%'", number))

    def _tally(self, number: int, acknowledged: set[bytes]) -> None:
        """Once for each round: when it is decoded its tallies are all there, and stay for a round more."""
        heard = self.world.heard
        (seed,) = self._rows("SELECT seed FROM rounds WHERE id = ?", number)[0]
        sent = Sent(number, seed, acknowledged=acknowledged)
        for (phone, round_), bodies in heard.bodies.items():
            if round_ == number and (ticket := heard.tickets.get((phone, round_))):
                for body in bodies:
                    sent.bodies[ticket] = self.world.buckets[phone, round_], _report(body)
        emptied = self._rows("SELECT 1 FROM tallies WHERE round = ? AND length(data) = 0", number)
        if not emptied and (broken := compared(self.world.workers[0].service.store, sent).broken):
            raise Broken(broken)
        self.sealed.add(number)

    def _phones(self) -> None:
        heard = self.world.heard
        if heard.trouble:
            raise Broken(heard.trouble)
        for (phone, number), bodies in heard.bodies.items():
            if len(bodies) > 1:
                raise Broken("a phone sent two different reports in one round")
            store = self.world.phones[phone].store
            if store.row("SELECT 1 FROM ledger WHERE round = ?", number) is None:
                raise Broken("a report was sent that is not in the ledger")
        for place, one in enumerate(self.world.phones):
            sent = sum(1 for who, _ in heard.bodies if who == place)
            if ledger.spent(one.store) < LIMIT * sent:
                raise Broken("a ledger says less than was sent")


def _report(body: bytes) -> bytes:
    """An upload without its padding."""
    return strip(body, REPORT_BYTES, len(body))


def _may_follow(before: tuple[str, str | None], after: tuple[str, str | None], reason: str) -> bool:
    if before == after:
        return True
    if after[0] == HELD:
        return before[0] == HELD or ORDER.index(after[1] or "") >= ORDER.index(before[0])
    if before[0] == HELD:
        return reason.startswith("discarded") or ORDER.index(after[0]) >= ORDER.index(before[1] or "")
    return ORDER.index(after[0]) > ORDER.index(before[0])
