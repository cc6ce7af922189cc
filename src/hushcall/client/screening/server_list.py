"""One server's list with its imported numbers, as they were synced into a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hushcall.client.screening.lookup import (
    IMPORTED_FILE,
    LIST_FILE,
    STATE_FILE,
    ImportedNumbers,
    LoadedList,
    Policy,
    Verdict,
    check,
    read_state,
)
from hushcall.client.storage.personal import Action
from hushcall.errors import InvalidList
from hushcall.protocol.blocklist import Blocklist, Entry, iso

NO_LIST, DAMAGED = "there is no list yet", "the list is damaged"


@dataclass
class ServerList:
    """``own``: of the phone's own server. Another server's list names nobody once it has expired."""

    name: str
    folder: Path | None
    own: bool
    loaded: LoadedList | None = None
    imported: ImportedNumbers | None = None
    expires: int | None = None
    why_none: str = NO_LIST
    stamp: object = None

    def refresh(self) -> None:
        stamp = self._stamp()
        if stamp == self.stamp or self.folder is None:
            return
        try:
            self.loaded = LoadedList.load(self.folder) if (self.folder / LIST_FILE).exists() else None
            self.imported = ImportedNumbers.load(self.folder)
            self.expires = read_state(self.folder).get("expires")
        except InvalidList:
            if self.loaded is not None:
                raise  # the list in memory is better than none
            self.why_none = DAMAGED
            return  # without its stamp: the next refresh tries again
        self.stamp, self.why_none = stamp, NO_LIST

    def names(self, now: int) -> bool:
        """Whether it can name anybody."""
        if not self.own and (self.expires is None or now >= self.expires):
            return False
        return self.loaded is not None or self.imported is not None

    def verdict(self, number: str, policy: Policy, now: int) -> Verdict | None:
        """None where the list does not name the number. What phones found comes before what was imported."""
        if not self.names(now):
            return None
        loaded = self.loaded  # once: a refresh in another thread may replace it
        if loaded is not None and (verdict := check(loaded, number, policy, now)).entry is not None:
            return replace(verdict, why=f"{self.name}: {verdict.why}", list=self.name)
        if self.imported is None or (named := self.imported.find(number, now)) is None:
            return None
        return Verdict(Action.WARN, f"{self.name}: {named.words}", list=self.name, source=named.source)

    def warning(self, now: int) -> str:
        if self.loaded is None:
            return f"{self.why_none}: run hushcall phone sync"
        if self.loaded.expires is not None and self.loaded.expired(now):
            return f"the list expired on {iso(self.loaded.expires)}: sync"
        return ""

    def blocklist(self) -> Blocklist | None:
        if self.loaded is None or self.folder is None:
            return None
        blocklist = Blocklist.from_bytes((self.folder / LIST_FILE).read_bytes())
        return replace(blocklist, ranges=self.loaded.ranges.entries)

    def entries(self, policy: Policy | None, now: int) -> Iterator[Entry]:
        """What it names, with ``block`` as the policy has it, by default the list's own rule. Imported ones warn."""
        if not self.names(now):
            return
        by = "" if self.own else f" - {self.name}"
        if (blocklist := self.blocklist()) and self.loaded:
            for entry in blocklist.entries:
                block = policy.blocks(entry, self.loaded.header) if policy else blocklist.header.block(entry)
                source = f"about {max(1, round(entry.estimate))} phones on {iso(entry.last)[:10]}{by}" if by else ""
                yield replace(entry, block=block, window=max(1, entry.window), source=source)
        for named in self.imported.all(now) if self.imported else ():
            count = named.complaints
            source = f"{named.words}{by}"
            yield Entry(named.number, now, now, 1, count, 0.0, count, 1.0, 1, block=False, source=source)

    def _stamp(self) -> tuple[int, ...] | None:
        """Changes with its files: a sync that finds nothing new still extends the expiry."""
        if self.folder is None or not any((self.folder / name).exists() for name in (LIST_FILE, IMPORTED_FILE)):
            return None
        return tuple(part for name in (LIST_FILE, STATE_FILE, IMPORTED_FILE) for part in _stamp(self.folder / name))


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_mtime_ns, status.st_size
