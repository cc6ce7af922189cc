"""A server and ``hushcall learn`` find the same in a round, estimates included, whatever decodes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.decoding.card_of_numpy import CardOfNumpy
from tests.server.serving import SPAM, Clock, Village, settings_for, shared_rand

from hushcall.decoding import gpu_backend
from hushcall.decoding.archive.learn import learn
from hushcall.decoding.archive.manifest import Address
from hushcall.decoding.backends import DaskBackend, ProcessBackend
from hushcall.decoding.gpu_backend import GpuBackend
from hushcall.decoding.task import Backend
from hushcall.errors import HushcallError
from hushcall.protocol.states import CLOSED, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.rounds import archiving
from hushcall.server.service import Service, open_service

OTHER, LATE = "+13035550100", "+14045550111"
ROUNDS = 3
Row = tuple[Any, ...]
COLUMNS = ("number", "length", "estimate", "low", "high", "p_value")


def decided(folder: Path, **decoding: Any) -> Service:
    """A server that has decided three rounds, with evidence over two of them."""
    clock = Clock()
    settings = settings_for(folder, round={"windows": [1, 2], "keep_reports": True, **decoding})
    service = open_service(settings, shared_rand("same findings"), clock)
    village = Village(service, clock)
    for _ in range(ROUNDS):
        village.to(PUBLISHED, [SPAM] * 12 + [OTHER] * 9 + [LATE] * 5)
    return service


def rows(service: Service) -> list[tuple[int, list[Row]]]:
    """What each round found, by number."""
    table = schema.hitters.c
    columns = [table[name] for name in COLUMNS]
    return [
        (number, [tuple(row) for row in service.store.rows(query)])
        for number in range(1, ROUNDS + 1)
        for query in [sa.select(*columns).where(table.round == number).order_by(table.number)]
    ]


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the arrays that were made on the card's double."""
    sizes = list[int]()

    def made(bits: int) -> CardOfNumpy:
        sizes.append(bits)
        return CardOfNumpy(bits)

    monkeypatch.setattr(gpu_backend, "Spectrum", made)
    return sizes


def test_a_server_with_a_card_finds_what_one_without_does(tmp_path: Path, card: list[int]) -> None:
    here = decided(tmp_path / "here")
    assert not card
    there = decided(tmp_path / "card", gpu=True)
    assert max(card) >= 24, "the card was asked"
    assert rows(there) == rows(here)
    assert {SPAM, OTHER} <= {row[0] for _, found in rows(here) for row in found}
    here.close()
    there.close()


@pytest.mark.slow
def test_processes_may_read_for_the_card(tmp_path: Path, card: list[int]) -> None:
    here, there = decided(tmp_path / "here"), decided(tmp_path / "card", gpu=True, decoders=2)
    assert max(card) >= 24
    assert rows(there) == rows(here)
    here.close()
    there.close()


def test_a_card_that_is_not_there_costs_time_only(tmp_path: Path) -> None:
    clock = Clock()
    service = open_service(settings_for(tmp_path, round={"gpu": True}), shared_rand("no card"), clock)
    number = Village(service, clock).to(CLOSED, [SPAM] * 12)
    with pytest.raises(HushcallError, match=r"hushcall\[gpu\]|no card answers"):
        service.rounds.advance(service.now)
    service.settings = service.rounds.settings = settings_for(tmp_path)  # the operator gives up on it
    assert service.rounds.advance(service.now)[-1] == f"round {number} is published"
    service.close()


BACKENDS: dict[str, Callable[[], Backend]] = {
    "here": partial(ProcessBackend, 0),
    "card": partial(GpuBackend, CardOfNumpy),
    "processes": partial(ProcessBackend, 2),
    "cluster": partial(DaskBackend, workers=1),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("processes", "cluster"))) for name in BACKENDS]
)
def test_learn_finds_in_exported_rounds_what_the_server_did(tmp_path: Path, name: str) -> None:
    service, address = decided(tmp_path / "server"), Address(str(tmp_path / "archive"))
    for number in range(1, ROUNDS + 1):
        archiving.export_round(service.store, number, address, lambda *_: None)
    backend, archive = BACKENDS[name](), address.rounds()
    for archived, (number, found) in zip(archive, rows(service), strict=True):
        learnt = learn(address, archived, backend, archive=archive)
        assert learnt.round == number
        assert sorted(tuple(row[column] for column in COLUMNS) for row in learnt.listed) == found
    assert any(row[2] == row[4] for _, found in rows(service) for row in found), "an estimate was clamped"
    backend.close()
    service.close()
