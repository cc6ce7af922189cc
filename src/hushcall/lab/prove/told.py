"""What a simulated service says about itself while things go wrong: probe, figures, dashboard and log.

Each is held against the database's file, the phones' own memory and what ails the disk; the first untruth is a broken
promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hushcall.lab.prove.journal import Line, Turn
from hushcall.lab.prove.world import FULL, READ_ONLY, SPAMMERS, Broken, Worker, World
from hushcall.phone.reporting.ledger import DAY
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, DECODED, HELD, PUBLISHED, TAKES_UPLOADS, RoundState
from hushcall.server.http.gauges import gauges
from hushcall.server.http.readiness import LATE_SECONDS
from hushcall.server.pages.health import health
from hushcall.server.pages.overview import SHOWN, overview

SAYS: dict[str, list[dict[str, str]]] = {
    "": [{}],
    READ_ONLY: [{"database": "database read-only"}],
    FULL: [{}, {"database": "disk full"}],
}
"""What a worker may say is missing, by what ails the disk. A heartbeat may still fit into the last page."""
COMMIT_FAILED = "disk error"
"""What is behind the simulation's failing commits."""
CAUSES = {"": COMMIT_FAILED, READ_ONLY: "database read-only", FULL: "disk full"}
STALE = 2 * DAY + 3600
"""Seconds after which a list of daily rounds is old."""
Rows = Callable[..., list[Any]]


