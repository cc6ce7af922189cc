"""All that reads bytes of strangers, each with an honest input: what ``fuzz_readers.py`` damages and feeds."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Reader:
    """Something that reads bytes of strangers. ``sealed`` puts right the checksum of a damaged input that has one."""

    name: str
    read: Callable[[bytes], object]
    honest: bytes
    binary: bool = True
    sealed: Callable[[bytes], bytes] = bytes
    parser: str = ""  # what reads, where several readers are the same code with other parameters
    others: tuple[bytes, ...] = ()  # more honest inputs


def _tally_sealed(data: bytes) -> bytes:
    """The same body with the digest that belongs to it."""
    body = data[:-32]
    return body + hashlib.sha256(body).digest()


def _mechanisms() -> Iterator[Reader]:
    from tests.mechanisms.cases import CASES, reports_of

    for case in CASES:
        aggregator = case.make(bytes(32))
        reports = reports_of(aggregator, list(case.items[:3]), b"fuzz")
        parse, packed = aggregator.mechanism.parse, aggregator.tally(reports).to_bytes()
        yield Reader(f"report of {case.name}", parse, reports[0][1], parser=parse.__qualname__)
        yield Reader(f"tally of {case.name}", aggregator.from_bytes, packed, sealed=_tally_sealed, parser="tally")


def _anonymous() -> Iterator[Reader]:
    import gmpy2

    from hushcall.protocol.anonymity import binary_http, blind_rsa, hpke, ohttp, tokens
    from hushcall.protocol.randomness import seeded
    from hushcall.server.anonymity import TokenSecret, signing_key

    rand = seeded(b"primes")
    primes = [int(gmpy2.next_prime(int.from_bytes(rand(128), "big") | 3 << 1022)) for _ in range(2)]
    made = TokenSecret(*primes)
    key = made.key
    pending = tokens.prepare(key, bytes(32), seeded(b"wish"))
    request = tokens.write_request(key, pending)
    signed = blind_rsa.blind_sign(signing_key(made.to_bytes()), pending.blinding.blinded_msg, seeded(b"sign"))
    token = tokens.token_of(key, pending, signed)
    yield Reader("token key", tokens.TokenKey.from_bytes, key.to_bytes())
    yield Reader("token request", lambda data: tokens.read_request(key, data), request)
    yield Reader("token", lambda data: tokens.check(key, bytes(32), data), token)
    secret = hpke.generate_key(seeded(b"gateway"))
    config = ohttp.KeyConfig(1, hpke.public_key(secret))
    asked = binary_http.Request("POST", "https", "a.example", "/v1/rounds/1/reports", (("accept", b"x/y"),), b"body")
    plain = asked.to_bytes()
    sealed, exchange = ohttp.encapsulate_request(config, plain, seeded(b"seal"))
    answer = binary_http.Response(201, (("accept", b"x/y"),), b"body").to_bytes()
    yield Reader("OHTTP key", ohttp.KeyConfig.from_bytes, config.to_bytes())
    yield Reader("OHTTP request", lambda data: ohttp.decapsulate_request(config, secret, data), sealed)
    enclosed = ohttp.encapsulate_response(exchange, answer, seeded(b"answer"))
    yield Reader("OHTTP response", lambda data: ohttp.decapsulate_response(exchange, data), enclosed)
    yield Reader("binary HTTP request", binary_http.read_request, plain)
    yield Reader("binary HTTP response", binary_http.read_response, answer)


def _documents() -> Iterator[Reader]:
    from hushcall.client.screening.lookup import read_header
    from hushcall.decoding.archive.manifest import ArchivedBucket, ArchivedFile, ArchivedRound
    from hushcall.mechanisms.profiles import DEFAULT
    from hushcall.protocol import round_commitment
    from hushcall.protocol.blocklist import Blocklist, ListHeader
    from hushcall.protocol.numbers import plans
    from hushcall.server import backup
    from hushcall.server.signing import signer

    file = ArchivedFile("bucket=202/part-00000.parquet", 9, 500, "00" * 32)
    parameters = {"mechanism": "subspace", "epsilon": 4.0, "bits": 5}
    bucket = ArchivedBucket(202, 12, parameters, 9, "00" * 32, (file,))
    archived = ArchivedRound(3, "00" * 32, "nanp-2026", DEFAULT.to_plain(), (bucket,), {"212": 3}, {"opens": 1})
    listed = Blocklist(3, 3, 1_800_000_000, ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 7), ())
    kept = backup.Manifest(1_800_000_000, backup.FILE, {backup.FILE: "00" * 32})
    times = dict.fromkeys(("server_time", "opens", "collects", "closes"), "2026-11-16T00:00:00Z")
    vectors = json.loads((ROOT / "tests" / "vectors" / "rounds.json").read_text())
    told = {**vectors[1]["in"]["document"], **times, "state": "collecting"}
    signed = {"_type": "timestamp", "expires": times["opens"], "spec_version": "1.0.31", "version": 1}
    stamp = {"signatures": [], "signed": {**signed, "meta": {"snapshot.json": {"version": 1}}}}
    plan = next((ROOT / "src" / "hushcall" / "protocol" / "numbers" / "data").glob("at-*.json")).read_bytes()
    readers: dict[str, tuple[Callable[[bytes], object], bytes]] = {
        "archive manifest": (ArchivedRound.from_bytes, archived.to_bytes()),
        "backup manifest": (lambda data: backup.Manifest.from_bytes(data, "x"), kept.to_bytes()),
        "round document": (_round, json.dumps(told).encode()),
        "rounds file": (round_commitment.read_rounds_file, round_commitment.rounds_file({1: {"opened": "00" * 32}})),
        "plan file": (plans.read_plan, plan),
        "list header": (read_header, listed.to_bytes()),
        "TUF metadata": (lambda data: signer.parse_metadata("timestamp.json", data), json.dumps(stamp).encode()),
        "server settings": (_settings, b'[round]\nperiod = 600\nprofile = "balanced"\n[server]\nport = 1\n'),
    }
    for name, (read, data) in readers.items():
        yield Reader(name, read, data, binary=False)


def _round(data: bytes) -> object:
    """As a phone reads it: bytes to a document, then to the value."""
    from hushcall.client.reporting.transport import parsed
    from hushcall.protocol.round_document import RoundInfo

    return RoundInfo.from_plain(parsed(data))


@cache
def _place() -> Path:
    return Path(tempfile.mkdtemp(prefix="hushcall-fuzz-")) / "hushcall.toml"


def _settings(data: bytes) -> object:
    from hushcall.server.settings import load_settings

    _place().write_bytes(data)
    return load_settings(_place())


@cache
def readers() -> dict[str, Reader]:
    """All of them by name; imported here, so that atheris can watch the imports."""
    from tests.fuzz import readers_of_files as files

    groups = (
        _mechanisms,
        _anonymous,
        _documents,
        files.call_logs,
        files.contacts,
        files.lists,
        files.archives,
    )
    return {one.name: one for group in groups for one in group()}
