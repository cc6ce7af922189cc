"""Which callers count."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcall.client.calls import candidates
from hushcall.client.reporting.consent import Limits
from hushcall.client.storage.personal import Action, mark
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded

DAY = 86_400
NOW = 20_000 * DAY
NUMBERS = [str(NANP.number(202, 5_550_100 + i)) for i in range(6)]


def waiting(store: Store, now: int = NOW, days: int = 7, horizon: int = 30) -> list[str]:
    return candidates.reportable(store, now, days, horizon)


def test_every_kind_of_call() -> None:
    expected = {"incoming": True, "missed": True, "rejected": True, "voicemail": True, "blocked": True}
    for kind, counts in (expected | {"outgoing": False}).items():
        store = Store.in_memory()
        candidates.ingest(store, [Call("202-555-0100", NOW - 5, CallKind(kind))], NANP, NOW)
        assert bool(waiting(store)) is counts, kind


def test_what_is_left_out_is_counted_by_reason() -> None:
    store = Store.in_memory()
    calls = [
        Call("", NOW, CallKind.MISSED),
        Call("911", NOW, CallKind.INCOMING),
        Call("+442079460000", NOW, CallKind.INCOMING),
        Call("(202) 555-0100", NOW, CallKind.INCOMING),
        Call("+12025550100", NOW, CallKind.MISSED),
        Call("2025550101", NOW, CallKind.MISSED, name="Ann"),
        Call("2025550102", NOW, CallKind.OUTGOING),
        Call("2025550103", NOW, CallKind.BLOCKED),
    ]
    found = candidates.ingest(store, calls, NANP, NOW)
    assert found == candidates.Ingested(calls=8, callers=3, strangers=2, known=2, hidden=1, foreign=2)
    assert waiting(store) == ["+12025550100", "+12025550103"]


@pytest.mark.parametrize(
    ("kind", "seconds", "reported"),
    [
        (CallKind.INCOMING, 19, True),
        (CallKind.INCOMING, 20, False),
        (CallKind.INCOMING, None, True),  # a log without durations
        (CallKind.VOICEMAIL, 300, True),  # a machine listened
        (CallKind.BLOCKED, 300, True),
        (CallKind.MISSED, 300, True),  # how long it rang
    ],
)
def test_whom_the_owner_talked_to_is_known(kind: CallKind, seconds: int | None, reported: bool) -> None:
    calls = [Call(NUMBERS[0], NOW - 90, kind, "", seconds), Call(NUMBERS[0], NOW - 50, CallKind.MISSED)]
    for order in (calls, calls[::-1]):
        store = Store.in_memory()
        candidates.ingest(store, order, NANP, NOW)
        assert waiting(store) == (NUMBERS[:1] if reported else [])
        assert candidates.is_known(store, NUMBERS[0]) is not reported


def test_the_owner_sets_how_long_a_talk_is() -> None:
    store = Store.in_memory()
    Limits(talked_seconds=61).save(store)
    for number, seconds in zip(NUMBERS, (20, 60, 61), strict=False):
        candidates.ingest(store, [Call(number, NOW, CallKind.INCOMING, "", seconds)], NANP, NOW)
    assert waiting(store) == NUMBERS[:2]
    with pytest.raises(InvalidParameter, match=r"talked seconds must be .*at least 1"):
        Limits(talked_seconds=0)


def test_spam_of_the_owner_comes_first_and_what_is_let_through_never() -> None:
    store = Store.in_memory()
    candidates.ingest(store, [Call(number, NOW, CallKind.MISSED) for number in NUMBERS], NANP, NOW)
    assert candidates.spam_first(store, waiting(store)) == NUMBERS
    mark(store, NANP, NUMBERS[2:4], Action.BLOCK)
    mark(store, NANP, NUMBERS[:1], Action.ALLOW)
    assert waiting(store) == NUMBERS[1:]
    assert candidates.spam_first(store, waiting(store)) == NUMBERS[2:4]
    candidates.mark_reported(store, NUMBERS[2], seq=1, at=NOW)
    mark(store, NANP, NUMBERS[3:4], None)
    assert candidates.spam_first(store, waiting(store)) == [NUMBERS[1], *NUMBERS[3:]]


def test_calling_whom_one_talked_to_spam_reports_nobody() -> None:
    store = Store.in_memory()
    candidates.ingest(store, [Call(NUMBERS[0], NOW, CallKind.INCOMING, "", 60)], NANP, NOW)
    mark(store, NANP, NUMBERS[:1], Action.BLOCK)
    assert candidates.spam_first(store, waiting(store)) == []


def test_a_number_the_owner_called_is_known_before_and_after_it_calls() -> None:
    incoming, outgoing = Call(NUMBERS[0], NOW - 50, CallKind.MISSED), Call(NUMBERS[0], NOW - 90, CallKind.OUTGOING)
    for order in ([incoming, outgoing], [outgoing, incoming]):
        store = Store.in_memory()
        for call in order:
            candidates.ingest(store, [call], NANP, NOW)
        assert waiting(store) == []


DIALLED = [
    "*67 202 555 0100",
    "*672025550100",
    "*31#+12025550100",
    "#31#202-555-0100",
    "*31*2025550100#",
    "*82-1-202-555-0100",
    "1167 202 555 0100",
    "10-10-220 1 202 555 0100",
    "2025550100p123",
    "555-0100",  # a neighbour
]


@pytest.mark.parametrize("dialled", DIALLED)
def test_whom_the_owner_called_is_known_however_it_was_dialled(dialled: str) -> None:
    store = Store.in_memory()
    candidates.ingest(store, [Call(number, NOW - 50, CallKind.MISSED) for number in NUMBERS[:2]], NANP, NOW)
    candidates.ingest(store, [Call(dialled, NOW - 90, CallKind.OUTGOING)], NANP, NOW)
    assert waiting(store) == [NUMBERS[1]]
    assert candidates.is_known(store, NUMBERS[0])
    assert not candidates.is_known(store, NUMBERS[1])


@pytest.mark.parametrize("dialled", DIALLED)
def test_contacts_with_codes_or_without_an_area_code_are_not_reported(dialled: str) -> None:
    store = Store.in_memory()
    candidates.ingest(store, [Call(number, NOW - 50, CallKind.MISSED) for number in NUMBERS[:2]], NANP, NOW)
    candidates.add_contacts(store, [dialled], NANP)
    assert waiting(store) == [NUMBERS[1]]


@pytest.mark.parametrize("dialled", ["911", "*69", "+44 20 7946 0958", "0044 20 7946 0958", "*#06#", "#31#"])
def test_what_reached_nobody_of_the_plan_makes_nobody_known(dialled: str) -> None:
    store = Store.in_memory()
    candidates.ingest(store, [Call(dialled, NOW - 90, CallKind.OUTGOING)], NANP, NOW)
    candidates.ingest(store, [Call(number, NOW - 50, CallKind.MISSED) for number in NUMBERS], NANP, NOW)
    assert waiting(store) == NUMBERS


def test_contacts_are_never_reported_whenever_they_were_added() -> None:
    store = Store.in_memory()
    candidates.ingest(store, [Call(NUMBERS[0], NOW, CallKind.MISSED)], NANP, NOW)
    assert candidates.add_contacts(store, ["(202) 555 0100", "not a number", "+442079460000"], NANP) == 1
    assert waiting(store) == []
    assert candidates.contacts(store) == {NUMBERS[0]}


def test_old_calls_and_calls_from_the_future() -> None:
    store = Store.in_memory()
    old = Call(NUMBERS[0], NOW - 7 * DAY, CallKind.MISSED)
    ahead = Call(NUMBERS[1], NOW + 300 * DAY, CallKind.MISSED)
    candidates.ingest(store, [old, ahead], NANP, NOW)
    assert waiting(store) == [NUMBERS[1]]
    assert waiting(store, now=NOW + 7 * DAY) == []  # the clock that ran ahead bought it no more time


def test_a_reported_number_comes_back_only_when_it_calls_again_after_the_horizon() -> None:
    store = Store.in_memory()
    candidates.ingest(store, [Call(NUMBERS[0], NOW, CallKind.MISSED)], NANP, NOW)
    candidates.mark_reported(store, NUMBERS[0], seq=1, at=NOW)
    for day in (6, 20, 29):  # it calls again and again
        candidates.ingest(store, [Call(NUMBERS[0], NOW + day * DAY, CallKind.MISSED)], NANP, NOW + day * DAY)
        assert waiting(store, NOW + day * DAY) == []
    assert waiting(store, NOW + 30 * DAY - 1) == []
    assert waiting(store, NOW + 30 * DAY) == NUMBERS[:1]
    assert waiting(store, NOW + 30 * DAY, horizon=31) == []


def test_a_made_up_caller_lives_by_the_rules_of_the_others_until_it_really_calls() -> None:
    store = Store.in_memory()
    candidates.make_up(store, NANP.parse(NUMBERS[0]), NOW, seeded(b"when"))
    assert waiting(store) == candidates.reportable(store, NOW, 7, 30, virtual_only=True) == NUMBERS[:1]
    assert candidates.count_reportable(store, NOW, 7, 30) == 0  # nobody is told about it
    assert waiting(store, NOW + 7 * DAY) == []
    candidates.ingest(store, [Call(NUMBERS[1], NOW, CallKind.MISSED)], NANP, NOW)
    assert waiting(store) == NUMBERS[:2]  # both may be chosen
    candidates.mark_reported(store, NUMBERS[0], seq=1, at=NOW)
    assert waiting(store) == NUMBERS[1:2]
    candidates.ingest(store, [Call(NUMBERS[0], NOW, CallKind.MISSED)], NANP, NOW)
    assert not candidates.is_virtual(store, NUMBERS[0])


KINDS = st.sampled_from(list(CallKind))
CALLS = st.lists(
    st.builds(
        partial(Call, name=""),
        st.sampled_from([*NUMBERS, "", "911"]),
        st.integers(NOW - 9 * DAY, NOW + DAY),
        KINDS,
        duration_seconds=st.sampled_from([None, 0, 19, 20]),
    ),
    max_size=12,
)


@given(CALLS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_reading_again_in_any_order_and_in_pieces_changes_nothing(calls: list[Call], dice: object) -> None:
    once, often = Store.in_memory(), Store.in_memory()
    candidates.ingest(once, calls, NANP, NOW)
    shuffled = [*calls, *calls]
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    for call in shuffled:
        candidates.ingest(often, [call], NANP, NOW)
    query = "SELECT * FROM callers ORDER BY number"
    assert once.rows(query) == often.rows(query)
    expected = {c.number for c in calls if c.at > NOW - 7 * DAY and c.number in NUMBERS}
    known = {c.number for c in calls if c.kind is CallKind.OUTGOING or candidates.talked(c, 20)}
    assert waiting(once) == sorted(expected - known)
    once.close()
    often.close()


def test_pruning_changes_no_decision() -> None:
    store = Store.in_memory()
    for age, number in enumerate(NUMBERS):
        candidates.ingest(store, [Call(number, NOW - age * 2 * DAY, CallKind.MISSED)], NANP, NOW)
    candidates.ingest(store, [Call("2025550177", NOW - 90 * DAY, CallKind.OUTGOING)], NANP, NOW)
    before = waiting(store)
    candidates.prune(store, NOW, 7, 30)
    assert waiting(store) == before == NUMBERS[:4]
    assert store.row("SELECT count(*) FROM callers") == (5,)  # whom the owner called stays known


def test_the_choice_is_uniform_and_takes_the_same_coins_whatever_there_is() -> None:
    """Chi-square with 5 degrees of freedom: above 35.9 once in a million."""
    counts = dict.fromkeys(NUMBERS, 0)
    for i in range(3000):
        number, dummy = candidates.choose(NUMBERS, NANP, seeded(str(i).encode()))
        assert not dummy
        counts[str(number)] += 1
    assert sum((count - 500) ** 2 / 500 for count in counts.values()) < 35.9
    full, empty = seeded(b"same"), seeded(b"same")
    candidates.choose(NUMBERS, NANP, full)
    number, dummy = candidates.choose([], NANP, empty)
    assert dummy
    assert NANP.suffix_is_valid(number.suffix)
    assert full.reads == empty.reads
