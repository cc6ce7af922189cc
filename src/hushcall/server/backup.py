"""Backs up a running service: database, online keys and settings in one tar archive.

The manifest comes first, and the archive is read back before it gets its name. ``VACUUM INTO`` copies SQLite: one
snapshot, without deleted pages. Its online backup would start again at every write of another process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from hushcall.atomic_file import sync_to_disk
from hushcall.errors import InvalidParameter
from hushcall.protocol.blocklist import iso
from hushcall.server import effective_settings
from hushcall.server.db.engine import DAMAGED, explained
from hushcall.server.logs import cause_of
from hushcall.server.service import Service

MANIFEST, DUMP, FILE = "manifest.json", "hushcall.dump", "hushcall.db"
FORMAT = "hushcall-backup/1"
_MEMBER = re.compile(
    rf"{re.escape(DUMP)}|{re.escape(FILE)}|{re.escape(effective_settings.FILE)}|keys/[a-z0-9-]{{1,64}}\.pem"
)


@dataclass(frozen=True)
class Manifest:
    """``made`` is when the backup began, by the service's clock. Everything up to then is in it."""

    made: int
    database: str  # DUMP or FILE
    members: dict[str, str]  # name → SHA-256

    def to_bytes(self) -> bytes:
        plain = {"format": FORMAT, "made": iso(self.made), "at": self.made, "database": self.database}
        return json.dumps({**plain, "members": self.members}, indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Manifest:
        try:
            plain = json.loads(data)
            if plain["format"] != FORMAT:
                raise InvalidParameter("backup", f"be of the format {FORMAT}", str(plain["format"]))
            manifest = cls(int(plain["at"]), str(plain["database"]), dict(plain["members"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise InvalidParameter("backup", "begin with a manifest", name) from None
        if not all(map(_MEMBER.fullmatch, manifest.members)) or manifest.database not in manifest.members:
            raise InvalidParameter("backup", "hold a database, keys and settings, and nothing else", name)
        return manifest


def back_up(service: Service, file: Path, say: Callable[[str], None] = lambda _: None) -> Manifest:
    """Writes a new file, and reads it back. The root key is never in it."""
    if file.exists():
        raise InvalidParameter("file", "not be there yet", str(file))
    started, part = service.now, file.with_name(file.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(mode=0o700, parents=True)
        say("Copying the database ...")
        store = service.store
        database = _dump(store.engine.url, part / DUMP) if store.postgres else _copy(store.engine, part / FILE)
        (part / effective_settings.FILE).write_bytes(effective_settings.document(service.settings))
        (part / "keys").mkdir()
        keys = sorted(service.settings.keys.glob("*.pem"))  # the root key is in another folder
        for key in keys:
            shutil.copy2(key, part / "keys" / key.name)
        say("Writing the backup ...")
        names = [database.name, effective_settings.FILE, *(f"keys/{key.name}" for key in keys)]
        manifest = Manifest(started, database.name, {name: _digest_of((part / name).open("rb")) for name in names})
        archive = part / "archive"
        _pack(part, manifest, archive)
        say("Reading it back ...")
        verify(archive)
        sync_to_disk(archive)
        archive.rename(file)
        sync_to_disk(file.parent)
    except OSError as error:
        raise InvalidParameter("file", f"be one that can be written ({error.strerror})", str(file)) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def _pack(part: Path, manifest: Manifest, archive: Path) -> None:
    with (
        os.fdopen(os.open(archive, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as out,
        tarfile.open(fileobj=out, mode="w") as tar,
    ):
        (part / MANIFEST).write_bytes(manifest.to_bytes())
        for name in (MANIFEST, *manifest.members):
            info = tarfile.TarInfo(name)
            info.mode, info.mtime, info.size = 0o600, manifest.made, (part / name).stat().st_size
            with (part / name).open("rb") as data:
                tar.addfile(info, data)


@contextmanager
def opened(file: Path) -> Iterator[tuple[Manifest, tarfile.TarFile]]:
    try:
        with tarfile.open(file, "r:") as tar:
            first = tar.next()
            data = tar.extractfile(first) if first is not None and first.name == MANIFEST else None
            yield Manifest.from_bytes(data.read() if data else b"", str(file)), tar
    except tarfile.TarError:
        raise InvalidParameter("backup", "be a file that 'hushcall backup' made, all of it", str(file)) from None
    except OSError as error:
        raise InvalidParameter("backup", f"be readable ({error.strerror or error})", str(file)) from None


def verify(file: Path, into: Path | None = None) -> None:
    """Compares every member with its digest, and writes it ``into`` a folder."""
    with opened(file) as (manifest, tar):
        missing = dict(manifest.members)
        for info in tar:
            if info.name == MANIFEST:
                continue
            data = tar.extractfile(info) if info.isreg() else None
            if data is None or _digest_of(data, into and into / info.name) != missing.pop(info.name, None):
                raise InvalidParameter("backup", f"be whole: {info.name} is not what was written", str(file))
        if missing:
            raise InvalidParameter("backup", f"be whole: {', '.join(missing)} missing", str(file))


def _digest_of(data: IO[bytes], copy: Path | None = None) -> str:
    """SHA-256 of a file, which is copied on the way and closed."""
    if copy is not None:
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        with data, os.fdopen(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
            shutil.copyfileobj(data, out)
            out.flush()
            os.fsync(out.fileno())
        data = copy.open("rb")
    with data:
        return hashlib.file_digest(data, "sha256").hexdigest()  # type: ignore[arg-type]


def _copy(engine: sa.Engine, file: Path) -> Path:
    with engine.connect() as connection:
        raw = connection.connection.driver_connection
        if raw is None:
            raise InvalidParameter("database", "be open", file.name)
        try:
            raw.execute("VACUUM INTO ?", (str(file),))
        except sqlite3.Error as error:
            if cause_of(error) == DAMAGED:
                raise explained(error, engine.url) from None
            raise InvalidParameter("database", f"be one that can be copied ({error})", file.name) from None
    with closing(sqlite3.connect(file)) as copied:
        if (result := copied.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            raise InvalidParameter("database", f"be whole ({result})", file.name)
    return file


def _dump(url: sa.URL, file: Path) -> Path:
    run_client("pg_dump", url, "--format=custom", f"--file={file}")
    run_client("pg_restore", None, "--list", str(file))  # it can be read
    return file


def run_client(program: str, url: sa.URL | None, *options: str) -> str:
    """The output of one of PostgreSQL's own programs. The password is never on the command line."""
    path, environment = shutil.which(program), dict(os.environ)
    if path is None:
        raise InvalidParameter(program, "be installed: it comes with PostgreSQL", "nothing of that name")
    command = [path, *options]
    if url is not None:
        plain = sa.URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
        command.append(f"--dbname={plain.render_as_string()}")
        if url.password:
            environment["PGPASSWORD"] = str(url.password)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise InvalidParameter(program, f"succeed ({lines[-1] if lines else 'no message'})", done.returncode)
    return done.stdout
