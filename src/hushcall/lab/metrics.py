"""How well a list matches the truth."""

from __future__ import annotations

from collections.abc import Set


def f1(found: Set[int], truth: Set[int]) -> float:
    """2PR/(P + R): the paper's F1-score; 0 where nothing right was found.

    >>> f1({1, 2, 3}, {2, 3, 4, 5})
    0.5714285714285714
    """
    right = len(found & truth)
    return 2 * right / (len(found) + len(truth)) if right else 0.0
