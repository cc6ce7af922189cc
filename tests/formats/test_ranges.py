"""Rented blocks: which a list shows, and that exchanges decline those numbers and nobody else's."""

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lists import sample

from hushcall.errors import InvalidList
from hushcall.formats.blocklists import WRITERS
from hushcall.formats.blocklists.ranges import block_forms
from hushcall.formats.phoneblock import CheckIndex
from hushcall.formats.ranges import ranges_of
from hushcall.protocol.blocklist import Blocklist

TEN = tuple(f"+493098765{last}" for last in range(4))
HUNDRED = tuple(f"+49302222{tens}{last}" for tens in range(3) for last in range(4))


def listing(numbers: Iterable[str]) -> Blocklist:
    first = sample().entries[0]
    return replace(sample(), entries=tuple(replace(first, number=number) for number in sorted(set(numbers))))


def declined(keys: set[str], caller: str) -> bool:
    """What the dialplan and the route of the docs ask."""
    return caller[:-1] + "x" in keys or caller[:-2] + "xx" in keys


def keys_of(name: str, blocklist: Blocklist) -> set[str]:
    return set(re.findall(r"\+?[0-9]+x{1,2}", WRITERS[name].write(blocklist).decode()))


def test_blocks_are_those_of_the_rule_and_none_stands_twice() -> None:
    found = ranges_of(listing((*TEN, *HUNDRED, "+12025550143")))
    assert [block.pattern for block in found.widest] == ["+49302222xx", "+493098765x"]
    assert [(block.listed, block.size) for block in found.widest] == [(12, 100), (4, 10)]
    assert len(found.tens) == 4
    assert ranges_of(listing(TEN[:3])).widest == ()
    assert [block.free for block in ranges_of(listing(HUNDRED[:8])).widest] == [1, 1]


def test_numbers_that_only_warn_make_no_block_anywhere() -> None:
    made = listing(TEN)
    over_a_day = tuple(replace(entry, window=1) for entry in made.entries)
    warned = replace(made, terms=replace(made.terms, block_days=99), entries=over_a_day)
    assert not warned.to_block().entries
    assert ranges_of(warned).widest == ()
    assert CheckIndex(warned).ranges.around("+4930987659") is None, "clients would block by the votes of the block"


@pytest.mark.parametrize("name", ["asterisk-ranges", "kamailio-ranges"])
@given(ending=st.text("0123456789", max_size=4))
def test_a_caller_is_declined_exactly_where_the_block_has_it(name: str, ending: str) -> None:
    """Where numbers have no fixed length, longer and shorter ones that begin alike are other people's."""
    keys = keys_of(name, listing((*TEN, *HUNDRED)))
    plus = "+" if name == "asterisk-ranges" else ""
    assert declined(keys, f"{plus}493098765{ending}") == (len(ending) == 1)
    assert declined(keys, f"{plus}49302222{ending}") == (len(ending) == 2)


@given(ending=st.text("0123456789", max_size=4))
def test_a_number_lies_in_a_block_of_its_own_length(ending: str) -> None:
    found = ranges_of(listing((*TEN, *HUNDRED)))
    assert (found.around(f"+493098765{ending}") is not None) == (len(ending) == 1)
    assert (found.around(f"+49302222{ending}") is not None) == (len(ending) == 2)


def test_a_trunk_s_forms_of_a_block_mean_nobody_else() -> None:
    assert block_forms("+49309876x") == ("+49309876x", "0049309876x", "49309876x", "0309876x")
    assert block_forms("+323234567x") == ("+323234567x", "00323234567x"), "without the plus it is Los Angeles"


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"493098765x", b"493098765xxx"), (b"493098765x", b"49302222xx"), (b"493098765x", b"493098765")],
)
@pytest.mark.parametrize("name", ["asterisk-ranges", "kamailio-ranges"])
def test_what_is_no_block_or_stands_twice_is_refused(name: str, old: bytes, new: bytes) -> None:
    with pytest.raises(InvalidList):
        WRITERS[name].read(WRITERS[name].write(listing((*TEN, *HUNDRED))).replace(old, new))
