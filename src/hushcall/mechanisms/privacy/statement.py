"""The promise of a deployment to its clients: who can learn how much, in figures and words.

*Readers* see the published lists alone, which do not depend on who sent which report. So the bound of the anonymity set
(:mod:`shuffle`) holds against them. The *server* sees each report: the bound holds against it only where reports carry
blind tokens and come through a relay. Against *server and relay together* each report has its own ε only. That worst
case is what a client's ledger charges.

>>> rows = statement(Deployment(epsilon=6.0, crowd=1_000_000, bucketed=False, anonymous=True, relay=True))
>>> [(row.who, round(row.report, 2), round(row.month, 1)) for row in rows]
[('readers', 0.15, 1.0), ('server', 0.15, 1.0), ('server and relay', 6.0, 180.0)]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hushcall import checks
from hushcall.mechanisms.privacy.shuffle import DELTA, shuffled_epsilon, shuffled_over
from hushcall.protocol.exact import epsilon_value

READERS, SERVER, BOTH = "readers", "server", "server and relay"
MONTH_DAYS = 30
MAX_CROWD = 10**9
REAL_CALLS = (1, 60, 41), (7, 76, 81), (30, 92, 99), (60, 96, 99.7)
"""(announcements, % told apart from made-up ones, % with the home area guessed): ``prove indistinguishable --data``."""
SUSPICION = 0.01
"""Somebody's guess beforehand, for the words: one in a hundred."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How a server is run, as far as privacy depends on it.

    ``epsilon`` is the budget of one report. ``crowd`` is the size of the anonymity set: the honest clients' reports of
    one area code where that is in the clear (``bucketed``), otherwise all, and only the anonymous ones where a round
    has both. A caller is in at most one report within ``horizon`` days.
    """

    epsilon: float
    crowd: int
    bucketed: bool
    anonymous: bool = False
    relay: bool = False
    reports_a_month: int = MONTH_DAYS
    horizon: int = 30
    delta: float = DELTA

    def __post_init__(self) -> None:
        epsilon_value("epsilon", self.epsilon)
        checks.whole("crowd", self.crowd, 1, MAX_CROWD)
        checks.whole("reports a month", self.reports_a_month, 1, 1000)
        checks.whole("horizon", self.horizon, 1, 366)
        checks.probability("delta", self.delta)

    @property
    def hidden(self) -> bool:
        """Whether the server cannot tell whose a report is: it takes blind tokens through a relay."""
        return self.anonymous and self.relay


@dataclass(frozen=True, slots=True)
class Row:
    """Against one who looks. ``delta`` is 0 where the bound is the report's own, which has no exceptions."""

    who: str
    report: float
    caller: float
    month: float
    delta: float
    why: str


def statement(deployment: Deployment) -> tuple[Row, Row, Row]:
    relay = "reports come without a name and without an address" if deployment.hidden else _why_not(deployment)
    return (
        _in_crowd(deployment, READERS, "a list does not depend on who sent which report"),
        _in_crowd(deployment, SERVER, relay) if deployment.hidden else _local(deployment, SERVER, relay),
        _local(deployment, BOTH, "together they know who sent which report"),
    )


def _in_crowd(deployment: Deployment, who: str, why: str) -> Row:
    report = shuffled_epsilon(deployment.epsilon, deployment.crowd, deployment.delta)
    month = shuffled_over(deployment.epsilon, deployment.crowd, deployment.reports_a_month, deployment.delta)
    return Row(who, report, report, max(report, month), deployment.delta, why)


def _local(deployment: Deployment, who: str, why: str) -> Row:
    month = deployment.epsilon * deployment.reports_a_month
    return Row(who, deployment.epsilon, deployment.epsilon, month, 0.0, why)


def _why_not(deployment: Deployment) -> str:
    if deployment.anonymous:
        return "reports come without a name, but from an address: there is no relay"
    return "a device's token stands beside its report while a round is open"


def suspicion_after(epsilon: float, before: float = SUSPICION) -> float:
    """The most that a suspicion can become when it sees something that is e^ε times likelier if it is right."""
    return 1 / (1 + math.exp(-epsilon) * (1 - before) / before)


NAMES = {
    READERS: "A reader of the published lists",
    SERVER: "The server, even if it keeps and logs everything",
    BOTH: "Server and relay together, if they pool what they know",
}


def in_words(deployment: Deployment, row: Row) -> str:
    other = "another number with the same area code" if deployment.bucketed else "any other number"
    but = "" if not row.delta else f", but for a chance of {_one_in(row.delta)}"
    return (
        f"{NAMES[row.who]}: had one caller of a phone been {other}, what they see would be at most "
        f"{_times(row.report)} more or less likely{but}. A suspicion of {_percent(SUSPICION)} could become at most "
        f"{_percent(suspicion_after(row.report))}. Over {deployment.reports_a_month} reports of a phone together: "
        f"ε = {row.month:.3g}. Why: {row.why}."
    )


def calls_in_words(deployment: Deployment) -> str:
    """Whether what a phone announces tells if it gets calls: a promise, or measured figures."""
    if not deployment.bucketed:
        return "A phone without unknown callers looks like one with them: it announces nothing that depends on calls."
    days, told, homes = (_in_turn(column) for column in zip(*REAL_CALLS, strict=True))
    return (
        f"Area codes in the clear tell in the long run. After {days} announcements a server guesses right in {told} % "
        f"whether they are of callers or made up, and the owner's area code in {homes} %."
    )


def _in_turn(values: Iterable[float]) -> str:
    *first, last = (f"{value:g}" for value in values)
    return f"{', '.join(first)} and {last}"


def not_hidden(deployment: Deployment) -> tuple[str, ...]:
    """What no figure above covers."""
    limits = ["That a phone takes part, and when it speaks: the relay sees it, or the server where there is none."]
    if deployment.bucketed:
        limits.append("The area code of a reported number: it travels in the clear, and no ε covers it.")
    if deployment.hidden:
        limits.append("Anything, beyond each report's own ε, once server and relay put together what they know.")
    limits.append(
        f"The crowd is as large as said ({deployment.crowd:,} reports in one pile) only if so many honest phones "
        "reported; phones that an attacker runs hide nobody."
    )
    return tuple(limits)


def _times(epsilon: float) -> str:
    factor = math.exp(epsilon)
    return f"{factor - 1:.1%}".replace("%", " %") if factor < 2 else f"{factor:,.3g} times"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _one_in(delta: float) -> str:
    return f"one in {round(1 / delta):,}"
