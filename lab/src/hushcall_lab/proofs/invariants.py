"""The promises that are checked after every step of a simulated run.

:class:`Invariants` uses the database file over a connection of its own, the exchanges of the clients and their ledgers.
:class:`SelfReports` compares with these what the service says about itself: probe, gauges, dashboard and log.
"""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hushcall.client.reporting import ledger
from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, DECODED, HELD, PUBLISHED, TAKES_UPLOADS, RoundState
from hushcall.protocol.wire import strip
from hushcall.server.http.readiness import LATE_SECONDS, gauges
from hushcall.server.web.health import health
from hushcall.server.web.site import SHOWN_ROUNDS, overview
from hushcall_lab.proofs.promises import Broken, require
from hushcall_lab.proofs.tally_check import Sent, compare
from hushcall_lab.proofs.world import FULL, READ_ONLY, SPAMMERS, LogLine, Worker, World

REPORT_BYTES, REPORT_EPSILON = 4, 16
"""Of a report of the simulated rounds."""
ORDER = (ANNOUNCING, COLLECTING, CLOSED, DECODED, PUBLISHED)
MISSING: dict[str, list[dict[str, str]]] = {
    "": [{}],
    READ_ONLY: [{"database": "database read-only"}],
    FULL: [{}, {"database": "disk full"}],
}
"""What a probe may say is missing, by the state of the disk. A heartbeat may still fit into the last page."""
COMMIT_FAILED = "disk error"
"""The cause of the simulation's failing commits."""
CAUSES = {"": COMMIT_FAILED, READ_ONLY: "database read-only", FULL: "disk full"}
STALE_SECONDS = 2 * DAY + 3600
"""The age at which a list of daily rounds is stale."""
Rows = Callable[..., list[Any]]


@dataclass
class Invariants:
    world: World
    states: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    versions: dict[int, str] = field(default_factory=dict)
    timestamp: tuple[int, bytes] = (0, b"")
    compared: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.file = sqlite3.connect(self.world.folder / "hushcall.db", isolation_level=None)
        self.self_reports = SelfReports(self.world, self._rows)

    def check(self) -> None:
        self.file.execute("BEGIN")
        try:
            self._check_rounds()
            self._check_lists()
            self._check_reports()
        finally:
            self.file.execute("COMMIT")
        self._check_clients()

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self.file.execute(query, values).fetchall()

    def _check_rounds(self) -> None:
        accepting = 0
        for number, state, held_from, reason in self._rows(
            "SELECT id, state, held_from, reason FROM rounds ORDER BY id"
        ):
            before, after = self.states.get(number, (state, held_from)), (state, held_from)
            require(_may_follow(before, after, reason), f"a round went from {before[0]} to {state}")
            self.states[number] = after
            accepting += (held_from or state) in TAKES_UPLOADS
        require(accepting <= 1, f"{accepting} rounds take uploads at once")
        numbered = list(self.states) == list(range(1, len(self.states) + 1))
        require(numbered, "rounds are not numbered one after the other")
        for table in ("announcements", "reports"):
            over = f"{table} JOIN rounds ON rounds.id = {table}.round WHERE state IN ('decoded', 'published')"
            leftover = self._rows(f"SELECT count(*) FROM {over}")[0][0]  # noqa: S608
            require(not leftover, f"{table} of a round that is over were kept")

    def _check_lists(self) -> None:
        ((data,),) = self._rows("SELECT data FROM files WHERE path = 'metadata/timestamp.json'")
        version, before = int(json.loads(data)["signed"]["version"]), self.timestamp
        follows = version > before[0] or (version, data) == before
        require(follows, f"what is signed changed from version {before[0]} to {version}")
        self.timestamp = version, data
        newest = max(self.versions, default=0)
        (highest,) = self._rows("SELECT coalesce(max(version), 0) FROM versions")[0]
        require(highest >= newest, "a version of the list went away")
        for number, digest, data in self._rows("SELECT version, sha256, data FROM versions WHERE version >= ?", newest):
            unchanged = self.versions.setdefault(number, digest) == digest
            require(unchanged, "a version of the list was changed after it was published")
            if newest < number == highest and data is not None:
                excluded = {row[0] for row in self._rows("SELECT number FROM appeals WHERE closed IS NULL")}
                excluded |= {row[0] for row in self._rows("SELECT number FROM allowed")}
                wrong = excluded & {row[0] for row in self._rows("SELECT number FROM entries WHERE until IS NULL")}
                require(not wrong, f"{len(wrong)} numbers that are appealed or allowed were published")

    def _check_reports(self) -> None:
        """Acknowledged reports are stored until they are sealed, and then in the tally, once."""
        for number, (state, held_from) in self.states.items():
            acknowledged = {t: b for (_, r), (t, b) in self.world.exchanges.acknowledged.items() if r == number}
            discarded = "SELECT 1 FROM rounds WHERE id = ? AND reason LIKE 'discarded%'"
            if number in self.compared or not acknowledged or self._rows(discarded, number):
                continue
            if (held_from or state) in (DECODED, PUBLISHED):
                self._check_tally(number, set(acknowledged))
                continue
            stored = dict(self._rows("SELECT ticket, body FROM reports WHERE round = ?", number))
            tallied = {row[0] for row in self._rows("SELECT bucket FROM tallies WHERE round = ?", number)}
            for ticket, bucket in self._rows("SELECT ticket, bucket FROM announcements WHERE round = ?", number):
                if ticket in acknowledged and bucket not in tallied:
                    same = _unpadded(acknowledged[ticket]) == stored.get(ticket)
                    require(same, "an acknowledged report is not in the database")

    def _check_tally(self, number: int, acknowledged: set[bytes]) -> None:
        """Once per round. When it is decoded all of its tallies exist, and stay for one more round."""
        exchanges = self.world.exchanges
        (seed,) = self._rows("SELECT seed FROM rounds WHERE id = ?", number)[0]
        sent = Sent(number, seed, acknowledged=acknowledged)
        for key, bodies in exchanges.bodies.items():
            if key[1] == number and (ticket := exchanges.tickets.get(key)):
                for body in bodies:
                    sent.bodies[ticket] = exchanges.buckets[key], _unpadded(body)
        emptied = self._rows("SELECT 1 FROM tallies WHERE round = ? AND length(data) = 0", number)
        if not emptied and (broken := compare(self.world.workers[0].service.store, sent).broken):
            raise Broken(broken)
        self.compared.add(number)

    def _check_clients(self) -> None:
        exchanges, clients = self.world.exchanges, self.world.clients
        require(not exchanges.broken, exchanges.broken)
        for (client, number), bodies in exchanges.bodies.items():
            require(len(bodies) == 1, "a client sent two different reports in one round")
            row = clients[client].store.row("SELECT 1 FROM ledger WHERE round = ?", number)
            require(row, "a report was sent that is not in the ledger")
        for place, sender in enumerate(clients):
            sent = sum(client == place for client, _ in exchanges.bodies)
            require(ledger.spent(sender.store) >= REPORT_EPSILON * sent, "a ledger says less than was sent")


