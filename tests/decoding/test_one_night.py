"""Reports of one night warn as the law says, and never block, however windows overlap.

Counts of the victim are drawn from their law, over three weeks with two b, and decided by the server's own functions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushcall.decoding.window import Decision, tiers
from hushcall.mechanisms.profiles import DEFAULT, Profile
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.mechanisms.subspace.server import SubspaceAggregator
from hushcall.protocol.blocklist import Sighting, listed
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers import NANP

PHONES, AREAS, NIGHT, DAYS = 1000, 400, 7, 21
DOMAIN = SUFFIX.domain(NANP)


def nights(honest: int, fakes: int, runs: int, profile: Profile = DEFAULT, nights: int = 1) -> tuple[float, float]:
    """The shares of runs that warn of the victim, and that block it. Fakes support it for sure."""
    generator = np.random.default_rng([honest, fakes, runs, nights])
    aggregators = [
        SubspaceAggregator(
            Subspace(profile.epsilon, 5 + day % 2), DOMAIN, profile.share, AREAS, profile.tolerance, profile.warn_share
        )
        for day in range(DAYS)
    ]
    decided = []
    for day, aggregator in enumerate(aggregators):
        laws = [(day - past, aggregators[past].law(PHONES)) for past in range(day, max(day - 7, -1), -1)]
        rules = aggregator.rule(profile.tau), aggregator.strict_rule(profile.tau)
        decided.append(tiers(laws, profile.windows, *rules, aggregator.numbers))
    warned = blocked = 0
    for _ in range(runs):
        counts = []
        for day, aggregator in enumerate(aggregators):
            law, busy = aggregator.law(PHONES), NIGHT <= day < NIGHT + nights
            holders, lies = (honest, fakes) if busy else (0, 0)
            noise = generator.binomial(PHONES - holders - lies, law.q)
            counts.append(int(lies + generator.binomial(holders, law.p) + noise))
        sightings = []
        for day, decisions in enumerate(decided):
            found = [
                (decision.length, [span.strict for span in passed])
                for decision in decisions
                if (passed := decision.passed(0, _by_part(decision, counts, aggregators, day)))
            ]
            if found:
                strict = next((length for length, tier in found if any(tier)), 0)
                sightings.append(Sighting("+12025550143", day, day, 0, 0, 0, 0, found[0][0], strict))
        entries = [entry for day in range(DAYS) for entry in listed(sightings, day, 7, block_rounds=2)]
        warned += bool(entries)
        blocked += any(entry.block for entry in entries)
    return warned / runs, blocked / runs


def _by_part(decision: Decision, counts: list[int], aggregators: list[SubspaceAggregator], day: int) -> list[int]:
    parts = decision.law.parts
    sums = dict.fromkeys(((part.p, part.q) for part in parts), 0)
    for past in range(max(day - decision.length + 1, 0), day + 1):
        law = aggregators[past].law(PHONES)
        sums[law.p, law.q] += counts[past]
    return list(sums.values())


CASES = [(150, 0), (0, 64), (0, 90)]


@pytest.mark.parametrize(("honest", "fakes"), CASES)
def test_one_night_warns_and_never_blocks(honest: int, fakes: int) -> None:
    """40 runs. A decision over overlapping windows would block in nine of ten."""
    warned, blocked = nights(honest, fakes, 40)
    assert blocked == 0
    assert warned >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("honest", "fakes"), CASES)
def test_one_night_never_blocks_in_a_thousand_runs(honest: int, fakes: int) -> None:
    warned, blocked = nights(honest, fakes, 1000)
    assert blocked == 0
    assert warned >= 0.99


def test_two_nights_block() -> None:
    """The power of the tests above: the same reports, on three nights in a row."""
    assert nights(150, 0, 20, nights=3)[1] >= 0.9


def test_one_tier_blocks_by_the_same_rule() -> None:
    assert nights(150, 0, 20, replace(DEFAULT, warn_level=0.0))[1] == 0
