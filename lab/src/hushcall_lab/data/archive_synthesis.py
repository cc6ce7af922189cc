"""Invented archives of any size with planted spammers, made in bounded memory.

Reports have the law of real ones (matrices from tickets, randomised response by the client's integer weights). Compiled
code makes them in chunks, with one bucket per process at a time. The same seed gives the same archive.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.decoding.archive.files import finish_round, start_round, write_bucket
from hushcall.decoding.archive.manifest import Address, ArchivedBucket, ArchivedRound
from hushcall.decoding.backends import ProcessBackend
from hushcall.errors import InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.kernels.compiled import kernel
from hushcall.mechanisms.kernels.shake256 import report_rows
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.protocol.numbers import NANP
from hushcall.protocol.seeds import TICKET_BYTES, bucket_seed, derive
from hushcall.protocol.wire import VERSION

CHUNK = 1 << 17
PLANTED = "planted.json"


@dataclass(frozen=True)
class _Bucket:
    """One bucket to invent, as sent to another process. Its spammers are found in ``together`` rounds together."""

    url: str
    folder: str
    number: int
    together: int
    bucket: int
    users: int
    decided_together: int
    profile: Profile
    round_seed: bytes
    first_seed: bytes  # of the first round, whose spammers call in every round
    spammers: int


def invent(
    url: str,
    reports: int,
    profile: Profile,
    spammers: int = 20,
    seed: int = 1,
    areas: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
    rounds: int = 1,
) -> tuple[ArchivedRound, list[str]]:
    """The newest round's manifest and the planted numbers, which call in every round, just often enough to be found."""
    if not profile.spec.pools:
        raise InvalidParameter(
            "mechanism", "be one that tests every number: others have no fast generator", profile.name
        )
    address, codes = Address(url), profile.spec.items.buckets(NANP)[:areas]
    share, extra = divmod(reports, len(codes))
    spam, more = divmod(spammers, len(codes))
    # Evenly spaced area codes, so that a few spammers do not share one.
    chosen = {codes[place * len(codes) // more] for place in range(more)} if more else set()
    first = derive("lab archive", seed.to_bytes(8, "big"))
    later = (derive("lab archive", seed.to_bytes(8, "big"), n.to_bytes(8, "big")) for n in range(2, rounds + 1))
    seeds = [first, *later]
    engine, together = ProcessBackend(workers), min(rounds, profile.reach)
    for number, round_seed in enumerate(seeds, 1):
        folder, written, planted = start_round(address, number), list[ArchivedBucket](), list[str]()
        jobs = [
            _Bucket(
                *(url, folder, number, together, code, share + (place < extra), len(codes), profile),
                *(round_seed, seeds[0], spam + (code in chosen)),
            )
            for place, code in enumerate(codes)
        ]
        for done, (bucket, numbers) in enumerate(engine.each(_invent_bucket, jobs), 1):
            written += [bucket] if bucket else []
            planted += numbers
            progress((number - 1) * len(jobs) + done, rounds * len(jobs))
        ran = {bucket.bucket for bucket in written}
        skipped = {job.bucket: job.users for job in jobs if job.bucket not in ran}
        times = {"opens": 0, "collects": 0, "closes": 0}
        manifest = finish_round(address, number, round_seed, NANP.name, profile.to_plain(), written, skipped, times)
    engine.close()
    address.system.pipe_file(address.path(PLANTED), json.dumps(sorted(planted)).encode())
    return manifest, sorted(planted)


def _invent_bucket(job: _Bucket) -> tuple[ArchivedBucket | None, list[str]]:
    seed = bucket_seed(job.round_seed, job.bucket)
    aggregator: Any = open_bucket(job.profile, NANP, job.users, seed, buckets=job.decided_together)
    if aggregator is None:
        return None, []
    law, rule = (
        aggregator.law(job.users * job.together),
        aggregator.strict_rule(job.profile.tau).over(range(job.together)),
    )
    holders = math.ceil(1.2 * law.detectable(rule.least(law), 0.999) / job.together)
    if holders * job.spammers > job.users:
        raise InvalidParameter("spammers", f"fit into a bucket of {job.users}: each takes {holders}", job.spammers)
    rng = _generator(bucket_seed(job.first_seed, job.bucket))
    numbers = [_number(rng, job) for _ in range(job.spammers)]
    rng = rng if job.number == 1 else _generator(seed)
    items = [job.profile.spec.items.item(number, NANP) for number in numbers]
    chunks = _chunks(rng, aggregator, job, items, holders)
    plain = parameters.to_plain(aggregator.mechanism)
    written = write_bucket(Address(job.url), job.folder, job.bucket, job.users, plain, chunks)
    return written, [str(number) for number in numbers]


def _generator(seed: bytes) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(list(seed)))


def _number(rng: np.random.Generator, job: _Bucket) -> Any:
    area = job.bucket or NANP.area_codes[int(rng.integers(len(NANP.area_codes)))]
    return NANP.number(area, int(rng.integers(NANP.first_suffix, NANP.suffixes)))


def _chunks(
    rng: np.random.Generator, aggregator: Any, job: _Bucket, spam: list[int], holders: int
) -> Iterator[ReportArrays]:
    """The bucket's reports, those about spammers first. Tickets are random, so the order does not show."""
    mechanism, response = aggregator.mechanism, aggregator.mechanism.response
    for first in range(0, job.users, CHUNK):
        count = min(CHUNK, job.users - first)
        places = rng.integers(0, aggregator.areas, count, dtype=np.uint64)
        suffixes = rng.integers(NANP.first_suffix, NANP.suffixes, count, dtype=np.uint64)
        items = places << np.uint64(aggregator.suffix_bits) | suffixes
        for place, item in enumerate(spam):
            items[max(place * holders - first, 0) : max((place + 1) * holders - first, 0)] = item
        tickets = np.frombuffer(rng.bytes(TICKET_BYTES * count), np.uint8).reshape(count, TICKET_BYTES)
        seeds = ReportArrays(tickets, tickets).seeds(job.round_seed)
        rows = report_rows(seeds, mechanism.bits, mechanism.item_bits)
        words = rng.integers(0, 1 << 64, count, dtype=np.uint64)
        values = answers(rows, items, words, np.uint64(response.keep), np.uint64(response.other))
        yield ReportArrays(tickets, _bodies(mechanism, values))


def _bodies(mechanism: Any, values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    bodies = np.empty((len(values), 2 + mechanism.body_bytes), np.uint8)
    bodies[:, 0], bodies[:, 1] = VERSION, int(mechanism.kind)
    for place in range(mechanism.body_bytes):
        bodies[:, 2 + place] = values >> np.uint32(8 * (mechanism.body_bytes - 1 - place)) & np.uint32(255)
    return bodies


@kernel()
def answers(
    rows: NDArray[np.uint64], items: NDArray[np.uint64], words: NDArray[np.uint64], keep: np.uint64, other: np.uint64
) -> NDArray[np.uint32]:
    """``linear_hash`` and ``RandomisedResponse.draw`` of many clients, each with its own matrix and word."""
    n, b = rows.shape
    out = np.empty(n, np.uint32)
    for j in range(n):
        hashed = np.uint64(0)
        for i in range(b):
            v = rows[j, i] & items[j]
            for shift in (32, 16, 8, 4, 2, 1):
                v ^= v >> np.uint64(shift)
            hashed |= (v & np.uint64(1)) << np.uint64(i)
        if words[j] >= keep:
            index = (words[j] - keep) // other
            hashed = index + np.uint64(index >= hashed)
        out[j] = hashed
    return out
