"""The books: exact sums, hard stops, and a guarantee that says what it is."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.phone.home.store import Store
from hushcall.phone.reporting import ledger
from hushcall.phone.reporting.ledger import DAY, Limits, Spend

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
    assert (ledger.objection(store, limits, cost, NOW) == "") is allowed
    store.close()


def test_a_cap_is_met_exactly_and_then_holds() -> None:
    store, limits = Store.in_memory(), Limits(Fraction(4), Fraction(8), Fraction(100))
    spend(store, 1, Fraction(4))
    assert not ledger.objection(store, limits, Fraction(4), NOW)
    spend(store, 2, Fraction(4))
    assert "8 of 8" in ledger.objection(store, limits, Fraction(1, 10**30), NOW)


def test_a_clock_set_back_frees_no_budget() -> None:
    store, limits = Store.in_memory(), Limits(window=Fraction(4))
    spend(store, 1, Fraction(4), NOW)
    assert ledger.objection(store, limits, Fraction(1), NOW - 300 * DAY)


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
