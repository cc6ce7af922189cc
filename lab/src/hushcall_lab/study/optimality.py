"""How near subspace comes to the best symmetric mechanism: the theorem and its proof are in ``docs/mechanism.md``."""

import math
from typing import Any

from hushcall.mechanisms.decision import Support
from hushcall.mechanisms.profiles import LEVEL

EPSILONS, REPORTS, NUMBERS = (1.0, 2.0, 4.0, 6.0, 8.0), (100, 1_000, 10_000, 100_000), 8_000_000
STEPS = 8  # shares of the domain that are tried for each bit, up to three bits from e^−ε


def law(reports: int, epsilon: float, bits: float) -> Support:
    """Of reports that support a share 2^−bits of all numbers each. Subspace has whole bits."""
    return Support(reports, 1 / (1 + (2**bits - 1) * math.exp(-epsilon)), 2.0**-bits)


def smallest(reports: int, epsilon: float, bits: float) -> int:
    """The smallest count that is found with 90 % power."""
    support = law(reports, epsilon, bits)
    return support.detectable(support.threshold(LEVEL, NUMBERS))


def document() -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for reports, epsilon in ((reports, epsilon) for reports in REPORTS for epsilon in EPSILONS):
        middle = round(epsilon / math.log(2) * STEPS)
        tried = range(max(middle - 3 * STEPS, 1), middle + 3 * STEPS + 1)
        counts = {step: smallest(reports, epsilon, step / STEPS) for step in tried}
        ours, best = min(counts[step] for step in counts if step % STEPS == 0), min(counts.values())
        if ours <= reports:
            rows.append({"reports": reports, "epsilon": epsilon, "ours": ours, "best": best, "ratio": ours / best})
    title = "The smallest count found with 90 % power, relative to that of the best symmetric mechanism"
    return {"title": title, "about": "whole bits", "rows": rows, "statements": []}
