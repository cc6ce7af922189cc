"""The scheme table: one row per mechanism, and the only place that pairs a phone's half with a server's half.

A mechanism that stands here can be planned with, run in the tour, by phones and by servers, decoded, audited and
compared; nothing else in the library asks which one it is.

>>> list(SCHEMES)[:3], scheme_named("whole-number").bucketed
(['subspace', 'whole-number', 'sh-basic'], False)
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from hushcall.errors import InvalidParameter
from hushcall.mechanisms import names
from hushcall.mechanisms.scheme import Example, Family, Scheme
from hushcall.protocol.items import DIGITS, PLACED, SUFFIX
from hushcall.report.mechanism import Mechanism
from hushcall.report.original_histogram import OriginalHistogram
from hushcall.report.prefix_extending import PrefixExtending
from hushcall.report.rappor import Rappor
from hushcall.report.subspace import Subspace, WholeNumber
from hushcall.report.succinct_histogram import SuccinctHistogram
from hushcall.report.tree_histogram import TreeHistogram

_LEARN = "hushcall.learn"
_RIVALS = "hushcall.learn.comparators"


def _examples(maker: str, *given: str) -> Callable[[float], list[Example]]:
    """Examples for the audit, from a module that is imported when they are asked for: no phone needs it."""

    def made(budget: float) -> list[Example]:
        of: Callable[..., list[Example]] = getattr(import_module("hushcall.mechanisms.examples"), maker)
        return of(*given, budget)

    return made


def _histogram(kind: str, name: str) -> Scheme:
    half, made = f"{_LEARN}.succinct_histogram", _examples("of_histogram", kind)
    return Scheme(name, SuccinctHistogram, half, SUFFIX, Family.HISTOGRAM, made, wire="sh", counts_apart=True)


SCHEMES: dict[str, Scheme] = {
    row.name: row
    for row in (
        Scheme(
            names.SUBSPACE,
            Subspace,
            f"{_LEARN}.subspace",
            SUFFIX,
            Family.OURS,
            _examples("of_subspace"),
            pools=True,
            one_value=True,
        ),
        Scheme(
            names.WHOLE_NUMBER,
            WholeNumber,
            f"{_LEARN}.whole_number",
            PLACED,
            Family.OURS,
            _examples("of_whole_number"),
            parts=16,
            pools=True,
            one_value=True,
        ),
        _histogram("basic", names.SH_BASIC),
        _histogram("extended", names.SH_EXTENDED),
        _histogram("tuned", names.SH_TUNED),
        Scheme(
            names.SH_ORIGINAL,
            OriginalHistogram,
            f"{_LEARN}.original_histogram",
            DIGITS,
            Family.HISTOGRAM,
            _examples("of_original"),
        ),
        Scheme(
            names.PEM,
            PrefixExtending,
            f"{_RIVALS}.prefix_extending",
            SUFFIX,
            Family.RIVAL,
            _examples("of_pem"),
        ),
        Scheme(names.TREEHIST, TreeHistogram, f"{_RIVALS}.tree_histogram", SUFFIX, Family.RIVAL, _examples("of_tree")),
        Scheme(
            names.RAPPOR,
            Rappor,
            f"{_RIVALS}.rappor",
            SUFFIX,
            Family.RIVAL,
            _examples("of_rappor"),
            needs_candidates=True,
        ),
    )
}
"""By name, ours first. What profiles, command lines and pages offer comes from here."""


def scheme_named(name: str) -> Scheme:
    """The row of that name, or an error that lists them."""
    try:
        return SCHEMES[name]
    except (KeyError, TypeError):
        raise InvalidParameter("mechanism", f"be one of {', '.join(SCHEMES)}", name) from None


def scheme_of(mechanism: Mechanism) -> Scheme:
    """The row of a mechanism with its parameters."""
    return scheme_named(mechanism.name)


def sends_area_code(name: str) -> bool:
    """Whether a mechanism of that name, perhaps one of an older release, let the area code travel in the clear."""
    return name not in SCHEMES or SCHEMES[name].bucketed
