"""Which callers count: a call log and contacts come in, the numbers that may be reported leave.

A number counts when it called (taken, missed, rejected, or to voicemail), is a number of the plan (not hidden, short or
foreign), is not among the contacts, is not known otherwise (the owner called it, or the phone has a name for it),
called within the window, and was not reported within the horizon. Reading the same log twice changes nothing.

Where nobody is left, a caller is made up (:func:`make_up`), and then is chosen, announced again while its bucket is
skipped, reported and retired exactly as if it had called: a phone without calls takes the same steps as one with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hushcall.errors import InvalidNumber
from hushcall.formats.calls.call import Call, CallKind
from hushcall.numbers import Number, NumberingPlan
from hushcall.numbers.dialled import tail
from hushcall.phone.home.action import Action
from hushcall.phone.home.personal import Personal
from hushcall.phone.home.store import Store
from hushcall.phone.reporting.ledger import DAY
from hushcall.privacy.coins import WORD_BYTES, ByteSource, read, uniform, words

COUNTED = frozenset({CallKind.INCOMING, CallKind.MISSED, CallKind.REJECTED, CallKind.VOICEMAIL})


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of the calls of a log. ``callers``: different numbers among the calls that count.

    ``strangers`` are those of them that this log neither names nor has the owner calling; ``known`` are the others,
    and whom the owner called.
    """

    calls: int = 0
    callers: int = 0
    strangers: int = 0
    known: int = 0
    hidden: int = 0
    foreign: int = 0
    ignored: int = 0


def ingest(store: Store, calls: Iterable[Call], plan: NumberingPlan, now: int) -> Ingested:
    """Remember who called when, and whom the owner knows. One transaction, and idempotent."""
    parsed: dict[str, str] = {}
    made: dict[str, frozenset[str]] = {}
    seen: dict[str, tuple[int, bool]] = {}
    count = hidden = foreign = ignored = 0
    for call in calls:
        count += 1
        if call.hidden:
            hidden += 1
        elif call.kind is CallKind.OUTGOING:
            if call.number not in made:
                made[call.number] = _reached(call.number, plan)
            reached = made[call.number]
            foreign += not reached
            seen |= {number: (seen.get(number, (0, False))[0], True) for number in reached}
        elif call.kind not in COUNTED:
            ignored += 1
        elif not (number := _e164(call.number, plan, parsed)):
            foreign += 1
        else:
            last, known = seen.get(number, (0, False))
            called = min(call.at, now)  # a clock that ran ahead must not make calls eternal
            seen[number] = max(last, called), known or bool(call.name)
    _remember(store, seen)
    callers = [known for last, known in seen.values() if last > 0]
    known_count = sum(known for _, known in seen.values())
    return Ingested(count, len(callers), callers.count(False), known_count, hidden, foreign, ignored)


def note(store: Store, calls: Iterable[tuple[Number, int]]) -> None:
    """Remember callers that were seen live: (number, unix seconds)."""
    seen: dict[str, tuple[int, bool]] = {}
    for number, at in calls:
        seen[str(number)] = max(at, seen.get(str(number), (0, False))[0]), False
    _remember(store, seen)


def add_contacts(store: Store, numbers: Iterable[str], plan: NumberingPlan) -> int:
    """Add to the contacts; how many of the plan's numbers came in. Others are no matter: they are never reported.

    A contact that is kept without its area code is nobody whom a list could let through, but is not reported either.
    """
    parsed: dict[str, str] = {}
    known: dict[str, tuple[int, bool]] = {}
    for raw in numbers:
        if not _e164(raw, plan, parsed):
            known |= dict.fromkeys(_reached(raw, plan), (0, True))
    found = sorted(set(parsed.values()) - {""})
    with store.transaction():
        store.run_many("INSERT OR IGNORE INTO contacts VALUES (?)", ((number,) for number in found))
    _remember(store, known)
    return len(found)


def contacts(store: Store) -> frozenset[str]:
    """Numbers that are always let through and never reported."""
    return frozenset(row[0] for row in store.rows("SELECT number FROM contacts"))


def is_known(store: Store, number: str) -> bool:
    """Whether it is a contact, or known otherwise: such a number is never reported, however late it became known."""
    query = "SELECT 1 FROM contacts WHERE number = ? UNION ALL SELECT 1 FROM callers WHERE number = ? AND known"
    if Personal.load(store).verdict(number) is Action.ALLOW or number.endswith(_tails(store)):
        return True
    return store.row(query, number, number) is not None


