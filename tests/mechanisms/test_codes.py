"""RM(3,5) and RM(4,6): every single error is corrected, every double error is detected, and 4 is the distance."""

import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.succinct_histogram.codes import RM_3_5, RM_4_6, ExtendedHamming

BOTH = pytest.mark.parametrize("code", [RM_3_5, RM_4_6], ids=["RM(3,5)", "RM(4,6)"])
codes = st.integers(3, 6).map(ExtendedHamming)


def errors(code: ExtendedHamming, weight: int) -> list[int]:
    """Every error pattern with that many flipped bits."""
    return [sum(1 << place for place in places) for places in combinations(range(code.length), weight)]


def messages(code: ExtendedHamming, count: int) -> list[int]:
    chooser = random.Random(2026)
    return [chooser.getrandbits(code.message_bits) for _ in range(count)]


def is_codeword(code: ExtendedHamming, word: int) -> bool:
    message = code.decode(word)
    return message is not None and code.encode(message) == word


def test_the_two_codes_have_the_papers_sizes() -> None:
    assert (RM_3_5.length, RM_3_5.message_bits) == (32, 26)
    assert (RM_4_6.length, RM_4_6.message_bits) == (64, 57)


@BOTH
def test_encoding_and_decoding_give_the_message_back(code: ExtendedHamming) -> None:
    for message in [0, 1, (1 << code.message_bits) - 1, *messages(code, 2000)]:
        assert code.decode(code.encode(message)) == message


@BOTH
def test_all_single_errors_are_corrected_and_all_double_errors_detected(code: ExtendedHamming) -> None:
    single, double = errors(code, 1), errors(code, 2)
    assert (len(single), len(double)) in {(32, 496), (64, 2016)}
    for message in messages(code, 40):
        word = code.encode(message)
        assert {code.decode(word ^ error) for error in single} == {message}
        assert {code.decode(word ^ error) for error in double} == {None}


def syndromes(words: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """(parity, XOR of the positions of the ones) of 32-bit words, from the definition: numpy's own decoder."""
    parity = np.zeros_like(words)
    positions = np.zeros_like(words)
    for place in range(32):
        bit = words >> np.uint32(place) & np.uint32(1)
        parity ^= bit
        positions ^= bit * np.uint32(place)
    return parity, positions


@pytest.mark.slow
def test_ten_thousand_words_with_every_one_of_their_528_errors() -> None:
    """5 280 000 received words, the double errors of which the real decoder shares with numpy.

    All 320 000 single errors go through the real decoder. For the double ones numpy computes parity and XOR from
    their definition, and the decoder refuses exactly when the first is 0 and the second is not (the test above
    tries that for all 496 on 40 words); it is run itself on one double error of each word, in turn.
    """
    sent = messages(RM_3_5, 10_000)
    words = np.array([RM_3_5.encode(message) for message in sent], dtype=np.uint32)
    assert not any(part.any() for part in syndromes(words))
    single, double = errors(RM_3_5, 1), errors(RM_3_5, 2)
    for error in double:
        parity, positions = syndromes(words ^ np.uint32(error))
        assert not parity.any()
        assert positions.all()
    for number, (message, word) in enumerate(zip(sent, words.tolist(), strict=True)):
        assert all(RM_3_5.decode(word ^ error) == message for error in single)
        assert RM_3_5.decode(word ^ double[number % 496]) is None


def test_the_minimum_distance_of_rm_3_5_is_four() -> None:
    """The code is linear, so its distance is the least weight of a word: by looking at all of weight 1 to 4."""
    assert is_codeword(RM_3_5, 0)
    found = [sum(is_codeword(RM_3_5, word) for word in errors(RM_3_5, weight)) for weight in (1, 2, 3, 4)]
    assert found == [0, 0, 0, 1240]


def test_the_minimum_distance_of_rm_4_6_is_four() -> None:
    """No word of weight 1, 2 or 3. Each of weight 3 is one bit away from one of weight 4: 41 664 / 4 of them."""
    assert not any(is_codeword(RM_4_6, word) for weight in (1, 2, 3) for word in errors(RM_4_6, weight))
    nearest = set()
    for word in errors(RM_4_6, 3):
        message = RM_4_6.decode(word)
        assert message is not None
        nearest.add(RM_4_6.encode(message))
    assert {word.bit_count() for word in nearest} == {4}
    assert len(nearest) == 10_416


@given(codes, st.data())
def test_the_code_is_linear(code: ExtendedHamming, data: st.DataObject) -> None:
    message = st.integers(0, (1 << code.message_bits) - 1)
    x, y = data.draw(message), data.draw(message)
    assert code.encode(x ^ y) == code.encode(x) ^ code.encode(y)


@given(codes, st.data())
def test_the_columns_make_the_codeword(code: ExtendedHamming, data: st.DataObject) -> None:
    """Bit i of the codeword of x is the parity of columns[i] & x: what list decoding rests on."""
    x = data.draw(st.integers(0, (1 << code.message_bits) - 1))
    bits = [(column & x).bit_count() & 1 for column in code.columns]
    assert sum(bit << place for place, bit in enumerate(bits)) == code.encode(x)


@BOTH
def test_the_encoding_is_systematic_and_satisfies_the_parity_checks(code: ExtendedHamming) -> None:
    """Bit i of a message stands at the i-th position that is neither 0 nor a power of two."""
    places = [place for place in range(code.length) if place.bit_count() > 1]
    assert list(code.message_positions) == places
    for message in messages(code, 500):
        word = code.encode(message)
        assert [word >> place & 1 for place in places] == [message >> i & 1 for i in range(len(places))]
        ones = [place for place in range(code.length) if word >> place & 1]
        assert len(ones) % 2 == 0
        assert np.bitwise_xor.reduce(ones) == 0 if ones else message == 0


@BOTH
@pytest.mark.parametrize("bad", ["too large", -1, 1.0, True, "5", None])
def test_a_message_that_does_not_fit_is_refused(code: ExtendedHamming, bad: object) -> None:
    message = 1 << code.message_bits if bad == "too large" else bad
    with pytest.raises(InvalidParameter, match=r"^message must be a whole number of at least 0"):
        code.encode(message)  # type: ignore[arg-type]


@BOTH
def test_a_received_word_that_does_not_fit_is_refused(code: ExtendedHamming) -> None:
    """In this order: a decoder that lets the first ones pass would never return from a negative one."""
    for word in (1 << code.length, (1 << code.length) - 1 + (1 << 80), -1):
        with pytest.raises(InvalidParameter, match=r"^word must "):
            code.decode(word)


@pytest.mark.parametrize("order", [0, 2, 7, 5.0, None])
def test_other_orders_are_refused(order: int) -> None:
    with pytest.raises(InvalidParameter, match=r"^order must be a whole number of at least 3 and at most 6"):
        ExtendedHamming(order)
