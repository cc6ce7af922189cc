"""Others take our bytes and we theirs: blind RSA in each role, Oblivious HTTP as phone and as gateway.

Needs ``make interop``, which fetches packages from npm; skipped without them.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.anonymity.published import vectors
from tests.interop.peer import Peer, installed

from hushcall.anonymity import blind_rsa, hpke, ohttp
from hushcall.anonymity.binary_http import Request, Response, padded, read_request, read_response
from hushcall.anonymity.blind_rsa import VARIANTS, PublicKey, SecretKey
from hushcall.privacy.coins import os_entropy

pytestmark = pytest.mark.skipif(not installed(), reason="needs `make interop` once: packages from npm")
PUBLISHED = vectors("rfc9474-rsabssa.json")["vectors"][0]
PUBLIC = PublicKey(int(PUBLISHED["n"], 16))
SECRET = SecretKey(PUBLIC, int(PUBLISHED["p"], 16), int(PUBLISHED["q"], 16))
VARIANT = pytest.mark.parametrize("name", sorted(VARIANTS))


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    process = Peer()
    yield process
    process.close()


def hexed(value: int) -> str:
    text = f"{value:x}"
    return text.zfill(len(text) + len(text) % 2)


def public_key() -> dict[str, str]:
    return {"n": hexed(PUBLIC.n), "e": "010001"}


def secret_key() -> dict[str, str]:
    p, q = SECRET.p, SECRET.q
    d = pow(PUBLIC.e, -1, (p - 1) * (q - 1))
    parts = {"d": d, "p": p, "q": q, "dp": d % (p - 1), "dq": d % (q - 1), "qi": pow(q, -1, p)}
    return {**public_key(), **{name: hexed(value) for name, value in parts.items()}}


@VARIANT
def test_their_phone_and_our_issuer_and_intake(peer: Peer, name: str) -> None:
    made: dict[str, Any] = peer.ask("blind", variant=name, key=public_key(), message=b"message".hex())
    signed = blind_rsa.blind_sign(SECRET, bytes.fromhex(made["blinded"]), os_entropy)
    signature = bytes.fromhex(peer.ask("finalize", signed=signed.hex())["signature"])
    blind_rsa.verify(PUBLIC, bytes.fromhex(made["prepared"]), signature, VARIANTS[name])


@VARIANT
def test_our_phone_and_their_issuer_and_intake(peer: Peer, name: str) -> None:
    variant = VARIANTS[name]
    prepared = blind_rsa.prepare(b"message", os_entropy, variant)
    hidden = blind_rsa.blind(PUBLIC, prepared, os_entropy, variant)
    signed = peer.ask("sign", variant=name, key=secret_key(), blinded=hidden.blinded_msg.hex())["signed"]
    signature = blind_rsa.finalize(PUBLIC, prepared, bytes.fromhex(signed), hidden.inv, variant)
    asked = {"variant": name, "key": public_key(), "signature": signature.hex()}
    assert peer.ask("verify", **asked, prepared=prepared.hex())["good"] is True
    assert peer.ask("verify", **asked, prepared=b"another".hex())["good"] is False


def test_their_phone_and_our_gateway(peer: Peer) -> None:
    secret = hpke.generate_key(os_entropy)
    config = ohttp.KeyConfig(7, hpke.public_key(secret))
    target = "https://gateway.example/v1/rounds/3/announcements"
    made = peer.ask("request", config=config.to_bytes().hex(), target=target, method="POST", body=b"{}".hex())
    opened, exchange = ohttp.decapsulate_request(config, secret, bytes.fromhex(made["sealed"]))
    request = read_request(opened)
    assert (request.method, request.authority, request.path) == (
        "POST",
        "gateway.example",
        "/v1/rounds/3/announcements",
    )
    assert (request.content, dict(request.fields)["content-type"]) == (b"{}", b"application/json")
    answer = padded(Response(201, (("content-type", b"text/plain"),), b"taken").to_bytes(), 256)
    sealed = ohttp.encapsulate_response(exchange, answer, os_entropy)
    assert peer.ask("answer", sealed=sealed.hex()) == {"status": 201, "body": b"taken".hex()}


def test_our_phone_and_their_gateway(peer: Peer) -> None:
    secret = hpke.generate_key(os_entropy)
    config = ohttp.KeyConfig(1, hpke.public_key(secret))
    request = Request("PUT", "https", "gateway.example", "/v1/reports", (("content-type", b"text/plain"),), b"bytes")
    sealed, exchange = ohttp.encapsulate_request(config, padded(request.to_bytes(), 512), os_entropy)
    answer = peer.ask("serve", secret=secret.hex(), sealed=sealed.hex())["sealed"]
    response = read_response(ohttp.decapsulate_response(exchange, bytes.fromhex(answer)))
    assert (response.status, response.content) == (201, b"PUT /v1/reports bytes")
