"""Android's logs: where a column of a row begins, logs without calls, and damaged JSON."""

import json

import pytest

from hushcall.errors import InvalidData
from hushcall.formats.calls.android import ADB, TERMUX
from hushcall.formats.calls.reading import read_calls

DATE = "date=1709287860000, type=1"


def test_a_phone_without_calls_says_so() -> None:
    assert read_calls(b"No result found.\n").format == "adb"
    assert ADB.read(b"No result found.\r\n").malformed == 0


@pytest.mark.parametrize(
    ("row", "number", "name"),
    [
        (f"number=2025550143, {DATE}, call_screening_app_name=Shield, name=NULL", "2025550143", ""),
        (f"call_screening_app_name=Shield, number=2025550143, {DATE}", "2025550143", ""),
        (f"name=Doe, Jane, via_number=2025550199, number=2025550143, {DATE}", "2025550143", "Doe, Jane"),
        (f"normalized_number=+12025550199, {DATE}, number=2025550143, name=a=b", "2025550143", "a=b"),
        (f"{DATE}, presentation=3, number=2025550143, name=", "", ""),
        (f"number=-2, {DATE}, presentation=1", "", ""),
    ],
)
def test_columns_begin_after_a_comma_in_any_order(row: str, number: str, name: str) -> None:
    (call,) = ADB.read(f"Row: 7 {row}\n".encode()).calls
    assert (call.number, call.name) == (number, name)


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
