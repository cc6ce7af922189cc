"""The callers that may be reported: those who called within the window and are not known, a contact or reported lately.

Blocked calls count like others: otherwise a blocked number would no longer be reported, leave the list and come back.
Where there is no caller, one is made up, so that a client without calls takes the same steps as one with calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial

from hushcall.client.reporting.consent import Limits
from hushcall.client.storage.personal import Action, Personal
from hushcall.client.storage.store import DAY_SECONDS, Store
from hushcall.errors import InvalidNumber
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.numbers import Number, NumberingPlan
from hushcall.protocol.numbers.plan import tail
from hushcall.protocol.randomness import WORD_BYTES, ByteSource, read, uniform, words

_Callers = dict[str, tuple[int, bool]]
"""Number → when it last called (0: never), and whether it is known."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a log's calls. ``strangers``: the ``callers`` that it neither names nor has the owner calling."""

    calls: int = 0
    callers: int = 0
    strangers: int = 0
    known: int = 0
    hidden: int = 0
    foreign: int = 0


def ingest(store: Store, calls: Iterable[Call], plan: NumberingPlan, now: int) -> Ingested:
    """Record who called when, and whom the owner knows. One transaction, and idempotent."""
    talked_seconds = Limits.load(store).talked_seconds
    e164, reached = cache(partial(_e164, plan)), cache(partial(_reached, plan))
    callers: _Callers = {}
    count = hidden = foreign = 0
    for call in calls:
        count += 1
        if call.hidden:
            hidden += 1
        elif call.kind is CallKind.OUTGOING:
            numbers = reached(call.number)
            foreign += not numbers
            callers |= {number: (callers.get(number, (0, False))[0], True) for number in numbers}
        elif not (number := e164(call.number)):
            foreign += 1
        else:
            last, is_known = callers.get(number, (0, False))
            called = min(call.at, now)  # a clock that ran ahead must not make calls eternal
            callers[number] = max(last, called), is_known or bool(call.name) or talked(call, talked_seconds)
    _remember(store, callers)
    flags = [flag for last, flag in callers.values() if last > 0]
    known_count = sum(flag for _, flag in callers.values())
    return Ingested(count, len(flags), flags.count(False), known_count, hidden, foreign)


def talked(call: Call, talked_seconds: int) -> bool:
    """Whether the owner answered and talked so long. A log without durations does not say, and is taken for no."""
    return call.kind is CallKind.INCOMING and (call.duration_seconds or 0) >= talked_seconds


def note(store: Store, calls: Iterable[tuple[Number, int]]) -> None:
    """Record callers that were seen live: (number, unix seconds)."""
    callers: _Callers = {}
    for number, at in calls:
        callers[str(number)] = max(at, callers.get(str(number), (0, False))[0]), False
    _remember(store, callers)


def add_contacts(store: Store, numbers: Iterable[str], plan: NumberingPlan) -> int:
    """Returns how many are numbers of the plan. Others can be no candidates anyway."""
    parsed = {raw: _e164(plan, raw) for raw in numbers}
    reached = {number for raw, e164 in parsed.items() if not e164 for number in _reached(plan, raw)}
    added = sorted(set(parsed.values()) - {""})
    with store.transaction():
        store.run_many("INSERT OR IGNORE INTO contacts VALUES (?)", ((number,) for number in added))
    _remember(store, dict.fromkeys(reached, (0, True)))
    return len(added)


def contacts(store: Store) -> frozenset[str]:
    return frozenset(number for (number,) in store.rows("SELECT number FROM contacts"))


def is_known(store: Store, number: str) -> bool:
    query = "SELECT 1 FROM contacts WHERE number = ? UNION ALL SELECT 1 FROM callers WHERE number = ? AND known"
    if Personal.load(store).verdict(number) is Action.ALLOW or number.endswith(_tails(store)):
        return True
    return store.row(query, number, number) is not None


