"""The index of a list: what it finds is what reading every line would find, for numbers of any length."""

from hypothesis import given
from hypothesis import strategies as st

from hushcall.protocol.blocklist import Entry
from hushcall.protocol.list_index import ListIndex

DIGITS = st.from_regex(r"[1-9][0-9]{6,14}", fullmatch=True) | st.from_regex(r"(1202|99)[0-9]{5,8}", fullmatch=True)


def entry(digits: str) -> Entry:
    return Entry(f"+{digits}", 1_800_000_000, 1_800_000_000, 1, 5.0, 4.0, 6.0, 1e-9)


@given(st.sets(DIGITS, max_size=30), st.from_regex(r"[1-9][0-9]{0,14}", fullmatch=True), DIGITS)
def test_the_index_finds_what_reading_every_line_finds(listed: set[str], prefix: str, stranger: str) -> None:
    numbers = sorted(listed)  # as text: the order of a list
    index = ListIndex.of_entries(b"".join(entry(number).line() for number in numbers))
    assert [found.number for found in index.entries(range(len(index)))] == [f"+{number}" for number in numbers]
    for asked in (*numbers, stranger):
        found = index.find(f"+{asked}")
        assert (found.number if found else None) == (f"+{asked}" if asked in listed else None)
    for start in (prefix, *(number[:cut] for number in numbers[:3] for cut in (1, 4, len(number)))):
        wanted = [f"+{number}" for number in numbers if number.startswith(start)]
        assert [found.number for found in index.entries(index.starting(f"+{start}"))] == wanted
    assert index.starting("+") == range(len(numbers))


@given(st.sets(DIGITS | st.from_regex(r"49301234[0-9]{1,3}", fullmatch=True), max_size=30), st.integers(1, 4))
def test_company_is_numbers_that_differ_in_their_last_digit_only(listed: set[str], least: int) -> None:
    numbers = sorted(listed)
    index = ListIndex.of_entries(b"".join(entry(number).line() for number in numbers))
    beside = [sum(other[:-1] == number[:-1] for other in numbers) for number in numbers]
    assert index.in_company(least) == [place for place, count in enumerate(beside) if count >= least]
