"""The server signs its round documents: a document comes in, it leaves with signatures under the list's root.

By the timestamp role's keys, all that the server holds: after a rotation phones that know only the old root find a
signature that they can check, and phones that know the new one find another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hushcall.protocol import charter
from hushcall.server.signing import keys

ROLE = "timestamp"


class RoundSigner:
    """Signs each part once for a set of key files: a document is asked for by every phone, many times a round."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[tuple[object, bytes], list[dict[str, str]]] = {}

    def signed(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with its signatures."""
        files = keys.key_files(self._folder, ROLE)
        stamp = tuple((path.name, path.stat().st_mtime_ns) for path in files)
        message = charter.to_sign(document)
        if (stamp, message) not in self._kept:
            made = [keys.load(path).sign(message) for path in files]
            self._kept = {(stamp, message): [{"keyid": one.keyid, "sig": one.signature} for one in made]}
        return {**document, "signatures": self._kept[stamp, message]}
