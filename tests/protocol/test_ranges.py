"""The file of ranges: written and read alike, and nothing else is one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidList, InvalidNumber
from hushcall.protocol.numbers import NANP, plan_named
from hushcall.protocol.ranges import NO_RANGES, RangeEntry, RangeList, number_or_range, range_of

ENTRY = RangeEntry("+120255501xx", 1_794_700_800, 1_794_787_200, 2, 150.0, 120.0, 180.0, 1e-9, 1, False)
OTHER = replace(ENTRY, number="+120255503xx", block=True, passing=("+12025550301", "+12025550302"))
RANGES = RangeList(5, 1_794_787_200, (ENTRY, OTHER))


def test_it_reads_what_it_wrote() -> None:
    for ranges in (RANGES, RangeList(5, 0, ()), NO_RANGES):
        assert RangeList.from_bytes(ranges.to_bytes()) == ranges
    assert RANGES.to_bytes().count(b"\n") == 3
    assert b'"except":["+12025550301","+12025550302"]' in RANGES.to_bytes()


@given(st.integers(0, 400), st.integers(0, 255))
def test_one_other_byte_is_refused_or_another_file(place: int, byte: int) -> None:
    data = bytearray(RANGES.to_bytes())
    data[place % len(data)] = byte
    try:
        read = RangeList.from_bytes(bytes(data))
    except InvalidList:
        return
    assert read.to_bytes() == data


def test_what_a_number_lies_in() -> None:
    assert RANGES.around("+12025550199") == RANGES.around("+120255501xx") == ENTRY
    assert RANGES.around("+12025550302") is None, "it passes"
    assert RANGES.around("+12025550303") == OTHER
    for stranger in ("+12025550200", "+1202555019", "+120255501990", "", "+1"):
        assert RANGES.around(stranger) is None
    assert len(ENTRY.numbers) == 100
    assert {range_of(number) for number in ENTRY.numbers} == {ENTRY.number}


def test_a_range_is_typed_like_a_number() -> None:
    for text in ("+120255501xx", " (202) 555-01XX ", "1 202 555 01xx", "+1 202-555-01xx"):
        assert number_or_range(text, NANP) == "+120255501xx"
    assert number_or_range("(202) 555-0143", NANP) == "+12025550143"
    assert number_or_range("030 23125 1xx", plan_named("DE")) == "+4930231251xx"
    for text in ("xx", "+1202555xx", "+1202555011xx", "(202) 155-01xx", "+4930231251xx"):
        with pytest.raises(InvalidNumber):
            number_or_range(text, NANP)


@pytest.mark.parametrize(
    "changes",
    [{"number": "+12025550143"}, {"number": "+1202555014x"}, {"number": "120255501xx"}, {"days": 0}, {"block": 1}],
)
def test_what_is_no_range(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidList):
        replace(ENTRY, **changes)  # type: ignore[arg-type]


def test_order_and_count_are_checked() -> None:
    with pytest.raises(InvalidList):
        RangeList(5, 0, (OTHER, ENTRY))
    head, first, second = RANGES.to_bytes().splitlines(keepends=True)
    for bad in (b"", head, head + first, head + second + first, head + first + first, b"[]\n", head[:-1]):
        with pytest.raises(InvalidList):
            RangeList.from_bytes(bad)
