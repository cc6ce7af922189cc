"""The ledger: exact fractions of ε, recorded before a report is sent. A report over a cap is rejected."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction

from hushcall.client.reporting.consent import Limits, Rejection
from hushcall.client.storage.store import DAY_SECONDS, Store
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.registry import sends_area_code
from hushcall.protocol.blocklist import iso
from hushcall.wording import counted

REPORT = "report"
ASSUMED = "assumed"
"""``what`` of a spend that may have been made between a backup and its restore (:func:`assume`)."""
CLEAR = "The area code itself is not protected. "


@dataclass(frozen=True, slots=True)
class Spend:
    """One line of the ledger: the exact cost of a report, and when it was made by the client's clock."""

    round: int
    at: int
    epsilon: Fraction
    mechanism: str
    what: str
    server: str


def spends(store: Store) -> list[Spend]:
    """The ledger in the order of writing, which a clock that was set back does not change."""
    rows = store.rows("SELECT round, at, epsilon, mechanism, what, server FROM ledger ORDER BY seq")
    return [Spend(row[0], row[1], Fraction(row[2]), *row[3:]) for row in rows]


def spent(store: Store, since: int | None = None) -> Fraction:
    """ε spent after ``since``, or in all. An entry from the future counts: a clock set back frees no budget."""
    start = -math.inf if since is None else since
    sums = store.rows("SELECT epsilon, count(*) FROM ledger WHERE at > ? GROUP BY epsilon", start)
    return sum((Fraction(epsilon) * count for epsilon, count in sums), Fraction(0))


def rejection(store: Store, limits: Limits, cost: Fraction, now: int) -> Rejection | None:
    if cost > limits.report:
        return Rejection(
            f"a report would cost ε = {float(cost):g}, and the owner allows {float(limits.report):g}"
            " (hushcall phone init --max-epsilon)"
        )
    window = spent(store, now - limits.window_days * DAY_SECONDS)
    if window + cost > limits.window:
        return Rejection(
            f"ε = {float(window):g} of {float(limits.window):g} is spent for these {limits.window_days} days"
            " (hushcall phone init --cap-window)"
        )
    life = spent(store)
    if life + cost > limits.life:
        return Rejection(
            f"ε = {float(life):g} of {float(limits.life):g} is spent for life (hushcall phone init --cap-life)"
        )
    return None


def recorded_between(store: Store, start: int, end: int) -> int:
    return store.count("SELECT count(*) FROM ledger WHERE at >= ? AND at < ?", start, end)


def per_caller(store: Store) -> Fraction:
    """The most ε spent on one caller. The ledger does not say which report was about whom: any may be."""
    horizon_seconds = Limits.load(store).horizon_days * DAY_SECONDS
    total = Fraction(0)
    for assumed in (False, True):
        rows = sorted((spend.at, spend.epsilon) for spend in spends(store) if (spend.what == ASSUMED) is assumed)
        moments, most = [at for at, _ in rows], [Fraction(0)]
        for place, (at, epsilon) in enumerate(rows):
            before = most[bisect_right(moments, at - horizon_seconds, 0, place)]
            most.append(max(most[-1], before + epsilon))
        total += most[-1]
    return total


def record(store: Store, seq: int, spend: Spend) -> None:
    """Write a spend, once per round: part of the transaction that keeps the report."""
    if spend.epsilon <= 0:
        raise InvalidParameter("epsilon", "be positive", float(spend.epsilon))
    store.run(
        "INSERT INTO ledger (seq, server, round, at, epsilon, epsilon_float, mechanism, what) VALUES (?,?,?,?,?,?,?,?)",
        *(seq, spend.server, spend.round, spend.at, str(spend.epsilon), float(spend.epsilon)),
        *(spend.mechanism, spend.what),
    )


def assume(store: Store, limits: Limits, since: int, until: int, at_least: int = 0) -> int:
    """Charge what a ledger copied at ``since`` may lack: the owner's limits on each day (by UTC), up to that for life.

    ``at_least`` reports are known to have been made. Returns how many were charged.
    """

    def charge(cost: Fraction, at: int) -> None:
        record(store, next_seq(store), Spend(0, at, cost, "unknown", ASSUMED, store.get("server")))

    charged, remaining, last = 0, limits.life - spent(store), max(since, until)
    for day in range(since - since % DAY_SECONDS, last + 1, DAY_SECONDS):
        for _ in range(limits.rounds_per_day - recorded_between(store, day, day + DAY_SECONDS)):
            if (cost := min(limits.report, remaining)) > 0:
                charge(cost, min(day + DAY_SECONDS - 1, last))
                charged, remaining = charged + 1, remaining - cost
    for _ in range(at_least - charged):
        charge(limits.report, last)
    return max(charged, at_least)


def next_seq(store: Store) -> int:
    """A new last place in the ledger, which no round will get."""
    store.run(
        "INSERT INTO rounds (server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state)"
        " VALUES ('', -1, 0, '', '', 0, 0, 0, 0, '')"
    )
    seq = store.count("SELECT max(seq) FROM rounds")
    store.run("DELETE FROM rounds WHERE seq = ?", seq)
    return seq


def _announcements(store: Store) -> str:
    rows = store.rows("SELECT mechanism, state <> 'closed' FROM rounds WHERE state <> 'planned'")
    if not rows:
        return "Nothing has left this phone yet."
    at_most = "" if all(certain for _, certain in rows) else "at most "
    clear = sum(sends_area_code(name) for name, _ in rows)
    areas = f"{counted(clear, 'area code')} in the clear, of a caller or made up; " if clear else ""
    return (
        f"No report has left this phone yet (ε = 0). Announced: {at_most}{areas}{counted(len(rows), 'round')} in all."
    )


def guarantee(store: Store, limits: Limits, now: int) -> str:
    ledger_rows = spends(store)
    if not ledger_rows:
        return _announcements(store)
    largest = max(spend.epsilon for spend in ledger_rows)
    bucketed = any(sends_area_code(spend.mechanism) for spend in ledger_rows)
    other = "another number with the same area code" if bucketed else "any other number"
    life, window = float(spent(store)), float(spent(store, now - limits.window_days * DAY_SECONDS))
    assumed = sum(spend.what == ASSUMED for spend in ledger_rows)
    reports = counted(len(ledger_rows) - assumed, "report")
    if assumed:
        reports += f", and up to {assumed} more that may have been made between a backup and its restore, all charged,"
    return (
        f"{reports} since {iso(ledger_rows[0].at)[:10]}. Had one of the callers been {other}, what was sent in "
        f"any {limits.horizon_days} days would have been at most e^{float(largest):g} = {math.exp(largest):.3g} times "
        f"more or less likely, because a caller is in at most one report of that time. {CLEAR if bucketed else ''}"
        f"About one caller, ever: ε = {float(per_caller(store)):g} at most. "
        f"All reports together: ε = {life:g} of {float(limits.life):g} for life, {window:g} of "
        f"{float(limits.window):g} in the last {limits.window_days} days."
    )
