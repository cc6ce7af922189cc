"""Tallies on disk: they come back as they were, and damage of any kind is an error of ours."""

import contextlib
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidTally
from hushcall.learn import tally_codec

MAKER = tally_codec.fingerprint("a mechanism")


def sample() -> bytes:
    return tally_codec.pack(
        MAKER, {"sums": np.arange(12, dtype=np.int32).reshape(3, 4), "n": np.array([5], dtype=np.int64)}
    )


def test_round_trip() -> None:
    arrays = tally_codec.unpack(MAKER, sample())
    assert arrays["sums"].tolist() == np.arange(12).reshape(3, 4).tolist()
    assert arrays["n"].tolist() == [5]
    assert tally_codec.pack(MAKER, arrays) == sample()


@given(st.integers(0, len(sample()) - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed(place: int, change: int) -> None:
    data = bytearray(sample())
    data[place] ^= change
    with pytest.raises(InvalidTally):
        tally_codec.unpack(MAKER, bytes(data))


@given(st.integers(0, len(sample()) - 1))
def test_every_truncation_is_noticed(length: int) -> None:
    with pytest.raises(InvalidTally):
        tally_codec.unpack(MAKER, sample()[:length])


@given(st.binary(max_size=200))
def test_crafted_bytes_with_a_valid_checksum_stay_in_our_tree(body: bytes) -> None:
    data = tally_codec.MAGIC + MAKER + body
    data += hashlib.sha256(data).digest()
    with contextlib.suppress(InvalidTally):
        tally_codec.unpack(MAKER, data)


def test_another_maker_is_refused() -> None:
    with pytest.raises(InvalidTally, match="be made by"):
        tally_codec.unpack(tally_codec.fingerprint("another"), sample())
