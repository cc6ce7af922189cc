"""The two parts of a study that need no runs: what the data look like, and what the paper's formulas give."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import Any

from hushcall.lab.data.datasets import Calls
from hushcall.lab.study import describe
from hushcall.lab.study.experiments import EPSILONS_HH, TAUS, Statement
from hushcall.learn import occupancy, theory
from hushcall.report import randomisers


def data_document(calls: Calls) -> dict[str, Any]:
    """The paper's appendix on its data: complaints a day, complaints a number, buckets, amplification."""
    facts = describe.summary(calls)
    rows = [
        {"what": key, "value": value if isinstance(value, int | float | str) else str(value)}
        for key, value in facts.items()
    ]
    return {"title": "The data", "about": "the paper's figures on its dataset", "rows": rows, "statements": []}


def theory_document() -> dict[str, Any]:
    """Every figure that the paper's text computes from a formula."""
    rows: list[dict[str, Any]] = []
    for percent, tau in zip((75, 80, 85, 90, 95), TAUS, strict=True):
        measured = occupancy.fill_probability(occupancy.REPAIRED_BITS, tau)
        rows.append({"what": f"U(31, {tau})", "paper": percent / 100, "computed": measured})
    for bins, count, said in ((24, 111, 0.8), (24, 84, 0.5), (34, 170, 0.8)):
        rows.append({"what": f"U({bins}, {count})", "paper": said, "computed": occupancy.fill_probability(bins, count)})
    rows.append({"what": "η for n = 1000", "paper": 0.023, "computed": occupancy.eta(15, 0.751, 2, 10**7, 1000)})
    root, printed = theory.lower_variance_from(0.0), theory.lower_variance_from(0.0, as_printed=True)
    rows.append({"what": "ε from which extended beats basic, f = 0", "paper": printed, "computed": root})
    for budget in EPSILONS_HH:
        half = Fraction(budget) / 2
        tuned = randomisers.tuned(half, theory.best_keep(half, 1000, 150))
        for kind, odds in (
            ("basic", randomisers.basic(half / 2)),
            ("extended", randomisers.extended(half / 2)),
            ("tuned", tuned),
        ):
            value = theory.channel_variance(odds, 1000, 150)
            rows.append({"what": f"variance, {kind}, ε_HH = {budget:g}, 150 of 1000", "paper": None, "computed": value})
    eta = occupancy.eta(15, 0.751, 2, 10**7, 1000)
    close = all(abs(row["computed"] - row["paper"]) < 0.004 for row in rows if str(row["what"]).startswith("U(31"))
    statements = [
        Statement("τ = 143 … 195 stand for 75 … 95 %", "U with l = 31, within 0.4 points", close),
        Statement("η ≈ 0.023 for n = 1000", f"{eta:.4f}", round(eta, 3) == 0.023),
        Statement(
            "extended beats basic from ε = 1.242 (rare numbers)",
            f"from ε = {root:.3f}",
            abs(root - printed) < 0.01,
            why="the root in the paper drops a factor of 2",
        ),
    ]
    return {
        "title": "What the paper computes",
        "about": "its formulas, beside the figures in its text",
        "rows": rows,
        "statements": [asdict(one) for one in statements],
    }
