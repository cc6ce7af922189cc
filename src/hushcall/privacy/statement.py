"""What a deployment promises its phones: how it is run comes in, who can learn how much leaves, in figures and words.

Three who might look. *Readers* see the published lists alone: these do not depend on who sent which report, so the
crowd's bound (:mod:`shuffle`) holds against them whatever else is done. The *server* sees each report; the crowd's
bound holds against it only where reports come without a device's name (blind tokens) and without an address (a relay).
*Server and relay together* know both halves: what is left is each report's own ε. That worst case is what a phone's
ledger charges, always.

>>> said = statement(Deployment(epsilon=6.0, crowd=1_000_000, bucketed=False, anonymous=True, relay=True))
>>> [(row.who, round(row.report, 2), round(row.month, 1)) for row in said]
[('readers', 0.15, 1.0), ('server', 0.15, 1.0), ('server and relay', 6.0, 180.0)]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushcall import checks
from hushcall.privacy.composition import shuffled_over
from hushcall.privacy.exact import epsilon_value
from hushcall.privacy.shuffle import DELTA, shuffled_epsilon

READERS, SERVER, BOTH = "readers", "server", "server and relay"
MONTH_DAYS = 30
MOST_CROWD = 10**9
SUSPICION = 0.01
"""Somebody's guess beforehand, for the words: one in a hundred."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How a server is run, as far as privacy depends on it.

    ``epsilon`` is the local budget of one report; ``crowd`` how many honest phones' reports lie in the same pile: those
    of one area code where that is in the clear (``bucketed``), everybody's otherwise, and only the anonymous ones where
    fleets are mixed. A caller is in at most one report within ``horizon`` days.
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
        checks.whole("crowd", self.crowd, 1, MOST_CROWD)
        checks.whole("reports a month", self.reports_a_month, 1, 1000)
        checks.whole("horizon", self.horizon, 1, 366)
        checks.probability("delta", self.delta)

    @property
    def hidden(self) -> bool:
        """Whether the server cannot tell whose a report is: it takes a token without a name, and a relay."""
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
    """Against readers, the server, and server and relay together: per report, per caller and horizon, per month.

    A caller is in one report of a horizon, so a caller costs what a report costs. A month is all reports of a phone.
    """
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


def least_crowd(epsilon_0: float, wanted: float, delta: float = DELTA) -> int | None:
    """How many reports in one pile bring one of them down to ``wanted``; None where 10⁹ do not."""
    checks.positive("epsilon", wanted)
    low, high = 1, 1
    while shuffled_epsilon(epsilon_0, high, delta) > wanted:
        low, high = high, 10 * high
        if low >= MOST_CROWD:
            return None
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        low, high = (low, middle) if shuffled_epsilon(epsilon_0, middle, delta) <= wanted else (middle, high)
    return high


def suspicion_after(epsilon: float, before: float = SUSPICION) -> float:
    """The most that a suspicion can become when it sees something that is e^ε times likelier if it is right."""
    return 1 / (1 + math.exp(-epsilon) * (1 - before) / before)


NAMES = {
    READERS: "Whoever reads the published lists",
    SERVER: "The server, even if it keeps and logs everything",
    BOTH: "Server and relay together, if they pool what they know",
}


def in_words(deployment: Deployment, row: Row) -> str:
    """One row for a person: what changes, by how much at most, and how often that may fail."""
    other = "another number with the same area code" if deployment.bucketed else "any other number"
    but = "" if not row.delta else f", but for a chance of {_one_in(row.delta)}"
    return (
        f"{NAMES[row.who]}: had one caller of a phone been {other}, what they see would be at most "
        f"{_times(row.report)} more or less likely{but}. A suspicion of {_percent(SUSPICION)} could become at most "
        f"{_percent(suspicion_after(row.report))}. Over {deployment.reports_a_month} reports of a phone together: "
        f"ε = {row.month:.3g}. Why: {row.why}."
    )


def not_hidden(deployment: Deployment) -> tuple[str, ...]:
    """What no figure above covers, said plainly."""
    said = ["That a phone takes part, and when it speaks: the relay sees it, or the server where there is none."]
    if deployment.bucketed:
        said.append("The area code of a reported number: it travels in the clear, and no ε covers it.")
    if deployment.hidden:
        said.append("Anything, beyond each report's own ε, once server and relay put together what they know.")
    said.append(
        f"The crowd is as large as said ({deployment.crowd:,} reports in one pile) only if so many honest phones "
        "reported; phones that an attacker runs hide nobody."
    )
    return tuple(said)


def _times(epsilon: float) -> str:
    factor = math.exp(epsilon)
    return f"{factor - 1:.1%}".replace("%", " %") if factor < 2 else f"{factor:,.3g} times"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _one_in(delta: float) -> str:
    return f"one in {round(1 / delta):,}"
