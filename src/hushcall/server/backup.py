"""A backup while the service runs: a database, keys and settings come in, one file that appears whole leaves.

SQLite's own online copy starts anew with every write by another process, and under a few dozen uploads a second never
ends. ``VACUUM INTO`` reads one snapshot: it takes as long as the file is large, holds up no upload, and copies no page
that was deleted. On PostgreSQL ``pg_dump`` does the same. The file is a plain tar archive: a manifest with the digest
of every member comes first, and the file is read back by it before it appears.
"""

from __future__ import annotations

import hashlib
import io
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
from typing import IO, Any

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.protocol.blocklist import iso
from hushcall.server import in_force
from hushcall.server.db.trouble import DAMAGED, told
from hushcall.server.logs import cause_of
from hushcall.server.service import Service
from hushcall.whole_file import to_disk

MANIFEST, DUMP, FILE = "manifest.json", "hushcall.dump", "hushcall.db"
FORMAT = "hushcall-backup/1"
_MEMBER = re.compile(rf"{re.escape(DUMP)}|{re.escape(FILE)}|{re.escape(in_force.FILE)}|keys/[a-z0-9-]{{1,64}}\.pem")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """What a backup says of itself. ``made`` is when the service's clock began it: everything up to then is in it."""

    made: int
    database: str  # DUMP or FILE
    members: dict[str, str]  # name → SHA-256

    def to_bytes(self) -> bytes:
        """As it lies in the archive."""
        plain = {"format": FORMAT, "made": iso(self.made), "at": self.made, "database": self.database}
        return json.dumps({**plain, "members": self.members}, indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Manifest:
        """Read it back; what is none of ours, or of another release, is an error that says so."""
        try:
            plain = json.loads(data)
            if plain["format"] != FORMAT:
                raise InvalidParameter("backup", f"be of the format {FORMAT}", str(plain["format"]))
            found = cls(int(plain["at"]), str(plain["database"]), dict(plain["members"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise InvalidParameter("backup", "begin with a manifest", name) from None
        if not all(_MEMBER.fullmatch(one) for one in found.members) or found.database not in found.members:
            raise InvalidParameter("backup", "hold a database, keys and settings, and nothing else", name)
        return found


def back_up(service: Service, file: Path, say: Callable[[str], None] = lambda _: None) -> Manifest:
    """Write ``file``, which must not be there yet: database, online keys, settings; read back. Never the root key."""
    if file.exists():
        raise InvalidParameter("file", "not be there yet", str(file))
    made, part = service.now, file.with_name(file.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(mode=0o700, parents=True)
        say("Copying the database ...")
        store = service.store
        database = _dump(store.engine.url, part / DUMP) if store.postgres else _copy(store.engine, part / FILE)
        (part / in_force.FILE).write_bytes(in_force.document(service.settings))
        (part / "keys").mkdir()
        for key in sorted(service.settings.keys.glob("*.pem")):  # the root key lies elsewhere, and is none of ours
            shutil.copy2(key, part / "keys" / key.name)
        say("Writing the backup ...")
        names = [database.name, in_force.FILE, *(f"keys/{key.name}" for key in sorted((part / "keys").iterdir()))]
        manifest = Manifest(made, database.name, {name: _digest_of((part / name).open("rb")) for name in names})
        _pack(part, manifest, part / "whole")
        say("Reading it back ...")
        for _ in members(part / "whole"):  # each is compared with its digest
            pass
        to_disk(part / "whole")
        (part / "whole").rename(file)
        to_disk(file.parent)
    except OSError as error:
        raise InvalidParameter("file", f"be one that can be written ({error.strerror})", str(file)) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def _pack(part: Path, manifest: Manifest, whole: Path) -> None:
    with (
        os.fdopen(os.open(whole, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as out,
        tarfile.open(fileobj=out, mode="w") as tar,
    ):
        for name in (MANIFEST, *manifest.members):
            info = tarfile.TarInfo(name)
            info.mode, info.mtime = 0o600, manifest.made
            if name == MANIFEST:
                info.size = len(manifest.to_bytes())
                tar.addfile(info, io.BytesIO(manifest.to_bytes()))
            else:
                info.size = (part / name).stat().st_size
                with (part / name).open("rb") as data:
                    tar.addfile(info, data)


@contextmanager
def opened(file: Path) -> Iterator[tuple[Manifest, tarfile.TarFile]]:
    """A backup's manifest and archive; what is no backup is an error that says so."""
    try:
        with tarfile.open(file, "r:") as tar:
            first = tar.next()
            data = tar.extractfile(first) if first is not None and first.name == MANIFEST else None
            yield Manifest.from_bytes(data.read() if data else b"", str(file)), tar
    except tarfile.TarError:
        raise InvalidParameter("backup", "be a file that 'hushcall backup' made, all of it", str(file)) from None
    except OSError as error:
        raise InvalidParameter("backup", f"be readable ({error.strerror or error})", str(file)) from None


def members(file: Path, into: Path | None = None) -> Iterator[str]:
    """Read every member and compare it with its digest, writing it ``into`` a folder where one is given."""
    with opened(file) as (manifest, tar):
        left = dict(manifest.members)
        for info in tar:
            if info.name == MANIFEST:
                continue
            data = tar.extractfile(info) if info.isreg() else None
            if data is None or _digest_of(data, into and into / info.name) != left.pop(info.name, None):
                raise InvalidParameter("backup", f"be whole: {info.name} is not what was written", str(file))
            yield info.name
        if left:
            raise InvalidParameter("backup", f"be whole: {', '.join(left)} missing", str(file))


def _digest_of(data: IO[bytes], copy: Path | None = None) -> str:
    """SHA-256 of a file, which is copied on the way and closed."""
    digest = hashlib.sha256()
    with data:
        if copy is None:
            while chunk := data.read(_CHUNK):
                digest.update(chunk)
            return digest.hexdigest()
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
            while chunk := data.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
    return digest.hexdigest()


def _copy(engine: sa.Engine, file: Path) -> Path:
    with engine.connect() as connection:
        raw = connection.connection.driver_connection
        if raw is None:
            raise InvalidParameter("database", "be open", file.name)
        try:
            raw.execute("VACUUM INTO ?", (str(file),))
        except sqlite3.Error as error:
            if cause_of(error) == DAMAGED:
                raise told(error, engine.url) from None
            raise InvalidParameter("database", f"be one that can be copied ({error})", file.name) from None
    with closing(sqlite3.connect(file)) as copied:
        if (found := copied.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            raise InvalidParameter("database", f"be whole ({found})", file.name)
    return file


def _dump(url: sa.URL, file: Path) -> Path:
    run_client("pg_dump", url, "--format=custom", f"--file={file}")
    run_client("pg_restore", None, "--list", str(file))  # it can be read
    return file


def run_client(program: str, url: sa.URL | None, *options: str) -> None:
    """Run one of PostgreSQL's own programs, on a database; its password is never on a command line."""
    found, environment = shutil.which(program), dict[str, Any](os.environ)
    if found is None:
        raise InvalidParameter(program, "be installed: it comes with PostgreSQL", "nothing of that name")
    command = [found, *options]
    if url is not None:
        plain = sa.URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
        command.append(f"--dbname={plain.render_as_string()}")
        if url.password:
            environment["PGPASSWORD"] = str(url.password)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise InvalidParameter(program, f"succeed ({said[-1] if said else 'it says nothing'})", done.returncode)
