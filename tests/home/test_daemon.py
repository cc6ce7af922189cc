"""The program on a clock by hand: what is due when, what becomes of trouble, and what survives a restart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pytest
from tests.client.fake_server import DAY, START, FakeServer, FakeService
from tests.client.lists_on_disk import BLOCKED, CLEAN, WARNED, put_list

from hushcall.client.calls import candidates
from hushcall.client.client import Client
from hushcall.client.screening.screen import Screen, save_policy
from hushcall.client.storage.folder import HOME_FILE, erase_all
from hushcall.client.storage.personal import Action, Personal
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.randomness import seeded
from hushcall_home import daemon, history
from hushcall_home.config import Config, Page
from hushcall_home.daemon import FETCH_SECONDS, HOUR_SECONDS, LOOK_SECONDS, PAGE, REPORT, SYNC, Daemon
from hushcall_home.parts import Fetched, Part, Trouble


@dataclass
class FakeSource:
    """Calls by place; the position is how many were fetched."""

    name: str = "router"
    all_calls: list[Call] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    trouble: Exception | None = None
    fetches: int = 0
    tell: Callable[[str | None], None] | None = None

    def calls(self, since: str) -> Fetched:
        self.fetches += 1
        if self.trouble:
            raise self.trouble
        start = int(since or 0)
        marks = tuple(map(str, range(start, len(self.all_calls))))
        return Fetched(tuple(self.all_calls[start:]), str(len(self.all_calls)), marks)

    def contacts(self) -> Iterable[str]:
        return self.known

    def listen(self, tell: Callable[[str | None], None]) -> None:
        self.tell = tell

    def close(self) -> None:
        pass


@dataclass
class FakePlace:
    """Remembers what it was told to hold."""

    name: str = "router-blocks"
    held: list[str] = field(default_factory=list)
    writes: int = 0
    trouble: Exception | None = None

    def write(self, numbers: Sequence[str]) -> str:
        if self.trouble:
            raise self.trouble
        self.writes += 1
        self.held = list(numbers)
        return f"{len(numbers)} numbers."


@dataclass
class Household:
    """A folder with a phone, a clock, a service in memory, one source and one place."""

    folder: Path
    now: float = START
    source: FakeSource = field(default_factory=FakeSource)
    place: FakePlace = field(default_factory=FakePlace)
    said: list[str] = field(default_factory=list)
    look: int = LOOK_SECONDS

    def __post_init__(self) -> None:
        self.service = FakeService(lambda: self.now)
        self.daemon = self.started()

    def started(self) -> Daemon:
        """The program anew, as after a restart."""
        store = Store.open(self.folder)
        client = Client(store, FakeServer(self.service), rand=seeded(b"home"), clock=lambda: self.now)
        return Daemon(client, self.said.append)

    def restart(self) -> None:
        self.daemon.close()
        self.daemon = self.started()

    def run(self, until: float) -> None:
        """Let time pass, step by step, as the loop does."""
        while self.now < until:
            due = self.daemon.run_due()
            self.now = min(until, max(self.now + 1, min(due, self.now + self.look)))

    def ring(self, number: str, kind: CallKind = CallKind.MISSED) -> None:
        self.source.all_calls.append(Call(number, int(self.now), kind))

    def part(self, name: str) -> Part:
        return Part.load(self.daemon.store, name)

    def lines(self) -> list[str]:
        """What was said of the router."""
        return [line for line in self.said if line.startswith("router")]

    def moments(self, method: str, part: str) -> list[int]:
        return [request.at for request in self.service.requests if request.method == method and part in request.path]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Household:
    folder = tmp_path / "home"
    Store.open(folder).close()
    Config(logs=("log",)).save(folder)
    source, place = FakeSource(), FakePlace()
    monkeypatch.setattr(Config, "opened", lambda *_: ([source], [place]))
    return Household(folder, source=source, place=place)


def test_calls_are_fetched_every_quarter_of_an_hour_and_recorded_with_their_verdict(home: Household) -> None:
    put_list(home.folder, START, START + 9 * DAY)
    home.ring(BLOCKED, CallKind.REJECTED)
    home.ring(WARNED)
    home.ring(CLEAN, CallKind.OUTGOING)
    home.run(START + HOUR_SECONDS)
    assert home.source.fetches == HOUR_SECONDS // FETCH_SECONDS
    seen = history.calls(home.daemon.store, START)
    assert [(call.number, call.action, call.blocked) for call in seen] == [
        (WARNED, Action.WARN, False),
        (BLOCKED, Action.BLOCK, True),
    ]
    assert home.part("router").words == "0 new calls; 0 contacts."


def test_a_contact_is_no_candidate(home: Household) -> None:
    home.source.known = [CLEAN]
    home.ring(CLEAN)
    home.ring(BLOCKED)
    home.run(START + 10)
    assert candidates.reportable(home.daemon.store, int(home.now), 7, 30) == [BLOCKED]
    assert candidates.is_known(home.daemon.store, CLEAN)


def test_one_report_a_day_at_the_moments_that_were_drawn(home: Household) -> None:
    put_list(home.folder, START, START + 9 * DAY)
    home.run(START + 5 * DAY)
    reports = home.moments("PUT", "/reports/")
    assert [(at - START) // DAY for at in reports] == [0, 1, 2, 3, 4]
    assert len(home.moments("POST", "/announcements")) == 5


def test_what_blocks_is_written_once_and_again_when_something_changed(home: Household) -> None:
    put_list(home.folder, START, START + 9 * DAY, extra=2)
    home.run(START + HOUR_SECONDS)
    assert home.place.held == [BLOCKED, "+12035000000", "+12035000001"], "the most reported first"
    assert home.place.writes == 1
    Personal({"+12035000000": Action.ALLOW, CLEAN: Action.BLOCK}).save(home.daemon.store)
    home.run(home.now + LOOK_SECONDS + 1)
    assert home.place.held == [CLEAN, BLOCKED, "+12035000001"], "the owner's own before all"
    home.source.known = ["+12035000001"]
    home.run(home.now + FETCH_SECONDS + LOOK_SECONDS)
    assert home.place.held == [CLEAN, BLOCKED]
    save_policy(home.daemon.store, "warn", None)
    home.run(home.now + LOOK_SECONDS + 1)
    assert home.place.held == [CLEAN]
    writes = home.place.writes
    home.run(home.now + 2 * DAY)
    assert writes + 2 <= home.place.writes <= writes + 3, "once a day in any case"


def test_trouble_is_said_once_and_tried_again_later_and_later(home: Household) -> None:
    home.run(START + 10)
    home.source.trouble = Trouble("The box is away.", "Is it on?")
    home.run(home.now + FETCH_SECONDS)
    part = home.part("router")
    assert (part.ok, part.words, part.todo, part.failures) == (False, "The box is away.", "Is it on?", 1)
    home.source.fetches = 0
    home.run(home.now + 6 * HOUR_SECONDS)
    assert 9 <= home.source.fetches <= 12, "after 1, 2, 4, … minutes, then every hour"
    assert home.lines() == ["router: The box is away."]
    home.ring(BLOCKED)
    home.source.trouble = None
    home.run(home.now + HOUR_SECONDS)
    assert home.part("router").ok
    assert home.lines() == ["router: The box is away.", "router works again"]
    assert len(history.calls(home.daemon.store, START)) == 1


def test_a_place_in_trouble_gets_all_that_it_missed(home: Household) -> None:
    home.place.trouble = Trouble("No call barring.", wait=HOUR_SECONDS)
    put_list(home.folder, START, START + 9 * DAY)
    home.run(START + HOUR_SECONDS)
    assert not home.part(home.place.name).ok
    home.place.trouble = None
    home.run(home.now + HOUR_SECONDS)
    assert home.place.held == [BLOCKED]
    assert home.part(home.place.name).ok


def test_an_error_that_nobody_thought_of_ends_nothing(home: Household) -> None:
    home.source.trouble = ZeroDivisionError("what")
    home.run(START + DAY)
    assert "ZeroDivisionError" in home.part("router").words
    assert len(home.moments("PUT", "/reports/")) == 1


def test_a_restart_goes_on_where_it_stopped(home: Household) -> None:
    home.ring(BLOCKED)
    home.run(START + 10)
    home.restart()
    home.ring(WARNED)
    home.run(home.now + FETCH_SECONDS + 10)
    assert len(history.calls(home.daemon.store, 0)) == 2
    for _ in range(36):
        home.restart()
        home.run(home.now + 2 * HOUR_SECONDS)
    assert len(home.moments("PUT", "/reports/")) == 3
    assert len(history.calls(home.daemon.store, 0)) == 2


def test_the_machine_may_be_off_for_days(home: Household) -> None:
    home.run(START + DAY)
    home.ring(BLOCKED)
    home.now += 3.2 * DAY
    home.restart()
    home.run(home.now + DAY)
    days = [(at - START) // DAY for at in home.moments("PUT", "/reports/")]
    assert len(days) == len(set(days))
    assert len(history.calls(home.daemon.store, 0)) == 1


def test_a_list_is_synced_at_a_moment_of_its_own(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never in the pass of a report, and after the machine was off not with the report that is due then."""
    synced: list[float] = []

    @dataclass
    class Result:
        version: int = 1
        entries: int = 2

    def sync(client: Client) -> Result:
        synced.append(client.clock())
        return Result()

    monkeypatch.setattr(Client, "sync", sync)
    monkeypatch.setattr(daemon, "LOOK_SECONDS", 900)
    home.look = 900  # nothing that is written changes here
    put_list(home.folder, START, START + 90 * DAY)
    home.run(START + 10 * DAY)
    days = [int(at - START) // DAY for at in synced[1:]]
    assert days == list(range(1, 10)), "once a day"
    offsets = sorted((at - START) % DAY for at in synced[1:])
    assert offsets[0] < DAY / 4
    assert offsets[-1] > DAY * 3 / 4
    home.now += 3 * DAY
    synced.clear()
    back = home.now
    home.restart()
    home.run(back + DAY)
    assert back + HOUR_SECONDS <= synced[0] <= back + 8 * HOUR_SECONDS


def test_a_full_disk_stops_nothing_and_loses_nothing(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    from hushcall.client.storage.trouble import Cause, StoreTrouble

    home.run(START + 10)
    home.ring(BLOCKED)
    full = StoreTrouble(Cause.FULL, "phone.db", "database or disk is full")

    def raising(*_: object) -> None:
        raise full

    with monkeypatch.context() as patched:
        patched.setattr(Store, "run", raising)
        patched.setattr(Store, "run_many", raising)
        home.run(home.now + 3 * HOUR_SECONDS)
        assert history.calls(home.daemon.store, 0) == []
    assert any("disk is full" in line for line in home.said)
    home.run(home.now + HOUR_SECONDS)
    assert len(history.calls(home.daemon.store, 0)) == 1
    assert home.part("router").ok


def test_new_settings_are_taken_at_once_and_bad_ones_not(home: Household) -> None:
    home.run(START + 10)
    home.source.trouble = Trouble("Refused.", wait=DAY)
    home.run(home.now + FETCH_SECONDS)
    home.source.trouble = None
    fetches = home.source.fetches
    (home.folder / HOME_FILE).write_text("{")
    home.run(home.now + LOOK_SECONDS + 1)
    assert home.source.fetches == fetches
    assert "the old settings stay in use" in home.said[-1]
    Config(logs=("log",), folders=("x",)).save(home.folder)
    home.run(home.now + LOOK_SECONDS + 1)
    assert home.source.fetches == fetches + 1
    assert home.part("router").ok


def test_the_page_is_opened_again_after_trouble_and_with_new_settings(home: Household) -> None:
    opened: list[str] = []
    busy = [True]

    def serve(_: Path, page: Page, __: Callable[[], None]) -> Callable[[], None]:
        if busy[0]:
            raise Trouble("The owner's page cannot use it: Address already in use.")
        opened.append(page.listen)
        return lambda: opened.append("")

    home.daemon._serve = serve
    home.run(START + 10)
    assert not home.part(PAGE).ok
    busy[0] = False
    home.run(home.now + 90)
    assert home.part(PAGE).words == "at http://127.0.0.1:8470/"
    Config(logs=("log",), page=Page("127.0.0.1:8471")).save(home.folder)
    home.run(home.now + 90)
    assert opened == ["127.0.0.1:8470", "", "127.0.0.1:8471"]
    Config(logs=("log",), page=Page("")).save(home.folder)
    home.run(home.now + 90)
    assert opened[3:] == [""]


def test_a_listed_caller_that_rings_is_told_without_its_number(home: Household) -> None:
    put_list(home.folder, START, START + 9 * DAY)
    home.run(START + 10)
    assert home.source.tell
    home.daemon._handle("2025550143")
    assert "a listed caller rings (block)" in home.said[-1]
    assert BLOCKED[2:] not in "".join(home.said)
    assert json.loads(home.part("ringing").memory)["action"] == "block"
    said = len(home.said)
    home.daemon._handle(CLEAN)
    assert len(home.said) == said
    fetches = home.source.fetches
    home.daemon._handle(None)
    home.daemon.run_due()
    assert home.source.fetches == fetches + 1, "the call is over: the call list has it"


def test_calls_are_forgotten_after_a_month_and_with_all_else(home: Household) -> None:
    home.ring(BLOCKED)
    home.run(START + 10)
    home.daemon.store.forget()
    assert history.calls(home.daemon.store, 0) == []
    assert home.part("router") == Part("router")
    home.restart()
    home.run(home.now + FETCH_SECONDS)
    assert len(history.calls(home.daemon.store, 0)) == 1
    home.now += 32 * DAY
    home.run(home.now + FETCH_SECONDS)
    assert history.calls(home.daemon.store, 0) == []


def keeps_its_promises(home: Household) -> None:
    """Two days with a contact, a stranger, a restart in between, and a list."""
    put_list(home.folder, START, START + 9 * DAY, extra=1)
    home.source.known = [CLEAN]
    for number in (CLEAN, WARNED, CLEAN):
        home.ring(number)
    home.run(START + DAY)
    home.restart()
    home.run(START + 2 * DAY)
    reported = [number for (number,) in home.daemon.store.rows("SELECT number FROM reported")]
    assert CLEAN not in [*reported, *candidates.reportable(home.daemon.store, int(home.now), 7, 30)]
    assert len(history.calls(home.daemon.store, 0)) == 3
    assert home.place.held == [BLOCKED, "+12035000000"]
    assert home.source.fetches < 2 * DAY / FETCH_SECONDS + 3, "a box is not asked more often"


def forget_positions(self: Part, store: Store) -> None:
    memory = "" if self.name == "router" else self.memory
    store.run("INSERT OR REPLACE INTO parts VALUES (?, ?)", self.name, json.dumps({**asdict(self), "memory": memory}))


def forget_marks(store: Store, screen: Screen, source: str, fetched: Fetched, now: int) -> None:
    moved = tuple(replace(call, at=call.at + now % 1000) for call in fetched.calls)
    record(store, screen, source, replace(fetched, calls=moved), now)


record, blocked = history.record, Screen.blocked
PLANTED: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "contacts are ignored": lambda patch: patch.setattr(candidates, "add_contacts", lambda *_: 0),
    "positions are lost and calls not told apart": lambda patch: (
        patch.setattr(Part, "save", forget_positions),
        patch.setattr(history, "record", forget_marks),
    ),
    "the smallest estimates come first": lambda patch: patch.setattr(
        Screen, "blocked", lambda self, now: sorted(blocked(self, now), reverse=True)
    ),
    "a box is asked too often": lambda patch: patch.setattr(daemon, "FETCH_SECONDS", 600),
}


def test_the_promises_are_kept(home: Household) -> None:
    keeps_its_promises(home)


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_noticed(home: Household, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    PLANTED[bug](monkeypatch)
    with pytest.raises(AssertionError):
        keeps_its_promises(home)


def test_forgetting_all_erases_the_password_too(home: Household) -> None:
    home.daemon.close()
    erase_all(home.folder)
    assert not home.folder.exists()


def test_stopping_ends_the_loop(home: Household) -> None:
    paused: list[float] = []

    def wait(seconds: float) -> None:
        paused.append(seconds)
        home.now += seconds
        if len(paused) == 3:
            home.daemon.stop()

    home.daemon.run(wait)
    assert len(paused) == 3
    assert all(0 <= seconds <= LOOK_SECONDS for seconds in paused)


def test_a_home_that_is_not_set_up_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="hushcall home init"):
        Config.load(tmp_path)
    assert {REPORT, SYNC} == {"report", "sync"}
