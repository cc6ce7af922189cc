"""Looks a caller up offline: the synced list, the owner's policy, and the verdict."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from io import SEEK_END, BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushcall import checks
from hushcall.client.storage.personal import Action
from hushcall.errors import InvalidList
from hushcall.protocol.blocklist import E164, FORMATS, Entry, blocks_of, iso, line_of, unix
from hushcall.protocol.imported import TARGET, Imported, require_header
from hushcall.protocol.list_index import checked
from hushcall.protocol.ranges import NO_RANGES, RANGES_TARGET, RangeList
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.protocol.numbers import Number

LIST_FILE = "list.jsonl"
STATE_FILE = "list.json"
ROOT_FILE = "trusted-root.json"
IMPORTED_FILE = TARGET
PHONES = "phones"


@dataclass(frozen=True)
class LoadedList:
    """A list, last compared with the server's when ``synced``. Its signatures are valid until ``expires``.

    A list that is loaded from its file stays there: a lookup reads a few lines of it.
    """

    header: dict[str, Any]
    data: bytes | mmap = field(repr=False)
    synced: int | None = None
    expires: int | None = None
    ranges: RangeList = field(default=NO_RANGES, repr=False)

    @classmethod
    def from_bytes(cls, data: bytes, synced: int | None = None, expires: int | None = None) -> LoadedList:
        """A list in memory: every line must be an entry, sorted by number, as many as the header says."""
        header = read_header(data)
        deque(checked(blocks_of(BytesIO(data))), maxlen=0)
        return cls(header, data, synced, expires)

    @classmethod
    def load(cls, folder: Path) -> LoadedList:
        """The list that :class:`hushcall.client.screening.list_sync.ListClient` keeps in a folder.

        A sync has checked every line. This is done again for a file of another length than the sync left.
        """
        state = read_state(folder)
        try:
            with (folder / LIST_FILE).open("rb") as file:
                header = read_header(file.readline())
                if file.seek(0, SEEK_END) != state.get("bytes"):
                    file.seek(0)
                    deque(checked(blocks_of(file)), maxlen=0)
                data = mmap(file.fileno(), 0, access=ACCESS_READ)
        except OSError:
            raise InvalidList("list", "have been synced (hushcall phone sync)", f"none in {folder}") from None
        return cls(header, data, state.get("synced"), state.get("expires"), ranges_in(folder))

    def __len__(self) -> int:
        return int(self.header["entries"])

    @property
    def version(self) -> int:
        return int(self.header["version"])

    def expired(self, now: int) -> bool:
        """Whether the list is older than its signatures allow. Verdicts still come from it, with a warning."""
        return self.expires is not None and now >= self.expires

    def find(self, number: Number | str) -> Entry | None:
        if not E164.fullmatch(text := str(number)):
            return None
        if isinstance(self.data, mmap) and self.data.size() < len(self.data):  # to read beyond its end is a signal
            raise InvalidList("list", "be whole", "one that was cut since it was loaded")
        start, end = line_of(self.data, text.encode(), self.data.find(b"\n") + 1)
        return Entry.from_line(self.data[start:end]) if start < end else None


@dataclass(frozen=True)
class ImportedNumbers:
    """The numbers that an operator imported, as they were synced with the list. They never block."""

    data: bytes = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> ImportedNumbers | None:
        try:
            with (folder / IMPORTED_FILE).open("rb") as file:
                require_header(file.readline())
                file.seek(0)
                return cls(b"".join(checked(blocks_of(file))))
        except OSError:
            return None

    def find(self, number: str, now: int) -> Imported | None:
        start, end = line_of(self.data, number.encode(), self.data.find(b"\n") + 1)
        return Imported.from_line(self.data[start:end]).at(now) if start < end else None

    def all(self, now: int) -> list[Imported]:
        rows = (Imported.from_line(line).at(now) for line in self.data.splitlines()[1:])
        return [row for row in rows if row is not None]


def ranges_in(folder: Path) -> RangeList:
    """Those of the last sync. Damaged ones are none: the next sync brings them back."""
    try:
        return RangeList.from_bytes((folder / RANGES_TARGET).read_bytes())
    except (OSError, InvalidList):
        return NO_RANGES


def read_header(data: bytes) -> dict[str, Any]:
    line = data[: data.find(b"\n")]
    try:
        header = dict(json.loads(line))
        supported = header["format"] in FORMATS
        names = ("version", "entries", "tau", *(("block_days",) if header["format"] == FORMATS[1] else ()))
        _ = [int(header[name]) for name in names]  # infinity and NaN are no integers
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InvalidList("list", f"start with a header of {', '.join(FORMATS)}", line) from None
    if not supported:
        raise InvalidList("list", f"have a format of {', '.join(FORMATS)}", header["format"])
    return header


def read_state(folder: Path) -> dict[str, int]:
    """When the list was synced, when it expires, and its length. Empty where there is none."""
    try:
        state = json.loads((folder / STATE_FILE).read_bytes())
        return {name: unix(state[name]) for name in ("synced", "expires")} | {"bytes": int(state.get("bytes", -1))}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


@dataclass(frozen=True)
class Policy:
    """When a listed number is blocked. Any other listed number gets a warning, and ``contacts`` (E.164) are allowed.

    ``block_days``: with 1 every listed number blocks, with more what the list blocks once it was found on so many
    days. By default the list decides. In an older list, which does not say what blocks: found on so many, or over a
    window of so many. ``block_phones``: reported by so many clients for sure. By default only a
    list of format 1 blocks by a count, its τ.
    """

    block_days: int | None = None
    block_phones: float | None = None
    contacts: Container[str] | Callable[[str], bool] = frozenset()

    def __post_init__(self) -> None:
        if self.block_days is not None:
            checks.whole("block_days", self.block_days, 1)
        if self.block_phones is not None:
            checks.positive("block_phones", self.block_phones)

    def blocks(self, entry: Entry, header: dict[str, Any]) -> bool:
        tau = float(header["tau"]) if header["format"] == FORMATS[0] else None
        min_phones = tau if self.block_phones is None else self.block_phones
        if min_phones is not None and entry.low >= min_phones:
            return True
        if entry.block is None:
            return max(entry.days, entry.window) >= (self.block_days or int(header.get("block_days", 2)))
        return (entry.block or self.block_days == 1) and entry.days >= (self.block_days or 1)

    def knows(self, number: str) -> bool:
        return self.contacts(number) if callable(self.contacts) else number in self.contacts


@dataclass(frozen=True)
class Verdict:
    """What to do with a call, and why. ``warning`` is about the list itself.

    ``list`` is the server whose list decided, ``source`` who named the number there: "phones", or of imported
    complaints to whom. Both are empty where no list decided.
    """

    action: Action
    why: str
    entry: Entry | None = None
    warning: str = ""
    list: str = ""
    source: str = ""


DEFAULT_POLICY = Policy()


def check(loaded: LoadedList, number: Number | str, policy: Policy = DEFAULT_POLICY, now: int | None = None) -> Verdict:
    """Judge a caller. ``now`` (unix seconds, default: the clock) decides whether the list has expired."""
    if policy.knows(str(number)):
        return Verdict(Action.ALLOW, "one of your contacts")
    warning = ""
    if loaded.expires is not None and loaded.expired(int(time.time()) if now is None else now):
        warning = f"the list expired on {iso(loaded.expires)}: sync"
    entry = loaded.find(number) or loaded.ranges.around(str(number))
    if entry is None:
        return Verdict(Action.ALLOW, "not on the list", None, warning)
    days = f"found on {counted(entry.days, 'day')}"
    days += f" and over {entry.window} together" if entry.window > 1 else ""
    ranged = "" if entry.number == str(number) else f"in the range {entry.number}, "
    phones = f"{ranged}reported by about {counted(round(entry.estimate), 'phone')} (at least {entry.low:.0f})"
    hint = ", by a hint" if entry.hinted else ""
    block = policy.blocks(entry, loaded.header) and not (ranged and not entry.block)
    action = Action.BLOCK if block else Action.WARN
    return Verdict(action, f"{phones}, {days}{hint}", entry, warning, source=PHONES)
