"""An operator's session in a browser: a token typed once comes in, a signed cookie leaves and is checked on every use.

The cookie names the operator, when it ends and a random seed, under an HMAC. Its key comes from the server's timestamp
key, which all workers of one service share and no database holds: several servers recognise each other's sessions, a
stolen backup of the database opens none, and rotating that key ends them all. The operator's row is read every time, so
a revoked token ends its sessions at once; and so are those that were ended by logging out.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.privacy.coins import ByteSource, read
from hushcall.server.access.devices import Admin
from hushcall.server.access.tokens import token_hash as hash_of
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.problems import Problem
from hushcall.server.signing import keys

COOKIE = "hushcall_session"
HOURS = 12
_SEED_BYTES = 16
_SHAPE = re.compile(r"([1-9][0-9]{0,18})\.([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True)
class Session:
    """Who looks at the page. ``csrf`` goes into every form, and only this session's forms know it."""

    admin: Admin
    expires: int
    csrf: str

    def may(self, scope: str) -> bool:
        """Whether a button for it should be shown."""
        return scope in self.admin.scopes

    def owns(self, token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.csrf.encode())


@dataclass(frozen=True)
class Sessions:
    """Opens and reads sessions. ``secret`` is read anew each time: a rotated key needs no restart."""

    store: Store
    secret: Callable[[], bytes]

    def open(self, admin: Admin, now: int, coins: ByteSource) -> str:
        """The cookie of a new session."""
        admin.need("read")
        start = f"{admin.id}.{now + HOURS * 3600}.{read(coins, _SEED_BYTES).hex()}"
        row = self._row(admin.id)
        if row is None:
            raise Problem("unknown-token")
        return f"{start}.{self._mac('session', start, bytes(row.token_hash))}"

    def read(self, cookie: str, now: int) -> Session | None:
        """The session of a cookie; None if it is forged, over or ended, or its operator's token was revoked."""
        found = _SHAPE.fullmatch(cookie)
        if found is None or int(found[2]) <= now:
            return None
        row = self._row(int(found[1]))
        if row is None or row.revoked is not None:
            return None
        start, token_hash = cookie.rpartition(".")[0], bytes(row.token_hash)
        if not hmac.compare_digest(self._mac("session", start, token_hash), found[4]):
            return None
        admin = Admin(row.id, row.note, frozenset(row.scopes.split(",")))
        if "read" not in admin.scopes or self._ended(cookie):
            return None
        return Session(admin, int(found[2]), self._mac("form", start, token_hash))

    def end(self, cookie: str, now: int) -> None:
        """Let a session end before its time, in every browser that has its cookie."""
        session, table = self.read(cookie, now), schema.ended_sessions
        if session is None:
            return
        with self.store.write("end session") as connection:
            connection.execute(sa.delete(table).where(table.c.until <= now))
            row = {"session": hash_of(cookie), "until": session.expires}
            self.store.insert_new(connection, table, [row], key=("session",))

    def _ended(self, cookie: str) -> bool:
        table = schema.ended_sessions.c
        return bool(self.store.rows(sa.select(table.until).where(table.session == hash_of(cookie))))

    def _row(self, admin: int) -> sa.Row[tuple[int, bytes, str, str, int | None]] | None:
        table = schema.admins.c
        query = sa.select(table.id, table.token_hash, table.scopes, table.note, table.revoked)
        rows = self.store.rows(query.where(table.id == min(admin, (1 << 63) - 1)))
        return rows[0] if rows else None

    def _mac(self, purpose: str, start: str, token_hash: bytes) -> str:
        said = f"{purpose}\n{start}\n".encode() + token_hash
        return hmac.new(self.secret(), said, hashlib.sha256).hexdigest()


def secret_of(folder: Path) -> bytes:
    """The key that signs sessions, made from the timestamp key: whoever holds that one could do worse already."""
    files = keys.key_files(folder, "timestamp")
    if not files:
        raise InvalidParameter("keys", "hold a timestamp key", str(folder))
    return hmac.new(files[0].read_bytes(), b"hushcall: sessions of operators", hashlib.sha256).digest()


def from_here(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a form was sent by a page of this very server; a client that is none says nothing.

    Only hosts are compared: behind a proxy that ends TLS, this server believes itself to be plain HTTP.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin in (None, ""):
        return True
    if origin == "null":  # a page under a strict referrer policy hides where it is
        return site == "same-origin"
    try:
        host = urlsplit(str(origin)).netloc
    except ValueError:
        return False
    return bool(host) and host.lower() == headers.get("host", "").lower()


def safe_path(path: str) -> str:
    """Where to go after the login: an address of this server, whatever the form said."""
    return path if re.fullmatch(r"/(?:[a-z0-9+][a-z0-9+/?=&-]*)?", path, re.ASCII) else "/"
