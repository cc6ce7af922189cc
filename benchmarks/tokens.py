"""What reporting without a name costs beside reporting by name, in one run: issuing, redeeming, a phone's own work."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import sqlalchemy as sa

from hushcall.anonymity import binary_http, blind_rsa, hpke, ohttp, tokens
from hushcall.numbers import NANP
from hushcall.privacy.coins import os_entropy, seeded
from hushcall.server.access.tokens import token_hash
from hushcall.server.anonymity.round_keys import TokenSecret, signing_key, terms_of
from hushcall.server.db import schema
from hushcall.server.db.rows import newest_round
from hushcall.server.intake.intake import Announce, Decisions, Intake, Upload
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings

PHONES, BATCH = 1000, 100


def main() -> None:
    """Print the figures. By name and without are measured in one run: these machines are noisy."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder), round={"anonymous": True, "scheduler": False, "decoders": 0})  # type: ignore[arg-type]
        service = open_service(settings)
        named, nameless = _intake(service)
        _tell("intake by name", named, "announcements + reports a second and core")
        _tell("intake without a name", nameless, f"the same; {nameless / named:.0%} of it")
        service.close()
    _tell("issuing", _issuing(), "blind signatures a second and core")
    print(f"a phone's work for one round without a name: {1000 * _phone():.1f} ms of CPU")


def _tell(what: str, rate: float, unit: str) -> None:
    print(f"{what:24}{rate:9,.0f} {unit}")


def _intake(service: Service) -> tuple[float, float]:
    """Announcements and reports through the same intake, half of the phones by name, half with tokens."""
    service.rounds.open(service.now)
    with service.store.read() as connection:
        row = newest_round(connection)
        assert row is not None  # noqa: S101
        terms = terms_of(connection, row.id)
    assert terms is not None  # noqa: S101
    made = service.devices.enrol_many(2 * PHONES, service.now)
    hashes = [token_hash(token) for _, token in made]
    blind = [_token(service, terms.token_key, row.seed, name) for name in hashes[PHONES:]]
    intake = Intake(service.store, "benchmark")
    spent = {}
    for kind, credentials in (("named", hashes[:PHONES]), ("nameless", blind)):
        spent[kind] = _timed(intake, [Announce(one, row.id, 202) for one in credentials])
    service.rounds.start_collecting(row.id, service.now)
    with service.store.read() as connection:
        mechanism = Decisions().of(connection, row.id).mechanisms[202]
    body = mechanism.privatise(NANP.parse("+12025550143").suffix, bytes(32), seeded(b"benchmark"))
    tickets = _tickets(service, row.id)
    uploads = {
        "named": [
            Upload(one, row.id, tickets[device], body)
            for one, (device, _) in zip(hashes[:PHONES], made[:PHONES], strict=True)
        ],
        "nameless": [Upload(one, row.id, bytes.fromhex(tokens.ticket_of(one)), body) for one in blind],
    }
    for kind, asked in uploads.items():
        spent[kind] += _timed(intake, asked)
    return 2 * PHONES / spent["named"], 2 * PHONES / spent["nameless"]


def _tickets(service: Service, round_id: int) -> dict[int, bytes]:
    table = schema.announcements.c
    rows = service.store.rows(sa.select(table.device, table.ticket).where(table.round == round_id))
    return {row.device: bytes(row.ticket) for row in rows}


def _timed(intake: Intake, asked: list[Announce] | list[Upload]) -> float:
    started = process_time()
    for start in range(0, len(asked), BATCH):
        answers = intake.accept(asked[start : start + BATCH])
        if not all(getattr(answer, "status", 0) == 201 for answer in answers):
            raise SystemExit("an upload was refused")
    return process_time() - started


def _token(service: Service, key: tokens.TokenKey, seed: bytes, device: bytes) -> bytes:
    wished = tokens.wish(key, seed, os_entropy)
    return tokens.token_of(key, wished, service.issuer.issue(device, 1, tokens.write_request(key, wished)))


def _rate(work: Callable[[], object], times: int) -> float:
    started = process_time()
    for _ in range(times):
        work()
    return times / (process_time() - started)


def _issuing() -> float:
    secret = TokenSecret.generate()
    blinded = blind_rsa.blind(secret.key.public, b"message", os_entropy).blinded_msg
    key = signing_key(secret.to_bytes())
    return _rate(lambda: blind_rsa.blind_sign(key, blinded, os_entropy), 300)


def _phone() -> float:
    """One token, and three sealed exchanges: the round, the announcement, the report."""
    secret, gateway = TokenSecret.generate(), hpke.generate_key(os_entropy)
    config, key = ohttp.KeyConfig(1, hpke.public_key(gateway)), signing_key(secret.to_bytes())
    answer = binary_http.padded(binary_http.Response(200, (), bytes(1500)).to_bytes(), 4096)
    spent = 0.0
    for _ in range(20):
        started = perf_counter()
        wished = tokens.wish(secret.key, bytes(32), os_entropy)
        spent += perf_counter() - started
        signed = blind_rsa.blind_sign(key, wished.blinding.blinded_msg, os_entropy)
        started = perf_counter()
        tokens.token_of(secret.key, wished, signed)
        spent += perf_counter() - started
        for _ in range(3):
            started = perf_counter()
            sealed, exchange = ohttp.encapsulate_request(config, bytes(1024), os_entropy)
            spent += perf_counter() - started
            _, theirs = ohttp.decapsulate_request(config, gateway, sealed)
            back = ohttp.encapsulate_response(theirs, answer, os_entropy)
            started = perf_counter()
            binary_http.read_response(ohttp.decapsulate_response(exchange, back))
            spent += perf_counter() - started
    return spent / 20


if __name__ == "__main__":
    main()
