"""What the server's tests share: settings for a quick round, a clock that is moved by hand, phones that speak HTTP.

Rounds last :data:`PERIOD` seconds of that clock and run with the ``cheapest`` profile, which finds a number that five
phones report. Nothing here waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy import event

from hushcall.mechanisms import parameters
from hushcall.mechanisms.profiles import PROFILES
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import ByteSource, seeded
from hushcall.protocol.seeds import report_seed
from hushcall.server.auth.devices import SCOPES, token_hash
from hushcall.server.db import schema
from hushcall.server.db.engine import MIGRATIONS, make_engine
from hushcall.server.db.rows import RoundRow
from hushcall.server.db.store import Store
from hushcall.server.ingest.ingest import Announce, Answer, Intake, Upload
from hushcall.server.problems import Problem
from hushcall.server.rounds import round_status
from hushcall.server.service import Service
from hushcall.server.settings import Settings
from hushcall_lab.servers import running, shared

PERIOD = 1000
START = 1_800_000_000
COLLECTS, CLOSES = START + PERIOD // 2, START + round(PERIOD * 0.95)
SPAM = "+12025550143"
QUICK = {"profile": "cheapest", "period": PERIOD, "decoders": 0, "scheduler": False}


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = START

    def __call__(self) -> float:
        return self.now


def settings_for(folder: Path, url: str = "", **sections: dict[str, Any]) -> Settings:
    """Settings of a small server; a section changes what it names and leaves the rest. Phones of tests just come."""
    rounds = {**QUICK, **sections.pop("round", {})}
    rounds.setdefault("tolerance", PROFILES[rounds["profile"]].tolerance)
    return Settings(
        data=folder,
        database=url,
        round=rounds,  # type: ignore[arg-type]
        enrol={"mode": "open", "work": 0, **sections.pop("enrol", {})},  # type: ignore[arg-type]
        list={"exports": [], **sections.pop("list", {})},  # type: ignore[arg-type]
        intake={"per_device": 10_000, "linger_ms": 0, "patience": 25.0, **sections.pop("intake", {})},  # type: ignore[arg-type]
        **sections,  # type: ignore[arg-type]
    )


def shared_rand(seed: str) -> ByteSource:
    """Coins that follow from ``seed``, for a service whose threads draw from them: no two draw the same."""
    return shared(seeded(seed.encode()))


def operator_token(service: Service, *scopes: str) -> str:
    """A token for an operator; without scopes it may do everything."""
    return service.devices.new_admin(frozenset(scopes or SCOPES), "a test", service.now)


def bearer(token: str) -> dict[str, str]:
    """The header that goes with a token."""
    return {"authorization": f"Bearer {token}"}


@contextmanager
def serving(service: Service) -> Iterator[httpx.Client]:
    """A real server on loopback, and a client of it. Its scheduler rests: tests move rounds themselves."""
    with running(service, scheduler=False) as address, httpx.Client(base_url=address, timeout=300) as client:
        yield client


@dataclass
class Handset:
    """A phone over HTTP, as plain as the protocol allows."""

    client: httpx.Client
    token: str

    @classmethod
    def enrolled(cls, client: httpx.Client) -> Handset:
        answer = client.post("/v1/devices")
        assert answer.status_code == 201, answer.text
        return cls(client, answer.json()["token"])

    def announce(self, bucket: Any = 202, number: object = 1) -> httpx.Response:
        return self.client.post(
            f"/v1/rounds/{number}/announcements", json={"bucket": bucket}, headers=bearer(self.token)
        )

    def ticket(self, bucket: int = 202, number: int = 1) -> str:
        answer = self.announce(bucket, number)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["ticket"])

    def report(self, ticket: str, body: bytes, number: object = 1) -> httpx.Response:
        return self.client.put(f"/v1/rounds/{number}/reports/{ticket}", content=body, headers=bearer(self.token))


def honest_report(current: dict[str, Any], ticket: str, number: str = SPAM, rand: ByteSource | None = None) -> bytes:
    """What an honest phone sends about a caller, given the round's document. Its coins follow from its ticket."""
    parsed = NANP.parse(number)
    mechanism = parameters.from_plain(current["buckets"][str(parsed.area)]["parameters"])
    public = report_seed(bytes.fromhex(current["seed"]), bytes.fromhex(ticket))
    item = MECHANISMS[current["profile"]["mechanism"]].items.item(parsed, NANP)
    return mechanism.privatise(item, public, rand or seeded(public))


