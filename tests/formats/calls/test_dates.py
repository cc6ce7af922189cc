"""Local dates of logs: layouts, time zones, nights on which clocks are changed, dates that are none."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.calls.writers import written

from hushcall.errors import InvalidData
from hushcall.formats.calls.dates import AMERICAN, DOTTED, ISO, DateLayout

BERLIN = ZoneInfo("Europe/Berlin")
LAYOUTS = [ISO, DOTTED, AMERICAN]
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.title)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def test_the_zone_decides() -> None:
    assert ISO.read("2024-07-01 10:11:12", UTC) == at("2024-07-01T10:11:12Z")
    assert ISO.read("2024-07-01 10:11:12", BERLIN) == at("2024-07-01T10:11:12+02:00")
    assert DOTTED.read("01.07.24 10:11", ZoneInfo("America/New_York")) == at("2024-07-01T10:11:00-04:00")
    assert AMERICAN.read("07012024 1011", ZoneInfo("Asia/Kolkata")) == at("2024-07-01T10:11:00+05:30")


def test_two_digits_of_a_year_are_of_this_century() -> None:
    assert DOTTED.read("31.12.99 23:59", UTC) == at("2099-12-31T23:59Z")
    assert DOTTED.read("31.12.1999 23:59", UTC) == at("1999-12-31T23:59Z")


def test_an_hour_that_does_not_exist_is_read_by_the_clock_before_the_change() -> None:
    assert DOTTED.read("31.03.24 02:30", BERLIN) == at("2024-03-31T02:30+01:00")


def test_an_hour_that_exists_twice_is_the_first_of_the_two() -> None:
    assert DOTTED.read("27.10.24 02:30", BERLIN) == at("2024-10-27T02:30+02:00")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nan",
        "2024-01-01",
        "2024-02-30 10:00:00",
        "2024-01-01 24:00:00",
        "0000-01-01 00:00:00",
        "1e9-01-01 00:00:00",
        "2024-01-01 10:00:00 ; DROP",
        "2024-01-01 10:00:60",
        "99999-01-01 00:00:00",
        "-024-01-01 00:00:00",
        "2024-1-1 1:1:1",
    ],
)
def test_dates_that_are_none(text: str) -> None:
    with pytest.raises(InvalidData, match="date must"):
        ISO.read(text, BERLIN)


@layouts
@given(moment=st.integers(946_771_200, 4_102_358_400))
def test_a_date_written_in_utc_is_read_again(layout: DateLayout, moment: int) -> None:
    moment -= moment % 60
    assert layout.read(written(layout, moment, UTC), UTC) == moment


@layouts
@given(moment=st.integers(946_771_200, 4_102_358_400))
def test_a_local_date_is_read_again_but_for_the_doubled_hour(layout: DateLayout, moment: int) -> None:
    moment -= moment % 60
    assert moment - layout.read(written(layout, moment, BERLIN), BERLIN) in (0, 3600)
