"""The fast simulation has the distribution of the phone-by-phone path: sums, supports, and what is detected."""

import random
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.cases import SUFFIXES, reports_of

from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.report_arrays import matrix
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.mechanisms.subspace.server import SubspaceAggregator
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.mechanisms.succinct_histogram.server import channel_sums as real_sums
from hushcall.protocol.numbers import NANP
from hushcall_lab.study.bucket_model import Bucket, channel_sums, detect
from hushcall_lab.study.months import phone_by_phone

HEAVY = 5_550_143
ROUNDS = pytest.mark.parametrize("rounds", [40, pytest.param(150, marks=pytest.mark.slow)])


def bucket(holders: int, others: int, dummies: int) -> Bucket:
    items = np.array([HEAVY, *random.Random(1).sample(range(6_000_000, 7_000_000), others)])
    return Bucket(items, np.array([holders] + [1] * others), dummies)


@pytest.mark.parametrize("kind", ["basic", "extended"])
def test_channel_sums_have_the_same_law(kind: str) -> None:
    """One channel's sums at a bit of the heavy number's codeword, 400 rounds each way: Kolmogorov–Smirnov, p > 10⁻³.

    Power: sums of a randomiser with 20 % more ε give p below 10⁻³ in this test.
    """
    mechanism = SuccinctHistogram.with_budget(kind, 8.8, 3.0, rounds=1, channels=4)
    phones = np.array([HEAVY] * 60 + list(range(6_000_000, 6_000_060)))
    function = mechanism.hashes[0]
    channels = np.array([function.bits(int(item), 2) for item in phones])
    mine = function.bits(HEAVY, 2)
    generator = np.random.default_rng(3)
    fast, real = [], []
    for run in range(400):
        fast.append(channel_sums(phones, channels, 4, mechanism.randomiser, mechanism.code, generator)[mine])

        class Aggregator:
            pass

        aggregator: Any = Aggregator()
        aggregator.mechanism = mechanism
        bodies = matrix(mechanism, [r for _, r in reports_of(aggregator, phones.tolist(), b"ks %d" % run)])
        real.append(real_sums(bodies[:, :4], 32)[mine])
    word = mechanism.code.encode(HEAVY)
    signs = np.array([-1 if word >> place & 1 else 1 for place in range(32)])
    assert stats.ks_2samp((np.array(fast) * signs).ravel(), (np.array(real) * signs).ravel()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "tau", "holders"),
    [
        ("sh-extended", 11.8, 143, 165),
        pytest.param("sh-basic", 15.0, 143, 190, marks=pytest.mark.slow),
        pytest.param("sh-tuned", 11.8, 143, 160, marks=pytest.mark.slow),
        pytest.param("subspace", 4.0, 10, 48, marks=pytest.mark.slow),
    ],
)
@ROUNDS
def test_finds_are_as_frequent_either_way(mechanism: str, epsilon: float, tau: int, holders: int, rounds: int) -> None:
    """A number near the edge of detection, so many rounds each way: Fisher's exact test, p > 10⁻³."""
    profile = Profile("test", "test", mechanism, epsilon, tau)
    here = bucket(holders, 80, 300 - 80 - holders)
    generator = np.random.default_rng(4)
    found = {"fast": 0, "real": 0}
    for run in range(rounds):
        seed = np.random.default_rng(run).bytes(32)
        aggregator = open_bucket(profile, NANP, here.users, seed)
        assert aggregator is not None
        found["fast"] += HEAVY in detect(aggregator, here, tau, generator)
        found["real"] += HEAVY in phone_by_phone(aggregator, here, tau, generator)
    table = [[found["fast"], rounds - found["fast"]], [found["real"], rounds - found["real"]]]
    assert stats.fisher_exact(np.array(table)).pvalue > 1e-3, found
    assert 0 < found["fast"] < rounds


@ROUNDS
@pytest.mark.slow
def test_estimates_have_the_same_spread(rounds: int) -> None:
    aggregator = SubspaceAggregator(Subspace(6.0, 7), SUFFIXES)
    here = bucket(100, 50, 50)
    generator = np.random.default_rng(5)
    fast = [detect(aggregator, here, 0, generator)[HEAVY] for _ in range(rounds)]
    real = [phone_by_phone(aggregator, here, 0, generator)[HEAVY] for _ in range(rounds)]
    assert stats.ks_2samp(fast, real).pvalue > 1e-3


def test_noise_is_listed_as_often_as_the_level_says() -> None:
    """3000 buckets of dummies at level 0.2: the share that lists anything is below it, and above a twentieth of it."""
    aggregator = SubspaceAggregator(Subspace(4.0, 5), SUFFIXES, level=0.2)
    empty = Bucket(np.array([], dtype=np.int64), np.array([], dtype=np.int64), 300)
    generator = np.random.default_rng(6)
    share = np.mean([bool(detect(aggregator, empty, 0, generator)) for _ in range(3000)])
    assert 0.01 < share < 0.2 + 4 * (0.2 * 0.8 / 3000) ** 0.5
