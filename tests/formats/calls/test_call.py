"""A call cannot be built invalid, and logs' ways of saying "nobody" are known."""

import pytest

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import MAX_TIME, Call, CallKind, clean_name, clean_number, tidy


@pytest.mark.parametrize("at", [-1, MAX_TIME, 10**9 * 31_556_952, -(10**30)])
def test_a_date_that_no_phone_has_seen_is_refused(at: int) -> None:
    with pytest.raises(InvalidData, match="date must lie between 1970 and 2100"):
        Call("2025550143", at, CallKind.INCOMING)


@pytest.mark.parametrize("number", ["1" * 81, "202\x005550143", "\ud800", "202\n5550143"])
def test_a_number_that_would_spoil_a_line_is_refused_without_showing_it(number: str) -> None:
    with pytest.raises(InvalidData, match="number must be printable and at most 80") as caught:
        Call(number, 0, CallKind.INCOMING)
    assert number not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", " ", "-1", "-2", "-3", "NULL", "Anonymous", "NO-NUMBER", "OUT-OF-AREA", "private", "P"]
)
def test_numbers_that_are_none(text: str) -> None:
    assert clean_number(text) == ""
    assert Call(clean_number(text), 0, CallKind.MISSED).hidden


@pytest.mark.parametrize("text", ["", "-", "(Unknown)", "UNKNOWN_CALLER", "NO NAME", "null", " unknown "])
def test_names_that_are_none(text: str) -> None:
    assert clean_name(text) == ""


def test_names_are_made_harmless() -> None:
    assert clean_name("Jane\nDoe\x00") == "Jane Doe"
    assert len(clean_name("x" * 10_000)) == 200
    assert clean_name("\ud800Jane") == "Jane"


def test_marks_that_nobody_sees_go_and_control_characters_stay_to_be_refused() -> None:
    assert tidy("\u2066+1 202\u2011555\u2011\u200e0143\u2069") == "+1 202\u2011555\u20110143"
    assert tidy(" 202\u00a0555\u202f0143 ") == "202 555 0143"
    assert not tidy("202\x00555").isprintable()
