"""Fuzz what comes over the wire or from another machine's disk: reports, tallies, tokens, sealed messages, documents.

``python tests/fuzz/fuzz_wire.py --runs 10000000`` gives so many inputs to each parser, one after the other, each in a
process of its own, and says how long that took and how much memory. Readers that are the same code with other
parameters share a parser's inputs; one whose inputs are large gets fewer. ``--jobs`` has several at work, ``--reader
NAME`` takes one, ``--guided`` lets atheris choose inputs by what they reach. A reader may only raise
:class:`HushcallError`. Inputs are damaged honest ones, random bytes, and for what carries a checksum also damaged ones
with the right checksum.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MOST_MB = 200
"""What reading may add to a process, whatever the input is."""
CHUNK, LARGE = 10_000, 1 << 14


@dataclass(frozen=True)
class Reader:
    """Something that reads bytes of strangers. ``sealed`` puts right the checksum of a damaged input that has one."""

    name: str
    read: Callable[[bytes], object]
    honest: bytes
    binary: bool = True
    sealed: Callable[[bytes], bytes] = bytes
    parser: str = ""  # what reads, where several readers are the same code with other parameters


def _tally_sealed(data: bytes) -> bytes:
    """The same body with the digest that belongs to it."""
    body = data[:-32]
    return body + hashlib.sha256(body).digest()


def _mechanisms() -> Iterator[Reader]:
    from tests.mechanisms import CASES, reports_of

    for case in CASES:
        learner = case.make(bytes(32))
        reports = reports_of(learner, list(case.items[:3]), b"fuzz")
        parse, packed = learner.mechanism.parse, learner.tally(reports).to_bytes()
        yield Reader(f"report of {case.name}", parse, reports[0][1], parser=parse.__qualname__)
        yield Reader(f"tally of {case.name}", learner.from_bytes, packed, sealed=_tally_sealed, parser="tally")


def _anonymous() -> Iterator[Reader]:
    import gmpy2

    from hushcall.anonymity import binary_http, blind_rsa, hpke, ohttp, tokens
    from hushcall.privacy.coins import seeded
    from hushcall.server.anonymity.round_keys import TokenSecret, signing_key

    coins = seeded(b"primes")
    primes = [int(gmpy2.next_prime(int.from_bytes(coins(128), "big") | 3 << 1022)) for _ in range(2)]
    made = TokenSecret(*primes)
    key = made.key
    wished = tokens.wish(key, bytes(32), seeded(b"wish"))
    request = tokens.write_request(key, wished)
    signed = blind_rsa.blind_sign(signing_key(made.to_bytes()), wished.blinding.blinded_msg, seeded(b"sign"))
    token = tokens.token_of(key, wished, signed)
    yield Reader("token key", tokens.TokenKey.from_bytes, key.to_bytes())
    yield Reader("token request", lambda data: tokens.read_request(key, data), request)
    yield Reader("token", lambda data: tokens.check(key, bytes(32), data), token)
    secret = hpke.generate_key(seeded(b"gateway"))
    config = ohttp.KeyConfig(1, hpke.public_key(secret))
    asked = binary_http.Request("POST", "https", "a.example", "/v1/rounds/1/reports", (("accept", b"x/y"),), b"body")
    plain = asked.to_bytes()
    sealed, exchange = ohttp.encapsulate_request(config, plain, seeded(b"seal"))
    answer = binary_http.Response(201, (("accept", b"x/y"),), b"body").to_bytes()
    yield Reader("OHTTP keys", ohttp.decode_configs, ohttp.encode_configs(config, config))
    yield Reader("OHTTP request", lambda data: ohttp.decapsulate_request(config, secret, data), sealed)
    enclosed = ohttp.encapsulate_response(exchange, answer, seeded(b"answer"))
    yield Reader("OHTTP response", lambda data: ohttp.decapsulate_response(exchange, data), enclosed)
    yield Reader("binary HTTP request", binary_http.read_request, plain)
    yield Reader("binary HTTP response", binary_http.read_response, answer)


def _documents() -> Iterator[Reader]:
    from hushcall.archive.manifest import ArchivedBucket, ArchivedFile, ArchivedRound
    from hushcall.numbers import plan_files
    from hushcall.phone.screening.lookup import read_header
    from hushcall.profiles import DEFAULT
    from hushcall.protocol import charter
    from hushcall.protocol.blocklist import Blocklist, Terms
    from hushcall.server import backup
    from hushcall.server.signing import tuf_files

    file = ArchivedFile("bucket=202/part-00000.parquet", 9, 500, "00" * 32)
    parameters = {"mechanism": "subspace", "epsilon": 4.0, "bits": 5}
    bucket = ArchivedBucket(202, 12, parameters, 9, "00" * 32, (file,))
    archived = ArchivedRound(3, "00" * 32, "nanp-2026", DEFAULT.to_plain(), (bucket,), {"212": 3}, {"opens": 1})
    listed = Blocklist(3, 3, 1_800_000_000, Terms("subspace", 4.0, 10, 0.001, "nanp-2026", 7), ())
    kept = backup.Manifest(1_800_000_000, backup.FILE, {backup.FILE: "00" * 32})
    times = dict.fromkeys(("server_time", "opens", "collects", "closes"), "2026-11-16T00:00:00Z")
    vectors = json.loads((ROOT / "tests" / "vectors" / "rounds.json").read_text())
    told = {**vectors[1]["in"]["document"], **times, "state": "collecting"}
    signed = {"_type": "timestamp", "expires": times["opens"], "spec_version": "1.0.31", "version": 1}
    stamp = {"signatures": [], "signed": {**signed, "meta": {"snapshot.json": {"version": 1}}}}
    plan = next((ROOT / "src" / "hushcall" / "numbers" / "data").glob("at-*.json")).read_bytes()
    readers: dict[str, tuple[Callable[[bytes], object], bytes]] = {
        "archive manifest": (ArchivedRound.from_bytes, archived.to_bytes()),
        "backup manifest": (lambda data: backup.Manifest.from_bytes(data, "x"), kept.to_bytes()),
        "round document": (_round, json.dumps(told).encode()),
        "rounds file": (charter.read_rounds_file, charter.rounds_file({1: {"opened": "00" * 32}})),
        "plan file": (plan_files.read_plan, plan),
        "list header": (read_header, listed.to_bytes()),
        "TUF metadata": (lambda data: tuf_files.parse("timestamp.json", data), json.dumps(stamp).encode()),
        "server settings": (_settings, b'[round]\nperiod = 600\nprofile = "balanced"\n[server]\nport = 1\n'),
    }
    for name, (read, data) in readers.items():
        yield Reader(name, read, data, binary=False)


def _round(data: bytes) -> object:
    """As a phone reads it: bytes to a document, then to the value."""
    from hushcall.phone.reporting.transport import parsed
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
    return {one.name: one for group in (_mechanisms, _anonymous, _documents) for one in group()}


def one_input(reader: Reader, data: bytes) -> None:
    """Feed one input; anything but our own errors escapes."""
    from hushcall.errors import HushcallError

    try:
        reader.read(data)
    except HushcallError:
        return


def inputs(reader: Reader, count: int, seed: int = 1) -> Iterator[bytes]:
    """Damaged honest ones, in turn as they are and with their checksum put right; every eighth is random bytes."""
    from tests.fuzz.mutating import mutated

    dice = random.Random(seed)
    for place, data in enumerate(mutated([reader.honest], count, seed)):
        if place % 8 == 7:
            yield dice.randbytes(dice.randint(0, 2 * len(reader.honest)))
        else:
            yield reader.sealed(data) if place % 2 else data


def feed(reader: Reader, runs: int, say: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
    """So many inputs; how long it took, and what it added to this process's memory."""
    from hushcall.lab.memory import peak_mb

    one_input(reader, reader.honest)
    before, begin = peak_mb(), time.process_time()
    for start in range(0, runs, CHUNK):
        for data in inputs(reader, min(CHUNK, runs - start), start):
            one_input(reader, data)
        say(start + CHUNK)
    added = peak_mb() - before
    assert added < MOST_MB, f"{reader.name}: {added:.0f} MB"
    spent = round(time.process_time() - begin, 2)
    return {"reader": reader.name, "inputs": runs, "core_seconds": spent, "added_mb": round(added, 1)}


