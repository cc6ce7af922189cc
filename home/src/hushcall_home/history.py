"""The calls of the last weeks with their verdicts: what the owner's page shows. They never leave the machine."""

from __future__ import annotations

from dataclasses import dataclass

from hushcall.client.calls import candidates
from hushcall.client.calls.candidates import Ingested
from hushcall.client.screening.screen import Screen
from hushcall.client.storage.personal import Action, any_e164
from hushcall.client.storage.store import DAY_SECONDS, Store
from hushcall.formats.calls.call import CallKind
from hushcall_home.parts import Fetched

KEPT_DAYS = 31
_STOPPED = frozenset({CallKind.REJECTED, CallKind.BLOCKED})


@dataclass(frozen=True, slots=True)
class SeenCall:
    """One call that came in, with the verdict of the moment at which it was fetched. ``number`` is E.164 or empty."""

    at: int
    number: str
    kind: CallKind
    source: str
    name: str
    action: Action
    why: str

    @property
    def blocked(self) -> bool:
        """Whether it did not ring because of the list."""
        return self.action is Action.BLOCK and self.kind in _STOPPED


def record(store: Store, screen: Screen, source: str, fetched: Fetched, now: int) -> Ingested:
    """Record fetched calls, for reports and for the page. The same calls again change nothing."""
    counts = candidates.ingest(store, fetched.calls, screen.plan, now)
    rows = []
    marks = fetched.marks or ("",) * len(fetched.calls)
    for call, mark in zip(fetched.calls, marks, strict=True):
        if call.kind is not CallKind.OUTGOING:
            number = screen.parse(call.number) or any_e164(call.number, screen.plan)
            verdict = screen.verdict(number, now)
            known = (call.name, verdict.action.value, verdict.why)
            rows.append((min(call.at, now), str(number), call.kind.value, mark, source, *known))
    store.run_many("INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    store.run("DELETE FROM calls WHERE at <= ?", now - KEPT_DAYS * DAY_SECONDS)
    return counts


def calls(store: Store, since: int) -> list[SeenCall]:
    """The calls from a moment on, the newest first."""
    query = "SELECT at, number, kind, source, name, action, why FROM calls WHERE at >= ? ORDER BY at DESC, mark DESC"
    return [
        SeenCall(at, number, CallKind(kind), source, name, Action(action), why)
        for at, number, kind, source, name, action, why in store.rows(query, since)
    ]
