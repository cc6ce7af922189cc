"""Prometheus: how many uploads, how fast, how full. Counted in each worker, added up when somebody asks."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

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
    """One commit was made."""
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
    for name, (about, value) in gauges.items():
        Gauge(name, about, registry=fresh).set(value)
    return generate_latest(counted) + generate_latest(fresh)
