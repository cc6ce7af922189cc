"""A backup while the service runs: a database and its keys come in, a folder that appears whole leaves.

SQLite's own online copy starts anew with every write by another process, and under a few dozen uploads a second never
ends. ``VACUUM INTO`` reads one snapshot: it takes as long as the file is large, holds up no upload, and copies no page
that was deleted. On PostgreSQL ``pg_dump`` does the same.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.server.db.store import Store
from hushcall.whole_file import to_disk

DUMP, FILE, KEYS = "hushcall.dump", "hushcall.db", "keys"


def back_up(store: Store, keys: Path, folder: Path) -> Path:
    """Write ``folder``, which must not be there yet: the database, checked, and the online keys; not the root key."""
    if folder.exists():
        raise InvalidParameter("folder", "not be there yet", str(folder))
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(mode=0o700, parents=True)
        made = _dump(store, part / DUMP) if store.postgres else _copy(store, part / FILE)
        (part / KEYS).mkdir(mode=0o700)
        for key in sorted(keys.glob("*.pem")):  # the root key lies elsewhere, and is none of a backup's business
            shutil.copy2(key, part / KEYS / key.name)
        for file in (made, *(part / KEYS).iterdir()):
            file.chmod(0o600)
            to_disk(file)
        to_disk(part / KEYS)
        to_disk(part)
        part.rename(folder)
        to_disk(folder.parent)
    except OSError as error:
        raise InvalidParameter("folder", f"be one that can be written ({error.strerror})", str(folder)) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder / made.name


def _copy(store: Store, file: Path) -> Path:
    with store.engine.connect() as connection:
        raw = connection.connection.driver_connection
        if raw is None:
            raise InvalidParameter("database", "be open", file.name)
        try:
            raw.execute("VACUUM INTO ?", (str(file),))
        except sqlite3.Error as error:
            raise InvalidParameter("database", f"be one that can be copied ({error})", file.name) from None
    with closing(sqlite3.connect(file)) as copied:
        if (found := copied.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            raise InvalidParameter("database", f"be whole ({found})", file.name)
    return file


def _dump(store: Store, file: Path) -> Path:
    url = store.engine.url
    program = shutil.which("pg_dump")
    if program is None:
        raise InvalidParameter("pg_dump", "be installed: it comes with PostgreSQL", "nothing of that name")
    plain = sa.URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
    secret = {"PGPASSWORD": str(url.password)} if url.password else {}  # never on a command line
    command = [program, "--format=custom", f"--file={file}", f"--dbname={plain.render_as_string()}"]
    done = subprocess.run(command, env={**os.environ, **secret}, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise InvalidParameter("pg_dump", f"succeed ({said[-1] if said else 'it says nothing'})", done.returncode)
    return file