@dataclass
class Village:
    """Phones that need no HTTP: they speak to the intake directly, many at once, and rounds pass quickly."""

    service: Service
    clock: Clock
    rand: ByteSource = field(default_factory=lambda: seeded(b"a village"))
    tokens: list[str] = field(default_factory=list)

    def grow(self, count: int) -> None:
        """Have at least so many phones."""
        if count > len(self.tokens):
            made = self.service.devices.enrol_many(count - len(self.tokens), self.service.now)
            self.tokens += [token for _, token in made]

    def announce(self, callers: Sequence[str]) -> list[Answer | Problem]:
        """Phone i announces the area code of caller i."""
        self.grow(len(callers))
        number = newest(self.service).id
        asked = [
            Announce(token_hash(token), number, NANP.parse(caller).area)
            for token, caller in zip(self.tokens, callers, strict=False)
        ]
        return Intake(self.service.store, "village").accept(asked)

    def report(self, callers: Sequence[str]) -> list[Answer | Problem]:
        """Phone i reports caller i."""
        return Intake(self.service.store, "village").accept(self.uploads(callers))

    def uploads(self, callers: Sequence[str]) -> list[Upload]:
        """What phones send where phone i reports caller i. They announce again first: that gives the same ticket."""
        row = newest(self.service)
        tickets = [bytes.fromhex(a.body["ticket"]) for a in self.announce(callers) if isinstance(a, Answer)]
        rows = self.service.store.rows(sa.select(schema.buckets).where(schema.buckets.c.round == row.id))
        plain = {bucket.bucket: bucket.parameters for bucket in rows if bucket.runs}
        uploads = []
        for token, caller, ticket in zip(self.tokens, callers, tickets, strict=False):
            parsed = NANP.parse(caller)
            if parsed.area in plain:
                mechanism = parameters.from_plain(json.loads(plain[parsed.area]))
                public = report_seed(bytes(row.seed), ticket)
                body = mechanism.privatise(parsed.suffix, public, self.rand)
                uploads.append(Upload(token_hash(token), int(row.id), ticket, body))
        return uploads

    def to(self, state: str, callers: Sequence[str] = ()) -> int:
        """Open a round and bring it to a state, with these callers; its number. Time passes as it would."""
        rounds = self.service.rounds
        number = rounds.open(self.service.now)
        row = newest(self.service)
        if callers:
            self.announce(callers)
        if state == "announcing":
            return number
        self.clock.now = row.collects
        rounds.start_collecting(number, self.service.now)
        if callers:
            self.report(callers)
        if state == "collecting":
            return number
        self.clock.now = row.closes
        rounds.close(number)
        if state == "closed":
            return number
        rounds.learn(number)
        if state == "decoded":
            return number
        rounds.publish(number, self.service.now)
        self.clock.now = row.next
        return number


def newest(service: Service) -> RoundRow:
    """The round that phones see: there is one."""
    row = service.rounds.newest()
    assert row is not None
    return row


UNDER_WAY = ("announcing", "collecting", "closed", "decoded")
"""The states of a round that is not over."""


def state(service: Service, number: int = 1) -> str:
    """What an operator is told of a round's state."""
    return str(round_status.status(service.store, number)["state"])


def everything(service: Service) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, but for leases: to see that nothing changed."""
    tables = [table for table in schema.metadata.sorted_tables if table.name != "leases"]
    return {
        table.name: sorted((tuple(row) for row in service.store.rows(sa.select(table))), key=repr) for table in tables
    }


def downgraded(url: str, revision: str) -> None:
    """Make a database what it was under an earlier release."""
    config, engine = Config(), make_engine(url)
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
    engine.dispose()


@contextmanager
def plans(store: Store) -> Iterator[list[str]]:
    """How the database finds what is asked of reports and announcements meanwhile."""
    found: list[str] = []
    explain = "EXPLAIN (FORMAT JSON) " if store.postgres else "EXPLAIN QUERY PLAN "

    def look(_: Any, cursor: Any, statement: str, given: Any, *__: Any) -> None:
        if statement.startswith("SELECT") and ("FROM reports" in statement or "FROM announcements" in statement):
            cursor.execute(explain + statement, given)
            found.append(str(cursor.fetchall()))

    event.listen(store.engine, "before_cursor_execute", look)
    try:
        yield found
    finally:
        event.remove(store.engine, "before_cursor_execute", look)
