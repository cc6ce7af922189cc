"""The phone's books: what a report would cost comes in, yes or a reason leaves; every spend is written down first.

Sums are exact fractions, times are the phone's own clock. A cap is a hard stop: a phone at its cap neither announces
nor reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.schemes import sends_area_code
from hushcall.phone.home.store import Store
from hushcall.protocol.blocklist import iso
from hushcall.wording import counted

DAY = 86_400
REPORT = "report"
ASSUMED = "assumed"
"""What a spend is called that may have been made by the store that a backup was put back for (:func:`assume`)."""
CLEAR = "The area code itself is not protected. "


@dataclass(frozen=True)
class Limits:
    """What the owner allows, whatever a server asks for.

    ``report``: ε of one report. ``window``: ε over any ``days`` days; the default is eight reports at ε = 4: a phone
    that takes part every day, at a random hour, touches eight calendar days in seven times 24 hours. ``life``: ε in
    all; the default is a year of such days. As a bound on a *whole* call history sums of this size promise little;
    what they bound is how often a server can ask. The promise about one number is in :func:`guarantee`.
    """

    report: Fraction = Fraction(4)
    window: Fraction = Fraction(32)
    life: Fraction = Fraction(1460)
    days: int = 7
    horizon: int = 30  # days in which one caller is in at most one report
    rounds_per_day: int = 1  # joined, and reports recorded
    area_in_clear: bool = True  # whether the area code of a reported number may travel unprotected
    least_crowd: int = 0  # phones without a name that a round must have, or nothing is sent without one
    by_name: bool = True  # whether reports may carry the device's name; False: only rounds that take blind tokens
    mechanisms: str = "subspace whole-number"  # that a server may use, by name

    def __post_init__(self) -> None:
        for name in ("report", "window", "life"):
            checks.positive(f"the cap per {name}", getattr(self, name))
        checks.whole("days", self.days, 1, 366)
        checks.whole("least crowd", self.least_crowd, 0)
        checks.whole("horizon", self.horizon, self.days, 3660)
        checks.whole("rounds per day", self.rounds_per_day, 1)
        if self.report > self.window:
            raise InvalidParameter("the cap per window", "allow at least one report", float(self.window))

    def changed(self, given: Mapping[str, float | str | None]) -> Limits:
        """These with what is given by name; None leaves a limit as it is. All rules hold for the outcome."""
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        for name in changes.keys() & {"report", "window", "life"}:
            checks.positive(f"the cap per {name}", changes[name])  # first: there is no fraction of infinity
            changes[name] = Fraction(changes[name])
        return replace(self, **changes)

    def save(self, store: Store) -> None:
        """Write them into the settings."""
        for field in fields(self):
            store.put(f"limit.{field.name}", str(getattr(self, field.name)))

    @classmethod
    def load(cls, store: Store) -> Limits:
        """Read them back; what was never set has its default."""
        return cls._read(frozenset(store.rows("SELECT name, value FROM settings WHERE name GLOB 'limit.*'")))

    @classmethod
    @lru_cache(maxsize=16)  # a visit asks four times, and making fractions takes longer than everything else about it
    def _read(cls, rows: frozenset[tuple[str, str]]) -> Limits:
        kept = dict(rows)
        given = {field.name: kept.get(f"limit.{field.name}", str(field.default)) for field in fields(cls)}
        return cls(
            report=Fraction(given["report"]),
            window=Fraction(given["window"]),
            life=Fraction(given["life"]),
            days=int(given["days"]),
            horizon=int(given["horizon"]),
            rounds_per_day=int(given["rounds_per_day"]),
            area_in_clear=given["area_in_clear"] == str(True),
            by_name=given["by_name"] == str(True),
            least_crowd=int(given["least_crowd"]),
            mechanisms=given["mechanisms"],
        )


@dataclass(frozen=True, slots=True)
class Spend:
    """One line of the books: what a report cost, exactly, and by which clock it was made (the phone's)."""

    round: int
    at: int
    epsilon: Fraction
    mechanism: str
    what: str
    server: str
    caller: str = ""  # a keyed digest: equal for equal numbers, and gone once the owner has forgotten them


def spends(store: Store) -> list[Spend]:
    """The books, in the order in which they were written: a clock that was set back does not reorder them."""
    found = store.rows("SELECT round, at, epsilon, mechanism, what, server, caller FROM ledger ORDER BY seq")
    return [Spend(row[0], row[1], Fraction(row[2]), *row[3:]) for row in found]


def spent(store: Store, since: int | None = None) -> Fraction:
    """ε spent after ``since``, or in all. An entry from the future counts: a clock set back frees no budget."""
    start = -math.inf if since is None else since
    sums = store.rows("SELECT epsilon, count(*) FROM ledger WHERE at > ? GROUP BY epsilon", start)
    return sum((Fraction(epsilon) * count for epsilon, count in sums), Fraction(0))


def objection(store: Store, limits: Limits, cost: Fraction, now: int) -> str:
    """Why a report of this cost may not be made now; empty where it may."""
    if cost > limits.report:
        return (
            f"a report would cost ε = {float(cost):g}, and the owner allows {float(limits.report):g}"
            " (hushcall phone init --max-epsilon)"
        )
    window = spent(store, now - limits.days * DAY)
    if window + cost > limits.window:
        return (
            f"ε = {float(window):g} of {float(limits.window):g} is spent for these {limits.days} days"
            " (hushcall phone init --cap-window)"
        )
    life = spent(store)
    if life + cost > limits.life:
        return f"ε = {float(life):g} of {float(limits.life):g} is spent for life (hushcall phone init --cap-life)"
    return ""


def recorded_between(store: Store, start: int, end: int) -> int:
    """How many reports were recorded from ``start`` on and before ``end``, whatever became of their rounds."""
    return int(store.row("SELECT count(*) FROM ledger WHERE at >= ? AND at < ?", start, end)[0])


def per_caller(store: Store) -> Fraction:
    """The most that was ever said about one caller, in ε; what the owner has forgotten cannot be told apart."""
    sums: dict[str, Fraction] = {}
    lost, free_from, horizon = Fraction(0), -math.inf, Limits.load(store).horizon * DAY
    for seq, spend in enumerate(spends(store)):
        if spend.what == ASSUMED:  # any of them may be about any caller, but no two of one horizon
            if spend.at >= free_from:
                lost, free_from = lost + spend.epsilon, spend.at + horizon
            continue
        name = spend.caller or f"forgotten {seq}"
        sums[name] = sums.get(name, Fraction(0)) + spend.epsilon
    return max(sums.values(), default=Fraction(0)) + lost


def record(store: Store, seq: int, spend: Spend) -> None:
    """Write a spend down, once per round: part of the transaction that keeps the report."""
    if spend.epsilon <= 0:
        raise InvalidParameter("epsilon", "be positive", float(spend.epsilon))
    store.run(
        "INSERT INTO ledger (seq, server, round, at, epsilon, epsilon_float, mechanism, what, caller)"
        " VALUES (?,?,?,?,?,?,?,?,?)",
        *(seq, spend.server, spend.round, spend.at, str(spend.epsilon), float(spend.epsilon)),
        *(spend.mechanism, spend.what, spend.caller),
    )


def assume(store: Store, limits: Limits, since: int, until: int, at_least: int = 0) -> int:
    """Charge what a ledger may have held that is lost: it was copied at ``since``, and the copy goes on at ``until``.

    On each day (by UTC, as the phone counts) as many reports as the owner allowed and the copy does not know, each at
    the owner's cap; where the caps for life end that, there, because they would have ended it then, too. ``at_least``:
    how many are known to have been made. How many were charged.
    """
    charged, left, last = 0, limits.life - spent(store), max(since, until)
    for day in range(since - since % DAY, last + 1, DAY):
        for _ in range(limits.rounds_per_day - recorded_between(store, day, day + DAY)):
            if (cost := min(limits.report, left)) > 0:
                _charge(store, cost, min(day + DAY - 1, last))
                charged, left = charged + 1, left - cost
    for _ in range(at_least - charged):
        _charge(store, limits.report, last)
    return max(charged, at_least)


def _charge(store: Store, cost: Fraction, at: int) -> None:
    record(store, next_seq(store), Spend(0, at, cost, "unknown", ASSUMED, store.get("server")))


def next_seq(store: Store) -> int:
    """A place in the books behind all there are; no round will ever take it."""
    store.run(
        "INSERT INTO rounds (server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state)"
        " VALUES ('', -1, 0, '', '', 0, 0, 0, 0, '')"
    )
    (seq,) = store.row("SELECT max(seq) FROM rounds")
    store.run("DELETE FROM rounds WHERE seq = ?", seq)
    return int(seq)


def _announced(store: Store) -> str:
    """What left where no report did. A round that ended before its report may have had its announcement."""
    rows = store.rows("SELECT mechanism, state <> 'closed' FROM rounds WHERE state <> 'planned'")
    if not rows:
        return "Nothing has left this phone yet."
    many = "" if all(sure for _, sure in rows) else "at most "
    clear = sum(sends_area_code(name) for name, _ in rows)
    what = f"{counted(clear, 'area code')} in the clear, of a caller or made up; " if clear else ""
    return f"No report has left this phone yet (ε = 0). Announced: {many}{what}{counted(len(rows), 'round')} in all."


def guarantee(store: Store, limits: Limits, now: int) -> str:
    """What has been promised and kept, in plain words."""
    books = spends(store)
    if not books:
        return _announced(store)
    largest = max(spend.epsilon for spend in books)
    bucketed = any(sends_area_code(spend.mechanism) for spend in books)
    other = "another number with the same area code" if bucketed else "any other number"
    life, window = float(spent(store)), float(spent(store, now - limits.days * DAY))
    assumed = sum(spend.what == ASSUMED for spend in books)
    reports = "1 report" if len(books) - assumed == 1 else f"{len(books) - assumed} reports"
    if assumed:
        reports += f", and up to {assumed} more that may have been made between a backup and its restore, all charged,"
    return (
        f"{reports} since {iso(books[0].at)[:10]}. Had one of the callers been {other}, what was sent in "
        f"any {limits.horizon} days would have been at most e^{float(largest):g} = {math.exp(largest):.3g} times more "
        f"or less likely, because a caller is in at most one report of that time. {CLEAR if bucketed else ''}"
        f"About one caller, ever: ε = {float(per_caller(store)):g} at most. "
        f"All reports together: ε = {life:g} of {float(limits.life):g} for life, {window:g} of "
        f"{float(limits.window):g} in the last {limits.days} days."
    )
