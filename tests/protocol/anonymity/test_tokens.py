"""A token is good for one round, comes from the key that was published, and nobody can choose its ticket."""

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key

from hushcall.errors import InvalidToken
from hushcall.protocol.anonymity import blind_rsa, tokens
from hushcall.protocol.anonymity.blind_rsa import PublicKey, SecretKey
from hushcall.protocol.anonymity.tokens import TokenKey
from hushcall.protocol.randomness import seeded

# Two keys of 2048 bits, for these tests only.
_SECRET_P = int(
    "eb9c96cbdca0e6c88711565325d42d8928ddf7a8608cfec98b725f834b98fd600a52fc3726d83efcfcdf21e9930a8207"
    "97ec62ea60dd6fc0937d8d41ce2422dc049d83df37f2bc2efe4a5efc88c3d2e34d5cdcea576df9346f162129715e6a8c"
    "215c32ae473c19a72010eda57a0407ef53bcb393522a6497d9af0716da094f09",
    16,
)
_SECRET_Q = int(
    "d29700185e6e8e1f01053694b99a75e4a70aab3466f8ad747477dcf7fa2083359f075ab620ce11b2cfd5ed703a6eaab0"
    "5b6b5d6866d99a9e3176f120fcd51957dc9221cc801c790da8b09ad3d501baa475a6b25ed7ac62015865214bcccec593"
    "679e75fe3ff567b40a448849c13c8ecd71aea088cf527694427b567642fe4049",
    16,
)
SECRET = SecretKey(PublicKey(_SECRET_P * _SECRET_Q), _SECRET_P, _SECRET_Q)
_OTHER_P = int(
    "f1d68f0df33309258bc848a3c2b51c4ccf3d2a1223187d483ba917dc2b163a6bd2467ae0fbb580c81b8a83d4081e5f8a"
    "50a0d11a83280fde1967ec6b994945c16b1f0987f1080798238c637aa93eb3fc606ed3c92c45d0c1d0470ae23ee93b09"
    "2cba27f4bf6cb05cfb09ac1e348725136ecc1945f523771ec88295741e24cf2b",
    16,
)
_OTHER_Q = int(
    "e8bc86b697dc1fca85d2246626616b1e3179e58c98fd456b71442cab3bfa241482afb1a33147b58e31f8fe19c59e8060"
    "a219336eb77d9ef0ef6a6c6a55a1af43d7da4cb633eebe4ae4544878f0817ba152778173668e508fe583133e1983c724"
    "58e1175ac8f4fbf1bb88b04dc1831a60e5af25bbc40a49d1ddf59ea5e7be957d",
    16,
)
OTHER = SecretKey(PublicKey(_OTHER_P * _OTHER_Q), _OTHER_P, _OTHER_Q)
KEY = TokenKey(SECRET.public)
SEED, OTHER_SEED = bytes(32), bytes(31) + b"\1"


def made(seed: bytes = SEED, secret: SecretKey | None = None, rand: bytes = b"phone") -> bytes:
    """A token as a phone gets one."""
    secret = secret or SECRET
    key = TokenKey(secret.public)
    pending = tokens.prepare(key, seed, seeded(rand))
    return tokens.token_of(key, pending, blind_rsa.blind_sign(secret, pending.blinding.blinded_msg, seeded(b"issuer")))


def test_a_token_is_taken_in_its_round() -> None:
    token = made()
    assert len(token) == tokens.TOKEN_BYTES == 354
    tokens.check(KEY, SEED, token)


def test_a_token_of_another_round_or_another_key_is_refused() -> None:
    with pytest.raises(InvalidToken, match="of this round"):
        tokens.check(KEY, OTHER_SEED, made())
    with pytest.raises(InvalidToken, match="of this round"):
        tokens.check(TokenKey(OTHER.public), SEED, made())
    forged = made()[:66] + TokenKey(OTHER.public).key_id + made()[98:]
    with pytest.raises(InvalidToken, match="signature"):
        tokens.check(TokenKey(OTHER.public), SEED, forged)


def test_every_changed_byte_is_refused() -> None:
    token = made()
    for place in range(len(token)):
        bad = bytearray(token)
        bad[place] ^= 1
        with pytest.raises(InvalidToken):
            tokens.check(KEY, SEED, bytes(bad))
    for wrong in (b"", token[:-1], token + b"\0"):
        with pytest.raises(InvalidToken, match="bytes long"):
            tokens.check(KEY, SEED, wrong)


def test_a_phone_notices_an_issuer_that_signs_with_a_key_of_its_own() -> None:
    pending = tokens.prepare(KEY, SEED, seeded(b"phone"))
    blinded = (int.from_bytes(pending.blinding.blinded_msg, "big") % OTHER.public.n).to_bytes(256, "big")
    with pytest.raises(InvalidToken):
        tokens.token_of(KEY, pending, blind_rsa.blind_sign(OTHER, blinded, seeded(b"issuer")))


def test_the_key_is_written_as_others_read_it_and_in_one_way() -> None:
    written = KEY.to_bytes()
    assert load_der_public_key(written).public_numbers().n == KEY.public.n  # type: ignore[union-attr]
    assert TokenKey.from_bytes(written) == KEY
    for place in (0, 5, 30, len(written) - 1):
        bad = bytearray(written)
        bad[place] ^= 1
        with pytest.raises(InvalidToken):
            TokenKey.from_bytes(bytes(bad))
    with pytest.raises(InvalidToken):
        TokenKey.from_bytes(written + b"\0")


def test_tickets_follow_from_the_whole_token() -> None:
    token = made()
    tickets = {tokens.ticket_of_token(token[:i] + bytes([token[i] ^ 1]) + token[i + 1 :]) for i in range(len(token))}
    assert len(tickets | {tokens.ticket_of_token(token)}) == len(token) + 1
    assert all(len(bytes.fromhex(ticket)) == tokens.TICKET_BYTES for ticket in tickets)


def test_two_phones_have_nothing_in_common_but_the_round() -> None:
    one, two = made(rand=b"one"), made(rand=b"two")
    assert one[:2] + one[34:98] == two[:2] + two[34:98]
    assert one[2:34] != two[2:34]


def test_a_request_for_a_token_has_one_length() -> None:
    request = tokens.write_request(KEY, tokens.prepare(KEY, SEED, seeded(b"phone")))
    assert len(tokens.read_request(KEY, request)) == 256
    for wrong in (b"", request[:-1], request + b"\0"):
        with pytest.raises(InvalidToken, match="bytes long"):
            tokens.read_request(KEY, wrong)
