"""Rounds of an hour over both databases: what is in days stays in days, and a device takes part once a day."""

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Handset, Village, everything, newest, serving

from hushcall.errors import InvalidParameter
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.ingest.ingest import Answer
from hushcall.server.problems import Problem
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds.round_data import rounds_in_window, rounds_within
from hushcall.server.rounds.round_status import round_info
from hushcall.server.service import Service
from hushcall.server.settings import load_settings

HOUR, DAY = 3600, 86_400
MIDNIGHT = 20_834 * DAY
HOURLY: dict[str, Any] = {"period": HOUR, "tolerance": 0}
CALLERS = [SPAM] * 20 + [f"+1202555{place:04}" for place in range(200, 230)]


@pytest.fixture
def village(make_service: MakeService, database: str, clock: Clock) -> Village:
    clock.now = MIDNIGHT
    return Village(make_service(database, seeded(b"hours"), round=HOURLY), clock)


def the_list(service: Service) -> Blocklist:
    with service.store.read() as connection:
        published = newest_list(connection)
    assert published is not None
    return published


def test_hourly_rounds_begin_with_the_hour_and_their_ids_count_time(village: Village) -> None:
    rounds = village.service.rounds
    assert rounds.open(MIDNIGHT + 10) == 1
    row = newest(village.service)
    assert (row.opens, row.next, row.profile.place, row.profile.windows) == (MIDNIGHT, MIDNIGHT + HOUR, 0, (24,))
    village.to("published")
    village.clock.now = MIDNIGHT + 23 * HOUR
    assert rounds.open(village.service.now) == 24
    assert newest(village.service).profile == village.service.settings.profile
    assert newest(village.service).profile.place == 23
    village.to("published")
    village.clock.now += 20 * 60  # it slept into the announcing
    assert rounds.open(village.service.now) == 25
    row = newest(village.service)
    assert (row.opens, row.profile.place) == (MIDNIGHT + DAY, 0)


def test_a_server_that_starts_late_in_an_hour_still_crosses_no_midnight(village: Village) -> None:
    village.service.rounds.open(MIDNIGHT + 10 * HOUR + 1900)
    row = newest(village.service)
    assert (row.opens, row.next) == (MIDNIGHT + 10 * HOUR + 1900, MIDNIGHT + 12 * HOUR)
    village.to("published")
    assert village.clock.now == MIDNIGHT + 12 * HOUR


def test_the_document_says_when_the_next_round_opens(village: Village) -> None:
    village.service.rounds.open(MIDNIGHT)
    info = round_info(village.service.store, newest(village.service), MIDNIGHT)
    assert (info.next, info.length_seconds, info.window_days) == (MIDNIGHT + HOUR, HOUR, 7)


def test_a_device_takes_part_once_a_day(village: Village) -> None:
    village.to("announcing", CALLERS)
    assert all(isinstance(answer, Answer) for answer in village.announce(CALLERS)), "a retry gets its ticket again"
    village.to("published", CALLERS)
    village.to("announcing")
    refused = village.announce(CALLERS)
    assert {answer.name for answer in refused if isinstance(answer, Problem)} == {"already-announced"}
    assert len(refused) == len(CALLERS)
    village.clock.now = MIDNIGHT + 2 * HOUR
    village.service.rounds.advance(village.service.now)
    village.clock.now = MIDNIGHT + DAY
    village.service.rounds.advance(village.service.now)
    assert all(isinstance(answer, Answer) for answer in village.announce(CALLERS))


def test_the_day_of_devices_is_kept_only_where_a_day_has_several_rounds(make_service: MakeService) -> None:
    service = make_service(round={"period": DAY})
    Village(service, Clock()).to("announcing", CALLERS)
    assert {row.day for row in service.store.rows(sa.select(schema.devices.c.day))} == {0}


def test_a_number_that_an_hour_found_is_listed_for_days(village: Village) -> None:
    village.to("published", CALLERS)
    (entry,) = the_list(village.service).entries
    header = the_list(village.service).header
    assert (entry.number, entry.days, entry.window, header.window_days, header.block_days) == (SPAM, 1, 1, 7, 2)
    village.clock.now = MIDNIGHT + 6 * DAY + 23 * HOUR
    village.to("published")
    assert [entry.number for entry in the_list(village.service).entries] == [SPAM]
    village.to("published")
    assert not the_list(village.service).entries


def test_a_number_blocks_by_reports_of_a_later_day(village: Village) -> None:
    blocks = []
    for place in range(2):
        village.clock.now = MIDNIGHT + place * DAY
        village.to("published", CALLERS)
        published = the_list(village.service)
        (entry,) = published.entries
        blocks.append((entry.days, published.header.block(entry)))
    assert blocks == [(1, False), (2, True)]


def test_a_round_looks_back_over_a_day_of_hours(village: Village) -> None:
    for hour in (0, 1, 24, 25):
        village.clock.now = MIDNIGHT + hour * HOUR
        village.to("published")
    with village.service.store.read() as connection:
        assert rounds_in_window(connection, newest(village.service)) == [25, 26]
        assert rounds_within(connection, newest(village.service), 7) == 168


