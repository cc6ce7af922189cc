"""Archived rounds and an engine come in, the numbers to list leave: ``hushcall learn`` without a server.

A round is decided as a server decides it: together with the rounds before it that its windows reach. The result does
not depend on the engine, on how many workers it has, or on the order in which they finish.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hushcall.archive.manifest import Address, ArchivedRound
from hushcall.engines.archive_evidence import evidence_of, rounds_in_window
from hushcall.engines.dask_cluster import DaskEngine
from hushcall.engines.evidence import Engine, Findings
from hushcall.engines.gpu_card import GpuEngine
from hushcall.engines.local import LocalEngine
from hushcall.errors import InvalidParameter
from hushcall.numbers import plan_named

ENGINES = ("local", "dask", "gpu")


def make_engine(name: str, scheduler: str | None = None, workers: int | None = None) -> Engine:
    """The engine of that name. ``scheduler`` is a Dask scheduler's address, ``workers`` how many processes to start."""
    if name not in ENGINES:
        raise InvalidParameter("engine", f"be one of {', '.join(ENGINES)}", name)
    if scheduler is not None and name != "dask":
        raise InvalidParameter("scheduler", "go with the engine dask", name)
    if name == "dask":
        return DaskEngine(scheduler, 2 if workers is None else workers)
    local = LocalEngine(workers)
    return GpuEngine(readers=local) if name == "gpu" else local


@dataclass(frozen=True)
class Learnt:
    """What a round gave, largest first. ``rounds`` are those of its window, oldest first; ``reports`` are its own."""

    round: int
    rounds: tuple[int, ...]
    reports: int
    listed: tuple[dict[str, Any], ...]

    def to_bytes(self) -> bytes:
        """One JSON object a line, the same for every engine."""
        return "".join(json.dumps(row, sort_keys=True) + "\n" for row in self.listed).encode()


def learn(
    address: Address,
    found: ArchivedRound,
    engine: Engine,
    progress: Callable[[int, int], None] = lambda *_: None,
    others: Sequence[ArchivedRound] = (),
) -> Learnt:
    """Decode every bucket of the round, together with those of the others that its windows reach."""
    evidence = list(evidence_of(address, found, others, engine.width))
    rows, reports = list[dict[str, Any]](), 0
    for done, findings in enumerate(engine.find(evidence), 1):
        rows += _rows(found, findings)
        reports += findings.reports if findings.key[2] == 0 else 0
        progress(done, len(evidence))
    rows.sort(key=lambda row: (-row["estimate"], row["number"]))
    window = tuple(one.round for one in reversed(rounds_in_window(found, others)))
    return Learnt(found.round, window, reports, tuple(rows))


def _rows(found: ArchivedRound, findings: Findings) -> list[dict[str, Any]]:
    items, plan, rows = found.chosen_profile.scheme.items, plan_named(found.plan), []
    for hitter in findings.hitters:
        if number := items.number(hitter.item, findings.key[1], plan):
            values = {name: float(getattr(hitter, name)) for name in ("estimate", "low", "high", "p_value")}
            rows.append({"number": str(number), "length": hitter.length, **values})
    return rows