def main() -> None:
    """One reader after the other, each in a process of its own; or one of them by atheris."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=100_000, help="inputs for each parser")
    options.add_argument("--text-runs", type=int, default=0, help="inputs for each that reads text; default: as --runs")
    options.add_argument("--jobs", type=int, default=1, help="readers at work at once")
    options.add_argument("--reader", help="only this one")
    options.add_argument("--guided", action="store_true", help="let atheris choose the inputs; needs --reader")
    chosen = options.parse_args()
    if chosen.reader and chosen.reader not in readers():
        sys.exit(f"fuzz_wire: --reader must be one of {', '.join(readers())}")
    if chosen.guided:
        return guided(chosen.reader, chosen.runs)
    names = [chosen.reader] if chosen.reader else list(readers())
    shares = _shares(names, chosen.runs, chosen.text_runs)
    with ThreadPoolExecutor(chosen.jobs) as threads:
        work = [threads.submit(_alone, *share) for share in shares.items()]
        for done in as_completed(work):
            print(json.dumps(done.result()), flush=True)
    return None


def _shares(names: Sequence[str], runs: int, text_runs: int) -> dict[str, int]:
    """How many inputs each reader gets: those of a parser together what is asked for, large ones a tenth of others."""
    chosen = [readers()[name] for name in names]
    weights = {one.name: 1 if len(one.honest) > LARGE else 10 for one in chosen}
    sums = Counter[str]()
    for one in chosen:
        sums[one.parser or one.name] += weights[one.name]
    return {
        one.name: -(-(runs if one.binary else text_runs or runs) * weights[one.name] // sums[one.parser or one.name])
        for one in chosen
    }


def _alone(name: str, runs: int) -> dict[str, Any]:
    """In a process of its own, whose memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(_fed, name, runs).result()


def _fed(name: str, runs: int) -> dict[str, Any]:
    return feed(readers()[name], runs)


def guided(name: str, runs: int) -> None:
    """By coverage, from the honest input on."""
    import atheris

    with atheris.instrument_imports(include=["hushcall"]):
        reader = readers()[name]
    with tempfile.TemporaryDirectory() as corpus:
        (Path(corpus) / "honest").write_bytes(reader.honest)
        arguments = [f"-runs={runs}", "-max_len=8192", "-timeout=60", f"-artifact_prefix={tempfile.gettempdir()}/"]
        atheris.Setup([sys.argv[0], *arguments, corpus], lambda data: one_input(reader, data))
        atheris.Fuzz()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
