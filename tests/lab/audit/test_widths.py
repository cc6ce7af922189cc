"""The exact ε of every mechanism under the widths of other countries' items: by probing the phone's own code."""

import pytest

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.local_hashing.client import LocalHashing
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.items import PLACED, SUFFIX
from hushcall.protocol.numbers import SHIPPED, plan_named
from hushcall_lab.audit.enumeration import examine
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram

EPSILON = 2.0
WIDTHS = sorted({(SUFFIX.bits(plan_named(region)), PLACED.bits(plan_named(region))) for region in SHIPPED})


def mechanisms(bits: int, whole: int) -> list[Mechanism]:
    """Those that take items of so many bits, and of a whole number."""
    return [
        Subspace(EPSILON, 4, bits),
        WholeNumber(EPSILON, 4, whole),
        LocalHashing(EPSILON, item_bits=bits),
        PrefixExtending(EPSILON, item_bits=bits),
        TreeHistogram(EPSILON, item_bits=bits),
    ]


def test_no_report_costs_more_than_its_budget_where_suffixes_have_any_length() -> None:
    """The widest items that there are, in the two mechanisms that a server runs by default."""
    for mechanism in mechanisms(*max(WIDTHS))[:2]:
        assert examine(mechanism, epsilon=EPSILON, paper=EPSILON, name=mechanism.name).exact <= EPSILON


@pytest.mark.slow
@pytest.mark.night
@pytest.mark.parametrize(("bits", "whole"), WIDTHS)
def test_no_report_costs_more_than_its_budget_under_any_width(bits: int, whole: int) -> None:
    for mechanism in mechanisms(bits, whole):
        finding = examine(mechanism, epsilon=EPSILON, paper=EPSILON, name=mechanism.name)
        assert finding.exact <= EPSILON, mechanism.name


def test_the_papers_code_says_which_width_it_cannot_hold() -> None:
    with pytest.raises(InvalidParameter, match=r"item_bits must .*26.*got 27"):
        SuccinctHistogram.with_budget("extended", 8.8, 3.0, item_bits=27)
