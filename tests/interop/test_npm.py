"""Others take our bytes and we theirs: blind RSA in each role, Oblivious HTTP as phone and as gateway.

Needs ``make interop``, which fetches packages from npm; skipped without them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.interop.peer import Peer, installed
from tests.protocol.anonymity.published import vectors
from tests.protocol.anonymity.variants import OURS, VARIANTS, prepare
from tests.server.anonymous import Neighbourhood, neighbourhood, private, told
from tests.server.serving import COLLECTS, Clock, bearer, honest_report, settings_for

from hushcall.protocol.anonymity import blind_rsa, hpke, ohttp, tokens
from hushcall.protocol.anonymity.binary_http import Request, Response, padded, read_request, read_response
from hushcall.protocol.anonymity.blind_rsa import PublicKey, SecretKey
from hushcall.protocol.randomness import os_entropy
from hushcall.server.serve import bound, port_of
from hushcall.server.service import open_service

pytestmark = pytest.mark.skipif(not installed(), reason="needs `make interop` once: packages from npm")
PUBLISHED = vectors("rfc9474-rsabssa.json")["vectors"][0]
PUBLIC = PublicKey(int(PUBLISHED["n"], 16))
SECRET = SecretKey(PUBLIC, int(PUBLISHED["p"], 16), int(PUBLISHED["q"], 16))
JSON = {"content-type": "application/json"}
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
    blind_rsa.verify(PUBLIC, bytes.fromhex(made["prepared"]), signature, VARIANTS[name].salt_bytes)


@VARIANT
def test_our_phone_and_their_issuer_and_intake(peer: Peer, name: str) -> None:
    variant = VARIANTS[name]
    prepared = prepare(b"message", os_entropy, variant)
    hidden = blind_rsa.blind(PUBLIC, prepared, os_entropy, variant.salt_bytes)
    signed = peer.ask("sign", variant=name, key=secret_key(), blinded=hidden.blinded_msg.hex())["signed"]
    signature = blind_rsa.finalize(PUBLIC, prepared, bytes.fromhex(signed), hidden.inv, variant.salt_bytes)
    asked = {"variant": name, "key": public_key(), "signature": signature.hex()}
    assert peer.ask("verify", **asked, prepared=prepared.hex())["good"] is True
    assert peer.ask("verify", **asked, prepared=b"another".hex())["good"] is False


def test_their_phone_and_our_gateway(peer: Peer) -> None:
    secret = hpke.generate_key(os_entropy)
    config = ohttp.KeyConfig(7, hpke.public_key(secret))
    target = "https://gateway.example/v1/rounds/3/announcements"
    made = peer.ask(
        "request", config=config.to_bytes().hex(), target=target, method="POST", body=b"{}".hex(), headers=JSON
    )
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


class NodePhone:
    """A phone that is none of ours: blindrsa-ts makes its token, bhttp-js and hpke-js speak through the relay."""

    def __init__(self, peer: Peer, street: Neighbourhood, device: str) -> None:
        self.peer, self.street, self.device = peer, street, device
        self.terms, self.seed = told(street.service)
        self.headers: dict[str, str] = {}

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> tuple[int, bytes]:
        """Through the relay, sealed over there."""
        made = self.peer.ask(
            "request",
            config=self.terms.gateway.to_bytes().hex(),
            target="https://calls.example" + path,
            method=method,
            body=body.hex(),
            headers={**self.headers, **({"content-type": kind} if kind else {})},
        )
        relayed = httpx.post(
            self.street.relay, content=bytes.fromhex(made["sealed"]), headers={"content-type": ohttp.REQUEST_TYPE}
        )
        assert (relayed.status_code, relayed.headers["content-type"]) == (200, ohttp.RESPONSE_TYPE)
        opened = self.peer.ask("answer", sealed=relayed.content.hex())
        return opened["status"], bytes.fromhex(opened["body"])

    def get_token(self) -> bytes:
        """Blinded and unblinded over there, signed here; the token is RFC 9577's."""
        key = {"n": hexed(self.terms.token_key.public.n), "e": "010001"}
        nonce = os_entropy(32)
        message = b"\0\2" + nonce + tokens.challenge_digest(self.seed) + self.terms.token_key.key_id
        made = self.peer.ask("blind", variant=OURS.name, key=key, message=message.hex())
        request = b"\0\2" + self.terms.token_key.key_id[-1:] + bytes.fromhex(made["blinded"])
        signed = httpx.post(f"{self.street.url}/v1/rounds/1/tokens", content=request, headers=bearer(self.device))
        token = message + bytes.fromhex(self.peer.ask("finalize", signed=signed.content.hex())["signature"])
        self.headers = private(token)
        return token


def test_their_phone_reports_through_our_relay(peer: Peer, tmp_path: Path) -> None:
    listener, clock = bound("127.0.0.1", 0), Clock()
    relay = f"http://127.0.0.1:{port_of(listener)}"
    settings = settings_for(tmp_path, round={"anonymous": True, "relay": relay})
    service = open_service(settings, os_entropy, clock)
    service.rounds.open(service.now)
    with neighbourhood(service, clock, listener) as street:
        phones = [NodePhone(peer, street, token) for _, token in service.devices.enrol_many(2, service.now)]
        held = [phone.get_token() for phone in phones]
        for phone, token in zip(phones, held, strict=True):
            status, body = phone.ask("POST", "/v1/rounds/1/announcements", b'{"bucket": 202}', "application/json")
            assert (status, json.loads(body)["ticket"]) == (201, tokens.ticket_of_token(token))
        clock.now = COLLECTS
        service.rounds.advance(service.now)
        status, document = phones[0].ask("GET", "/v1/rounds/current")
        assert (status, json.loads(document)["crowd"]) == (200, 2)
        ticket = tokens.ticket_of_token(held[0])
        report = honest_report(json.loads(document), ticket)
        place = f"/v1/rounds/1/reports/{ticket}"
        assert phones[0].ask("PUT", place, report, "application/octet-stream")[0] == 201
        other = bytes([*report[:-1], report[-1] ^ 1])
        assert phones[0].ask("PUT", place, other, "application/octet-stream")[0] == 409
