"""The values of every page, for one process. Live parts are rendered at most once in two seconds for all viewers."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import segno
import sqlalchemy as sa
from jinja2.utils import htmlsafe_json_dumps

from hushcall.protocol.pairing import pairing
from hushcall.protocol.states import PUBLISHED
from hushcall.server.auth import operators
from hushcall.server.auth.devices import SCOPES
from hushcall.server.db import schema
from hushcall.server.db.rows import round_rows
from hushcall.server.db.store import PublishedFiles, Store
from hushcall.server.http.public_cache import Lists
from hushcall.server.rounds.round_status import Progress, progress, refused
from hushcall.server.service import Service
from hushcall.server.signing.ceremony import root_sha256
from hushcall.server.web import findings, rendering
from hushcall.server.web.budget import Budget, sets_of_any_size
from hushcall.server.web.findings import PAGE, Slice
from hushcall.server.web.health import Health, health, machine
from hushcall.server.web.rendering import Participation, Served, render

LIVE_SECONDS = 2.0
"""The age of a live part at most, which is as long as a viewer's script waits."""
SLOW_SECONDS = 30.0
FOREVER = float("inf")
HISTORY_ROUNDS = 30
SHOWN_ROUNDS = 4
"""Unfinished rounds on the overview."""
QR_MARGIN = 4
"""Light cells around a QR code, so that cameras find it."""
Value = TypeVar("Value")


class Cached(Generic[Value]):
    """A value that is computed at most once in an interval."""

    def __init__(self, make: Callable[[], Value], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._seconds, self._clock = make, seconds, clock
        self._lock, self._until = Lock(), float("-inf")
        self._value: Value

    def get(self) -> Value:
        with self._lock:  # one thread computes it, the others wait for it
            if self._clock() >= self._until:
                self._value = self._make()
                self._until = self._clock() + self._seconds
            return self._value

    def forget(self) -> None:
        with self._lock:
            self._until = float("-inf")


@dataclass(frozen=True)
class Overview:
    """Unfinished rounds (newest first), participation (oldest first), refused uploads by reason."""

    rounds: tuple[Progress, ...]
    participation: tuple[Participation, ...]
    refused: tuple[tuple[str, int], ...]
    devices: int


def overview(store: Store) -> Overview:
    """Reads the overview with a few queries in one transaction, however many rounds and buckets there are."""
    with store.read() as connection:
        newest_first = sa.select(schema.rounds).order_by(schema.rounds.c.id.desc())
        rows = round_rows(connection, newest_first.limit(HISTORY_ROUNDS))
        unfinished = round_rows(connection, newest_first.where(schema.rounds.c.state != PUBLISHED).limit(SHOWN_ROUNDS))
        newest = [*rows[:1], *(row for row in unfinished if not rows or row.id != rows[0].id)][:SHOWN_ROUNDS]
        rounds = tuple(progress(connection, newest))
        counts = refused(connection, [row.id for row in rows])
        devices = connection.execute(sa.select(sa.func.count()).where(schema.devices.c.revoked.is_(None))).scalar_one()
    live = {round_.id: round_.announced for round_ in rounds}
    by_round, by_name = Counter[int](), Counter[str]()
    for round_id, name, value in counts:
        by_round[round_id] += value
        by_name[name] += value
    history = [
        Participation(row.id, row.opens, live.get(row.id, row.announced), by_round[row.id]) for row in reversed(rows)
    ]
    most_first = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))
    return Overview(rounds, tuple(history), tuple(most_first), devices)


@dataclass(frozen=True)
class Connect:
    """How a phone connects: a command, and its address as the cells of a QR code. ``size`` includes the margin."""

    address: str
    command: str
    path: str
    size: int


