"""A server that lies: whatever it shows, in any order and by any clock, one caller is in one report a horizon.

Every test here failed before the phone counted by its own clock and its own memory: the first gave seven reports about
one call, and forty with a window of 366 days.
"""

import shutil
from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake_server import DAY, START, FakeServer, FakeService
from tests.client.lists_on_disk import put_list

from hushcall.client.client import Client
from hushcall.client.reporting import ledger, participation
from hushcall.client.reporting.consent import Limits
from hushcall.client.storage import device_key
from hushcall.client.storage.store import Store
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo

NUMBER = "+12025550143"
LOOSE = Limits(window=Fraction(4000), life=Fraction(4000), rounds_per_day=100)
"""An owner who allows nearly anything: what holds then is not held by a cap."""


class Liar(FakeServer):
    """A server whose next answer is written down by the test."""

    def __init__(self, clock: Any, url: str = "fake://liar") -> None:
        self.service = FakeService(clock)
        super().__init__(self.service)
        self.url = url
        self.sent: list[tuple[int, bytes]] = []
        self.shown: dict[str, Any] = {}

    def show(self, round_: int, state: str, **changes: Any) -> None:
        self.service.round, self.service.state, self.shown = round_, state, changes

    def current_round(self) -> RoundInfo:
        return RoundInfo.from_plain(self.service.document() | self.shown)

    def announce(self, round_: int, bucket: int) -> str:
        return f"{round_ % 2**64:032x}"

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        self.sent.append((round_, report))


class Prey:
    """A phone with one call, in front of a liar."""

    def __init__(self, limits: Limits = LOOSE, store: Store | None = None) -> None:
        self.now = START
        self.liar = Liar(lambda: self.now)
        self.store = store or Store.in_memory()
        limits.save(self.store)
        self.phone = Client(self.store, self.liar, rand=seeded(b"prey"), clock=lambda: self.now)
        self.phone.ingest([Call(NUMBER, self.now, CallKind.MISSED)])

    def look(self, round_: int, state: str, **changes: Any) -> str:
        self.liar.show(round_, state, **changes)
        return self.phone.report(skip_delays=True).action

    def reports_about(self, number: str = NUMBER) -> int:
        """How many reports hold this number, by the diary: the liar takes everything."""
        rows = self.store.rows("SELECT count(*) FROM rounds WHERE number = ? AND parameters IS NOT NULL", number)
        return int(rows[0][0])


def ids_descending() -> Iterator[tuple[int, str]]:
    yield from ((10_000 - place, "announcing") for place in range(40))
    yield from ((9_961 + place, "collecting") for place in range(40))


def ids_ascending() -> Iterator[tuple[int, str]]:
    yield from ((place, "announcing") for place in range(1, 41))
    yield from ((place, "collecting") for place in range(1, 41))


def interleaved() -> Iterator[tuple[int, str]]:
    for place in range(1, 41):
        yield from ((place, "announcing"), (place, "collecting"), (place - 1, "collecting"), (place + 7, "announcing"))


