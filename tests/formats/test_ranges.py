"""Rented blocks: which a list shows, and that exchanges decline those numbers and nobody else's."""

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.blocklists.readers import read
from tests.lists import sample

from hushcall.errors import InvalidList
from hushcall.formats.blocklists import WRITERS
from hushcall.formats.blocklists.exchanges import block_forms
from hushcall.formats.phoneblock import CheckIndex
from hushcall.formats.ranges import Ranges, ranges, ranges_of
from hushcall.protocol import blocklist
from hushcall.protocol.blocklist import Blocklist, Sighting
from hushcall.protocol.ranges import RangeEntry

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


@pytest.mark.parametrize(("block", "passing"), [(False, ()), (True, ("+493098765" + "99",))])
def test_a_found_range_hides_no_listed_block_that_blocks_more(block: bool, passing: tuple[str, ...]) -> None:
    """One that only warns, or in which a number passes."""
    first = sample().entries[0]
    figures = (first.first, first.last, 1, 50.0, 40.0, 60.0, 1e-9, 1, block)
    found = RangeEntry("+4930987xx", *figures, passing=passing)
    ten = [f"+493098765{last}" for last in range(4)]
    blocks = ranges(listing(ten).entries, [replace(found, number="+49309876xx")])
    assert "+493098765x" in [entry.pattern for entry in blocks.widest]
    assert [entry.pattern for entry in blocks.everywhere if entry.blocks] == ["+493098765x"]


def test_numbers_that_only_warn_make_no_block_anywhere() -> None:
    made = listing(TEN)
    over_a_day = tuple(replace(entry, window=1) for entry in made.entries)
    warned = replace(made, header=replace(made.header, block_days=99), entries=over_a_day)
    assert not warned.to_block().entries
    assert ranges_of(warned).widest == ()
    assert CheckIndex(warned).ranges.around("+4930987659") is None, "clients would block by the votes of the block"


def blocks_of_a_month(a_day: int, allowed: str) -> list[Ranges]:
    """The blocks of each evening: so many numbers of the hundred are found a day, in turns. The list has 7 rounds."""
    sightings, evenings = list[Sighting](), list[Ranges]()
    for day in range(30):
        found = [HUNDRED[place % len(HUNDRED)] for place in range(a_day * day, a_day * (day + 1))]
        sightings += [Sighting(number, day, day, 20.0, 10.0, 30.0, 1e-9, window=1, strict=1) for number in found]
        entries = blocklist.listed(sightings, day, 7, {allowed}, block_rounds=2)
        assert allowed not in {entry.number for entry in entries}
        evenings.append(ranges(entry for entry in entries if entry.block))
    return evenings


def test_two_sightings_a_day_keep_a_hundred_blocked_and_with_it_who_is_allowed() -> None:
    """Why the page says to let allowed numbers through before a block. One sighting a day is too few."""
    allowed = f"{HUNDRED[0][:-2]}99"
    two, one = (blocks_of_a_month(a_day, allowed) for a_day in (2, 1))
    assert all([block.pattern for block in evening.widest] == ["+49302222xx"] for evening in two[12:])
    assert not any(evening.around(allowed) for evening in (*two[:6], *one))
    assert two[-1].around(allowed)


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
        read(name, WRITERS[name].write(listing((*TEN, *HUNDRED))).replace(old, new))
