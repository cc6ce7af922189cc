"""The envelope and its fields: what goes in comes out, and each fault has its own error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidReport, WrongLength, WrongMechanism, WrongSymbol, WrongVersion
from hushcall.protocol.wire import (
    HEADER_BYTES,
    VERSION,
    Kind,
    pack_channel,
    pack_value,
    pad,
    seal,
    strip,
    unpack_channel,
    unpack_value,
    unseal,
    value_bytes,
)

kinds = st.sampled_from(Kind)


@given(kinds, st.binary(max_size=50))
def test_a_sealed_body_comes_out_again(kind: Kind, body: bytes) -> None:
    report = seal(kind, body)
    assert report[:HEADER_BYTES] == bytes((1, kind))
    assert unseal(kind, len(body), report) == body


def test_the_mechanism_numbers_are_fixed_for_ever() -> None:
    assert VERSION == 1
    assert {kind.name: int(kind) for kind in Kind} == {
        "ORIGINAL_HISTOGRAM": 1,
        "SUCCINCT_HISTOGRAM": 2,
        "LOCAL_HASHING": 3,
        "SUBSPACE": 4,
        "WHOLE_NUMBER": 5,
        "PREFIX_EXTENDING": 6,
        "TREE_HISTOGRAM": 7,
        "RAPPOR": 8,
        "SUBSPACE_HUNDREDS": 9,
    }, "a new mechanism gets the next number, here too; a number is never used twice"


GOOD = seal(Kind.SUBSPACE, b"abc")


@pytest.mark.parametrize("size", [0, 1, 2, 4, 6, 1000])
def test_another_length_is_a_wrong_length(size: int) -> None:
    with pytest.raises(WrongLength, match=f"report must be 5 bytes long, got '{size} bytes'"):
        unseal(Kind.SUBSPACE, 3, GOOD.ljust(size, b"\0")[:size])


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_first_byte_is_a_wrong_version(version: int) -> None:
    with pytest.raises(WrongVersion, match=f"version byte must be 1, got {version}"):
        unseal(Kind.SUBSPACE, 3, bytes([version]) + GOOD[1:])


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 5, 99, 255])
def test_another_second_byte_is_a_wrong_mechanism(kind: int) -> None:
    with pytest.raises(WrongMechanism, match=rf"mechanism byte must be 4 \(subspace\), got {kind}"):
        unseal(Kind.SUBSPACE, 3, bytes([1, kind]) + GOOD[2:])


@pytest.mark.parametrize("what", ["\x01\x04abc", None, 5, list(GOOD)])
def test_what_is_not_bytes_is_an_invalid_report(what: object) -> None:
    with pytest.raises(InvalidReport, match="report must be bytes"):
        unseal(Kind.SUBSPACE, 3, what)  # type: ignore[arg-type]


@given(st.integers(0, 63), st.sampled_from([-1, 0, 1]))
def test_a_channel_fits_one_byte_and_comes_out_again(position: int, symbol: int) -> None:
    byte = pack_channel(position, symbol)
    assert 0 <= byte < 256
    assert unpack_channel(0, byte, 64, zero_allowed=True) == (position, symbol)


@pytest.mark.parametrize("length", [32, 64])
@pytest.mark.parametrize("zero_allowed", [True, False])
def test_of_all_256_bytes_exactly_the_honest_ones_are_read(length: int, zero_allowed: bool) -> None:
    symbols = (-1, 0, 1) if zero_allowed else (-1, 1)
    honest = {pack_channel(position, symbol): (position, symbol) for position in range(length) for symbol in symbols}
    assert len(honest) == length * len(symbols)
    for byte in range(256):
        if byte in honest:
            assert unpack_channel(7, byte, length, zero_allowed=zero_allowed) == honest[byte]
        else:
            with pytest.raises(WrongSymbol, match=r"^channel 7 must hold a position below"):
                unpack_channel(7, byte, length, zero_allowed=zero_allowed)


@pytest.mark.parametrize(
    ("size", "bytes_"), [(1, 1), (2, 1), (256, 1), (257, 2), (1 << 16, 2), (65537, 3), (1 << 24, 3)]
)
def test_a_value_takes_as_few_whole_bytes_as_hold_it(size: int, bytes_: int) -> None:
    assert value_bytes(size) == bytes_


@given(st.integers(1, 1 << 24), st.data())
def test_a_value_comes_out_again_and_one_that_is_too_large_does_not(size: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(0, size - 1))
    packed = pack_value(value, size)
    assert len(packed) == value_bytes(size)
    assert unpack_value("hash value", packed, size) == value
    if size < 256 ** len(packed):
        large = data.draw(st.integers(size, 256 ** len(packed) - 1))
        with pytest.raises(WrongSymbol, match=f"hash value must be below {size}, got {large}"):
            unpack_value("hash value", large.to_bytes(len(packed), "big"), size)


def test_padding_is_zeros_up_to_the_size_of_the_round_and_nothing_else_is_cut() -> None:
    assert pad(b"abc", 5) == b"abc\0\0"
    assert pad(b"abc", None) == b"abc"
    assert strip(b"abc\0\0", 3, 5) == b"abc"
    for other in (b"abc\0x", b"abc\0", b"abc\0\0\0"):
        assert strip(other, 3, 5) == other
