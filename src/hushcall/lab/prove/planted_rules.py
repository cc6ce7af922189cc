"""Bugs planted in the server's decision, one at a time: each makes another rule of it than the promised one.

A bug is what somebody could have written. :func:`noticed` says what the short proof makes of the decision as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hushcall.lab.prove import poisoning
from hushcall.lab.prove.statistics import WEEK_LEVEL, null_weeks
from hushcall.learn import window
from hushcall.learn.decision import Rule
from hushcall.learn.pooled import Span
from hushcall.profiles import Profile

Bug = Callable[[], Any]
_least, _spans = Rule.least, window.spans


def _ignored(rule: Rule, law: Any) -> int:
    return _least(replace(rule, tolerance=0), law)


def _estimate_only(rule: Rule, law: Any) -> int:
    left = law.without(rule.tolerance)
    return int(max(law.threshold(rule.level, rule.hypotheses), rule.tolerance + left.needed(rule.tau)))


def _not_from_n(rule: Rule, law: Any) -> int:
    return rule.tolerance + _ignored(rule, law)


def _a_share(rule: Rule, law: Any) -> int:
    return _least(replace(rule, tolerance=min(rule.tolerance, law.reports // 50)), law)


def _majority(rule: Rule, law: Any) -> int:
    return max(_least(rule, law), int(law.needed(law.reports / 2)))


def _first_window_only(laws: Any, windows: Sequence[int], rule: Rule) -> list[Span]:
    chosen = _spans(laws, windows, rule)
    return [chosen[0], *(replace(one, rule=replace(rule, tolerance=0)) for one in chosen[1:])]


def _rule(least: Callable[[Rule, Any], int]) -> Bug:
    return lambda: patch.object(Rule, "least", least)


BUGS: dict[str, Bug] = {
    "the tolerance is ignored": _rule(_ignored),
    "the tolerance is taken from the estimate alone": _rule(_estimate_only),
    "the tolerance is taken from the count and not from n": _rule(_not_from_n),
    "the tolerance is a share of the bucket": _rule(_a_share),
    "half of the bucket has to report a number": _rule(_majority),
    "only the shortest window has a tolerance": lambda: patch.object(window, "spans", _first_window_only),
    "the level is not split between windows": lambda: patch.object(Profile, "share", property(lambda one: one.level)),
}


def noticed(seed: int = 1, runs: int = 8) -> str:
    """What a short proof finds wrong; empty: nothing."""
    poisoning.forget_buckets()
    try:
        found = poisoning.measure(runs, seed, sizes=(20, 60), hidden=((150, 120),)).broken
    finally:
        poisoning.forget_buckets()
    return found or _level(null_weeks(60))


def _level(proof: Any) -> str:
    return "" if proof.ok else f"{proof.hits} of {proof.runs} weeks without a spammer listed one, level {WEEK_LEVEL:g}"
