"""Decodes one bucket over all suffixes, beside a naive loop and beside a copy of the transformed array."""

import random
import time
from typing import Any

import numpy as np

from hushcall.mechanisms.kernels import walsh
from hushcall.mechanisms.subspace.client import Subspace, linear_hash
from hushcall.mechanisms.subspace.server import SubspaceAggregator, bits_for
from hushcall_lab.proofs.statistics import DOMAIN, population, reports
from hushcall_lab.usage import Note, best_of, peak_mb, silent

EPSILONS = (2.0, 4.0, 8.0)


def measure(users: int, note: Note = silent) -> dict[str, Any]:
    rows = []
    for epsilon in EPSILONS:
        note(f"decoding at ε = {epsilon:g}")
        aggregator = SubspaceAggregator(Subspace(epsilon, bits_for(users, epsilon, len(DOMAIN))), DOMAIN)
        heavy, items = population(users, users // 10, random.Random(1))
        pairs = reports(aggregator.mechanism, items, "bench")
        aggregator.find(aggregator.tally(pairs[:100]), 10)  # compiled, or loaded from the cache
        began = time.perf_counter()
        hitters = aggregator.find(aggregator.tally(pairs), 10)
        seconds = time.perf_counter() - began
        naive = _naive_seconds(aggregator, pairs) * len(DOMAIN)
        row = {"epsilon": epsilon, "bits": aggregator.mechanism.bits, "seconds": seconds, "peak_mb": peak_mb()}
        rows.append(row | {"found": heavy in {hit.item for hit in hitters}, "times_naive": naive / seconds})
    return {"reports": users, "numbers": len(DOMAIN), "rows": rows, "transform_copies": _transform_ratio()}


def _naive_seconds(aggregator: SubspaceAggregator, pairs: list[tuple[bytes, bytes]]) -> float:
    """Of a plain loop that counts the support of one number."""
    mechanism = aggregator.mechanism
    parsed = [(mechanism.rows(public), mechanism.parse(report)) for public, report in pairs]
    return best_of(3, lambda: sum(linear_hash(rows, DOMAIN[12345]) == value for rows, value in parsed))


def _transform_ratio() -> float:
    array = np.zeros(1 << 24, dtype=np.int32)
    walsh.transform(array)  # compiled, or loaded from the cache
    return best_of(7, lambda: walsh.transform(array)) / best_of(7, array.copy)