def _unpadded(body: bytes) -> bytes:
    return strip(body, REPORT_BYTES, len(body))


def _may_follow(before: tuple[str, str | None], after: tuple[str, str | None], reason: str) -> bool:
    if before == after:
        return True
    if after[0] == HELD:
        return before[0] == HELD or ORDER.index(after[1] or "") >= ORDER.index(before[0])
    if before[0] == HELD:
        return reason.startswith("discarded") or ORDER.index(after[0]) >= ORDER.index(before[1] or "")
    return ORDER.index(after[0]) > ORDER.index(before[0])


@dataclass
class SelfReports:
    """``rows`` queries the database file. ``failing`` holds, per worker, the jobs that fail by its log."""

    world: World
    rows: Rows
    failing: dict[int, set[str]] = field(default_factory=lambda: {0: set(), 1: set()})

    def check(self) -> None:
        self._check_log()
        worker = self.world.worker_for(0)
        if not worker.skew:
            self._check_probe(worker)
            self._check_gauges(worker)
            self._check_dashboard(worker)

    def _check_probe(self, worker: Worker) -> None:
        standing, late = self.world.standing(worker), self._late_seconds()
        disk = self.world.broken_disk
        missing, overdue = standing.missing, bool(standing.late)
        require(missing in MISSING[disk], f"a probe is told {missing} where the disk is {disk or 'well'}")
        require(overdue == (late > LATE_SECONDS), f"a probe is told {standing.late} where a round is {late} s late")

    def _check_gauges(self, worker: Worker) -> None:
        values = {
            name.removeprefix("hushcall_"): value
            for name, (_, value) in gauges(worker.service.store, worker.service.now).items()
        }
        version, entries, published = (self._newest_version() or [(0, 0, 0)])[0]
        expected: dict[str, float] = {
            "database_up": 1,
            "list_version": version,
            "list_entries": entries,
            "list_made_seconds": published,
            "devices": len(self.world.clients),
            "overdue_seconds": self._late_seconds(),
            "rounds_held": len(self._held()),
        }
        for number, current, discarded in self.rows(
            "SELECT id, state, reason LIKE 'discarded%' FROM rounds ORDER BY id DESC LIMIT 1"
        ):
            expected |= {"round_round": number} | {f"round_is_{state}": float(state == current) for state in RoundState}
            if not discarded:
                for name, (low, high) in self._counts(number).items():
                    fits = low <= values[name] <= high
                    require(fits, f"the figure {name} is {values[name]} where clients sent {high}, {low} acknowledged")
        for name, value in expected.items():
            figure = values.get(name)
            require(figure == value, f"the figure {name} is {figure} where the database says {value}")

    def _check_dashboard(self, worker: Worker) -> None:
        rows = [(item.id, str(item.row.state)) for item in overview(worker.service.store).rounds]
        rounds = self.rows("SELECT id, state FROM rounds ORDER BY id DESC")
        under_way = [*rounds[:1], *(row for row in rounds[1:] if row[1] != PUBLISHED)][:SHOWN_ROUNDS]
        require(rows == under_way, f"the dashboard shows {rows} where the database has {under_way}")
        worries, held = health(worker.service.store, worker.service.settings, worker.service.now).worries, self._held()
        about_held = [worry for worry in worries if worry.endswith("is held")]
        expected = [f"round {number} is held" for number in held]
        require(about_held == expected, f"the dashboard worries about {list(worries)} where {held} are held")
        stale = any(self.world.now - published > STALE_SECONDS for _, _, published in self._newest_version())
        about_list = any(worry.startswith("no round has been published") for worry in worries)
        age = "old" if stale else "fresh"
        require(about_list == stale, f"the dashboard worries about {list(worries)} where the list is {age}")

    def _check_log(self) -> None:
        secrets = [form for number in SPAMMERS for form in (str(number), number.removeprefix("+"))]
        secrets += [ticket.hex() for ticket in self.world.exchanges.tickets.values()]
        secrets += [line.token.hex() for line in self.world.lines]
        for entry in self.world.journal.take():
            if isinstance(entry, LogLine):
                leaked = any(secret in entry.text for secret in secrets)
                require(not leaked, "a number, a ticket or a token was logged")
                self._check_line(entry)
            elif entry.ok is None:
                self.failing[entry.place].clear()
            else:
                require(entry.ok or self.failing[entry.place], "a scheduler failed, and its log does not say so")

    def _check_line(self, line: LogLine) -> None:
        fields = json.loads(line.text)
        if line.place is None:
            return
        if fields["event"] == "scheduler failed, will retry":
            self.failing[line.place].add(fields["job"])
            cause = fields.get("cause", "")
            explained, causes = cause or fields["reason"], ("", CAUSES[line.disk], COMMIT_FAILED)
            require(explained, f"a scheduler failed with {fields['error']}, and its log does not say why")
            require(cause in causes, f"the log says {cause} where the disk is {line.disk or 'well'}")
        if fields["event"] == "scheduler works again":
            self.failing[line.place].discard(fields["job"])

    def _counts(self, number: int) -> dict[str, tuple[int, int]]:
        """By gauge: how much was acknowledged and how much was sent. Reports to buckets that do not run are cover."""
        exchanges = self.world.exchanges
        running = {row[0] for row in self.rows("SELECT bucket FROM buckets WHERE round = ? AND runs", number)}
        mine = {key for key, bucket in exchanges.buckets.items() if key[1] == number and bucket in running}
        stored, announced = (sum(key[1] == number for key in keys) for keys in (exchanges.tickets, exchanges.buckets))
        reports = len(mine & exchanges.acknowledged.keys()), len(mine & exchanges.bodies.keys())
        return {"round_announced": (stored, announced), "round_reports": reports}

    def _newest_version(self) -> list[Any]:
        return self.rows("SELECT version, entries, made FROM versions ORDER BY version DESC LIMIT 1")

    def _held(self) -> list[int]:
        return [row[0] for row in self.rows("SELECT id FROM rounds WHERE state = ? ORDER BY id", HELD)]

    def _late_seconds(self) -> int:
        """By how much the latest round should have moved on. Held rounds wait for a person."""
        due = [0]
        rows = self.rows("SELECT state, held_from, collects, closes, next FROM rounds ORDER BY id")
        for state, _, collects, closes, after in rows:
            due += {ANNOUNCING: [collects], COLLECTING: [closes], CLOSED: [after], DECODED: [after]}.get(state, [])
        if rows and (rows[-1][1] or rows[-1][0]) not in TAKES_UPLOADS:
            due.append(rows[-1][4])
        return max(0, self.world.now - min([moment for moment in due if moment] or [self.world.now]))
