"""The books: exact sums, hard stops, and a guarantee that says what it is."""

from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.fake_server import START
from tests.client.world import World

from hushcall.client.reporting import ledger
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.ledger import Spend
from hushcall.client.storage import device_key
from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import keyed, seeded

NOW = 20_000 * DAY


def spend(store: Store, seq: int, epsilon: Fraction, at: int = NOW, mechanism: str = "subspace") -> None:
    ledger.record(store, seq, Spend(seq, at, epsilon, mechanism, ledger.REPORT, "s"))


@given(st.lists(st.tuples(st.floats(0.1, 20), st.integers(0, 30)), max_size=20), st.floats(0.1, 12))
@settings(max_examples=60, deadline=None)
def test_sums_are_exact_and_no_cap_is_ever_passed(entries: list[tuple[float, int]], asked: float) -> None:
    store, limits = Store.in_memory(), Limits(Fraction(10), Fraction(40), Fraction(90))
    for seq, (epsilon, days) in enumerate(entries, 1):
        spend(store, seq, Fraction(epsilon), NOW - days * DAY)
    total = sum((Fraction(epsilon) for epsilon, _ in entries), Fraction(0))
    recent = sum((Fraction(epsilon) for epsilon, days in entries if days < 7), Fraction(0))
    assert ledger.spent(store) == total
    assert ledger.spent(store, NOW - 7 * DAY) == recent
    cost = Fraction(asked)
    allowed = cost <= 10 and recent + cost <= 40 and total + cost <= 90
    assert (ledger.rejection(store, limits, cost, NOW) is None) is allowed
    store.close()


def test_a_cap_is_met_exactly_and_then_holds() -> None:
    store, limits = Store.in_memory(), Limits(Fraction(4), Fraction(8), Fraction(100))
    spend(store, 1, Fraction(4))
    assert ledger.rejection(store, limits, Fraction(4), NOW) is None
    spend(store, 2, Fraction(4))
    assert "8 of 8" in str(ledger.rejection(store, limits, Fraction(1, 10**30), NOW))


def test_a_clock_set_back_frees_no_budget() -> None:
    store, limits = Store.in_memory(), Limits(window=Fraction(4))
    spend(store, 1, Fraction(4), NOW)
    assert ledger.rejection(store, limits, Fraction(1), NOW - 300 * DAY)


def test_a_round_is_booked_once() -> None:
    store = Store.in_memory()
    spend(store, 1, Fraction(4))
    with pytest.raises(InvalidData):
        spend(store, 1, Fraction(4))
    with pytest.raises(InvalidParameter):
        spend(store, 2, Fraction(0))
    assert ledger.spent(store) == 4


@given(
    st.builds(
        Limits,
        st.fractions(min_value=Fraction(1, 1000), max_value=10),
        st.fractions(min_value=10, max_value=1000),
        st.fractions(min_value=Fraction(1, 1000), max_value=1000),
        st.integers(1, 366),
        st.integers(366, 3660),
        st.integers(1, 10**6),
        st.booleans(),
    )
)
@settings(max_examples=30, deadline=None)
def test_limits_survive_the_store(limits: Limits) -> None:
    store = Store.in_memory()
    limits.save(store)
    assert Limits.load(store) == limits
    store.close()


def test_default_limits_and_their_rules() -> None:
    assert Limits.load(Store.in_memory()) == Limits()
    for bad in ({"report": 0}, {"window": -1}, {"life": float("nan")}, {"days": 0}, {"rounds_per_day": 0}):
        with pytest.raises(InvalidParameter):
            Limits(**bad)
    with pytest.raises(InvalidParameter, match="the cap per window must allow at least one report"):
        Limits(window=Fraction(3))


def test_limits_change_by_name_and_keep_their_rules() -> None:
    changed = Limits().changed({"report": 2.5, "window": None, "rounds_per_day": 3, "area_in_clear": False})
    assert changed == Limits(report=Fraction(5, 2), rounds_per_day=3, area_in_clear=False)
    for bad in ({"report": 33.0}, {"life": float("inf")}, {"window": 0.0}):
        with pytest.raises(InvalidParameter):
            Limits().changed(bad)