def reportable(store: Store, now: int, window_days: int, horizon_days: int, *, virtual_only: bool = False) -> list[str]:
    """The sorted numbers, made-up ones included. A reported number comes back once it calls again after the horizon."""
    rows = store.rows(
        "SELECT c.number FROM callers c LEFT JOIN reported r USING (number)"
        " WHERE NOT c.known AND c.last > ? AND c.number NOT IN (SELECT number FROM contacts) AND c.virtual >= ?"
        " AND (r.number IS NULL OR (r.at < c.last AND ? - r.at >= ?)) ORDER BY c.number",
        *(now - window_days * DAY_SECONDS, virtual_only, now, horizon_days * DAY_SECONDS),
    )
    tails, own = _tails(store), Personal.load(store)
    return [number for (number,) in rows if own.verdict(number) is not Action.ALLOW and not number.endswith(tails)]


def count_reportable(store: Store, now: int, window_days: int, horizon_days: int) -> int:
    made_up = reportable(store, now, window_days, horizon_days, virtual_only=True)
    return len(reportable(store, now, window_days, horizon_days)) - len(made_up)


def make_up(store: Store, number: Number, now: int, rand: ByteSource) -> None:
    (word,) = words(read(rand, WORD_BYTES))
    store.run(
        "INSERT INTO callers (number, last, known, virtual) VALUES (?, ?, 0, 1) ON CONFLICT (number) DO NOTHING",
        *(str(number), now - uniform(word, DAY_SECONDS)),
    )


def is_virtual(store: Store, number: str) -> bool:
    return store.row("SELECT 1 FROM callers WHERE number = ? AND virtual", number) is not None


def reported_since(store: Store, number: str, moment: int) -> bool:
    """Whether a report after that moment holds this number. One from a clock that ran ahead counts."""
    return store.row("SELECT 1 FROM reported WHERE number = ? AND at > ?", number, moment) is not None


def spam_first(store: Store, numbers: list[str]) -> list[str]:
    """Those of the numbers that the owner blocks, or all where there are none."""
    own = Personal.load(store)
    return [number for number in numbers if own.verdict(number) is Action.BLOCK] or numbers


def choose(candidates: list[str], plan: NumberingPlan, rand: ByteSource) -> tuple[Number, bool]:
    """A uniform candidate, or a dummy where there is none, and whether it is one. Takes 24 bytes in either case."""
    (word,) = words(read(rand, WORD_BYTES))
    dummy = plan.dummy(rand)
    if not candidates:
        return dummy, True
    return plan.parse(candidates[uniform(word, len(candidates))]), False


def of_plan(numbers: Iterable[str], plan: NumberingPlan) -> list[str]:
    """The numbers that the plan has. Others date from a server with another plan."""
    return [number for number in numbers if _e164(plan, number)]


def mark_reported(store: Store, number: str, seq: int, at: int) -> None:
    store.run(
        "INSERT INTO reported VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET seq = excluded.seq, at = excluded.at",
        *(number, seq, at),
    )


def prune(store: Store, now: int, window_days: int, horizon_days: int) -> None:
    store.run("DELETE FROM callers WHERE NOT known AND last <= ?", now - window_days * DAY_SECONDS)
    store.run("DELETE FROM reported WHERE at <= ?", now - horizon_days * DAY_SECONDS)


def _e164(plan: NumberingPlan, raw: str) -> str:
    try:
        return str(plan.parse(raw))
    except InvalidNumber:
        return ""


def _reached(plan: NumberingPlan, dialled: str) -> frozenset[str]:
    numbers = frozenset(map(str, plan.reached(dialled)))
    ending = tail(dialled)
    return numbers or (frozenset((f"*{ending}",)) if ending else frozenset())


def _tails(store: Store) -> tuple[str, ...]:
    """Last digits of numbers that the owner dialled without an area code. Any number that ends so may be known."""
    rows = store.rows("SELECT number FROM callers WHERE known AND number LIKE '*%'")
    return tuple(number[1:] for (number,) in rows)


def _remember(store: Store, callers: _Callers) -> None:
    if not callers:
        return
    with store.transaction():
        store.run_many(
            "INSERT INTO callers (number, last, known) VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET"
            " last = max(last, excluded.last), known = max(known, excluded.known), virtual = 0",
            ((number, last, flag) for number, (last, flag) in sorted(callers.items())),
        )
