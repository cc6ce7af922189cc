"""What was acknowledged survives a power cut: only what was synced is left, as a layer below the database keeps it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService

from hushcall.server.db import schema
from hushcall.server.db.store import open_store

SERVER = """
import sys
from pathlib import Path
import sqlalchemy as sa
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import engine
from hushcall.server.ingest.ingest import Announce, Intake
from hushcall_lab.simulation.rig import filled
if sys.argv[2:]:
    make = engine._sqlite_engine
    def weak(url):
        made = make(url)
        @sa.event.listens_for(made, "connect")
        def _(connection, _):
            connection.execute(f"PRAGMA synchronous={sys.argv[2]}")
        return made
    engine._sqlite_engine = weak
with filled(f"sqlite:///{sys.argv[1]}") as service:
    number = service.rounds.open(service.now)
    tokens = [token for _, token in service.devices.enrol_many(40, service.now)]
    for place, token in enumerate(tokens):
        (answer,) = Intake(service.store, "w").accept([Announce(token_hash(token), number, 202)])
        print(answer.body["ticket"], flush=True)
        if place == 19:
            service.store.checkpoint_wal()
    sys.stdout.flush()
    import os; os._exit(0)
"""


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a C compiler and Linux are needed")
    library = tmp_path_factory.mktemp("layer") / "synced.so"
    source = Path(__file__).with_name("synced.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    return library


def after_a_cut(layer: Path, folder: Path, *weaker: str) -> tuple[set[str], set[str]]:
    """The tickets that were acknowledged, and those that are there once the power is back."""
    synced = folder / "synced"
    synced.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(layer), "SYNCED": str(synced)}
    command = [sys.executable, "-c", SERVER, str(folder / "hushcall.db"), *weaker]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    for file in synced.iterdir():
        if not (folder / file.name).exists():  # a journal that was deleted, keys of another folder
            file.unlink()
    store = open_store(f"sqlite:///{synced / 'hushcall.db'}")
    try:
        rows = store.rows(sa.select(schema.announcements.c.ticket))
    finally:
        store.close()
    return set(done.stdout.split()), {bytes(row.ticket).hex() for row in rows}


def test_nothing_acknowledged_is_lost(layer: Path, tmp_path: Path) -> None:
    acknowledged, stored = after_a_cut(layer, tmp_path)
    assert len(acknowledged) == 40
    assert stored == acknowledged


def test_a_weaker_setting_is_noticed(layer: Path, tmp_path: Path) -> None:
    acknowledged, stored = after_a_cut(layer, tmp_path, "NORMAL")
    assert acknowledged - stored, "this proof must see what a power cut takes"


def test_postgresql_syncs_before_it_answers(make_service: MakeService, postgres: object) -> None:
    store = make_service(postgres.fresh()).store  # type: ignore[attr-defined]
    for name, value in {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}.items():
        assert store.rows(sa.text(f"SHOW {name}"))[0][0] == value
