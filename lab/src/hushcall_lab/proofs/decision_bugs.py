"""Bugs that can be planted in the server's decision, and in who may take part in it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hushcall.decoding import window
from hushcall.decoding.pooled import Span
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.mechanisms.decision import Rule
from hushcall.mechanisms.profiles import Profile
from hushcall.server import anonymity
from hushcall_lab.proofs import poisoned_server, poisoning
from hushcall_lab.proofs.promises import Bug, planted, replaced
from hushcall_lab.proofs.statistics import WEEK_LEVEL, null_weeks

_least, _spans = Rule.least, window.spans


def _ignore(rule: Rule, law: Any) -> int:
    return _least(replace(rule, tolerance=0), law)


def _from_estimate(rule: Rule, law: Any) -> int:
    needed = rule.tolerance + law.without(rule.tolerance).needed(rule.tau)
    return int(max(law.threshold(rule.level, rule.hypotheses), needed))


def _share(rule: Rule, law: Any) -> int:
    return _least(replace(rule, tolerance=min(rule.tolerance, law.reports // 50)), law)


def _majority(rule: Rule, law: Any) -> int:
    return max(_least(rule, law), int(law.needed(law.reports / 2)))


def _first_window_only(laws: Any, windows: Sequence[int], rule: Rule) -> list[Span]:
    first, *later = _spans(laws, windows, rule)
    return [first, *(replace(span, rule=replace(rule, tolerance=0)) for span in later)]


def _rule(least: Callable[[Rule, Any], int]) -> Bug:
    return replaced(Rule, "least", least)


@contextmanager
def _two_voices() -> Iterator[None]:
    with (
        patch.object(anonymity, "with_a_token", lambda *_: frozenset()),
        patch.object(anonymity, "announced_by_name", lambda *_: False),
    ):
        yield


BUGS: dict[str, Bug] = {
    "the tolerance is ignored": _rule(_ignore),
    "the tolerance is taken from the estimate alone": _rule(_from_estimate),
    "the tolerance is taken from the count and not from n": _rule(
        lambda rule, law: rule.tolerance + _ignore(rule, law)
    ),
    "the tolerance is a share of the bucket": _rule(_share),
    "half of the bucket has to report a number": _rule(_majority),
    "only the shortest window has a tolerance": replaced(window, "spans", _first_window_only),
    "the level is not split between windows": replaced(Profile, "share", property(lambda profile: profile.level)),
    "a device speaks by name and with a token": _two_voices,
}


def noticed(seed: int = 1, runs: int = 8, bug: str = "", progress: Progress = quiet) -> str:
    with planted(BUGS, bug):
        poisoning.open_small.cache_clear()
        evidence = poisoning.measure(runs, seed, sizes=(20, 60), hidden=((150, 120),), progress_of=lambda _: progress)
        weeks = null_weeks(60)
        voices = poisoned_server.two_voices(*poisoned_server.VOICES[0], runs=1, seed=seed)
    poisoning.open_small.cache_clear()
    if evidence.broken or weeks.ok:
        return evidence.broken or voices.broken
    return f"{weeks.hits} of {weeks.runs} weeks without a spammer listed one, level {WEEK_LEVEL:g}"
