"""A database of an earlier release opens, its rounds go on from where they were, and its list is published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from tests.kept import unpacked
from tests.server.serving import SPAM, Clock, Village, newest, settings_for

from hushcall.protocol.randomness import seeded
from hushcall.protocol.states import ANNOUNCING, HELD, PUBLISHED
from hushcall.server.db.rows import existing_round
from hushcall.server.db.store import open_store
from hushcall.server.problems import Problem
from hushcall.server.publishing import exclusions
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import holding
from hushcall.server.service import Service, open_service

OLD = Path(__file__).parent / "old" / "data.tar.xz"
OTHER, THIRD = "+13035550100", "+12025550199"
CALLERS = [SPAM] * 40 + [OTHER] * 20 + [THIRD] * 20


@pytest.fixture
def known(tmp_path: Path) -> dict[str, Any]:
    return unpacked(OLD, tmp_path)


@pytest.fixture
def old(tmp_path: Path, known: dict[str, Any]) -> Iterator[Service]:
    service = open_service(settings_for(tmp_path), seeded(b"today"), Clock(known["now"]))
    yield service
    service.close()


def listed(service: Service) -> set[str]:
    with service.store.read() as connection:
        made = newest_list(connection)
    assert made is not None
    return {entry.number for entry in made.entries}


def test_it_opens_with_everything_in_it(old: Service, known: dict[str, Any]) -> None:
    with old.store.read() as connection:
        states = [existing_round(connection, round_id).state for round_id in (1, 2, 3, 4)]
    assert states == [PUBLISHED, PUBLISHED, HELD, ANNOUNCING]
    assert listed(old) == {SPAM, OTHER}
    assert [(row.number, row.closed) for row in exclusions.appeals(old.store)] == [(THIRD, None)]
    assert old.devices.admin(known["admin"]).note == "first"
    assert old.devices.enrol("invite", old.now, invite=known["invite"])[0] > 0


def test_its_rounds_go_on_and_publish(old: Service, known: dict[str, Any]) -> None:
    clock = Clock(known["now"])
    old.clock = clock
    village = Village(old, clock, seeded(b"phones of today"), known["tokens"])
    holding.release(old.store, 3)
    assert old.rounds.advance(old.now) == ["round 3 is decoded", "round 3 is published"]
    assert listed(old) == {SPAM, OTHER}
    answers = village.announce(CALLERS)
    assert sum(isinstance(answer, Problem) for answer in answers) == 1  # one of its devices was revoked
    row = newest(old)
    village.tokens = [
        token for token, answer in zip(village.tokens, answers, strict=True) if not isinstance(answer, Problem)
    ]
    clock.now = row.collects
    old.rounds.advance(old.now)
    callers = [caller for caller, answer in zip(CALLERS, answers, strict=True) if not isinstance(answer, Problem)]
    assert all(getattr(answer, "status", 0) == 201 for answer in village.report(callers))
    clock.now = row.closes
    assert old.rounds.advance(old.now)[-1] == "round 4 is published"
    assert old.corrections.close(1, "it was no school", old.now)
    assert listed(old) == {SPAM, OTHER, THIRD}


def test_a_database_that_is_up_to_date_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    open_store(url).engine.dispose()
    monkeypatch.setattr(command, "upgrade", lambda *_: pytest.fail("migrated again"))
    open_store(url).engine.dispose()
