"""Speed, memory and accuracy as ratios within one run, because absolute times mean little: ``hushcall bench``."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hushcall.lab.bench import peer
from hushcall.lab.prove.statistics import DOMAIN, population, reports
from hushcall.lab.study.metrics import f1
from hushcall.lab.usage import peak_mb
from hushcall.learn import subspace_tuning, walsh
from hushcall.learn.comparators.prefix_extending import PrefixExtendingLearner
from hushcall.learn.subspace import SubspaceLearner
from hushcall.learn.succinct_histogram import SuccinctHistogramLearner
from hushcall.learn.whole_number import WholeNumberLearner
from hushcall.mechanisms import names
from hushcall.mechanisms.examples import fair_keep
from hushcall.numbers import NANP
from hushcall.privacy.coins import os_entropy, seeded
from hushcall.report.local_hashing import LocalHashing
from hushcall.report.mechanism import Mechanism, report_bytes
from hushcall.report.original_histogram import OriginalHistogram
from hushcall.report.prefix_extending import PrefixExtending
from hushcall.report.rappor import Rappor
from hushcall.report.subspace import Subspace, WholeNumber, linear_hash
from hushcall.report.succinct_histogram import SuccinctHistogram
from hushcall.report.tree_histogram import TreeHistogram

EPSILONS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
REPORTS = 20_000
Note = Callable[[str], None]


def silent(_: str) -> None:
    """A listener for progress that says nothing."""


def best_of(times: int, work: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs: the others were disturbed."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return min(took)


def transform_ratio() -> dict[str, float]:
    """One Walsh–Hadamard transform of 2²⁴ integers against one copy of its array."""
    array = np.zeros(1 << 24, dtype=np.int32)
    walsh.transform(array)  # compiled, or loaded from the cache
    copy, transform = best_of(7, array.copy), best_of(7, lambda: walsh.transform(array))
    return {"copy_seconds": copy, "transform_seconds": transform, "ratio": transform / copy}


def naive_seconds_per_number(learner: SubspaceLearner, pairs: list[tuple[bytes, bytes]]) -> float:
    """What a plain loop takes to count the support of one number."""
    chosen = learner.mechanism
    parsed = [(chosen.rows(public), chosen.parse(report)) for public, report in pairs]
    number = DOMAIN[12345]
    return best_of(3, lambda: sum(linear_hash(rows, number) == value for rows, value in parsed))


def decode(
    epsilons: Iterable[float] = EPSILONS,
    users: int = REPORTS,
    environment: Path | None = None,
    note: Note = silent,
) -> dict[str, Any]:
    """One bucket over all suffixes: reports in, heavy hitters out; against a naive loop and, if asked, pure-ldp's OLH.

    pure-ldp is measured per report over the same 10⁷ candidates and extrapolated to ``users`` reports: the whole would
    take a day.
    """
    rows = []
    for epsilon in epsilons:
        note(f"decoding at ε = {epsilon:g}")
        bits = subspace_tuning.bits_for(users, epsilon, len(DOMAIN))
        learner = SubspaceLearner(Subspace(epsilon, bits), DOMAIN)
        heavy, items = population(users, users // 10, random.Random(1))
        pairs = reports(learner.mechanism, items, "bench")
        found = learner.find(learner.tally(pairs[:100]), 10)  # compiled, or loaded from the cache
        begin = time.perf_counter()
        tally = learner.tally(pairs)
        middle = time.perf_counter()
        found = learner.find(tally, 10)
        end = time.perf_counter()
        naive = naive_seconds_per_number(learner, pairs) * len(DOMAIN)
        row = {"epsilon": epsilon, "bits": bits, "parse_seconds": middle - begin, "decode_seconds": end - middle}
        row |= {"seconds": end - begin, "found": heavy in {hitter.item for hitter in found}, "peak_mb": peak_mb()}
        rows.append(row | {"naive_seconds": naive, "times_faster_than_naive": naive / (end - begin)})
    result: dict[str, Any] = {"reports": users, "numbers": len(DOMAIN), "rows": rows, "transform": transform_ratio()}
    if environment is not None:
        note("measuring pure-ldp")
        theirs = peer.measure(
            {"task": "olh", "epsilon": 4.0, "domain": 10_000_000, "reports": 3, "seed": 1}, environment
        )
        each = float(str(theirs["seconds_per_report"]))
        result["pure_ldp"] = {
            "seconds_per_report": each,
            "extrapolated_seconds": each * users,
            "peak_mb": theirs["peak_mb"],
        }
        for row in rows:
            row["times_faster_than_pure_ldp"] = each * users / float(row["seconds"])
    return result


def catalogue(epsilon: float = 4.0) -> list[Mechanism]:
    """One of each mechanism, at parameters that a bucket of 1000 would get."""
    hh = 8.8
    return [
        Subspace(epsilon, subspace_tuning.bits_for(1000, epsilon, len(DOMAIN))),
        WholeNumber(epsilon, subspace_tuning.bits_for(23_188, epsilon, len(DOMAIN) * len(NANP.area_codes))),
        *(SuccinctHistogram.with_budget(kind, hh, 3.0, channels=128) for kind in ("basic", "extended")),
        SuccinctHistogram.with_budget("tuned", hh, 3.0, channels=128, keep=fair_keep(LocalHashing(hh / 2).cost)),
        OriginalHistogram(hh + 3, channels=128),
        LocalHashing(3.0),
        PrefixExtending(epsilon),
        TreeHistogram(epsilon),
        Rappor(epsilon),
    ]


def phones(times: int = 50) -> list[dict[str, Any]]:
    """What a report costs the phone: bytes on the wire, milliseconds, coins; OS entropy, pure Python."""
    rows = []
    for mechanism in catalogue():
        public, item = bytes(32), min(5_550_143, (1 << mechanism.item_bits) - 1)
        make = partial(mechanism.privatise, item, public, os_entropy)
        seconds = [best_of(1, make) for _ in range(times)]
        row = {"mechanism": mechanism.name, "epsilon": float(mechanism.cost), "bytes": report_bytes(mechanism)}
        rows.append(row | {"milliseconds": 1e3 * statistics.median(seconds), "coins": mechanism.coin_bytes})
    return rows


def tallying(users: int = 2000, channels: int = 128) -> dict[str, float]:
    """Channel symbols that the server tallies a second on one core, T = 2."""
    mechanism = SuccinctHistogram.with_budget("extended", 8.8, 3.0, channels=channels)
    learner = SuccinctHistogramLearner(mechanism, DOMAIN)
    pairs = reports(mechanism, population(users, users // 10, random.Random(1))[1], "tally")
    seconds = best_of(3, lambda: learner.tally(pairs))
    naive = best_of(1, lambda: [mechanism.parse(report) for _, report in pairs[:50]]) * users / 50
    symbols = users * mechanism.total_channels
    return {"symbols": symbols, "symbols_per_second": symbols / seconds, "times_faster_than_parsing": naive / seconds}


def whole_number(users: int = 23_188, epsilon: float = 8.0, note: Note = silent) -> dict[str, Any]:
    """A whole round with nothing in the clear, over all area codes."""
    areas = len(NANP.area_codes)
    bits = subspace_tuning.bits_for(users, epsilon, len(DOMAIN) * areas)
    learner = WholeNumberLearner(WholeNumber(epsilon, bits), DOMAIN, areas)
    holders = subspace_tuning.detectable(users, epsilon, bits, len(DOMAIN) * areas)
    heavy, items = population(users, 2 * holders, random.Random(2), item_bits=33)
    pairs = reports(learner.mechanism, items, "whole")
    begin = time.perf_counter()

    def watch(done: int, total: int) -> None:
        if done % 10 == 0:
            note(f"area code {done} of {total}")

    found = learner.find(learner.tally(pairs), 10, watch)
    seconds = time.perf_counter() - begin
    row = {"reports": users, "epsilon": epsilon, "bits": bits, "area_codes": areas, "seconds": seconds}
    hits = {hitter.item for hitter in found}
    return row | {"peak_mb": peak_mb(), "planted_found": heavy in hits, "wrongly_found": len(hits - {heavy})}


def rivals(
    epsilons: Iterable[float] = (2.0, 4.0, 8.0, 12.0),
    seeds: Iterable[int] = (1, 2, 3),
    bits: int = 24,
    environment: Path | None = None,
    note: Note = silent,
) -> list[dict[str, Any]]:
    """F1 on the planted data (20 000 phones, ten numbers with 200 … 1500): pure-ldp's PEM, our PEM, subspace.

    Both PEMs are told k = 10; subspace is told nothing and holds its family-wise error at the library's 10⁻³. Beside
    it, for a like comparison, subspace told k: simply its ten best.
    """
    domain = DOMAIN if bits == 24 else range(1 << bits)
    rows = []
    for epsilon in epsilons:
        scores: dict[str, list[float]] = {names.PEM: [], names.SUBSPACE: [], "subspace_told_k": []}
        wrong = {names.PEM: 0, names.SUBSPACE: 0}
        for seed in seeds:
            note(f"{bits} bits, ε = {epsilon:g}, seed {seed}")
            items, truth = peer.planted(seed, bits)
            chosen = Subspace(epsilon, subspace_tuning.bits_for(len(items), epsilon, len(domain)), bits)
            learners: dict[str, Any] = {
                names.PEM: PrefixExtendingLearner(PrefixExtending(epsilon, item_bits=bits), domain),
                names.SUBSPACE: SubspaceLearner(chosen, domain),
            }
            for name, learner in learners.items():
                tally = learner.tally(reports(learner.mechanism, items, f"{name} {epsilon} {seed}"))
                found = {hitter.item for hitter in learner.find(tally, 0.0)}
                scores[name].append(f1(found, set(truth)))
                wrong[name] += len(found - set(truth))
                if name == names.SUBSPACE:
                    counts = learner.support(tally)[domain.start : domain.stop]
                    ten = {domain[int(place)] for place in np.argsort(-counts, kind="stable")[:10]}
                    scores["subspace_told_k"].append(f1(ten, set(truth)))
            if environment is not None:
                task = {"task": names.PEM, "epsilon": epsilon, "items": items, "bits": bits, "k": 10, "seed": seed}
                theirs = peer.measure(task, environment)["found"]
                assert isinstance(theirs, list)
                scores.setdefault("pure_ldp", []).append(f1(set(theirs), set(truth)))
        row = {"epsilon": epsilon, "bits": bits} | {name: statistics.mean(values) for name, values in scores.items()}
        rows.append(row | {"subspace_wrong": wrong[names.SUBSPACE]})
    return rows


def warm_up() -> None:
    """Compile every kernel once, so that no timing includes it."""
    learner = SubspaceLearner(Subspace(4.0, 5), DOMAIN)
    coins = seeded(b"warm")
    learner.find(learner.tally([(bytes(32), learner.mechanism.privatise(5_550_143, bytes(32), coins))]), 0)
