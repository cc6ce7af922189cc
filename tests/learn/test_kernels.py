"""Kernels are compiled before a round needs them: a round after that compiles nothing."""

from __future__ import annotations

import subprocess
import sys

ROUNDS = """
from dataclasses import replace
from hushcall.learn import compiled
from hushcall.learn.kernels import compile_kernels

compile_kernels()
before = compiled.specialisations()

from hushcall.learn.bucket_setup import open_bucket
from hushcall.learn.feed.report_arrays import ReportArrays
from hushcall.learn.window import Sealed, scan
from hushcall.numbers import NANP
from hushcall.privacy.coins import seeded
from hushcall.profiles import DEFAULT
from hushcall.protocol.seeds import report_seed
from hushcall.protocol.tickets import TICKET_BYTES

coins, rounds, seed = seeded(b"a round that compiles nothing"), [], bytes(32)
for day in (1, 2):
    learner = open_bucket(DEFAULT, NANP, 400, seed, buckets=1)
    tickets = [coins(TICKET_BYTES) for _ in range(400)]
    item = learner.domain.start
    pairs = [(t, learner.mechanism.privatise(item, report_seed(seed, t), coins)) for t in tickets]
    reports = ReportArrays.of(pairs)
    reports.checksum()
    rounds.append(Sealed(day, learner.mechanism, learner.tally_arrays(seed, reports).to_bytes()))
found = scan(DEFAULT, NANP, rounds, 2)
alone = learner.find(learner.from_bytes(rounds[-1].data), DEFAULT.tau)
assert [one.item for one in found] == [one.item for one in alone] == [item], (found, alone)
assert compiled.specialisations() == before, set(compiled.specialisations()) ^ set(before)
print("nothing compiled")
"""


def test_a_default_round_calls_no_kernel_that_was_not_compiled_before() -> None:
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, check=False)
    assert done.stdout == "nothing compiled\n", done.stderr
