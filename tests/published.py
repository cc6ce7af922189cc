"""A list server in a thread: whatever is in its dictionary is what it serves, signed or forged."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from securesystemslib.signer import CryptoSigner

from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader, delta
from hushcall.server.signing import signer
from hushcall.server.signing.keys import ONLINE, KeyRing

PREFIX = "/v1/lists/"
TERMS = ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 7)


def new_ring() -> KeyRing:
    return KeyRing({role: (CryptoSigner.generate_ed25519(),) for role in ONLINE})


def now() -> datetime:
    return datetime.now(UTC)


def ago(days: float) -> datetime:
    return now() - timedelta(days=days)


def make_list(version: int, count: int = 50, *, days: int = 1, low: float = 5.0) -> Blocklist:
    """Version v differs from v − 1 in a few entries, so that a delta is short."""
    first = 1_800_000_000
    entries = tuple(
        Entry(f"+1202555{place:04d}", first, first + version * (place % 25 == 0), days, 12.0, low, 20.0, 1e-6)
        for place in range(version, version + count)
    )
    return Blocklist(version, version, first + version, TERMS, entries)


@dataclass
class Operator:
    """Somebody who publishes lists, and may do so at any time past or future."""

    ring: KeyRing = field(default_factory=new_ring)
    root_key: CryptoSigner = field(default_factory=CryptoSigner.generate_ed25519)
    files: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def with_a_list(cls) -> Operator:
        """An operator who has just begun, and published version 1."""
        made = cls().start()
        made.publish(1)
        return made

    def start(self, at: datetime | None = None) -> Operator:
        self.files |= signer.start(self.ring, [self.root_key], at or now())
        return self

    def apply(self, changes: Mapping[str, bytes | None]) -> None:
        for path, data in changes.items():
            if data is None:
                del self.files[path]
            else:
                self.files[path] = data

    def publish(self, *versions: int, at: datetime | None = None, count: int = 50) -> None:
        """Publish the last of these versions, with deltas from the others."""
        lists = [make_list(version, count) for version in versions]
        newest = lists[-1]
        targets = {"blocklist.jsonl": newest.to_bytes(), "exports/plain.txt": f"{newest.version}\n".encode()}
        for old in lists[:-1]:
            targets[f"delta-{old.version}-{newest.version}.jsonl"] = delta(old, newest)
        self.apply(signer.publish(self.files, self.ring, targets, at or now()))

    def rotate(self, role: str, at: datetime | None = None) -> None:
        new = CryptoSigner.generate_ed25519()
        self.apply(signer.rotate(self.files, self.ring, role, new, [self.root_key], at or now()))
        if role == "root":
            self.root_key = new
        else:
            self.ring = KeyRing({**self.ring.signers, role: (new,)})

    def target(self, name: str) -> str:
        """The path under which a target is served now."""
        (path,) = (p for p in self.files if p.startswith("targets/") and p.endswith(f".{name}"))
        return path


@dataclass
class ListServer:
    """``files`` is served as it is at the time of a request; ``asked`` says what was asked for, and how many bytes."""

    files: dict[str, bytes]
    url: str = ""
    asked: list[tuple[str, int]] = field(default_factory=list)
    status: int = 200
    cut: bool = False  # promise more bytes than are sent

    @property
    def base(self) -> str:
        return self.url + PREFIX

    def content(self, path: str) -> bytes | None:
        name = path.removeprefix(PREFIX)
        if name == "root.json":
            return self.files[signer.newest_root_path(self.files)]
        return self.files.get(name)

    def names(self) -> list[str]:
        return [path.rpartition("/")[2] for path, _ in self.asked]


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[ListServer]:
    """Serve a dictionary of files over HTTP on the loopback interface."""
    server = ListServer(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = server.content(self.path) if server.status == 200 else None
            server.asked.append((self.path, len(data or b"")))
            self.send_response(200 if data is not None else 404 if server.status == 200 else server.status)
            self.send_header("Content-Length", str(len(data or b"") + (100 if server.cut else 0)))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
