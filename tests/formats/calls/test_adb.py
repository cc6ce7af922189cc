"""Rows of Android's call log: where a column begins, and logs without calls."""

import pytest

from hushcall.formats.calls.adb import ADB
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
