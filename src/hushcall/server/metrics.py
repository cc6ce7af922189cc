"""Prometheus: how many uploads, how fast, how full. Counted in each worker, added up when somebody asks.

Where there are several workers each writes what it counted to a file of its own, once a second, and whichever is asked
adds the others' to its own. A folder that is full or gone costs the others' figures, and nothing else: counting itself
touches no file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hushcall.server.repeating import Repeating

SHARED = "HUSHCALL_METRICS_FOLDER"
"""Where workers of one server leave their figures for each other."""
EVERY = 1.0
_registry = CollectorRegistry()
_me = ""

REQUESTS = Counter("hushcall_requests", "Requests by route and status.", ["route", "status"], registry=_registry)
ACCEPTED = Counter("hushcall_uploads_accepted", "Uploads stored, by kind.", ["kind"], registry=_registry)
REFUSED = Counter("hushcall_refused", "Requests refused, by problem.", ["problem"], registry=_registry)
BATCH = Histogram(
    "hushcall_commit_uploads", "Uploads in one commit.", buckets=(1, 2, 5, 10, 20, 50, 100, 200), registry=_registry
)
COMMIT = Histogram(
    "hushcall_commit_seconds",
    "Time of one commit, to disk.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
    registry=_registry,
)
Samples = list[tuple[str, list[tuple[str, str]], float]]


def observe_commit(size: int, seconds: float) -> None:
    """One commit was made: how long it took, and for how many requests."""
    BATCH.observe(size)
    COMMIT.observe(seconds)


def exposition(gauges: dict[str, tuple[str, float]]) -> bytes:
    """Everything counted so far, with a few values read from the database just now."""
    others = list(_others())
    counted: Any = CollectorRegistry()
    counted.register(_Added(others))
    fresh = CollectorRegistry()
    fresh.register(_JustRead(gauges))
    return generate_latest(counted if others else _registry) + generate_latest(fresh)


class Sharing:
    """Leaves this worker's figures in the folder that the workers share; does nothing where there is none."""

    def __init__(self, worker: str) -> None:
        self.folder, self.worker = os.environ.get(SHARED, ""), worker
        self._repeating = Repeating(self.leave, EVERY, "metrics")

    def start(self) -> None:
        """Begin, in a thread that ends with the process."""
        global _me  # noqa: PLW0603 (a process is one worker)
        if self.folder:
            _me = self.worker
            self._repeating.start()

    def stop(self) -> None:
        """Leave the last figures, and end."""
        self._repeating.stop()
        if self.folder:
            self.leave()

    def leave(self) -> None:
        """Write the file; where that fails, the next one may succeed."""
        samples: Samples = [
            (sample.name, sorted(sample.labels.items()), sample.value)
            for family in _registry.collect()
            for sample in family.samples
        ]
        place = Path(self.folder, f"{self.worker}.json")
        with suppress(OSError):
            part = place.with_suffix(".part")
            part.write_text(json.dumps(samples), encoding="utf-8")
            part.replace(place)


def _others() -> Iterator[Samples]:
    """What other workers left, those that have ended included: a counter does not go back."""
    folder = os.environ.get(SHARED, "")
    if not folder:
        return
    for path in sorted(Path(folder).glob("*.json")):
        if path.stem != _me:
            with suppress(OSError, ValueError):
                yield [
                    (name, [(k, v) for k, v in labels], value) for name, labels, value in json.loads(path.read_text())
                ]


class _Added(Collector):
    """The figures of all workers, added up: counters and histograms both are sums."""

    def __init__(self, others: list[Samples]) -> None:
        self.others: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for samples in others:
            for name, labels, value in samples:
                if not name.endswith("_created"):
                    key = name, tuple(labels)
                    self.others[key] = self.others.get(key, 0.0) + value

    def collect(self) -> Iterator[Metric]:
        """One family each, with labels that only others have met."""
        for family in _registry.collect():
            made, known = Metric(family.name, family.documentation, family.type), set()
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    key = sample.name, tuple(sorted(sample.labels.items()))
                    known.add(key)
                    made.add_sample(sample.name, sample.labels, sample.value + self.others.get(key, 0.0))
            names = {family.name + ending for ending in ("_total", "_bucket", "_sum", "_count")}
            for (name, labels), value in self.others.items():
                if name in names and (name, labels) not in known:
                    made.add_sample(name, dict(labels), value)
            yield made


class _JustRead(Collector):
    """Values of the database, of no process: a Gauge would leave one behind for every worker that was ever asked."""

    def __init__(self, gauges: dict[str, tuple[str, float]]) -> None:
        self.gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family each."""
        for name, (about, value) in self.gauges.items():
            yield GaugeMetricFamily(name, about, value=value)
