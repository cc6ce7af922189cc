"""A server whose rounds are decoded by a Dask cluster: the same findings as by itself, words if it is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.serving import SPAM, Clock, Village, settings_for, shared_rand

from hushcall.decoding.backends import DaskBackend
from hushcall.errors import Unreachable
from hushcall.protocol.states import CLOSED, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.service import open_service

OTHER = "+13035550100"


def found(folder: Path, dask: str) -> list[tuple[object, ...]]:
    """What three rounds list, evidence over several of them included."""
    clock = Clock()
    settings = settings_for(folder, round={"dask": dask, "windows": [1, 2]})
    service = open_service(settings, shared_rand("cluster"), clock)
    village = Village(service, clock)
    for _ in range(3):
        village.to(PUBLISHED, [SPAM] * 12 + [OTHER] * 9)
    rows = [tuple(row) for row in service.store.rows(sa.select(schema.hitters).order_by(*schema.hitters.c))]
    service.close()
    return rows


@pytest.mark.slow
def test_a_cluster_decodes_the_same_rows(tmp_path: Path) -> None:
    engine = DaskBackend(workers=1)
    try:
        address = engine.client.scheduler_info(n_workers=0)["address"]
        rows = found(tmp_path / "cluster", address)
    finally:
        engine.close()
    assert rows == found(tmp_path / "here", "")
    assert {SPAM, OTHER} <= {value for row in rows for value in row}


def test_a_scheduler_that_does_not_answer_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: object, address: str) -> None:
        raise Unreachable(f"no Dask scheduler answers at {address}")

    clock = Clock()
    service = open_service(settings_for(tmp_path, round={"dask": "tcp://127.0.0.1:9"}), shared_rand("nobody"), clock)
    village = Village(service, clock)
    number = village.to(CLOSED, [SPAM] * 12)
    with monkeypatch.context() as patched:
        patched.setattr(DaskBackend, "__init__", nobody)
        with pytest.raises(Unreachable, match="no Dask scheduler answers"):
            service.rounds.learn(number)
    service.settings = service.rounds.settings = settings_for(tmp_path)  # the operator gives up on it
    assert service.rounds.advance(service.now)[-1] == f"round {number} is published"
    service.close()
