"""Prometheus metrics of uploads and requests.

Each of several workers writes its samples to a file once a second. The one that is scraped adds those of the others. A
full or missing folder only hides these.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

from hushcall.server.repeating import Repeating

SHARED = "HUSHCALL_METRICS_FOLDER"
"""The folder where workers of one server share their samples."""
SHARE_SECONDS = 1.0
_registry = CollectorRegistry()
_own_worker = ""

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
    BATCH.observe(size)
    COMMIT.observe(seconds)


def exposition(gauges: dict[str, tuple[str, float]]) -> bytes:
    """All metrics, with gauges that were just read from the database: name → (description, value)."""
    shared = list(_shared())
    fresh = CollectorRegistry()
    for name, (description, value) in gauges.items():
        Gauge(name, description, registry=fresh).set(value)
    return generate_latest(_Summed(shared) if shared else _registry) + generate_latest(fresh)


class Sharing(Repeating):
    """Writes this worker's samples into the shared folder, if there is one."""

    def __init__(self, worker: str) -> None:
        self.folder, self.worker = os.environ.get(SHARED, ""), worker
        super().__init__(self.write, SHARE_SECONDS, "metrics")

    def start(self) -> None:
        global _own_worker  # noqa: PLW0603 (a process is one worker)
        if self.folder:
            _own_worker = self.worker
            super().start()

    def stop(self) -> None:
        super().stop()
        if self.folder:
            self.write()

    def write(self) -> None:
        samples = [sample for family in _registry.collect() for sample in _samples(family)]
        place = Path(self.folder, f"{self.worker}.json")
        with suppress(OSError):
            part = place.with_suffix(".part")
            part.write_text(json.dumps(samples), encoding="utf-8")
            part.replace(place)


def _samples(family: Metric) -> Samples:
    return [(sample.name, sorted(sample.labels.items()), sample.value) for sample in family.samples]


def _shared() -> Iterator[Samples]:
    """Samples of other workers. Those that have ended count too, because a counter never decreases."""
    folder = os.environ.get(SHARED, "")
    if not folder:
        return
    for path in sorted(Path(folder).glob("*.json")):
        if path.stem != _own_worker:
            with suppress(OSError, ValueError):
                samples = json.loads(path.read_text())
                yield [(name, [(key, text) for key, text in labels], value) for name, labels, value in samples]


class _Summed(CollectorRegistry):
    def __init__(self, shared: list[Samples]) -> None:
        super().__init__()
        self.shared = shared

    def collect(self) -> Iterator[Metric]:
        for family in _registry.collect():
            names = {family.name + ending for ending in ("_total", "_bucket", "_sum", "_count")}
            sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
            for name, labels, value in chain(_samples(family), *self.shared):
                if name in names:
                    key = name, tuple(labels)
                    sums[key] = sums.get(key, 0.0) + value
            metric = Metric(family.name, family.documentation, family.type)
            for (name, key_labels), value in sums.items():
                metric.add_sample(name, dict(key_labels), value)
            yield metric