class Site:
    def __init__(self, service: Service, lists: Lists) -> None:
        self.service, self.lists = service, lists
        self.sessions = operators.Sessions(service.store, lambda: operators.secret_of(service.settings.keys))
        self.overview: Cached[Overview] = Cached(lambda: overview(service.store), LIVE_SECONDS)
        self.health: Cached[Health] = Cached(lambda: health(service.store, service.settings, service.now), LIVE_SECONDS)
        self.machine = Cached(lambda: machine(service.store), SLOW_SECONDS)
        self.values: dict[str, Callable[[], dict[str, Any]]] = {}
        self.pages: dict[str, Cached[Served]] = {}
        self.add("parts/live_public.html", self.public_values)
        self.add("parts/live.html", self.live_values)
        self.add("parts/decided.html", self.decided_values)  # it changes once a round: buckets and findings
        self.add("owner.html", self.owner_values)
        self.add("welcome.html", self.welcome_values)

    def add(self, template: str, values: Callable[[], dict[str, Any]], seconds: float = LIVE_SECONDS) -> None:
        """A page, or a part of one, that is the same for all its viewers."""
        path = "/" if template == "welcome.html" else f"/{template.removesuffix('.html')}"

        def rendered() -> Served:
            common = {"session": None, "flash": "", "path": path, "now": self.service.now}
            return Served.of(render(template, **common | values()))

        self.values[template], self.pages[template] = values, Cached(rendered, seconds)

    def forget(self) -> None:
        cached: list[Cached[Any]] = [self.overview, self.health, *self.pages.values()]
        for value in cached:
            value.forget()

    def welcome_values(self) -> dict[str, Any]:
        from hushcall.decoding import planning  # imports scipy and numba: too long for the server's start

        budget = self.budget()
        needed = planning.needed_in_words(budget.profile, self.service.plan)
        return {"budget": budget, "needed": needed, "live": self.pages["parts/live_public.html"].get().data.decode()}

    def budget(self) -> Budget:
        """The privacy budget of the newest round, or of the first one to come."""
        newest, settings = self.service.rounds.newest(), self.service.settings
        relay = bool(settings.round.relay)
        if newest is None:
            return Budget(settings.profile, settings.window_days, relay)
        return Budget(newest.profile, newest.window_days, relay)

    def public_values(self) -> dict[str, Any]:
        """For everybody. It tells nothing about any phone, nor how many there are."""
        return {"round": self.service.rounds.newest(), "health": self.health.get(), "now": self.service.now}

    def live_values(self) -> dict[str, Any]:
        values = self.overview.get()
        bars, top = rendering.participation(values.participation)
        return {
            "overview": values,
            "bars": bars,
            "top": top,
            "health": self.health.get(),
            "now": self.service.now,
            "decided_key": self._key(),
            "scheduler": self.service.settings.round.scheduler,
        }

    def _key(self) -> str:
        """Changes when the decided part may have changed."""
        rounds = "-".join(f"{row.id}.{row.phase}.{row.findings}" for row in self.overview.get().rounds)
        published = self.health.get().published
        return f"{published.version if published else 0}-{rounds}"

    def decided_values(self) -> dict[str, Any]:
        round_id, buckets = findings.buckets(self.service.store)
        return {
            "bucket_round": round_id,
            "buckets": buckets,
            "map": rendering.heat_map(buckets),
            "found": findings.hitters(self.service.store, self.service.settings, self.lists.newest()),
            "decided_key": self._key(),
        }

    def owner_values(self) -> dict[str, Any]:
        current = self.budget()
        profile, plan = current.profile, self.service.plan
        settings = {
            "profile": profile.name,
            "mechanism": profile.mechanism,
            "epsilon": profile.epsilon,
            "bits_example": self._report_bits(profile.epsilon),
            "tau": profile.tau,
            "window_days": current.window_days,
            "plan": plan.name,
            "items": profile.spec.items.layout(plan),
        }
        return {
            "settings_json": htmlsafe_json_dumps(settings),
            "list_url": "/v1/lists/current/blocklist.jsonl",
            "budget": current,
            "sets": sets_of_any_size(current),
        }

    def _report_bits(self, epsilon: float) -> int:
        """The bits of a report in the newest round's largest bucket, or a likely number before the first round."""
        buckets = schema.buckets.c
        query = sa.select(buckets.parameters).where(buckets.runs.is_(True))
        rows = self.service.store.rows(query.order_by(buckets.round.desc(), buckets.users.desc()).limit(1))
        bits = json.loads(rows[0].parameters).get("bits") if rows else None
        return int(bits) if bits else max(math.ceil(epsilon / math.log(2)) - 1, 1)

    def access_values(self, page: int) -> dict[str, Any]:
        """One page of devices, newest first, with all invite codes and tokens."""
        devices, table = self.service.devices, schema.devices.c
        with self.service.store.read() as connection:
            count = sa.select(sa.func.count(), sa.func.count(table.revoked))
            enrolled, revoked = connection.execute(count).one()
            pages = max(-(-enrolled // PAGE), 1)
            page = min(page, pages)
            newest = sa.select(table.id, table.enrolled, table.revoked).order_by(table.enrolled.desc(), table.id)
            rows = connection.execute(newest.limit(PAGE).offset((page - 1) * PAGE)).all()
        return {
            "devices": Slice(rows, page, pages),
            "enrolled": enrolled,
            "revoked": revoked,
            "invites": devices.invites(),
            "tokens": devices.admins(),
            "scopes": SCOPES,
        }

    def connect(self, origin: str, mode: str) -> Connect:
        """How a phone connects to this server at ``origin``. The QR code holds what ``phone init --server`` takes."""
        with self.service.store.read() as connection:
            address = pairing(origin, root_sha256(PublishedFiles(connection)))
        invite = {"invite": " --invite CODE", "operator": " --token TOKEN"}.get(mode, "")
        cells = segno.make(address, error="m", micro=False).matrix
        dark = ((x + QR_MARGIN, y + QR_MARGIN) for y, row in enumerate(cells) for x, cell in enumerate(row) if cell)
        path = "".join(f"M{x} {y}h1v1h-1z" for x, y in dark)
        return Connect(address, f"hushcall phone init --server '{address}'{invite}", path, len(cells) + 2 * QR_MARGIN)
