"""What the explanation says is what the running code does."""

import math
from fractions import Fraction

import pytest
from tests.client.fake_server import DAY, START, FakeServer, FakeService

from hushcall.client.client import Client
from hushcall.client.reporting import participation
from hushcall.client.reporting.explain import Sent, example, explain
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import ONE, seeded
from hushcall_lab.audit.enumeration import Probe

OTHERS = [NANP.number(202, 5_550_100 + i) for i in range(40)]


def test_the_odds_are_those_that_the_audit_finds_in_the_code() -> None:
    """The audit feeds ``privatise`` with all its coins; the explanation reads the weights. They must agree."""
    mechanism = Subspace(3.0, 3)
    sent = example(seeded(b"x"), mechanism)
    probe, (draw,) = Probe(mechanism, sent.public), mechanism.draws()
    found = explain(sent, OTHERS[:6])
    for odds in found.odds:
        law = probe.law(odds.number.suffix, draw)
        assert odds.probability == Fraction(law[sent.report[2:]], ONE)
        assert odds.fits is (sent.report[2:] == max(law, key=lambda body: law[body]))
        assert found.fitting == NANP.valid_suffixes // len(law)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 8.0])
def test_every_ratio_is_within_the_bound_and_the_worst_one_occurs(epsilon: float) -> None:
    found = explain(example(seeded(b"y"), Subspace(epsilon, 4)), OTHERS)
    chances = {odds.probability for odds in found.odds}
    assert max(chances) / min(chances) == found.worst
    assert found.holds
    assert found.worst == pytest.approx(math.exp(epsilon), rel=1e-9)
    assert found.bound == pytest.approx(math.exp(epsilon))
    assert found.odds[0].ratio == 1


def test_about_as_many_numbers_fit_as_it_says() -> None:
    sent, share = example(seeded(b"x"), Subspace(3.0, 3)), 4_096
    numbers = [NANP.number(202, NANP.first_suffix + 1_000 * place) for place in range(share)]
    found = explain(sent, numbers)
    fitting = sum(odds.fits for odds in found.odds[1:])
    assert found.fitting is not None
    assert fitting / share == pytest.approx(found.fitting / NANP.valid_suffixes, rel=0.2)


def test_the_bytes_are_shown_whole() -> None:
    sent = example(seeded(b"x"))
    found = explain(sent, [])
    assert "".join(text for _, text, _ in found.parts) == sent.report.hex()
    assert found.clear == "the area code, 202"
    whole = WholeNumber(4.0, 7)
    report = whole.privatise(5, bytes(32), seeded(b"w"))
    assert explain(Sent(OTHERS[0], whole, "whole-number", bytes(32), report), []).clear == "nothing"


def test_a_histogram_is_shown_with_its_bound_only() -> None:
    mechanism = SuccinctHistogram.with_budget("extended", 8.8, 3.0)
    report = mechanism.privatise(5_550_143, bytes(32), seeded(b"h"))
    sent = Sent(OTHERS[0], mechanism, "sh-extended", bytes(32), report)
    found = explain(sent, OTHERS)
    assert found.odds == ()
    assert found.worst is None
    assert float(found.epsilon) == pytest.approx(11.8)


def test_a_report_from_the_diary_explains_itself_until_it_is_forgotten() -> None:
    now = [START]
    service, store = FakeService(lambda: now[0]), Store.in_memory()
    phone = Client(store, FakeServer(service), rand=seeded(b"d"), clock=lambda: now[0])
    phone.report(skip_delays=True)
    now[0] += DAY // 2
    phone.report(skip_delays=True)
    row = participation.latest(store, reported=True)
    assert row is not None
    found = explain(Sent.last(store), [])
    assert [found.report] == list(service.reports.values())
    # The bytes follow from the number with these odds, and not from a wrong public seed: the real code agrees.
    (draw,) = Subspace(4.0, 7).draws()
    assert row.public is not None
    law = Probe(Subspace(4.0, 7), row.public).law(NANP.parse(row.number).suffix, draw)
    assert found.odds[0].probability == Fraction(law[found.report[2:]], ONE)
    store.forget()
    assert participation.latest(store, reported=True) is None
    with pytest.raises(InvalidParameter, match="made first"):
        Sent.last(store)
