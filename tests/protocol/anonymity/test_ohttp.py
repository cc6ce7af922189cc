"""RFC 9458's complete example, every value of it, and what a gateway and a phone refuse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.anonymity.published import in_turn, vectors

from hushcall.errors import InvalidMessage
from hushcall.protocol.anonymity import hpke, ohttp
from hushcall.protocol.randomness import seeded

EXAMPLE = {name: bytes.fromhex(text) for name, text in vectors("rfc9458-example.json").items() if name != "source"}
CONFIG = ohttp.KeyConfig.from_bytes(EXAMPLE["key_config"])
SECRET = EXAMPLE["gateway_secret_key"]


def test_the_key_configuration_is_read_and_matches_the_secret_key() -> None:
    assert (CONFIG.key_id, CONFIG.public) == (1, hpke.public_key(SECRET))
    plain = CONFIG.to_bytes()
    assert ohttp.encode_configs(CONFIG) == len(plain).to_bytes(2, "big") + plain


def test_the_request_of_the_example_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpke, "generate_key", lambda rand: EXAMPLE["ephemeral_secret_key"])
    sealed, exchange = ohttp.encapsulate_request(CONFIG, EXAMPLE["bhttp_request"], seeded(b""))
    assert exchange.enc == EXAMPLE["ephemeral_public_key"]
    assert exchange.secret == EXAMPLE["exported_secret"]
    assert sealed == EXAMPLE["encapsulated_request"]
    assert EXAMPLE["info"] == b"message/bhttp request\0" + CONFIG.header
    assert ohttp.decapsulate_response(exchange, EXAMPLE["encapsulated_response"]) == EXAMPLE["bhttp_response"]


def test_the_gateway_of_the_example_to_the_byte() -> None:
    request, exchange = ohttp.decapsulate_request(CONFIG, SECRET, EXAMPLE["encapsulated_request"])
    assert request == EXAMPLE["bhttp_request"]
    assert exchange.secret == EXAMPLE["exported_secret"]
    nonce = EXAMPLE["response_salt"][hpke.N_ENC :]
    assert hpke.extract(EXAMPLE["response_salt"], exchange.secret) == EXAMPLE["prk"]
    assert exchange.keys(nonce) == (EXAMPLE["aead_key"], EXAMPLE["aead_nonce"])
    sealed = ohttp.encapsulate_response(exchange, EXAMPLE["bhttp_response"], in_turn(nonce))
    assert sealed == EXAMPLE["encapsulated_response"]


def test_the_first_configuration_that_can_be_used_is_taken() -> None:
    other = EXAMPLE["key_config"][:35] + bytes.fromhex("000400010003")  # another cipher
    framed = len(other).to_bytes(2, "big") + other
    second = ohttp.KeyConfig(2, CONFIG.public)
    assert ohttp.decode_configs(ohttp.encode_configs(CONFIG, second)) == CONFIG
    assert ohttp.decode_configs(framed + ohttp.encode_configs(second)) == second
    for data in (b"", b"\0", framed):
        with pytest.raises(InvalidMessage):
            ohttp.decode_configs(data)


def test_another_key_than_the_one_published_is_called_that() -> None:
    with pytest.raises(InvalidMessage, match="key must be the one published"):
        ohttp.decapsulate_request(ohttp.KeyConfig(2, CONFIG.public), SECRET, EXAMPLE["encapsulated_request"])


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=8))
def test_what_is_sealed_is_opened_with_constant_overhead(request: bytes, response: bytes, seed: bytes) -> None:
    rand = seeded(seed)
    sealed, phone = ohttp.encapsulate_request(CONFIG, request, rand)
    opened, gateway = ohttp.decapsulate_request(CONFIG, SECRET, sealed)
    answer = ohttp.encapsulate_response(gateway, response, rand)
    assert (opened, ohttp.decapsulate_response(phone, answer)) == (request, response)
    assert len(sealed) == len(request) + ohttp.REQUEST_OVERHEAD
    assert len(answer) == len(response) + ohttp.NONCE_BYTES + hpke.N_T


def test_every_changed_byte_of_a_request_is_refused() -> None:
    sealed = EXAMPLE["encapsulated_request"]
    for place in range(len(sealed)):
        bad = bytearray(sealed)
        bad[place] ^= 4
        with pytest.raises(InvalidMessage):
            ohttp.decapsulate_request(CONFIG, SECRET, bytes(bad))
    for length in (0, 6, 7, 38, len(sealed) - 1):
        with pytest.raises(InvalidMessage):
            ohttp.decapsulate_request(CONFIG, SECRET, sealed[:length])


def test_an_answer_to_another_request_does_not_open() -> None:
    _, one = ohttp.encapsulate_request(CONFIG, b"same", seeded(b"one"))
    sealed, _ = ohttp.encapsulate_request(CONFIG, b"same", seeded(b"two"))
    _, gateway = ohttp.decapsulate_request(CONFIG, SECRET, sealed)
    with pytest.raises(InvalidMessage):
        ohttp.decapsulate_response(one, ohttp.encapsulate_response(gateway, b"answer", seeded(b"three")))
    with pytest.raises(InvalidMessage):
        ohttp.decapsulate_response(one, b"short")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        EXAMPLE["key_config"][:-1],
        EXAMPLE["key_config"] + b"\0",
        EXAMPLE["key_config"].replace(b"\x01\x00\x20", b"\x01\x00\x10", 1),
        EXAMPLE["key_config"][:35] + bytes.fromhex("000400010003"),
        EXAMPLE["key_config"][:35] + bytes.fromhex("0000"),
    ],
    ids=["empty", "short", "long", "another KEM", "another cipher", "no cipher"],
)
def test_key_configurations_that_say_something_else_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMessage):
        ohttp.KeyConfig.from_bytes(data)