def reopened() -> Iterator[tuple[int, str]]:
    states = ("announcing", "collecting", "closed", "announcing", "held", "collecting", "published")
    yield from ((1 + place // 20, state) for place, state in enumerate(islice(cycle(states), 200)))


def future() -> Iterator[tuple[int, str]]:
    for place in range(40):
        yield from (
            (999_000 + place, "announcing"),
            (5, "announcing"),
            (999_000 + place, "collecting"),
            (5, "collecting"),
        )


@pytest.mark.parametrize("window", [1, 7, 366])
@pytest.mark.parametrize("attack", [ids_descending, ids_ascending, interleaved, reopened, future])
def test_one_call_is_in_one_report(attack: Any, window: int) -> None:
    prey = Prey()
    for round_, state in attack():
        prey.look(round_, state, window=window)
    assert prey.reports_about() == (attack is not ids_ascending)  # that one collects no round that it announced


@pytest.mark.parametrize("moment", ["1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z"])
def test_a_servers_clock_moves_nothing_that_counts(moment: str) -> None:
    prey = Prey()
    times = {"opens": moment, "collects": moment, "closes": moment, "server_time": moment}
    for round_ in range(1, 30):
        prey.look(round_, "announcing", **times)
        prey.look(round_, "collecting", **times)
    assert prey.reports_about() == 1


def test_a_month_of_daily_calls_is_one_report_and_the_next_month_another() -> None:
    prey = Prey()
    for day in range(61):
        prey.now = START + day * DAY
        prey.phone.ingest([Call(NUMBER, prey.now, CallKind.MISSED)])
        prey.look(day + 1, "announcing", window=1)
        prey.look(day + 1, "collecting", window=1)
        assert prey.reports_about() <= 1 + day // 30
    assert ledger.per_caller(prey.store) == 12  # days 0, 30 and 60


def test_reports_of_a_calendar_day_are_counted_when_they_are_recorded() -> None:
    """Rounds joined on many days, and all called in on one: the owner's one a day is what leaves."""
    prey = Prey(Limits(window=Fraction(4000), life=Fraction(4000)))
    for day in range(5):
        prey.now = START + day * DAY
        prey.look(day + 1, "announcing")
    for round_ in range(1, 6):
        prey.look(round_, "collecting")
    assert len(ledger.spends(prey.store)) == 1
    assert len([row for row in prey.store.rows("SELECT state FROM rounds") if row[0] in participation.UNFINISHED]) == 0


def test_a_round_that_is_called_in_a_day_late_takes_that_days_report() -> None:
    prey = Prey(Limits(window=Fraction(4000), life=Fraction(4000)))
    prey.look(1, "announcing")
    prey.now += DAY
    prey.look(1, "collecting")
    assert len(ledger.spends(prey.store)) == 1
    prey.look(2, "announcing")
    prey.look(2, "collecting")
    assert len(ledger.spends(prey.store)) == 1, "the owner's one a day"
    row = prey.store.rows("SELECT state, why, report IS NOT NULL FROM rounds WHERE round = 2")[0]
    assert tuple(row) == (participation.SKIPPED, "the owner's number of reports a day is reached", 1), "cover went out"


def test_two_servers_that_take_turns_get_one_report_between_them() -> None:
    prey = Prey()
    other = Liar(lambda: prey.now, "fake://other")
    for round_ in range(1, 20):
        for liar in (prey.liar, other):
            prey.phone.transport = liar
            for state in ("announcing", "collecting"):
                liar.show(round_, state)
                prey.phone.report(skip_delays=True)
    assert prey.reports_about() == 1


def test_enrolling_anew_changes_nothing() -> None:
    prey = Prey()
    for round_ in range(1, 10):
        prey.store.put("token", f"hcd_{round_:064d}")
        prey.store.put("device", str(round_))
        prey.look(round_, "announcing")
        prey.look(round_, "collecting")
    assert prey.reports_about() == 1


def test_sixteen_copies_of_a_store_answer_one_ticket_with_one_report(tmp_path: Path) -> None:
    first = Prey(store=Store.open(tmp_path / "0"))
    first.look(1, "announcing")
    first.store.close()
    said = set()
    for copy in range(1, 17):
        shutil.copytree(tmp_path / "0", tmp_path / str(copy))
        store = Store.open(tmp_path / str(copy))
        prey = Prey(store=store)
        assert prey.look(1, "collecting") == "sent"
        said |= set(prey.liar.sent)
        store.close()
    assert len(said) == 1  # twelve different ones before


def test_an_old_copy_put_back_keeps_quiet_about_callers_for_a_horizon(tmp_path: Path) -> None:
    prey = Prey(store=Store.open(tmp_path / "phone"))
    prey.store.close()
    shutil.copy(tmp_path / "phone" / "phone.db", tmp_path / "backup.db")  # before anything was said
    prey = Prey(store=Store.open(tmp_path / "phone"))
    prey.look(1, "announcing")
    prey.look(1, "collecting")
    assert prey.reports_about() == 1
    prey.store.close()
    for name in ("phone.db-wal", "phone.db-shm"):
        (tmp_path / "phone" / name).unlink(missing_ok=True)
    shutil.copyfile(tmp_path / "backup.db", tmp_path / "phone" / "phone.db")  # the same file: the counter tells
    again = Prey(store=Store.open(tmp_path / "phone"))
    put_list(tmp_path / "phone", START, START + 40 * DAY)
    for day in range(29):
        again.now = START + (day + 1) * DAY
        again.phone.ingest([Call(NUMBER, again.now, CallKind.MISSED)])
        again.look(day + 2, "announcing")
        again.look(day + 2, "collecting")
    assert again.reports_about() == 0
    assert len(ledger.spends(again.store)) == 29  # made-up callers: nobody sees that it keeps quiet
    assert device_key.made_up_until(again.store, again.now, 30) == START + 31 * DAY
    again.store.close()


def test_a_copy_of_the_file_is_recognised_by_its_inode(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "phone")
    assert device_key.made_up_until(store, START, 30) == 0
    store.close()
    shutil.copytree(tmp_path / "phone", tmp_path / "copy")
    store = Store.open(tmp_path / "copy")
    assert device_key.made_up_until(store, START + 5, 30) == START + 5 + 30 * DAY
    assert device_key.made_up_until(store, START + 9, 30) == START + 5 + 30 * DAY
    store.close()


def test_an_owners_window_is_not_stretched_by_the_servers() -> None:
    prey = Prey()
    prey.now = START + 8 * DAY  # the call is older than the owner's week
    prey.look(1, "announcing", window=366)
    row = participation.find(prey.store, "fake://liar", 1)
    assert row is not None
    assert row.dummy


def test_a_caller_said_meanwhile_is_not_said_again() -> None:
    """The check stands in the transaction that spends: a second process may have been there since the phone joined."""
    prey = Prey()
    prey.look(1, "announcing")
    prey.store.run("INSERT INTO reported VALUES (?, 99, ?)", NUMBER, prey.now)
    assert prey.look(1, "collecting") == "sent"
    row = participation.find(prey.store, "fake://liar", 1)
    assert row is not None
    assert row.number != NUMBER
    assert NANP.parse(row.number).area == 202


def test_what_the_owner_did_not_agree_to_is_refused_and_named() -> None:
    for changes, words in (
        ({"profile": {"mechanism": "sh-basic", "epsilon": 2.0}}, "--mechanisms"),
        ({"profile": {"mechanism": "subspace", "epsilon": 8.0}}, "--max-epsilon"),
        ({"plan": "elsewhere-2026"}, "numbering plan"),
    ):
        prey = Prey(Limits())
        prey.liar.show(1, "announcing", **changes)
        outcome = prey.phone.report(skip_delays=True)
        assert (outcome.action, words in outcome.words) == ("stopped", True)
    prey = Prey(Limits(area_in_clear=False))
    assert prey.look(1, "announcing") == "stopped"
    assert prey.look(1, "announcing", profile={"mechanism": "whole-number", "epsilon": 4.0}) == "announced"
