"""The FRITZ!Box's source and places, through fritzconnection itself, before a box on loopback with its faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.home.box import Book, FritzBox, running

from hushcall.formats.calls.call import CallKind
from hushcall_home import fritzbox
from hushcall_home.config import Router
from hushcall_home.fritzbox import Box, CallBarring, CallList, Phonebook, changes
from hushcall_home.parts import Trouble

BERLIN = ZoneInfo("Europe/Berlin")
NUMBERS = [f"+4930555010{place}" for place in range(10)]
NOW = 1_800_000_000


@pytest.fixture
def box() -> Iterator[FritzBox]:
    with running(FritzBox(lambda: NOW)) as found:
        yield found


def connected(box: FritzBox, limit: int = 1000) -> Box:
    return Box(Router(box.address, box.user, box.password, limit, box.monitor_port))


def source(box: FritzBox) -> CallList:
    return CallList(connected(box), BERLIN)


def test_calls_are_fetched_once_each(box: FritzBox) -> None:
    box.ring("0305550101")
    box.ring("0305550102", 3)
    calls = source(box)
    first = calls.calls("")
    assert [(call.number, call.kind) for call in first.calls] == [
        ("0305550102", CallKind.OUTGOING),
        ("0305550101", CallKind.MISSED),
    ]
    assert NOW - 60 < first.calls[0].at <= NOW, "the box tells minutes, in its own zone"
    assert calls.calls(first.position).calls == ()
    box.ring("0305550103", 10)
    second = calls.calls(first.position)
    assert [(call.number, call.kind) for call in second.calls] == [("0305550103", CallKind.REJECTED)]
    assert box.served == [2, 1, 3]


@pytest.mark.filterwarnings("ignore:Unverified HTTPS")
def test_a_box_is_spoken_to_over_tls_with_its_own_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says of proxies and certificates: both would keep it from the box."""
    (tmp_path / "empty.pem").touch()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "empty.pem"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with running(FritzBox(lambda: NOW), tmp_path) as box:
        box.ring("0305550101")
        assert box.address.startswith("https://")
        assert len(source(box).calls("").calls) == 1
        assert CallBarring(connected(box)).write(NUMBERS) == "The FRITZ!Box holds 10 numbers."
    default = Box(Router("fritz.box"))
    assert (default.host, default.tls, default.port) == ("fritz.box", True, None)


def test_a_firmware_that_knows_no_ids_gives_each_call_once_too(box: FritzBox) -> None:
    box.knows_ids = False
    box.ring("0305550101")
    first = source(box).calls("")
    box.ring("0305550102")
    assert [call.number for call in source(box).calls(first.position).calls] == ["0305550102"]


def test_a_reset_box_numbers_its_calls_anew(box: FritzBox) -> None:
    for _ in range(3):
        box.ring("0305550101")
    first = source(box).calls("")
    box.timestamp, box.numbered, box._next_id = box.timestamp + 9, [], 1
    box.ring("0305550102")
    second = source(box).calls(first.position)
    assert [call.number for call in second.calls] == ["0305550102"]
    assert set(first.marks).isdisjoint(second.marks)


def test_a_call_that_goes_on_is_taken_when_it_is_over(box: FritzBox) -> None:
    going_on = box.ring("0305550101", 9)
    box.ring("0305550102")
    first = source(box).calls("")
    assert [call.number for call in first.calls] == ["0305550102"]
    going_on.type = 1
    second = source(box).calls(first.position)
    assert [call.number for call in second.calls if call.number == "0305550101"] == ["0305550101"]
    assert set(first.marks) < set(second.marks), "a call that is there twice has the same mark"


def test_contacts_are_those_of_all_books_but_ours_and_blocked_ones(box: FritzBox) -> None:
    box.add(box.books[0], "Oma & Opa", "030 555 01 11", "+49 30 5550112")
    box.books |= {1: Book("hushcall", "hushcall"), 2: Book("Werbung"), 3: Book("Firma")}
    box.add(box.books[1], "hushcall", *NUMBERS)
    box.add(box.books[2], "Callcenter", "0305550119")
    box.add(box.books[3], "Chef", "0305550113")
    rule = "<Item><Enable>{}</Enable><Type>fromPB</Type><Mode>eNoSignal</Mode><PhonebookID>{}</PhonebookID></Item>"
    box.deflections = f"<List>{rule.format(1, 2)}{rule.format(0, 3)}</List>"
    assert sorted(source(box).contacts()) == ["+49 30 5550112", "030 555 01 11", "0305550113"]


