"""A service whose database tells a story: weeks of rounds, one under way, finds, appeals. For tests of the pages."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from tests.server.new_folder import careless, copy, open_new, temporary
from tests.server.serving import shared_rand

from hushcall.mechanisms.profiles import DEFAULT
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader, digest
from hushcall.protocol.numbers import NANP
from hushcall.server.auth.devices import SCOPES
from hushcall.server.db import list_entries, partitions, schema
from hushcall.server.http.public_cache import Lists
from hushcall.server.publishing import exclusions
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings

NOW = 1_800_000_000
DAY = 86_400
LISTED = "+12025550143"
UNLISTED = "+12125550187"
ALLOWED = "+13105550172"
WHY_APPEAL = "MARKER a school's daily call"
WHY_ALLOWED = "MARKER the pharmacy's reminder line"
USERS = 48_731  # of area code 202
DEVICE = 7_654_321
GUARD = "MARKER 812 of 5,000 uploads were refused"
MARKERS = (
    UNLISTED,
    "212 555 0187",
    ALLOWED,
    "310 555 0172",
    WHY_APPEAL[:6],
    "48731",
    "48,731",
    "7654321",
    "9,417",
    "9417",
)
"""What only an operator may see: see :func:`seed`."""


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class Seeded:
    """A service with its story, and a token that may do everything."""

    service: Service
    token: str
    clock: Clock = field(default_factory=Clock)

    def token_for(self, *scopes: str) -> str:
        """A token that may do this and no more."""
        return self.service.devices.new_admin(frozenset(scopes), "of a test", NOW)


def open_seeded(folder: Path, *, url: str = "", story: bool = True) -> Seeded:
    """A service over an empty folder; with its story, unless a test writes its own."""
    clock = Clock()
    if story and not url:
        made, token = _told()
        copy(made, folder)
        service = open_service(_settings(folder), shared_rand("a story goes on"), clock)
        careless(service)
        return Seeded(service, token, clock)
    service = open_new(_settings(folder, url), shared_rand("a story"), clock)
    token = service.devices.new_admin(frozenset(SCOPES), "the operator", NOW)
    if story:
        seed(service)
    return Seeded(service, token, clock)


@cache
def _told() -> tuple[Path, str]:
    """A folder with the story, and its operator's token: told once, and copied."""
    folder = temporary()
    service = open_service(_settings(folder), shared_rand("a story"), Clock())
    token = service.devices.new_admin(frozenset(SCOPES), "the operator", NOW)
    seed(service)
    service.close()
    return folder, token


def _settings(folder: Path, url: str = "") -> Settings:
    return Settings(
        data=folder,
        database=url,
        round={"decoders": 0, "scheduler": False, "profile": "balanced", "tolerance": 5},  # type: ignore[arg-type]
        enrol={"mode": "open", "work": 0},  # type: ignore[arg-type]
        list={"exports": []},  # type: ignore[arg-type]
    )


