"""RFC 9474: every byte of its vectors, what must be refused, and why the issuer learns nothing."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.anonymity.published import in_turn, vectors
from tests.protocol.anonymity.variants import VARIANTS, prepare

from hushcall.errors import InvalidParameter, InvalidToken
from hushcall.protocol.anonymity import blind_rsa
from hushcall.protocol.anonymity.blind_rsa import PublicKey, SecretKey
from hushcall.protocol.randomness import seeded

PUBLISHED = vectors("rfc9474-rsabssa.json")["vectors"]
EACH = pytest.mark.parametrize("vector", PUBLISHED, ids=lambda vector: str(vector["variant"]))


def keys(vector: dict[str, Any]) -> tuple[PublicKey, SecretKey]:
    public = PublicKey(int(vector["n"], 16), int(vector["e"], 16))
    return public, SecretKey(public, int(vector["p"], 16), int(vector["q"], 16))


PUBLIC, SECRET = keys(PUBLISHED[0])


def blinded(vector: dict[str, Any]) -> tuple[bytes, blind_rsa.Blinding]:
    """What a phone makes with the salt and the r of a vector."""
    public, variant = keys(vector)[0], VARIANTS[vector["variant"]]
    prepared = prepare(bytes.fromhex(vector["msg"]), in_turn(bytes.fromhex(vector["msg_prefix"])), variant)
    r = pow(int(vector["inv"], 16), -1, public.n).to_bytes(public.modulus_len, "big")
    salt = [bytes.fromhex(vector["salt"])] if vector["salt"] else []
    return prepared, blind_rsa.blind(public, prepared, in_turn(*salt, r), variant.salt_bytes)


def test_the_four_variants_are_published() -> None:
    assert {vector["variant"] for vector in PUBLISHED} == set(VARIANTS)


@EACH
def test_every_step_gives_the_published_bytes(vector: dict[str, Any]) -> None:
    public, secret = keys(vector)
    prepared, hidden = blinded(vector)
    assert prepared.hex() == vector["prepared_msg"]
    encoded = blind_rsa.emsa_pss_encode(prepared, public.n.bit_length() - 1, bytes.fromhex(vector["salt"]))
    assert encoded.hex() == vector["encoded_msg"]
    assert f"{hidden.inv:0{2 * public.modulus_len}x}" == vector["inv"]
    assert hidden.blinded_msg.hex() == vector["blinded_msg"]
    signed = blind_rsa.blind_sign(secret, hidden.blinded_msg, seeded(b"issuer"))
    assert signed.hex() == vector["blind_sig"]
    signature = blind_rsa.finalize(public, prepared, signed, hidden.inv, VARIANTS[vector["variant"]].salt_bytes)
    assert signature.hex() == vector["sig"]


@EACH
def test_a_signature_of_another_variant_or_with_any_byte_changed_is_refused(vector: dict[str, Any]) -> None:
    public, variant = keys(vector)[0], VARIANTS[vector["variant"]]
    message, good = bytes.fromhex(vector["prepared_msg"]), bytes.fromhex(vector["sig"])
    blind_rsa.verify(public, message, good, variant.salt_bytes)
    for place in range(0, len(good), 37):
        bad = bytearray(good)
        bad[place] ^= 1
        with pytest.raises(InvalidToken):
            blind_rsa.verify(public, message, bytes(bad), variant.salt_bytes)
    with pytest.raises(InvalidToken):
        blind_rsa.verify(public, message + b"x", good, variant.salt_bytes)
    for other in VARIANTS.values():
        if other.salt_bytes != variant.salt_bytes:
            with pytest.raises(InvalidToken):
                blind_rsa.verify(public, message, good, other.salt_bytes)


@EACH
def test_a_blind_signature_of_another_message_is_never_finalised(vector: dict[str, Any]) -> None:
    public, variant = keys(vector)[0], VARIANTS[vector["variant"]]
    prepared, hidden = blinded(vector)
    wrong = blind_rsa.blind_sign(SECRET, (5).to_bytes(public.modulus_len, "big"), seeded(b"issuer"))
    for answer in (wrong, bytes.fromhex(vector["blind_sig"])[:-1], b""):
        with pytest.raises(InvalidToken):
            blind_rsa.finalize(public, prepared, answer, hidden.inv, variant.salt_bytes)


@pytest.mark.parametrize("value", [0, PUBLIC.n, PUBLIC.n + 1], ids=["zero", "n", "above n"])
def test_the_issuer_signs_only_residues(value: int) -> None:
    with pytest.raises(InvalidToken, match="below the modulus"):
        blind_rsa.blind_sign(SECRET, value.to_bytes(PUBLIC.modulus_len, "big"), seeded(b"issuer"))


def test_a_fault_in_the_exponentiation_is_not_handed_out() -> None:
    faulty = SecretKey(PUBLIC, SECRET.p, SECRET.q, lambda m, d, n: pow(m, d, n) ^ (n == SECRET.p))
    with pytest.raises(InvalidToken, match="signing failure"):
        blind_rsa.blind_sign(faulty, (5).to_bytes(PUBLIC.modulus_len, "big"), seeded(b"issuer"))


def test_the_issuers_own_blinding_changes_no_signature() -> None:
    message = (12345).to_bytes(PUBLIC.modulus_len, "big")
    assert len({blind_rsa.blind_sign(SECRET, message, seeded(bytes([i]))) for i in range(5)}) == 1


def test_what_an_issuer_sees_could_hide_any_message() -> None:
    """Perfect blindness: for each message there is exactly one r that would have given the same blinded bytes."""
    n, first = PUBLIC.n, blind_rsa.blind(PUBLIC, b"one", seeded(b"phone"))
    z = int.from_bytes(first.blinded_msg, "big")
    salt = bytes(48)
    m = int.from_bytes(blind_rsa.emsa_pss_encode(b"another", n.bit_length() - 1, salt), "big")
    r = SECRET.rsasp1(z * pow(m, -1, n) % n)
    again = blind_rsa.blind(PUBLIC, b"another", in_turn(salt, r.to_bytes(PUBLIC.modulus_len, "big")))
    assert again.blinded_msg == first.blinded_msg


@settings(max_examples=10, deadline=None)
@given(st.binary(max_size=200), st.binary(min_size=1, max_size=8), st.sampled_from(sorted(VARIANTS)))
def test_what_is_blinded_signed_and_unblinded_verifies(message: bytes, seed: bytes, name: str) -> None:
    variant, rand = VARIANTS[name], seeded(seed)
    prepared = prepare(message, rand, variant)
    hidden = blind_rsa.blind(PUBLIC, prepared, rand, variant.salt_bytes)
    signed = blind_rsa.blind_sign(SECRET, hidden.blinded_msg, rand)
    signature = blind_rsa.finalize(PUBLIC, prepared, signed, hidden.inv, variant.salt_bytes)
    blind_rsa.verify(PUBLIC, prepared, signature, variant.salt_bytes)


def test_draws_that_do_not_fit_are_drawn_again() -> None:
    blocks = ((1 << 2048) - 1).to_bytes(256, "big"), bytes(256), (7).to_bytes(256, "big")
    assert blind_rsa.random_integer_uniform((1 << 2047) + 1, in_turn(*blocks)) == 7


@pytest.mark.parametrize(("n", "e"), [(15, 65537), (1 << 2047, 65537), ((1 << 5000) + 1, 65537), ((1 << 2047) + 1, 3)])
def test_keys_that_are_too_short_even_or_unusual_are_refused(n: int, e: int) -> None:
    with pytest.raises(InvalidParameter):
        PublicKey(n, e)


def test_factors_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidParameter):
        SecretKey(PUBLIC, SECRET.p, SECRET.q + 2)
