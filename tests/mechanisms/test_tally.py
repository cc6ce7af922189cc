"""Tallies on disk: they come back as they were, and damage of any kind is an error of ours."""

import contextlib
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.cases import CASES, Case, reports_of

from hushcall.errors import InvalidTally
from hushcall.mechanisms import tallies

MAKER = tallies.fingerprint("a mechanism")


def sample() -> bytes:
    return tallies.pack(
        MAKER, {"sums": np.arange(12, dtype=np.int32).reshape(3, 4), "n": np.array([5], dtype=np.int64)}
    )


def test_round_trip() -> None:
    arrays = tallies.unpack(MAKER, sample())
    assert arrays["sums"].tolist() == np.arange(12).reshape(3, 4).tolist()
    assert arrays["n"].tolist() == [5]
    assert tallies.pack(MAKER, arrays) == sample()


@given(st.integers(0, len(sample()) - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed(place: int, change: int) -> None:
    data = bytearray(sample())
    data[place] ^= change
    with pytest.raises(InvalidTally):
        tallies.unpack(MAKER, bytes(data))


@given(st.integers(0, len(sample()) - 1))
def test_every_truncation_is_noticed(length: int) -> None:
    with pytest.raises(InvalidTally):
        tallies.unpack(MAKER, sample()[:length])


@given(st.binary(max_size=200))
def test_crafted_bytes_with_a_valid_checksum_stay_in_our_tree(body: bytes) -> None:
    data = tallies.MAGIC + MAKER + body
    data += hashlib.sha256(data).digest()
    with contextlib.suppress(InvalidTally):
        tallies.unpack(MAKER, data)


def crafted(dtype: bytes, *shape: int) -> bytes:
    """An array with a valid checksum, and room for eight bytes."""
    body = tallies.MAGIC + MAKER + b"\1n" + bytes([len(dtype)]) + dtype + bytes([len(shape)])
    body += b"".join(size.to_bytes(8, "big") for size in shape) + bytes(8)
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (crafted(b"<f8", 1), "have one of the types"),
        (crafted(b"|O", 1), "have one of the types"),  # whose bytes would be addresses
        (crafted(b"<i8", 1 << 63), "be no larger than the tally"),
        (crafted(b"<i8", 0, 1 << 40), "be no larger than the tally"),  # of no bytes, and of a size that numpy refuses
        (crafted(b"<i8", 1, 1, 1, 1), "have at most 3 dimensions"),
    ],
)
def test_arrays_that_no_tally_has_are_refused_by_what_they_are(data: bytes, words: str) -> None:
    with pytest.raises(InvalidTally, match=words):
        tallies.unpack(MAKER, data)
    assert tallies.unpack(MAKER, crafted(b"<i8", 1))["n"].tolist() == [0]


def test_tallies_of_other_parameters_are_not_merged() -> None:
    tallies.same_maker(MAKER, MAKER)
    with pytest.raises(InvalidTally, match="to be merged"):
        tallies.same_maker(MAKER, tallies.fingerprint("another mechanism"))


def test_another_maker_is_refused() -> None:
    with pytest.raises(InvalidTally, match="be made by"):
        tallies.unpack(tallies.fingerprint("another"), sample())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_tally_with_other_arrays_or_shapes_is_none(case: Case) -> None:
    """With the right checksum: what reads it later checks nothing."""
    aggregator = case.make(bytes(32))
    honest = tallies.unpack(
        aggregator.made_by, aggregator.tally(reports_of(aggregator, [*case.items[:3]], b"x")).to_bytes()
    )
    name, array = next(iter(sorted(honest.items())))
    for wrong in (
        {},
        {**honest, "more": array},
        {key: value for key, value in honest.items() if key != name},
        {**honest, name: array[:-1]},
        {**honest, name: array.reshape(*array.shape, 1)},
    ):
        with pytest.raises(InvalidTally):
            aggregator.from_bytes(tallies.pack(aggregator.made_by, wrong))


def test_rows_beyond_the_spectrum_are_refused() -> None:
    case = next(case for case in CASES if case.name == "subspace, b = 5")
    aggregator = case.make(bytes(32))
    honest = tallies.unpack(
        aggregator.made_by, aggregator.tally(reports_of(aggregator, [*case.items[:3]], b"x")).to_bytes()
    )
    for name, bits in (("rows", aggregator.mechanism.item_bits), ("values", aggregator.mechanism.bits)):
        beyond = honest[name] | np.array(1 << bits, honest[name].dtype)
        with pytest.raises(InvalidTally, match=rf"at most {bits} bits"):
            aggregator.from_bytes(tallies.pack(aggregator.made_by, {**honest, name: beyond}))
