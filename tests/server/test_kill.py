"""``kill -9`` at every boundary of every transaction of a round: after a restart nothing is lost and nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.postgres import Postgres

ROOT = Path(__file__).parents[2]
Play = Callable[..., dict[str, Any]]


@pytest.fixture
def play() -> Iterator[Play]:
    """Runs cases in processes of their own that can be killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("killed_round.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdin
    assert process.stdout

    def case(folder: Path, url: str, **values: Any) -> dict[str, Any]:
        print(json.dumps({"folder": str(folder), "url": url, **values}), file=process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(process.stdout.readline())  # type: ignore[union-attr]
        return answer

    yield case
    process.stdin.close()
    assert process.wait(timeout=120) == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"])
def test_killed_at_a_boundary_it_resumes_to_the_same_end(
    play: Play, kind: str, step: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: Postgres | None = request.getfixturevalue("postgres") if kind == "postgresql" else None
    start = tmp_path / "start"
    start.mkdir()
    template = server.fresh() if server else ""
    assert play(start, template, prepare=True)["status"] == 0

    def copy(name: str) -> tuple[Path, str]:
        shutil.copytree(start, tmp_path / name)
        return tmp_path / name, server.fresh(template) if server else ""

    def drop(folder: Path, url: str) -> None:
        shutil.rmtree(folder)
        if server:
            server.drop(url)

    whole = copy("whole")
    unharmed = play(*whole)
    assert unharmed["status"] == 0
    boundaries = unharmed["passed"]
    assert len(boundaries) >= 30
    for wanted in ("open round", "intake", "announcing to collecting", "collecting to closed", "seal bucket 202"):
        assert f"{wanted}: before commit" in boundaries
        assert f"{wanted}: after commit" in boundaries
    assert {"closed to decoded: before commit", "decoded to published: after commit"} <= set(boundaries)
    drop(*whole)
    places = list(range(len(boundaries)))
    if server or step > 1:  # a copy of a database takes a second there: each kind of boundary once
        places = [place for place in places if boundaries[place] not in boundaries[:place]]
    assert len(places) >= 20
    for place in places[step - 1 :: step]:
        name = boundaries[place]
        place_of_death = copy(f"killed-{place}")
        assert play(*place_of_death, die_at=place)["killed"], name
        again = play(*place_of_death)
        assert again["status"] == 0, name
        assert again["digest"] == unharmed["digest"], name
        drop(*place_of_death)
