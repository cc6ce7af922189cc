"""JSON that is cut off, too deep, too large, or of another shape."""

import json

import pytest

from hushcall.errors import InvalidData
from hushcall.formats.calls.termux import TERMUX

GOOD = {"name": "x", "phone_number": "2025550143", "type": "MISSED", "date": "2024-03-01 10:11:12"}


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 100_000, "[" + "9" * 5000 + "]", "[1,", '["\x00"]', "\ufeff\ufeff[]", "nan"]
)
def test_broken_json_is_one_error(text: str) -> None:
    with pytest.raises(InvalidData, match="Termux call log file must be"):
        TERMUX.read(text.encode())


def test_the_answer_of_a_phone_that_may_not_read_its_log_says_so() -> None:
    with pytest.raises(InvalidData, match="permission to read"):
        TERMUX.read(b'{"error": "Please grant the following permission: READ_CALL_LOG"}')


@pytest.mark.parametrize(
    "change",
    [
        {"phone_number": 2025550143},
        {"type": "unknown"},
        {"type": None},
        {"date": 1e999},
        {"date": None},
        {"name": []},
        {"phone_number": "\ud800"},
        {"phone_number": "2" * 100},
        {"phone_number": "202\x005550143"},
        {"date": float("nan")},
    ],
)
def test_a_bad_record_is_counted_and_the_others_are_read(change: dict[str, object]) -> None:
    result = TERMUX.read(json.dumps([GOOD, GOOD | change, None, 7, [], {}, GOOD]).encode())
    assert (len(result.calls), result.malformed) == (2, 5)
    assert result.first_problem.startswith("record 2: ")


def test_an_empty_log_is_one() -> None:
    assert TERMUX.sniff(b" [ ]\n")
    assert TERMUX.read(b"[]").calls == ()
