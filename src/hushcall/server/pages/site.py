"""One process's pages over a service: what is kept between requests, and what each page needs to know.

Live parts are worked out and rendered at most once a second, however many people look.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from jinja2.utils import htmlsafe_json_dumps

from hushcall.protocol.states import HELD, PHASES, PUBLISHED
from hushcall.server.access import sessions
from hushcall.server.db.schema import buckets
from hushcall.server.pages import charts, crowd, findings
from hushcall.server.pages.health import Budget, Health, health, machine
from hushcall.server.pages.listed import Lists
from hushcall.server.pages.overview import BARS, DONE, Kept, Overview, overview
from hushcall.server.pages.rendering import Served, render
from hushcall.server.service import Service

LIVE_SECONDS = 2.0
"""How old a live part may be: as long as a viewer waits between two looks, so that fifty cost what one does."""
SLOW_SECONDS = 30.0
FOREVER = float("inf")


class Site:
    """What the routes ask."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.lists = Lists(service.store)
        self.sessions = sessions.Sessions(service.store, lambda: sessions.secret_of(service.settings.keys))
        self.overview: Kept[Overview] = Kept(lambda: overview(service.store), LIVE_SECONDS)
        self.health: Kept[Health] = Kept(lambda: health(service), LIVE_SECONDS)
        self.machine = Kept(lambda: machine(service), SLOW_SECONDS)
        self._public = Kept(lambda: self._part("parts/live_public.html", self.public_values()), LIVE_SECONDS)
        self._live = Kept(lambda: self._part("parts/live.html", self.live_values()), LIVE_SECONDS)
        self.pages: dict[str, Kept[Served]] = {
            "docs.html": Kept(lambda: self._anonymous("docs.html"), FOREVER),
            "owner.html": Kept(lambda: self._part("owner.html", self.owner_values()), LIVE_SECONDS),
            "welcome.html": Kept(lambda: self._anonymous("welcome.html"), LIVE_SECONDS),
        }
        self.values: dict[str, Callable[[], dict[str, Any]]] = {"welcome.html": self.welcome_values}
        self._decided = Kept(lambda: self._part("parts/decided.html", self.decided_values()), LIVE_SECONDS)

    def forget(self) -> None:
        """After an action: the next page shows what it did."""
        everything: list[Kept[Any]] = [self.overview, self.health, self._public, self._live, self._decided]
        for kept in (*everything, *self.pages.values()):
            kept.forget()

    def live(self, *, operator: bool) -> Served:
        """What the overview's script asks for again and again."""
        return (self._live if operator else self._public).get()

    def decided(self) -> Served:
        """What changes once a round: buckets and what was found."""
        return self._decided.get()

    def _anonymous(self, template: str) -> Served:
        """A whole page as anybody sees it who is nobody in particular."""
        path = {"welcome.html": "/"}.get(template, f"/{template.removesuffix('.html')}")
        common = {"session": None, "flash": "", "path": path, "now": self.service.now}
        return self._part(template, {**common, **self.values[template]()})

    def welcome_values(self) -> dict[str, Any]:
        """What the first page shows to everybody."""
        return {"budget": self.budget(), "live": self.live(operator=False).data.decode()}

    def _part(self, template: str, values: Mapping[str, Any]) -> Served:
        return Served.of(render(template, **values))

    def budget(self) -> Budget:
        """The privacy budget in force: that of the newest round, or what the first one will have."""
        newest, settings = self.service.rounds.newest(), self.service.settings
        relay = bool(settings.round.relay)
        if newest is None:
            return Budget(settings.profile, settings.list.window, relay)
        return Budget(newest.profile, newest.window, relay)

    def crowds(self) -> list[crowd.Crowd]:
        """What the crowds of the newest round add, for operators."""
        return crowd.of_newest_round(self.service.store, self.budget())

    def public_values(self) -> dict[str, Any]:
        """What anybody may know: nothing in it is about any phone, nor how many there are."""
        newest = self.service.rounds.newest()
        round_ = None
        if newest is not None:
            held = newest.state == HELD
            times = {"opens": newest.opens, "collects": newest.collects, "closes": newest.closes}
            ends = {"deadline": None if held else newest.deadline, "held": held, "over": newest.state == PUBLISHED}
            round_ = {"id": newest.id, "state": newest.state, **ends, **times}
        return {"round": round_, "health": self.health.get(), "now": self.service.now, **_NAMES}

    def live_values(self) -> dict[str, Any]:
        """Rounds under way, participation, refusals."""
        seen = self.overview.get()
        chart = charts.participation(seen.took)
        key = self._key()
        return {
            "overview": seen,
            "chart": chart,
            "health": self.health.get(),
            "now": self.service.now,
            "decided_key": key,
            "scheduler": self.service.settings.round.scheduler,
            **_NAMES,
        }

    def _key(self) -> str:
        """Changes when the decided part may have."""
        rounds = "-".join(f"{one.id}.{one.phase}.{one.findings}" for one in self.overview.get().rounds)
        published = self.health.get().published
        return f"{published.version if published else 0}-{rounds}"

    def decided_values(self) -> dict[str, Any]:
        """The newest round's buckets and finds."""
        round_id, buckets = findings.buckets(self.service.store)
        return {
            "bucket_round": round_id,
            "buckets": buckets,
            "map": charts.heat_map(buckets),
            "found": findings.hitters(self.service, self.lists.newest()),
            "paged": False,
            "decided_key": self._key(),
        }

    def owner_values(self) -> dict[str, Any]:
        """What the phone owners' page works with."""
        budget = self.budget()
        profile, plan = budget.profile, self.service.plan
        settings = {
            "profile": profile.name,
            "mechanism": profile.mechanism,
            "epsilon": profile.epsilon,
            "bits_example": self._bits(profile.epsilon),
            "tau": profile.tau,
            "window": budget.window,
            "plan": plan.name,
            "country_code": plan.country_code,
            "area_codes": plan.area_codes,
        }
        return {
            "settings_json": htmlsafe_json_dumps(settings),
            "list_url": "/v1/lists/current/blocklist.jsonl",
            "budget": budget,
            "crowds": crowd.of_any_size(budget),
        }

    def _bits(self, epsilon: float) -> int:
        """How many bits a report has in the largest bucket of the newest round, or would have."""
        query = sa.select(buckets.c.parameters).where(buckets.c.runs.is_(True))
        rows = self.service.store.rows(query.order_by(buckets.c.round.desc(), buckets.c.users.desc()).limit(1))
        bits = json.loads(rows[0].parameters).get("bits") if rows else None
        return int(bits) if bits else max(math.ceil(epsilon / math.log(2)) - 1, 1)


_NAMES: dict[str, Any] = {"phases": PHASES, "phase_words": DONE, "phase_bars": BARS}