def test_a_caller_of_our_phonebook_has_no_name_and_so_stays_unknown(box: FritzBox) -> None:
    """The box shows the name of any phonebook, ours too. A named caller would never be reported again."""
    Phonebook(connected(box)).write(NUMBERS[:1])
    box.add(box.books[0], "Oma", "030 555 01 11")
    assert box.ring(box.national(NUMBERS[0])).name == "hushcall"
    box.ring("0305550111")
    assert [call.name for call in source(box).calls("").calls] == ["Oma", ""]


@pytest.mark.parametrize("place", [CallBarring, Phonebook])
def test_a_place_holds_what_was_written_and_the_household_s_entries_stay(
    box: FritzBox, place: type[CallBarring | Phonebook]
) -> None:
    written = place(connected(box))
    assert written.write(NUMBERS[:3]) == "The FRITZ!Box holds 3 numbers."
    book = box.barred if place is CallBarring else box.books[1]
    own = box.add(book, "Telefonterror", "0305550199")
    assert box.numbers_of(book) == NUMBERS[:3]
    sets = len([action for action in box.actions if action.startswith(("Set", "Delete", "Add"))])
    place(connected(box)).write(NUMBERS[:3])
    assert len([action for action in box.actions if action.startswith(("Set", "Delete", "Add"))]) == sets
    assert place(connected(box)).write(NUMBERS[2:5]) == "The FRITZ!Box holds 3 numbers."
    assert sorted(box.numbers_of(book)) == NUMBERS[2:5]
    assert place(connected(box)).write([]) == "The FRITZ!Box holds 0 numbers."
    assert box.numbers_of(book) == []
    assert list(book.entries) == [own]


@pytest.mark.parametrize("place", [CallBarring, Phonebook])
def test_the_limit_takes_the_first_numbers(box: FritzBox, place: type[CallBarring | Phonebook]) -> None:
    written = place(connected(box, limit=4)).write(NUMBERS)
    assert sorted(box.numbers_of(box.barred if place is CallBarring else box.books[1])) == NUMBERS[:4]
    assert "holds 4 numbers of 10" in written


def test_a_full_box_holds_the_first_numbers_that_fit(box: FritzBox) -> None:
    box.room = 4
    own = box.add(box.barred, "Telefonterror", "0305550199")
    CallBarring(connected(box)).write(NUMBERS[5:7])
    written = CallBarring(connected(box)).write(NUMBERS)
    assert "holds 3 numbers of 10" in written
    assert sorted(box.numbers_of(box.barred)) == NUMBERS[:3]
    assert own in box.barred.entries


def test_a_box_without_any_room_says_so(box: FritzBox) -> None:
    box.room = 0
    with pytest.raises(Trouble, match="takes no more entries"):
        CallBarring(connected(box)).write(NUMBERS)


def test_old_firmware_says_what_to_do_until_our_phonebook_is_blocked(box: FritzBox) -> None:
    box.barring = False
    with pytest.raises(Trouble, match="no call barring for programs") as raised:
        CallBarring(connected(box)).write(NUMBERS)
    assert "block the phonebook hushcall once" in raised.value.todo
    Phonebook(connected(box)).write(NUMBERS)
    rule = "<Enable>1</Enable><Type>fromPB</Type><Mode>eBellBlockade</Mode><PhonebookID>1</PhonebookID>"
    box.deflections = f"<List><Item>{rule}</Item></List>"
    assert "blocks the phonebook hushcall" in CallBarring(connected(box)).write(NUMBERS)


