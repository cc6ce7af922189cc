"""Formulas of the paper that only its figures need, and the experiment that compares them with its text."""

import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from hushcall import checks
from hushcall.mechanisms import randomisers
from hushcall.mechanisms.randomisers import ChannelRandomiser
from hushcall.mechanisms.succinct_histogram.theory import PAPER_BINS, best_keep, fill_probability
from hushcall_lab.study.experiments import EPSILONS_HH, TAUS, Statement


def eta(epsilon: float, beta: float, rounds: int, domain: int, users: int) -> float:
    """η = (2T+1)/ε · √(ln d · ln(1/β) / n): the original protocol's threshold, as a frequency."""
    checks.positive("epsilon", epsilon)
    checks.probability("beta", beta)
    checks.whole("T", rounds, 1)
    checks.whole("domain", domain, 2)
    checks.whole("users", users, 1)
    return (2 * rounds + 1) / epsilon * math.sqrt(math.log(domain) * math.log(1 / beta) / users)


def channel_variance(randomiser: ChannelRandomiser, users: float, holders: float) -> float:
    """Variance of n·f̂, the count that one channel's reports estimate (Ucci et al., lemma on estimates, times n²)."""
    p, q, theta = randomiser.probabilities
    c = randomiser.scale
    return holders * (c * c * (p + q) - 1) + (users - holders) * 2 * c * c * theta


def lower_variance_from(frequency: float, *, as_printed: bool = False) -> float:
    """The ε from which the extended randomiser beats the basic one, for an item of that frequency.

    t = e^ε must reach (a + √(9a² − 20a + 12)) / (2(1 − a)). The paper's proposition drops the 2: ``as_printed``.

    >>> round(lower_variance_from(0.0), 3), round(lower_variance_from(0.0, as_printed=True), 3)
    (0.549, 1.242)
    """
    a = frequency
    divisor = (1 if as_printed else 2) * (1 - a)
    return math.log((a + math.sqrt(9 * a * a - 20 * a + 12)) / divisor)


def theory_document() -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for percent, tau in zip((75, 80, 85, 90, 95), TAUS, strict=True):
        measured = fill_probability(PAPER_BINS, tau)
        rows.append({"what": f"U(31, {tau})", "paper": percent / 100, "computed": measured})
    for bins, count, printed in ((24, 111, 0.8), (24, 84, 0.5), (34, 170, 0.8)):
        rows.append({"what": f"U({bins}, {count})", "paper": printed, "computed": fill_probability(bins, count)})
    threshold = eta(15, 0.751, 2, 10**7, 1000)
    rows.append({"what": "η for n = 1000", "paper": 0.023, "computed": threshold})
    root, printed_root = lower_variance_from(0.0), lower_variance_from(0.0, as_printed=True)
    rows.append({"what": "ε from which extended beats basic, f = 0", "paper": printed_root, "computed": root})
    for budget in EPSILONS_HH:
        half = Fraction(budget) / 2
        tuned = randomisers.tuned(half, best_keep(half, 1000, 150))
        basic, extended = randomisers.basic(half / 2), randomisers.extended(half / 2)
        for kind, odds in (("basic", basic), ("extended", extended), ("tuned", tuned)):
            value = channel_variance(odds, 1000, 150)
            rows.append({"what": f"variance, {kind}, ε_HH = {budget:g}, 150 of 1000", "paper": None, "computed": value})
    close = all(abs(row["computed"] - row["paper"]) < 0.004 for row in rows if str(row["what"]).startswith("U(31"))
    statements = [
        Statement("τ = 143 … 195 stand for 75 … 95 %", "U with l = 31, within 0.4 points", close),
        Statement("η ≈ 0.023 for n = 1000", f"{threshold:.4f}", round(threshold, 3) == 0.023),
        Statement(
            "extended beats basic from ε = 1.242 (rare numbers)",
            f"from ε = {root:.3f}",
            abs(root - printed_root) < 0.01,
            why="the root in the paper drops a factor of 2",
        ),
    ]
    return {
        "title": "What the paper computes",
        "about": "its formulas, beside the figures in its text",
        "rows": rows,
        "statements": [asdict(statement) for statement in statements],
    }
