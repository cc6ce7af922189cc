"""Prometheus: how many uploads, how fast, how full. Counted in each worker, added up when somebody asks."""

from __future__ import annotations

import os
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_SHARED = "PROMETHEUS_MULTIPROC_DIR"
_registry = CollectorRegistry()

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


def observe_commit(size: int, seconds: float) -> None:
    """One commit was made: how long it took, and for how many requests."""
    BATCH.observe(size)
    COMMIT.observe(seconds)


def exposition(gauges: dict[str, tuple[str, float]]) -> bytes:
    """Everything counted so far, with a few values read from the database just now."""
    if os.environ.get(_SHARED):
        counted = CollectorRegistry()
        multiprocess.MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
    else:
        counted = _registry
    fresh = CollectorRegistry()
    fresh.register(_JustRead(gauges))
    return generate_latest(counted) + generate_latest(fresh)


class _JustRead(Collector):
    """Values of the database, of no process: a Gauge would leave one behind for every worker that was ever asked."""

    def __init__(self, gauges: dict[str, tuple[str, float]]) -> None:
        self.gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family each."""
        for name, (about, value) in self.gauges.items():
            yield GaugeMetricFamily(name, about, value=value)