def test_firmware_that_lost_the_action_while_connected_is_said_too(box: FritzBox) -> None:
    place = CallBarring(connected(box))
    place.write(NUMBERS[:2])
    box.barring = False
    with pytest.raises(Trouble, match="no call barring"):
        place.write(NUMBERS)
    box.barring = True
    assert place.write(NUMBERS) == "The FRITZ!Box holds 10 numbers."


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"password": "changed"}, "refuses the user hushcall"),
        ({"rights": False}, "refuses the user hushcall"),
        ({"status": 503}, "does not answer"),
        ({"cut": 30}, "cannot be read"),
        ({"keeps_calls": False}, "keeps no call list"),
    ],
)
def test_a_fault_is_said_and_the_same_source_works_once_it_is_mended(
    box: FritzBox, fault: dict[str, object], said: str
) -> None:
    box.ring("0305550101")
    calls = source(box)
    before = {name: getattr(box, name) for name in fault}
    for name, value in fault.items():
        setattr(box, name, value)
    with pytest.raises(Trouble, match=said):
        calls.calls("")
    for name, value in before.items():
        setattr(box, name, value)
    assert len(calls.calls("").calls) == 1


def test_a_fault_in_the_middle_heals_without_doubles(box: FritzBox) -> None:
    box.add(box.books[0], "Oma", "0305550111")
    calls = source(box)
    assert list(calls.contacts()) == ["0305550111"]
    box.cut = 40
    with pytest.raises(Trouble, match="half a phonebook"):
        list(calls.contacts())
    box.cut, box.status = 0, 503
    with pytest.raises(Trouble):
        list(calls.contacts())
    box.status = 0
    box.reboot()
    assert list(calls.contacts()) == ["0305550111"]


def test_a_box_that_is_away_is_said_by_us_alone(capfd: pytest.CaptureFixture[str]) -> None:
    with running(FritzBox(lambda: NOW)) as gone:
        calls = source(gone)
    with pytest.raises(Trouble, match="does not answer"):
        calls.calls("")
    assert capfd.readouterr().err == ""


def test_a_box_that_hangs_is_left(box: FritzBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fritzbox, "TIMEOUT_SECONDS", 0.2)
    calls = source(box)
    calls.calls("")
    box.hangs = True
    with pytest.raises(Trouble, match="did not answer in"):
        calls.calls("")
    box.hangs = False
    assert calls.calls("").calls == ()


def test_a_refused_password_is_not_tried_again_soon(box: FritzBox) -> None:
    calls = source(box)
    box.password = "changed"  # noqa: S105
    with pytest.raises(Trouble) as raised:
        calls.calls("")
    assert raised.value.wait >= 3600
    assert box.refused == 1


def test_only_the_call_list_asks_a_box_again_that_refused(box: FritzBox) -> None:
    link = connected(box)
    right, box.password = box.password, "changed"
    with pytest.raises(Trouble, match="refuses"):
        CallList(link, BERLIN).calls("")
    for place in (CallBarring(link), Phonebook(link)):
        with pytest.raises(Trouble, match="refuses"):
            place.write(NUMBERS)
    assert box.refused == 1
    box.password = right
    CallList(link, BERLIN).calls("")
    assert CallBarring(link).write(NUMBERS) == "The FRITZ!Box holds 10 numbers."


def test_the_call_monitor_tells_who_rings(box: FritzBox) -> None:
    calls, told = source(box), Queue[str | None]()
    calls.listen(told.put)
    try:
        while not box._listeners:
            pass
        box.ring("0305550101")
        assert (told.get(timeout=30), told.get(timeout=30)) == ("0305550101", None)
    finally:
        calls.close()


def test_a_box_without_call_monitor_is_no_trouble(box: FritzBox) -> None:
    closed = Box(Router(box.address, box.user, box.password, monitor_port=1))
    CallList(closed, BERLIN).listen(lambda _: None)


entries = st.dictionaries(st.integers(1, 9), st.lists(st.sampled_from(NUMBERS), max_size=4).map(tuple), max_size=5)


@given(entries, st.lists(st.sampled_from(NUMBERS), unique=True), st.integers(1, 4))
def test_changes_lead_to_exactly_the_numbers(
    present: dict[int, tuple[str, ...]], numbers: list[str], size: int
) -> None:
    after, fresh = dict(present), 100
    for unique_id, held in changes(present, numbers, size):
        if unique_id is not None and not held:
            del after[unique_id]
        else:
            fresh += 1
            after[fresh if unique_id is None else unique_id] = held
    assert sorted(number for held in after.values() for number in held) == sorted(numbers)
    assert changes(after, numbers, size) == []
