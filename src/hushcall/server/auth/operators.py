"""Operators: their sessions in a browser, and the audit log of what they did."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.protocol.randomness import ByteSource, read
from hushcall.server.auth.devices import Admin, admin_row
from hushcall.server.auth.devices import token_hash as hash_of
from hushcall.server.db import schema
from hushcall.server.db.rows import AuditRow, typed
from hushcall.server.db.store import Store
from hushcall.server.logs import log
from hushcall.server.signing import keys

COOKIE = "hushcall_session"
SESSION_SECONDS = 12 * 3600
_SEED_BYTES = 16
_SHAPE = re.compile(r"([1-9][0-9]{0,18})\.([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)
COMMAND_LINE = 0
"""The operator id of the command line."""
ASKED, DONE, REFUSED = "asked", "done", "refused"


@dataclass(frozen=True)
class Session:
    """A session of an operator. ``csrf`` is in every form: only forms of this session know it."""

    admin: Admin
    expires: int
    csrf: str

    def may(self, scope: str) -> bool:
        return scope in self.admin.scopes

    def owns(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.csrf.encode())


@dataclass(frozen=True)
class Sessions:
    """Opens and reads sessions. ``secret`` is called each time, so a rotated key needs no restart.

    A cookie holds the operator, its end and a random seed under an HMAC. No database holds its key. The operator's row
    is read every time, so revoking a token ends its sessions at once.
    """

    store: Store
    secret: Callable[[], bytes]

    def open(self, admin: Admin, now: int, rand: ByteSource) -> str:
        admin.need("read")
        start = f"{admin.id}.{now + SESSION_SECONDS}.{read(rand, _SEED_BYTES).hex()}"
        return f"{start}.{self._mac('session', start, admin.token_hash)}"

    def read(self, cookie: str, now: int) -> Session | None:
        """The session of a cookie. None if it is forged, over or ended, or its operator's token was revoked."""
        match = _SHAPE.fullmatch(cookie)
        if match is None or int(match[2]) <= now:
            return None
        row = admin_row(self.store, schema.admins.c.id == min(int(match[1]), (1 << 63) - 1))
        if row is None or row.revoked is not None:
            return None
        start, admin = cookie.rpartition(".")[0], Admin.of(row)
        if not hmac.compare_digest(self._mac("session", start, admin.token_hash), match[4]):
            return None
        ended = sa.select(schema.ended_sessions.c.until).where(schema.ended_sessions.c.session == hash_of(cookie))
        if "read" not in admin.scopes or self.store.rows(ended):
            return None
        return Session(admin, int(match[2]), self._mac("form", start, admin.token_hash))

    def end(self, cookie: str, now: int) -> None:
        session, table = self.read(cookie, now), schema.ended_sessions
        if session is None:
            return
        with self.store.write("end session") as connection:
            connection.execute(sa.delete(table).where(table.c.until <= now))
            row = {"session": hash_of(cookie), "until": session.expires}
            self.store.insert_new(connection, table, [row], key=("session",))

    def _mac(self, purpose: str, start: str, token_hash: bytes) -> str:
        message = f"{purpose}\n{start}\n".encode() + token_hash
        return hmac.new(self.secret(), message, hashlib.sha256).hexdigest()


def secret_of(folder: Path) -> bytes:
    """The key of sessions, derived from the timestamp key: its owner could do worse already."""
    files = keys.key_files(folder, "timestamp")
    if not files:
        raise InvalidParameter("keys", "hold a timestamp key", str(folder))
    return hmac.new(files[0].read_bytes(), b"hushcall: sessions of operators", hashlib.sha256).digest()


def from_here(headers: Mapping[str, str]) -> bool:
    """Whether a form was sent by a page of this server, as far as the browser says. Other clients say nothing."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin in (None, ""):
        return True
    if origin == "null":  # a page under a strict referrer policy hides its origin
        return site == "same-origin"
    try:
        host = urlsplit(str(origin)).netloc
    except ValueError:
        return False
    return bool(host) and host.lower() == headers.get("host", "").lower()


def safe_path(path: str) -> str:
    """Where to go after the login: a path of this server, whatever the form contains."""
    return path if re.fullmatch(r"/(?:[a-z0-9+][a-z0-9+/?=&-]*)?", path, re.ASCII) else "/"


@dataclass(frozen=True)
class Audit:
    """The audit log over a store: who did what, when and why. ``now`` is the clock in unix seconds.

    Each act is recorded before it is done, and its outcome after it. The operator is the id of a token. Of devices that
    take part nothing is recorded but the id of one that was revoked, until it is deleted.
    """

    store: Store
    now: Callable[[], int]

    @contextmanager
    def act(self, operator: int, name: str, what: str, about: str = "", why: str = "") -> Iterator[None]:
        row = {"at": self.now(), "operator": operator, "name": name[:200], "what": what, "about": about, "why": why}
        table = schema.audit
        with self.store.write("audit") as connection:
            insert = sa.insert(table).values(**row, outcome=ASKED).returning(table.c.id)
            entry = connection.execute(insert).scalar_one()
        log("operator acts", operator=operator, what=what, entry=entry)  # whom it concerns is in the table only
        outcome = REFUSED
        try:
            yield
            outcome = DONE
        finally:
            with self.store.write("audit outcome") as connection:
                connection.execute(sa.update(table).where(table.c.id == entry).values(outcome=outcome))

    def entries(self, limit: int = 1000, before: int | None = None) -> list[AuditRow]:
        table = schema.audit
        query = sa.select(table).order_by(table.c.id.desc()).limit(limit)
        return typed(AuditRow, self.store.rows(query if before is None else query.where(table.c.id < before)))
