"""The rivals: their reports, their privacy, and that each does what its authors say it does."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hushcall.errors import (
    InvalidParameter,
    InvalidReport,
    InvalidTally,
    WrongLength,
    WrongMechanism,
    WrongSymbol,
    WrongVersion,
)
from hushcall.mechanisms.aggregator import Reported
from hushcall.protocol.exact import exp_below
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import derive
from hushcall_lab.audit.enumeration import Probe, examine, probe_items, worst_ratio
from hushcall_lab.audit.examples import reports as audited
from hushcall_lab.audit.mutants import MUTANTS
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.prefix_extending.server import PrefixExtendingAggregator
from hushcall_lab.rivals.splitting import prefix_lengths, share
from hushcall_lab.rivals.splitting_server import extend, pieces, roots, shares
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram
from hushcall_lab.rivals.tree_histogram.server import TreeHistogramAggregator

SEED = bytes(range(32))
NAMES = ("pem", "treehist")


def aggregator(name: str, epsilon: float = 4.0, seed: bytes = bytes(32)) -> Any:
    """A server for 8-bit items, with several groups where the protocol has any."""
    domain = range(3, 250)
    if name == "pem":
        return PrefixExtendingAggregator(PrefixExtending(epsilon, start=4, step=4, item_bits=8), domain, k=3)
    tree = TreeHistogram(epsilon, start=4, step=4, item_bits=8, rows=16, columns=64, seed=seed)
    return TreeHistogramAggregator(tree, domain)


def reports(mechanism: Any, items: Sequence[int], run: int = 0) -> list[Reported]:
    rand = seeded(b"coins" + run.to_bytes(4, "big"))
    publics = [derive("test", run.to_bytes(4, "big"), i.to_bytes(4, "big")) for i in range(len(items))]
    return [(p, mechanism.privatise(item, p, rand)) for item, p in zip(items, publics, strict=True)]


def population(planted: dict[int, int], rest: int, domain: range) -> list[int]:
    rng = random.Random(7)
    return [i for i, c in planted.items() for _ in range(c)] + [rng.choice(domain) for _ in range(rest)]


@pytest.mark.parametrize("name", NAMES)
class TestReports:
    def test_says_what_it_is(self, name: str) -> None:
        mechanism = aggregator(name).mechanism
        assert mechanism.name == name
        assert mechanism.cost == 4
        assert mechanism.groups == 2

    def test_every_item_takes_the_same_coins_and_bytes(self, name: str) -> None:
        mechanism = aggregator(name).mechanism
        for item in range(256):
            taken: list[int] = []

            def count(size: int, taken: list[int] = taken) -> bytes:
                taken.append(size)
                return bytes(size)

            report = mechanism.privatise(item, SEED, count)
            assert sum(taken) == mechanism.rand_size
            assert len(report) == 2 + mechanism.body_bytes

    def test_round_trip(self, name: str) -> None:
        mechanism = aggregator(name).mechanism
        for _, report in reports(mechanism, range(100)):
            body, parsed = report[2:], mechanism.parse(report)
            if name == "treehist":
                assert parsed in (-1, 1)
                assert body == bytes([parsed > 0])
            else:
                assert body == parsed.to_bytes(len(body), "big")

    def test_refuses_what_no_phone_sends(self, name: str) -> None:
        server = aggregator(name)
        report = server.mechanism.privatise(5, SEED, seeded(b"x"))
        bad: list[tuple[bytes, type[InvalidReport]]] = [
            (report + b"\0", WrongLength),
            (report[:-1], WrongLength),
            (b"\2" + report[1:], WrongVersion),
            (report[:1] + b"\1" + report[2:], WrongMechanism),
        ]
        bad.append((report[:2] + b"\xff" * (len(report) - 2), WrongSymbol))
        for wrong, error in bad:
            with pytest.raises(error):
                server.mechanism.parse(wrong)
            with pytest.raises(error):
                server.tally([(SEED, report), (SEED, wrong)])

    @pytest.mark.parametrize("item", [-1, 256, True, 1.0])
    def test_refuses_an_item_that_does_not_fit(self, name: str, item: Any) -> None:
        with pytest.raises(InvalidParameter):
            aggregator(name).mechanism.privatise(item, SEED, seeded(b"x"))

    def test_refuses_a_short_public_seed(self, name: str) -> None:
        server = aggregator(name)
        with pytest.raises(InvalidParameter):
            server.mechanism.privatise(5, SEED[1:], seeded(b"x"))
        with pytest.raises(InvalidParameter):
            server.tally([(SEED[1:], server.mechanism.privatise(5, SEED, seeded(b"x")))])


@pytest.mark.parametrize(
    "epsilon", [pytest.param(0.5, marks=pytest.mark.slow), 2.0, pytest.param(4.0, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", NAMES)
class TestPrivacy:
    def test_costs_what_it_claims(self, name: str, epsilon: float) -> None:
        (mechanism,) = (one.mechanism for one in audited(epsilon) if one.label == name)
        finding = examine(mechanism, epsilon=epsilon)
        assert finding.ok
        assert finding.exact == pytest.approx(epsilon, abs=1e-9)

    def test_costs_no_more_whatever_the_public_seed(self, name: str, epsilon: float) -> None:
        mechanism = aggregator(name, epsilon).mechanism
        for public in (bytes(32), b"\xff" * 32, derive("test", b"other")):
            probe = Probe(mechanism, public)
            ratio = worst_ratio(probe, probe_items(mechanism), mechanism.draws())
            assert ratio <= exp_below(mechanism.cost)


@pytest.mark.parametrize("name", ["telling group", "generous bit"])
def test_broken_ones_are_caught(name: str) -> None:
    assert not examine(MUTANTS[name](), epsilon=3.0).ok


@pytest.mark.parametrize("name", NAMES)
class TestTallies:
    def test_any_split_and_order_gives_the_same_bytes(self, name: str) -> None:
        server = aggregator(name)
        pairs = reports(server.mechanism, population({77: 40}, 60, server.domain))
        whole = server.tally(pairs)
        assert whole.count == len(pairs)
        rng = random.Random(1)
        for _ in range(5):
            rng.shuffle(pairs)
            a, b, c = pairs[:20], pairs[20:21], pairs[21:]
            first, second, third = server.tally(a), server.tally(b), server.tally(c)
            assert first.merge(second).merge(third).to_bytes() == whole.to_bytes()
            assert third.merge(second.merge(first)).to_bytes() == whole.to_bytes()
        assert server.tally([]).merge(whole).to_bytes() == whole.to_bytes()

    def test_comes_back_from_bytes(self, name: str) -> None:
        server = aggregator(name)
        tally = server.tally(reports(server.mechanism, population({77: 40}, 60, server.domain)))
        back = server.from_bytes(tally.to_bytes())
        assert back.to_bytes() == tally.to_bytes()
        assert (server.estimate(back, [77, 5]) == server.estimate(tally, [77, 5])).all()

    def test_does_not_mix(self, name: str) -> None:
        server, other = aggregator(name), aggregator(name, 3.0)
        with pytest.raises(InvalidTally):
            server.tally([]).merge(other.tally([]))
        with pytest.raises(InvalidTally):
            server.from_bytes(other.tally([]).to_bytes())

    def test_an_empty_tally_lists_nothing(self, name: str) -> None:
        server = aggregator(name)
        assert server.find(server.tally([]), 0.0) == []
        assert (server.estimate(server.tally([]), [5, 6]) == 0).all()


@pytest.mark.parametrize("name", NAMES)
class TestLearning:
    def test_estimates_are_unbiased(self, name: str) -> None:
        planted = {77: 60, 78: 30, 200: 10}
        asked, runs = [77, 78, 200, 201, 9], 250
        truth = np.array([planted.get(item, 0) for item in asked], dtype=float)
        values = population(planted, 0, range(256)) + [40] * 50
        found = []
        for run in range(runs):
            # The sketches are unbiased over the choice of their hash functions: a new round each time.
            server = aggregator(name, 2.0, derive("round", run.to_bytes(4, "big")))
            found.append(server.estimate(server.tally(reports(server.mechanism, values, run)), asked))
        error = np.std(found, axis=0, ddof=1) / np.sqrt(runs)
        assert (np.abs(np.mean(found, axis=0) - truth) < 4 * error).all()

    def test_finds_what_is_planted(self, name: str) -> None:
        server = aggregator(name)
        values = population({77: 600, 130: 900}, 500, server.domain)
        hitters = server.find(server.tally(reports(server.mechanism, values)), 350.0)
        truth = Counter(values)
        assert [h.item for h in hitters] == [130, 77]
        for hitter in hitters:
            assert hitter.low <= hitter.estimate <= hitter.high
            assert hitter.low <= truth[hitter.item] <= hitter.high
            assert hitter.p_value < 1e-4

    def test_finds_nothing_where_nothing_is_frequent(self, name: str) -> None:
        server = aggregator(name)
        values = population({}, 2000, server.domain)
        assert server.find(server.tally(reports(server.mechanism, values)), 350.0) == []

    def test_lists_nothing_outside_the_domain(self, name: str) -> None:
        server = replace(aggregator(name), domain=range(100, 200))
        values = population({99: 500, 200: 500, 199: 500}, 300, range(256))
        assert [h.item for h in server.find(server.tally(reports(server.mechanism, values)), 250.0)] == [199]


def test_pem_lists_at_most_k() -> None:
    server = replace(aggregator("pem"), k=1)
    tally = server.tally(reports(server.mechanism, population({77: 300, 130: 400}, 100, server.domain)))
    assert [h.item for h in server.find(tally, 0.0)] == [130]


def test_pem_finds_among_24_bits() -> None:
    server = PrefixExtendingAggregator(PrefixExtending(8.0), range(2_000_000, 10_000_000), k=2)
    planted = {5_550_143: 150, 2_000_001: 100}
    tally = server.tally(reports(server.mechanism, population(planted, 500, server.domain)))
    assert [h.item for h in server.find(tally, 50.0)] == [5_550_143, 2_000_001]


def test_treehist_finds_among_24_bits() -> None:
    server = TreeHistogramAggregator(TreeHistogram(8.0), range(2_000_000, 10_000_000))
    tally = server.tally(reports(server.mechanism, population({5_550_143: 600}, 600, server.domain)))
    assert [h.item for h in server.find(tally, 300.0)] == [5_550_143]


class TestSplitting:
    def test_server_and_phone_agree(self) -> None:
        publics = [derive("test", bytes([i])) for i in range(200)]
        for place, size in ((0, 1), (2, 3), (4, 7), (7, 4096)):
            assert shares(pieces(publics), place, size).tolist() == [share(p, place, size) for p in publics]

    @pytest.mark.parametrize(("bits", "start", "step"), [(24, 16, 8), (8, 3, 2), (34, 16, 8), (5, 1, 1)])
    def test_prefixes_reach_every_item_of_the_domain_and_no_other(self, bits: int, start: int, step: int) -> None:
        lengths = prefix_lengths(bits, start, step)
        assert lengths[0] == start
        assert lengths[-1] == bits
        assert all(0 < b - a <= step for a, b in pairwise(lengths))
        domain = range(5, 5 + min(20, 1 << bits - 1))
        prefixes = roots(lengths[0], bits, domain)
        for length, longer in pairwise(lengths):
            prefixes = extend(prefixes, length, longer, bits, domain)
        assert prefixes.tolist() == list(domain)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        *[(PrefixExtending, c) for c in ({"epsilon": 0.0}, {"start": 0}, {"step": 13}, {"item_bits": 40})],
        *[(TreeHistogram, c) for c in ({"epsilon": 41}, {"rows": 0}, {"columns": 1}, {"columns": 48})],
        *[(TreeHistogram, c) for c in ({"start": 21}, {"step": 0}, {"item_bits": 0}, {"seed": b""})],
    ],
)
def test_bad_parameters_of_phones(make: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        make(**{"epsilon": 1.0, **changes})


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *[("pem", c) for c in ({"k": 0}, {"breadth": 0}, {"domain": range(0)}, {"domain": range(257)})],
        *[("treehist", c) for c in ({"noise": 0.0}, {"width": 0}, {"level": 1.0}, {"domain": range(0, 9, 2)})],
    ],
)
def test_bad_parameters_of_servers(name: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        replace(aggregator(name), **changes)