def round_row(number: int, state: str, opens: int, **changes: Any) -> dict[str, Any]:
    """A row of the table of rounds."""
    times = {"opens": opens, "collects": opens + DAY // 2, "closes": opens + DAY - 3600, "next": opens + DAY}
    row = {
        "id": number,
        "state": state,
        "held_from": None,
        "reason": "",
        "profile": json.dumps(DEFAULT.to_plain(), sort_keys=True),
        "plan": NANP.name,
        "window": 7,
        "seed": bytes(32),
        "secret": bytes(32),
        "announced": 9_000 + number * 37 % 900 - (number % 5) * 260,
        "rejected": 0,
    }
    return {**row, **times, **changes}


def bucket_rows(number: int, codes: int, users: int = USERS) -> list[dict[str, Any]]:
    """Buckets of all sizes, some too small to run."""
    dice = random.Random(number)
    rows = []
    for code in NANP.area_codes[:codes]:
        size = users if code == 202 else int(10 ** dice.uniform(0.7, 4.2))
        plain = json.dumps({"mechanism": "subspace", "epsilon": 4.0, "bits": 5, "item_bits": 24}) if size > 22 else None
        rows.append({"round": number, "bucket": code, "users": size, "runs": size > 22, "parameters": plain})
    return rows


def hitter_rows(number: int, count: int) -> list[dict[str, Any]]:
    """Numbers that were found: the listed one, the one that is not, and others."""
    dice = random.Random(number)
    numbers = [LISTED, UNLISTED, ALLOWED]
    numbers += [f"+1{NANP.area_codes[place * 7 % 400]}555{2000 + place}" for place in range(count)]
    rows = []
    for place, text in enumerate(sorted(set(numbers))):
        estimate = 9_417.0 if text == UNLISTED else round(dice.uniform(30, 900), 1)
        spread = 12 + estimate / 9
        values = {
            "estimate": estimate,
            "low": estimate - spread,
            "high": estimate + spread,
            "p_value": 10.0 ** -(9 + place % 9),
        }
        rows.append({"round": number, "number": text, "bucket": int(text[2:5]), **values})
    return rows


def seed(service: Service, codes: int = 430, rounds: int = 14) -> None:
    """Rounds 1 to 13 are published, 14 collects. Its markers are in MARKERS."""
    rows = [round_row(n, "published", NOW - (rounds - n) * DAY - 20 * 3600) for n in range(1, rounds)]
    rows.append(round_row(rounds, "collecting", NOW - 15 * 3600))
    found = [row for n in range(rounds - 5, rounds) for row in hitter_rows(n, 40)]
    with service.store.write("seed") as connection:
        connection.execute(sa.insert(schema.rounds), rows)
        partitions.make(connection, rounds)
        connection.execute(sa.insert(schema.buckets), [*bucket_rows(rounds - 1, codes), *bucket_rows(rounds, codes)])
        connection.execute(sa.insert(schema.hitters), found)
        connection.execute(sa.insert(schema.devices), [{"id": DEVICE, "token_hash": bytes(32), "enrolled": NOW}])
        connection.execute(
            sa.insert(schema.announcements),
            [{"round": rounds, "device": DEVICE, "bucket": 202, "ticket": DEVICE.to_bytes(16, "big")}],
        )
        reports = [
            {"ticket": n.to_bytes(16, "big"), "round": rounds, "bucket": 202, "body": b"\1\4\0"} for n in range(900)
        ]
        connection.execute(sa.insert(schema.reports), reports)
        counts = {"wrong-phase": 31, "malformed-report": 4, "bucket-skipped": 12}
        connection.execute(
            sa.insert(schema.counters),
            [{"round": rounds - 1, "name": name, "worker": "w", "value": value} for name, value in counts.items()],
        )
    exclusions.appeal(service.store, UNLISTED, WHY_APPEAL, "the school", NOW - 7200)
    exclusions.allow(service.store, ALLOWED, WHY_ALLOWED, "the pharmacy", NOW - DAY)
    service.publisher.republish(NOW)


def big_list(service: Service, entries: int) -> None:
    """A published version of that many entries, put there directly."""
    put_list(service, [f"+1{NANP.area_codes[n % len(NANP.area_codes)]}{2_000_000 + 37 * n}" for n in range(entries)])


def put_list(service: Service, listed: Iterable[str]) -> None:
    """A published version of these numbers, put there directly."""
    terms = ListHeader(DEFAULT.mechanism, DEFAULT.epsilon, DEFAULT.tau, DEFAULT.level, NANP.name, 7)
    numbers = sorted(listed)
    made = Blocklist(
        2, 13, NOW - DAY, terms, tuple(Entry(n, NOW - 3 * DAY, NOW - DAY, 3, 118.2, 97.0, 140.1, 1e-9) for n in numbers)
    )
    data = made.to_bytes()
    head, *lines = data.splitlines(keepends=True)
    row = {"version": 2, "round": 13, "made": NOW - DAY, "entries": len(numbers), "sha256": digest(data), "data": head}
    with service.store.write("big list") as connection:
        connection.execute(sa.insert(schema.versions), [row])
        before = {
            number: (line, None)
            for number, line in connection.execute(sa.select(schema.entries.c.number, schema.entries.c.line))
        }
        after = {number: (before.get(number, (None,))[0], line) for number, line in zip(numbers, lines, strict=True)}
        list_entries.put(connection, 2, {**before, **after}, 2)


def published(seeded: Seeded) -> set[str]:
    """The numbers on the list that phones download."""
    found = Lists(seeded.service.store).newest()
    assert found is not None
    return {entry.number for entry in found.index.entries(range(len(found.index)))}


def queries(seeded: Seeded) -> list[str]:
    """What the database is asked from now on."""
    asked: list[str] = []

    def note(*given: Any) -> None:
        if given[2] != "BEGIN":
            asked.append(given[2])

    sa.event.listen(seeded.service.store.engine, "before_cursor_execute", note)
    return asked
