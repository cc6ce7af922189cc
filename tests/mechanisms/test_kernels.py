"""Kernels are compiled before a round needs them: a round after that compiles nothing."""

from __future__ import annotations

import subprocess
import sys

ROUNDS = """
from dataclasses import replace
from hushcall.mechanisms.kernels import compiled
from hushcall.mechanisms.kernels.warm_up import compile_kernels

def specialisations():
    return sorted(f"{one.py_func.__qualname__}{types}" for one in compiled._KERNELS for types in one.signatures)

compile_kernels()
before = specialisations()

from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.parameters import to_plain
from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.decoding.task import BucketSpec, DecodeTask
from hushcall.decoding.window import decode
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.mechanisms.profiles import DEFAULT
from hushcall.protocol.seeds import report_seed
from hushcall.protocol.seeds import TICKET_BYTES

coins, rounds, seed = seeded(b"a round that compiles nothing"), [], bytes(32)
for day in (1, 2):
    aggregator = open_bucket(DEFAULT, NANP, 400, seed, buckets=1)
    tickets = [coins(TICKET_BYTES) for _ in range(400)]
    item = aggregator.domain.start
    pairs = [(t, aggregator.mechanism.privatise(item, report_seed(seed, t), coins)) for t in tickets]
    reports = ReportArrays.of(pairs)
    reports.checksum()
    rounds.append((day, to_plain(aggregator.mechanism), aggregator.tally_arrays(seed, reports).to_bytes()))
found = decode(DecodeTask.of_sealed(BucketSpec(2, 202, 0, 1, DEFAULT, NANP, {}), rounds)).hitters
alone = aggregator.find(aggregator.from_bytes(rounds[-1][2]), DEFAULT.tau)
assert [one.item for one in found] == [one.item for one in alone] == [item], (found, alone)
assert specialisations() == before, set(specialisations()) ^ set(before)
print("nothing compiled")
"""


def test_a_default_round_calls_no_kernel_that_was_not_compiled_before() -> None:
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, check=False)
    assert done.stdout == "nothing compiled\n", done.stderr
