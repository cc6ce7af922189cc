"""What a report costs a client: bytes on the wire, milliseconds, random bytes from the operating system."""

import statistics
from functools import partial
from typing import Any

from hushcall.mechanisms.local_hashing.client import LocalHashing
from hushcall.mechanisms.mechanism import Mechanism, report_bytes
from hushcall.mechanisms.subspace import server
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import os_entropy
from hushcall_lab.audit.examples import fair_keep
from hushcall_lab.proofs.statistics import DOMAIN
from hushcall_lab.rivals.original_histogram.client import OriginalHistogram
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram
from hushcall_lab.usage import best_of


def catalogue(epsilon: float = 4.0) -> list[Mechanism]:
    hh = 8.8
    return [
        Subspace(epsilon, server.bits_for(1000, epsilon, len(DOMAIN))),
        WholeNumber(epsilon, server.bits_for(23_188, epsilon, len(DOMAIN) * len(NANP.area_codes))),
        *(SuccinctHistogram.with_budget(kind, hh, 3.0, channels=128) for kind in ("basic", "extended")),
        SuccinctHistogram.with_budget("tuned", hh, 3.0, channels=128, keep=fair_keep(LocalHashing(hh / 2).cost)),
        OriginalHistogram(hh + 3, channels=128),
        LocalHashing(3.0),
        PrefixExtending(epsilon),
        TreeHistogram(epsilon),
    ]


def measure(times: int = 50) -> list[dict[str, Any]]:
    rows = []
    for mechanism in catalogue():
        public, item = bytes(32), min(5_550_143, (1 << mechanism.item_bits) - 1)
        make = partial(mechanism.privatise, item, public, os_entropy)
        seconds = [best_of(1, make) for _ in range(times)]
        row = {"mechanism": mechanism.name, "epsilon": float(mechanism.cost), "bytes": report_bytes(mechanism)}
        rows.append(row | {"milliseconds": 1e3 * statistics.median(seconds), "coins": mechanism.rand_size})
    return rows
