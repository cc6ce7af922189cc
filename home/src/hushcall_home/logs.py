"""Logs that grow (NCID, Asterisk, FreeSWITCH), and a folder that gets exports and contacts from a sync program."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import tzinfo
from pathlib import Path
from typing import Any

from hushcall.client.calls.ingest import Cursor, read_after, stamp
from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call
from hushcall.formats.calls.contacts import read_contacts
from hushcall.formats.calls.reader import Reader
from hushcall_home.parts import Fetched, Source, Trouble

CONTACTS = ".vcf"


class _Files(Source):
    def __init__(self, path: Path, zone: tzinfo, reader: Reader | None = None) -> None:
        self.path, self.zone, self.reader = path, zone, reader
        self.name = str(path)

    def files(self) -> list[Path]:
        raise NotImplementedError

    def calls(self, since: str) -> Fetched:
        """Read what is new. A file that cannot be read is said, and read again when it changes."""
        before: dict[str, Any] = json.loads(since) if since else {}
        after: dict[str, Any] = {}
        calls, malformed, unread = tuple[Call, ...](), 0, ""
        for path in self.files():
            seen, current = before.get(path.name, {}), list(stamp(path) or ())
            if current != seen.get("stamp"):
                last = Cursor(**seen["cursor"]) if seen.get("cursor") else None
                try:
                    result, cursor = read_after(path, last, self.reader, self.zone)
                except InvalidData as error:
                    unread = unread or f"{path.name} cannot be read: {error}."
                else:
                    calls, malformed = calls + result.calls, malformed + result.malformed
                    seen = {"cursor": asdict(cursor)}
            after[path.name] = {**seen, "stamp": current}
        return Fetched(calls, json.dumps(after), malformed=malformed, words=unread)


class Log(_Files):
    @classmethod
    def named(cls, text: str, zone: tzinfo) -> Log:
        """By its path, or by ``FORMAT:PATH`` where its content does not show the format."""
        from hushcall.formats.calls.reading import READERS

        form, colon, path = text.partition(":")
        return cls(Path(path), zone, READERS[form]) if colon and form in READERS else cls(Path(text), zone)

    def files(self) -> list[Path]:
        if not self.path.exists():
            raise Trouble(f"{self.path} is not there.", "It is read as soon as it is.")
        return [self.path]


class Folder(_Files):
    """All files of a folder. Those that end in ``.vcf`` are contacts."""

    def files(self) -> list[Path]:
        return [path for path in self._all() if path.suffix.lower() != CONTACTS]

    def contacts(self) -> Iterable[str]:
        for path in self._all():
            if path.suffix.lower() == CONTACTS:
                try:
                    yield from read_contacts(path.read_bytes()).numbers
                except (OSError, InvalidData) as error:
                    raise Trouble(f"The contacts {path.name} cannot be read: {error}.") from None

    def _all(self) -> list[Path]:
        try:
            return sorted(path for path in self.path.iterdir() if path.is_file() and not path.name.startswith("."))
        except OSError as error:
            raise Trouble(f"The folder {self.path} cannot be read: {error.strerror}.") from None
