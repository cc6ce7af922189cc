"""Feeding the tally over arrays: every byte as the path of one report at a time makes it, and refused as it refuses."""

import hashlib
import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcall.errors import InvalidParameter, InvalidReport
from hushcall.mechanisms.aggregator import Aggregator
from hushcall.mechanisms.kernels.sha256 import sha256_all
from hushcall.mechanisms.kernels.shake256 import report_rows
from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber, expand_rows
from hushcall.mechanisms.subspace.server import SubspaceAggregator
from hushcall.mechanisms.tallies import SparseTally
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import report_seed

SUFFIXES = range(2_000_000, 10_000_000)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=130), st.integers(1, 70), st.integers(0, 40), st.integers(0, 1000))
def test_digests_are_hashlibs(prefix: bytes, length: int, count: int, seed: int) -> None:
    endings = np.frombuffer(random.Random(seed).randbytes(length * count), np.uint8).reshape(count, length)
    wanted = [hashlib.sha256(prefix + ending.tobytes()).digest() for ending in endings]
    assert [digest.tobytes() for digest in sha256_all(prefix, endings)] == wanted


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 24), st.integers(1, 40), st.integers(0, 20), st.integers(0, 1000))
def test_rows_are_the_phones(count: int, item_bits: int, reports: int, seed: int) -> None:
    seeds = np.frombuffer(random.Random(seed).randbytes(32 * reports), np.uint8).reshape(reports, 32)
    wanted = [expand_rows(one.tobytes(), count, item_bits) for one in seeds]
    assert [tuple(map(int, rows)) for rows in report_rows(seeds, count, item_bits)] == wanted


def world(mechanism: Subspace, count: int, seed: int) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """A round's seed and its (ticket, report) pairs, by the phone's own code."""
    rand = seeded(b"feed %d" % seed)
    round_seed = rand(32)
    pairs = []
    for item in random.Random(seed).sample(range(1 << 20), count):
        ticket = rand(16)
        pairs.append((ticket, mechanism.privatise(item, report_seed(round_seed, ticket), rand)))
    return round_seed, pairs


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([Subspace, WholeNumber]), st.integers(1, 24), st.integers(0, 40), st.integers(0, 1000))
def test_a_tally_from_arrays_has_the_bytes_of_one_from_pairs(
    kind: type[Subspace], bits: int, count: int, seed: int
) -> None:
    mechanism = kind(3.0, bits)
    aggregator = (
        SubspaceAggregator(mechanism, SUFFIXES, areas=469)
        if isinstance(mechanism, WholeNumber)
        else SubspaceAggregator(mechanism, SUFFIXES)
    )
    round_seed, pairs = world(mechanism, count, seed)
    publics = [report_seed(round_seed, ticket) for ticket, _ in pairs]
    rows = np.array([mechanism.rows(public) for public in publics], np.uint64).reshape(count, bits)
    slow = SparseTally(aggregator.made_by, rows, np.array([mechanism.parse(report) for _, report in pairs], np.uint32))
    assert aggregator.tally_arrays(round_seed, ReportArrays.of(pairs)).to_bytes() == slow.to_bytes()
    assert aggregator.tally(zip(publics, (report for _, report in pairs), strict=True)).to_bytes() == slow.to_bytes()


def test_a_mechanism_without_a_faster_way_gets_its_reports_one_by_one() -> None:
    round_seed, pairs = world(Subspace(3.0, 5), 20, 1)
    seen: list[tuple[bytes, bytes]] = []

    class Plain(Aggregator[SparseTally]):
        def tally(self, reports: Iterable[tuple[bytes, bytes]]) -> SparseTally:
            seen.extend(reports)
            return SparseTally(b"", np.zeros((0, 1), np.uint64), np.zeros(0, np.uint32))

    Plain().tally_arrays(round_seed, ReportArrays.of(pairs))  # type: ignore[abstract]
    assert seen == [(report_seed(round_seed, ticket), report) for ticket, report in pairs]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.integers(0, 1000))
def test_the_checksum_is_the_sum_of_digests(count: int, seed: int) -> None:
    _, pairs = world(Subspace(3.0, 5), count, seed)
    wanted = sum(int.from_bytes(hashlib.sha256(ticket + body).digest(), "big") for ticket, body in pairs) % (1 << 256)
    assert ReportArrays.of(pairs).checksum() == wanted


@pytest.mark.parametrize("damaged", [b"\x02\x04\x05", b"\x01\x05\x05", b"\x01\x04\x20", b"\x01\x04\x05\x00", b"\x01"])
def test_what_the_parser_refuses_is_refused_with_its_words(damaged: bytes) -> None:
    mechanism = Subspace(3.0, 5)
    aggregator = SubspaceAggregator(mechanism, SUFFIXES)
    with pytest.raises(InvalidReport) as slow:
        mechanism.parse(damaged)
    good = b"\x01\x04\x05" if len(damaged) == 3 else damaged
    with pytest.raises(type(slow.value)) as fast:
        aggregator.tally_arrays(bytes(32), ReportArrays.of([(bytes(16), good), (bytes(16), damaged)]))
    assert str(fast.value) == str(slow.value)


def test_arrays_of_another_shape_are_refused() -> None:
    good = np.zeros((2, 16), np.uint8)
    with pytest.raises(InvalidParameter):
        ReportArrays(good[:, :15], good)
    with pytest.raises(InvalidParameter):
        ReportArrays(good, good[:1])
    with pytest.raises(InvalidParameter):
        ReportArrays.of([(bytes(16), b"abc"), (bytes(16), b"ab")])
    with pytest.raises(InvalidParameter):
        sha256_all(b"", np.zeros(3, np.uint8))
    with pytest.raises(InvalidParameter):
        report_rows(good, 5, 24)