def test_the_guarantee_in_words() -> None:
    store = Store.in_memory()
    assert ledger.guarantee(store, Limits(), NOW) == "Nothing has left this phone yet."
    insert = (
        "INSERT INTO rounds (server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state)"
        " VALUES ('a', ?, 0, ?, '', 0, 0, 0, 0, ?)"
    )
    store.run(insert, 1, "subspace", "planned")
    assert ledger.guarantee(store, Limits(), NOW) == "Nothing has left this phone yet."
    store.run(insert, 2, "subspace", "announced")
    assert ledger.guarantee(store, Limits(), NOW) == (
        "No report has left this phone yet (ε = 0). "
        "Announced: 1 area code in the clear, of a caller or made up; 1 round in all."
    )
    store.run(insert, 3, "whole-number", "closed")
    assert ledger.guarantee(store, Limits(), NOW).endswith(
        "Announced: at most 1 area code in the clear, of a caller or made up; 2 rounds in all."
    )
    spend(store, 1, Fraction(4), NOW - 8 * DAY)
    spend(store, 2, Fraction(2), NOW)
    words = ledger.guarantee(store, Limits(), NOW)
    assert "e^4 = 54.6" in words
    assert "6 of 1460 for life, 2 of 32" in words
    assert "any 30 days" in words
    assert "About one caller, ever: ε = 4 at most." in words
    assert "area code itself is not protected" in words
    whole = Store.in_memory()
    spend(whole, 1, Fraction(4), mechanism="whole-number")
    assert "area code" not in ledger.guarantee(whole, Limits(), NOW)


def test_a_stolen_store_names_no_caller_that_was_reported_before_the_horizon(tmp_path: Path) -> None:
    """The ledger held an HMAC of each number under a key in the same file: a thief found 60 of 60 by trying."""
    store = Store.open(tmp_path)
    key = device_key.device_key(store, seeded(b"phone"))
    callers = [str(NANP.number(202, 5_550_100 + place)) for place in range(60)]
    names = [keyed(key, b"caller", caller.encode())(16).hex() for caller in callers]
    store.run_many(
        "INSERT INTO ledger VALUES (?, 's', ?, ?, '4', 4.0, 'subspace', 'report', ?)",
        [(place + 1, place + 1, place * DAY, name) for place, name in enumerate(names)],
    )
    store.run("PRAGMA user_version = 5")  # as a release of before left it
    store.close()
    Store.open(tmp_path).close()
    content = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()) if path.is_file())
    assert sum(name.encode() in content for name in names) == 0
    world = World()
    world.store.run("PRAGMA secure_delete = ON")  # as in a folder
    for day, caller in enumerate(callers):
        world.now = START + day * DAY
        world.calls(caller)
        world.day(day)
    world.day(59 + 31)
    world.day(59 + 32)
    image = world.store._connection.serialize()
    assert len(ledger.spends(world.store)) == 62
    key = device_key.device_key(world.store, seeded(b"another"))
    names = [keyed(key, b"caller", caller.encode())(16).hex() for caller in callers]
    assert sum(text.encode() in image for text in (*callers, *names)) == 0


def test_about_one_caller_is_the_most_that_reports_a_horizon_apart_can_cost() -> None:
    store = Store.in_memory()
    costs = [(0, 4), (10, 6), (29, 1), (30, 4), (40, 1), (59, 2), (60, 4)]
    for seq, (day, cost) in enumerate(costs, 1):
        ledger.record(store, seq, Spend(seq, day * DAY, Fraction(cost), "subspace", ledger.REPORT, "s"))
    apart = [chosen for size in range(4) for chosen in combinations(costs, size)]
    most = max(sum(cost for _, cost in each) for each in apart if all(b[0] - a[0] >= 30 for a, b in pairwise(each)))
    assert ledger.per_caller(store) == most == 12


def test_the_cap_of_a_window_allows_at_least_one_report() -> None:
    assert Limits(Fraction(4), Fraction(4)).window == 4
    with pytest.raises(InvalidParameter, match="at least one report"):
        Limits(Fraction(5), Fraction(4))