def test_days_before_hours_count_as_days(make_service: MakeService, clock: Clock) -> None:
    clock.now = MIDNIGHT
    service = make_service(round={"period": DAY})
    for _ in range(5):
        Village(service, clock).to("published")
    service.close()
    service = make_service(round=HOURLY)
    for _ in range(12):
        Village(service, clock).to("published")
    with service.store.read() as connection:
        row = newest(service)
        assert row.id == 17
        assert rounds_in_window(connection, row) == list(range(6, 18))
        assert rounds_within(connection, row, 1) == 13  # half a day of hours, and the day before
        assert rounds_within(connection, row, 4) == 12 + 4


def test_the_unusual_is_measured_at_the_same_hour(village: Village) -> None:
    """Two rounds of a day of 150 devices each after ten quiet ones: nothing is held, as yesterday was alike."""
    names = [f"+1202555{place:04}" for place in range(150)]
    for day in range(3):
        for hour in range(3):
            village.clock.now = MIDNIGHT + day * DAY + hour * HOUR
            assert village.to("published", names if hour == 0 else ()) == day * 24 + hour + 1
            assert newest(village.service).state == "published"


def test_other_lengths_are_no_measure_of_the_unusual(make_service: MakeService, clock: Clock) -> None:
    """Eight days of 150 devices, then an hour without any: it is not held."""
    clock.now = MIDNIGHT
    names = [f"+1202555{place:04}" for place in range(150)]
    service = make_service(round={"period": DAY})
    for _ in range(3):
        Village(service, clock).to("published", names)
    service.close()
    service = make_service(round=HOURLY)
    Village(service, clock).to("published")
    assert newest(service).state == "published"


def test_hours_and_days_of_one_number_are_counted_by_the_calendar(make_service: MakeService, clock: Clock) -> None:
    """Two hours of one day are one day, also once rounds are days."""
    clock.now = MIDNIGHT
    service = make_service(round=HOURLY)
    village = Village(service, clock)
    for _ in range(2):
        village.to("published", CALLERS)
        village = Village(service, clock)
    (entry,) = the_list(service).entries
    assert (entry.days, the_list(service).header.block(entry)) == (1, False)
    service.close()
    clock.now = MIDNIGHT + DAY
    service = make_service(round={"period": DAY, "tolerance": 0})
    Village(service, clock).to("published")
    (entry,) = the_list(service).entries
    assert (entry.days, the_list(service).header.block(entry)) == (1, False)


@pytest.mark.parametrize("period", [4000, 18_000, 30_000, 50_000])
def test_hours_that_divide_no_day_are_refused(period: int) -> None:
    with pytest.raises(InvalidParameter, match="period must divide a day"):
        load_settings(alone=True, round={"period": period})


def test_a_second_announcement_of_a_day_is_refused_over_http(make_service: MakeService, clock: Clock) -> None:
    clock.now = MIDNIGHT
    service = make_service(round=HOURLY)
    service.rounds.open(service.now)
    with serving(service) as client:
        handset = Handset.enrolled(client)
        handset.ticket()
        for moment in (1800, 3420, HOUR):
            clock.now = MIDNIGHT + moment
            service.rounds.advance(service.now)
        number = newest(service).id
        answer = handset.announce(202, number)
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:hushcall:problem:already-announced")
        document = client.get("/v1/rounds/current").json()
        assert datetime.fromisoformat(document["next"]) > datetime.fromtimestamp(service.now, UTC)


def test_windows_in_hours() -> None:
    hourly = load_settings(alone=True, round={"period": HOUR, "windows_hours": [6, 24, 168]})
    assert hourly.profile.windows == (6, 24, 168)
    assert load_settings(alone=True, round={"period": 3 * HOUR}).profile.windows == (8, 16, 32, 56)
    assert load_settings(alone=True, round={"period": 600}).profile.windows == (1, 2, 4, 7)
    assert load_settings(alone=True, round={"windows": [1, 3]}).profile.windows == (1, 3)
    for section in ({"period": 3 * HOUR, "windows_hours": [4]}, {"windows": [1], "windows_hours": [24]}):
        with pytest.raises(InvalidParameter, match="windows"):
            load_settings(alone=True, round=section)


def test_windows_of_the_list_in_days() -> None:
    assert load_settings(alone=True, round={"period": HOUR}).window_days == 7
    assert load_settings(alone=True, round={"period": HOUR}, list={"window_days": 3}).window_days == 3
    assert load_settings(alone=True, round={"period": HOUR}, list={"window": 48}).window_days == 2
    with pytest.warns(DeprecationWarning, match=r"list\.window is list\.window_days now"):
        assert load_settings(alone=True, list={"window": 5}).window_days == 5
    with pytest.warns(DeprecationWarning, match=r"round\.windows is round\.windows_hours now"):
        load_settings(alone=True, round={"windows": [1, 2]})


def test_everything_is_there_after_a_day(village: Village) -> None:
    """Nothing of who took part stays but a day: reports, announcements and refusals are forgotten as ever."""
    village.to("published", CALLERS)
    rows = everything(village.service)
    assert not rows["announcements"]
    assert {row[-1] for row in rows["devices"]} == {MIDNIGHT // DAY}