def buffered(store: Store, now: int, days: int, horizon: int, *, virtual_only: bool = False) -> list[str]:
    """The numbers that may be reported now, in order: they called within ``days``, and not yet in a report.

    A reported number comes back when it has called again and the horizon has passed, that many days of the phone's own
    clock: whatever rounds a server shows, one caller is in one report a horizon. Made-up callers are among them, by the
    same rules; ``virtual_only`` leaves the real ones out.
    """
    found = store.rows(
        "SELECT c.number FROM callers c LEFT JOIN reported r USING (number)"
        " WHERE NOT c.known AND c.last > ? AND c.number NOT IN (SELECT number FROM contacts) AND c.virtual >= ?"
        " AND (r.number IS NULL OR (r.at < c.last AND ? - r.at >= ?)) ORDER BY c.number",
        *(now - days * DAY, virtual_only, now, horizon * DAY),
    )
    tails, own = _tails(store), Personal.load(store)
    allowed = (row[0] for row in found if own.verdict(row[0]) is not Action.ALLOW)
    return [number for number in allowed if not number.endswith(tails)]


def waiting(store: Store, now: int, days: int, horizon: int) -> int:
    """How many real callers may be reported now."""
    made_up = set(buffered(store, now, days, horizon, virtual_only=True))
    return len(set(buffered(store, now, days, horizon)) - made_up)


def make_up(store: Store, number: Number, now: int, coins: ByteSource) -> None:
    """Take in a made-up caller: it called at some moment of the last day, and from here on is like any other."""
    (word,) = words(read(coins, WORD_BYTES))
    store.run(
        "INSERT INTO callers (number, last, known, virtual) VALUES (?, ?, 0, 1) ON CONFLICT (number) DO NOTHING",
        *(str(number), now - uniform(word, DAY)),
    )


def is_virtual(store: Store, number: str) -> bool:
    """Whether a caller was made up."""
    return store.row("SELECT 1 FROM callers WHERE number = ? AND virtual", number) is not None


def reported_since(store: Store, number: str, moment: int) -> bool:
    """Whether a report after that moment holds this number; one from a clock that ran ahead counts."""
    return store.row("SELECT 1 FROM reported WHERE number = ? AND at > ?", number, moment) is not None


def choose(candidates: list[str], plan: NumberingPlan, coins: ByteSource) -> tuple[Number, bool]:
    """One of them, uniformly, or a dummy; and whether it is a dummy.

    Takes 24 bytes either way: what is drawn does not depend on whether there is anything to say.
    """
    (word,) = words(read(coins, WORD_BYTES))
    dummy = plan.dummy(coins)
    if not candidates:
        return dummy, True
    return plan.parse(candidates[uniform(word, len(candidates))]), False


def of_plan(numbers: Iterable[str], plan: NumberingPlan) -> list[str]:
    """Those that the plan knows: others were kept under the plan of a server that the phone has left."""
    return [number for number in numbers if _e164(number, plan, {})]


def mark_reported(store: Store, number: str, seq: int, at: int) -> None:
    """Remember that a report holds this number."""
    store.run(
        "INSERT INTO reported VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET seq = excluded.seq, at = excluded.at",
        *(number, seq, at),
    )


def prune(store: Store, now: int, days: int, horizon: int) -> None:
    """Drop what no decision can depend on any more: calls from before the window, reports from before the horizon."""
    store.run("DELETE FROM callers WHERE NOT known AND last <= ?", now - days * DAY)
    store.run("DELETE FROM reported WHERE at <= ?", now - horizon * DAY)


def _e164(raw: str, plan: NumberingPlan, parsed: dict[str, str]) -> str:
    if raw not in parsed:
        try:
            parsed[raw] = str(plan.parse(raw))
        except InvalidNumber:
            parsed[raw] = ""
    return parsed[raw]


def _reached(dialled: str, plan: NumberingPlan) -> frozenset[str]:
    """Whom the owner may have called by this, as numbers; or how those numbers end, behind a star."""
    numbers = frozenset(map(str, plan.reached(dialled)))
    ending = tail(dialled)
    return numbers or (frozenset((f"*{ending}",)) if ending else frozenset())


def _tails(store: Store) -> tuple[str, ...]:
    """How numbers end that the owner dialled without an area code: any of them may be somebody known."""
    return tuple(row[0][1:] for row in store.rows("SELECT number FROM callers WHERE known AND number LIKE '*%'"))


def _remember(store: Store, seen: dict[str, tuple[int, bool]]) -> None:
    if not seen:
        return
    with store.transaction():
        store.run_many(
            "INSERT INTO callers (number, last, known) VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET"
            " last = max(last, excluded.last), known = max(known, excluded.known), virtual = 0",
            ((number, last, known) for number, (last, known) in sorted(seen.items())),
        )