@dataclass
class Told:
    """Listens to a world. ``rows`` asks the database's file; ``failing`` is what each worker's log says fails."""

    world: World
    rows: Rows
    failing: dict[int, set[str]] = field(default_factory=lambda: {0: set(), 1: set()})

    def look(self) -> None:
        """Hear what was logged, and ask one worker the rest, if its clock is right: raises :class:`Broken`."""
        self.log()
        worker = self.world.worker_for(0)
        if not worker.skew:
            self.probe(worker)
            self.figures(worker)
            self.dashboard(worker)

    def probe(self, worker: Worker) -> None:
        """Whether it is ready, and why not."""
        said, late = self.world.standing(worker), self._late()
        if said.missing not in SAYS[self.world.broken_disk]:
            raise Broken(f"a probe is told {said.missing} where the disk is {self.world.broken_disk or 'well'}")
        if bool(said.late) != (late > LATE_SECONDS):
            raise Broken(f"a probe is told {said.late} where a round is {late} s late")

    def figures(self, worker: Worker) -> None:
        """What Prometheus reads."""
        read = {name.removeprefix("hushcall_"): value for name, (_, value) in gauges(worker.service).items()}
        version, entries, made = (self._versions() or [(0, 0, 0)])[0]
        expected: dict[str, float] = {
            "database_up": 1,
            "list_version": version,
            "list_entries": entries,
            "list_made_seconds": made,
            "devices": len(self.world.phones),
            "overdue_seconds": self._late(),
            "rounds_held": len(self._held()),
        }
        for number, state, discarded in self.rows(
            "SELECT id, state, reason LIKE 'discarded%' FROM rounds ORDER BY id DESC LIMIT 1"
        ):
            expected |= {"round_round": number} | {f"round_is_{one}": float(one == state) for one in RoundState}
            if not discarded:
                self._between("round_announced", read, *self._announced(number))
                self._between("round_reports", read, *self._reported(number))
        for name, value in expected.items():
            if read.get(name) != value:
                raise Broken(f"the figure {name} is {read.get(name)} where the database says {value}")

    def dashboard(self, worker: Worker) -> None:
        """What operators see first: rounds under way, and worries."""
        shown = [(one.id, str(one.row.state)) for one in overview(worker.service.store).rounds]
        rounds = self.rows("SELECT id, state FROM rounds ORDER BY id DESC")
        under_way = [*rounds[:1], *(row for row in rounds[1:] if row[1] != PUBLISHED)][:SHOWN]
        if shown != under_way:
            raise Broken(f"the dashboard shows {shown} where the database has {under_way}")
        worries, held = health(worker.service).worries, self._held()
        if [one for one in worries if one.endswith("is held")] != [f"round {number} is held" for number in held]:
            raise Broken(f"the dashboard worries about {list(worries)} where {held} are held")
        old = any(self.world.now - made > STALE for _, _, made in self._versions())
        if old != any(one.startswith("no round has been published") for one in worries):
            raise Broken(f"the dashboard worries about {list(worries)} where the list is {'old' if old else 'fresh'}")

    def log(self) -> None:
        """Whatever failed was logged with its cause, and no line holds what nobody may read."""
        secrets = [str(number) for number in SPAMMERS] + [number.removeprefix("+") for number in SPAMMERS]
        secrets += [one.hex() for one in self.world.heard.tickets.values()]
        secrets += [line.token.hex() for line in self.world.lines]
        for entry in self.world.journal.taken():
            if isinstance(entry, Turn):
                self._turned(entry)
            elif any(secret in entry.text for secret in secrets):
                raise Broken("a number, a ticket or a token was logged")
            else:
                self._line(entry)

    def _turned(self, turn: Turn) -> None:
        if turn.went_well is None:
            self.failing[turn.place].clear()
        elif not turn.went_well and not self.failing[turn.place]:
            raise Broken("a scheduler failed, and its log does not say so")

    def _line(self, line: Line) -> None:
        said = line.said
        if said["event"] == "scheduler failed, will retry" and line.place is not None:
            self.failing[line.place].add(said["job"])
            cause = said.get("cause", "")
            if not cause and not said["reason"]:
                raise Broken(f"a scheduler failed with {said['error']}, and its log does not say why")
            if cause and cause not in (CAUSES[line.disk], COMMIT_FAILED):
                raise Broken(f"the log says {cause} where the disk is {line.disk or 'well'}")
        if said["event"] == "scheduler works again" and line.place is not None:
            self.failing[line.place].discard(said["job"])

    def _between(self, name: str, read: dict[str, float], least: int, most: int) -> None:
        if not least <= read[name] <= most:
            raise Broken(f"the figure {name} is {read[name]} where phones sent {most} and were thanked for {least}")

    def _announced(self, number: int) -> tuple[int, int]:
        """How many phones were told that their announcement is stored, and how many announced."""
        stored, sent = (sum(of == number for _, of in one) for one in (self.world.heard.tickets, self.world.buckets))
        return stored, sent

    def _reported(self, number: int) -> tuple[int, int]:
        """The same for reports to buckets that run: what comes for others is cover."""
        run = {row[0] for row in self.rows("SELECT bucket FROM buckets WHERE round = ? AND runs", number)}
        mine = {phone for (phone, of), bucket in self.world.buckets.items() if of == number and bucket in run}
        heard = self.world.heard
        stored, sent = ({phone for phone, of in one if of == number} for one in (heard.acknowledged, heard.bodies))
        return len(stored & mine), len(sent & mine)

    def _versions(self) -> list[Any]:
        """The newest list: its version, how many entries it has, when it was made."""
        return self.rows("SELECT version, entries, made FROM versions ORDER BY version DESC LIMIT 1")

    def _held(self) -> list[int]:
        return [row[0] for row in self.rows("SELECT id FROM rounds WHERE state = ? ORDER BY id", HELD)]

    def _late(self) -> int:
        """Seconds by which the latest round should have moved on: held ones wait for a person."""
        due = [0]
        rows = self.rows("SELECT state, held_from, collects, closes, next FROM rounds ORDER BY id")
        for state, _, collects, closes, after in rows:
            due += {ANNOUNCING: [collects], COLLECTING: [closes], CLOSED: [after], DECODED: [after]}.get(state, [])
        if rows and (rows[-1][1] or rows[-1][0]) not in TAKES_UPLOADS:
            due.append(rows[-1][4])
        return max(0, self.world.now - min([one for one in due if one] or [self.world.now]))
