"""Whatever parameters a server sends: they are taken, or refused, for every number alike."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.fake_server import DAY, START, FakeServer, FakeService

from hushcall.client.client import Client
from hushcall.client.reporting import consent, ledger
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.round_context import Outcome
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call, CallKind
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.parameters import from_plain, to_plain
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import derive
from hushcall_lab.rivals.original_histogram.client import OriginalHistogram
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram

LOWEST, HIGHEST = NANP.number(NANP.area_codes[0], NANP.first_suffix), NANP.number(NANP.area_codes[-1], 9_999_999)
NUMBERS = (str(LOWEST), "+12024050000", "+12025550143", str(HIGHEST))
WIDTHS = (1, 8, 22, 23, 24, 25, 26, 32, 33, 34, 40)


def histogram(kind: str) -> SuccinctHistogram:
    return SuccinctHistogram.with_budget(kind, 3.0, 1.0, keep=1 << 62 if kind == "tuned" else None)


MADE: dict[str, Mechanism] = {
    "subspace": Subspace(4.0, 7),
    "whole-number": WholeNumber(4.0, 7),
    "sh-basic": histogram("basic"),
    "sh-extended": histogram("extended"),
    "sh-tuned": histogram("tuned"),
    "sh-original": OriginalHistogram(4.0),
    "pem": PrefixExtending(4.0),
    "treehist": TreeHistogram(4.0),
}


def test_every_mechanism_of_the_library_is_among_these() -> None:
    assert set(MADE) == set(MECHANISMS)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_width_is_the_one_that_servers_open_buckets_with(name: str) -> None:
    aggregator = open_bucket(Profile("test", "", name, 8.0, 10), NANP, 100_000, derive("seed"))
    assert aggregator is not None
    mechanism = aggregator.mechanism
    assert mechanism.item_bits == MECHANISMS[name].items.bits(NANP)
    consent.require_for_all_numbers(from_plain(to_plain(mechanism)), name, NANP, derive("public"))
    for number in (LOWEST, HIGHEST):
        assert MECHANISMS[name].items.item(number, NANP) >> MECHANISMS[name].items.bits(NANP) == 0


def a_round(number: str, mechanism: str, parameters: dict[str, Any]) -> tuple[Outcome, Client]:
    """One phone that this number has called, and a server that sends these parameters."""
    now = [START]
    service = FakeService(lambda: now[0], mechanism=mechanism, parameters=parameters)
    phone = Client(Store.in_memory(), FakeServer(service), rand=seeded(b"terms"), clock=lambda: now[0])
    Limits(mechanisms=" ".join(MADE)).save(phone.store)
    phone.ingest([Call(number, START, CallKind.MISSED)])
    assert phone.report(skip_delays=True).action == "announced"
    now[0] += DAY // 2
    return phone.report(skip_delays=True), phone


@pytest.mark.parametrize("name", MECHANISMS)
def test_another_width_is_refused_for_every_number_alike_and_in_words(name: str) -> None:
    right = MECHANISMS[name].items.bits(NANP)
    for width in WIDTHS:
        parameters = to_plain(MADE[name]) | {"item_bits": width}
        found = [a_round(number, name, parameters) for number in NUMBERS]
        assert len({outcome for outcome, _ in found}) == 1
        outcome = found[0][0]
        assert outcome.action == ("sent" if width == right else "skipped")
        if outcome.action == "skipped":
            assert "the server's parameters do not hold (item_bits must be" in outcome.words
        assert {len(ledger.spends(phone.store)) for _, phone in found} == {int(width == right)}
        for _, phone in found:
            phone.store.close()


def test_fewer_bits_than_agreed_are_refused_though_their_epsilon_is_within_the_limit() -> None:
    """One bit at ε = 4 keeps the promise of e^4, and tells the truth with 98 %: four bits are agreed to."""
    for bits in range(1, 12):
        outcome, phone = a_round(NUMBERS[1], "subspace", to_plain(Subspace(4.0, bits)))
        assert outcome.action == ("skipped" if bits < 4 else "sent")
        assert (bits < 4) == (f"a report would have {bits} bits" in outcome.words)
        phone.store.close()


def test_no_honest_server_asks_for_fewer_bits_than_are_agreed() -> None:
    for epsilon in (1.0, 2.0, 4.0, 8.0, 16.0):
        for users in (10, 30, 100, 1000, 100_000):
            for name in ("subspace", "whole-number"):
                aggregator = open_bucket(Profile("test", "", name, epsilon, 1), NANP, users, derive("seed"))
                assert aggregator is None or not consent.bits_rejection(aggregator.mechanism), (epsilon, users, name)


def test_another_width_of_the_counting_part_is_refused_too() -> None:
    plain = to_plain(MADE["sh-basic"])
    plain["oracle"] = plain["oracle"] | {"item_bits": 22}
    assert {a_round(number, "sh-basic", plain)[0].action for number in NUMBERS} == {"skipped"}


@pytest.mark.parametrize("announced", MECHANISMS)
def test_another_mechanism_than_the_rounds_is_refused_for_every_number_alike(announced: str) -> None:
    for name, mechanism in MADE.items():
        found = {a_round(number, announced, to_plain(mechanism))[0] for number in (NUMBERS[0], NUMBERS[-1])}
        (outcome,) = found
        assert outcome.action == ("sent" if name == announced else "skipped")
        if name != announced:
            assert f"mechanism must be the one that the round announced, {announced}" in outcome.words


def test_odds_that_cannot_be_are_found_out_before_the_number_is_used() -> None:
    mechanism = Subspace(1e-60, 7)  # e^ε, rounded down, is below one: no weights out of 2⁶⁴ hold that
    with pytest.raises(InvalidParameter):
        consent.require_for_all_numbers(mechanism, "subspace", NANP, derive("public"))
    assert {a_round(number, "subspace", to_plain(mechanism))[0].action for number in NUMBERS} == {"skipped"}


POWERS = st.integers(0, 9).map(lambda power: 1 << power)
WHOLE = st.integers(0, 34)
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "epsilon": st.floats(1e-70, 45) | st.integers(-1, 41),
    "bits": WHOLE | POWERS,
    "item_bits": st.integers(20, 36),
    "start": WHOLE,
    "step": WHOLE,
    "size": st.integers(0, 1 << 25),
    "rounds": st.integers(0, 5),
    "channels": POWERS,
    "rows": POWERS | WHOLE,
    "columns": POWERS,
    "functions": st.integers(0, 17),
    "cohorts": st.integers(0, 300),
    "round_epsilon": st.floats(0, 50) | st.sampled_from(["1/3", "40", "1e400", "-1", "1/0"]),
    "seed": st.binary(min_size=31, max_size=33).map(bytes.hex),
}


@pytest.mark.parametrize("name", MECHANISMS)
@given(data=st.data())
@settings(deadline=None)
def test_what_passes_makes_a_report_of_the_lowest_and_the_highest_number(name: str, data: st.DataObject) -> None:
    plain = to_plain(MADE[name])
    fields = data.draw(st.sets(st.sampled_from(sorted(set(plain) & set(CHANGES))), max_size=3))
    plain |= {field: data.draw(CHANGES[field]) for field in sorted(fields)}
    public, rand = derive("public", data.draw(st.binary(max_size=2))), seeded(data.draw(st.binary(max_size=2)))
    try:
        mechanism = from_plain(plain)
        consent.require_for_all_numbers(mechanism, name, NANP, public)
    except InvalidParameter:
        return  # before any number was looked at: for all of them alike
    sizes = {
        len(mechanism.privatise(MECHANISMS[name].items.item(number, NANP), public, rand))
        for number in (LOWEST, HIGHEST)
    }
    assert sizes == {2 + mechanism.body_bytes}


def test_a_number_with_a_huge_exponent_costs_the_phone_no_time() -> None:
    """Whoever worked it out digit by digit would not come back from the longer ones."""
    for text in ("1e500000", "1E-500000", f"1e{10**15}", f"1E-{10**15}"):
        with pytest.raises(InvalidParameter):
            from_plain(to_plain(MADE["sh-basic"]) | {"round_epsilon": text})


@pytest.mark.parametrize(
    "changes",
    [
        *({name: value} for name in ("report", "window", "life") for value in (0, -1, float("inf"))),
        *({"days": value} for value in (0, 367)),
        *({"horizon": value} for value in (6, 3661)),
        *({name: -1} for name in ("least_crowd", "least_phase")),
        *({name: 0} for name in ("rounds_per_day", "talked_seconds")),
        {"report": 5, "window": 4},
        {"mechanisms": "subspace nonsense"},
    ],
    ids=str,
)
def test_limits_that_limit_nothing_or_everything_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        Limits().changed(changes)


def test_limits_are_changed_one_by_one() -> None:
    changed = Limits().changed({"days": 3, "window": 16, "report": None, "mechanisms": "subspace", "least_phase": 0})
    assert changed == Limits(days=3, window=Fraction(16), mechanisms="subspace", least_phase=0)
    assert Limits().changed({"report": 4, "window": 4}).report == 4
    for cap in ("report", "window", "life"):
        caps: dict[str, Any] = {cap: Fraction(0)}  # as a store may say it
        with pytest.raises(InvalidParameter, match=f"cap per {cap}"):
            Limits(**caps)
