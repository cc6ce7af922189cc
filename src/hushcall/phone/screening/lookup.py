"""The phone looks a caller up offline: the synced list's bytes and a number come in, a verdict leaves.

The list is searched as :mod:`hushcall.protocol.list_index` does it; here is how old it may be, and what to do with a
caller that it holds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushcall import checks
from hushcall.errors import InvalidList
from hushcall.phone.home.action import Action
from hushcall.protocol.blocklist import FORMATS, Entry, iso, unix
from hushcall.protocol.list_index import ListIndex
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.numbers import Number

LIST_FILE = "list.jsonl"
STATE_FILE = "list.json"


@dataclass(frozen=True)
class LoadedList:
    """A list in memory. ``synced`` is when it was last compared with the server's, ``expires`` how long that counts."""

    header: dict[str, Any]
    index: ListIndex = field(repr=False)
    synced: int | None = None
    expires: int | None = None

    @classmethod
    def from_bytes(cls, data: bytes, synced: int | None = None, expires: int | None = None) -> LoadedList:
        """Index a list: every line must be an entry, sorted by number, as many as the header says."""
        header, index = read_header(data), ListIndex.of_entries(data)
        if not len(index) == header["entries"] == data.count(b"\n") - 1:
            raise InvalidList("list", f"hold {header['entries']} entries, one a line", f"{len(index)} of them")
        return cls(header, index, synced, expires)

    @classmethod
    def load(cls, folder: Path) -> LoadedList:
        """The list that :class:`hushcall.phone.screening.list_sync.ListClient` keeps in a folder."""
        try:
            data = (folder / LIST_FILE).read_bytes()
        except OSError:
            raise InvalidList("list", "have been synced (hushcall phone sync)", f"none in {folder}") from None
        state = read_state(folder)
        return cls.from_bytes(data, state.get("synced"), state.get("expires"))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def version(self) -> int:
        """The version that the server signed: it only ever grows."""
        return int(self.header["version"])

    def expired(self, now: int) -> bool:
        """Whether the list is older than its signatures allow: verdicts still come from it, with a warning."""
        return self.expires is not None and now >= self.expires

    def find(self, number: Number | str) -> Entry | None:
        """The entry of a number (E.164), or None."""
        return self.index.find(str(number))


def read_header(data: bytes) -> dict[str, Any]:
    """The first line of a list, parsed."""
    first = data[: data.find(b"\n")]
    try:
        header = dict(json.loads(first))
        known = header["format"] in FORMATS
        names = ("version", "entries", "tau", *(("block_days",) if header["format"] == FORMATS[1] else ()))
        _ = [int(header[name]) for name in names]  # infinity and NaN are no integers
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InvalidList("list", f"start with a header of {', '.join(FORMATS)}", first) from None
    if not known:
        raise InvalidList("list", f"have a format of {', '.join(FORMATS)}", header["format"])
    return header


def read_state(folder: Path) -> dict[str, int]:
    """When the list was synced and when it expires (unix seconds); empty where that is not known."""
    try:
        state = json.loads((folder / STATE_FILE).read_bytes())
        return {name: unix(state[name]) for name in ("synced", "expires")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


@dataclass(frozen=True)
class Policy:
    """When a listed number is bad enough to be blocked; any other listed number gets a warning.

    Blocked is what was found on at least ``block_days`` days, or over a window of so many; where the owner does not
    say, the list does (``block_days`` of its header; 2 in a list of format 1). Blocked is also what at least
    ``block_phones`` phones reported for sure: the lower end of the interval counts. Where the owner does not say, no
    count is enough, since one night's liars can make any; only lists of format 1 block at their own threshold τ.
    ``contacts`` (E.164) are always allowed, whatever the list says.
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
        """Whether a listed number is blocked; otherwise its calls ring, with a warning."""
        days = self.block_days or int(header.get("block_days", 2))
        tau = float(header["tau"]) if header["format"] == FORMATS[0] else None
        enough = tau if self.block_phones is None else self.block_phones
        return max(entry.days, entry.window) >= days or (enough is not None and entry.low >= enough)

    def knows(self, number: str) -> bool:
        """Whether a number is a contact's."""
        return self.contacts(number) if callable(self.contacts) else number in self.contacts


@dataclass(frozen=True)
class Verdict:
    """What to do with a call, and why in words. ``warning`` says what is wrong with the list itself, if anything is."""

    action: Action
    why: str
    entry: Entry | None = None
    warning: str = ""


DEFAULT_POLICY = Policy()


def check(loaded: LoadedList, number: Number | str, policy: Policy = DEFAULT_POLICY, now: int | None = None) -> Verdict:
    """Judge a caller. ``now`` (unix seconds) tells whether the list has expired; the clock's time by default."""
    if policy.knows(str(number)):
        return Verdict(Action.ALLOW, "one of your contacts")
    warning = ""
    if loaded.expires is not None and loaded.expired(int(time.time()) if now is None else now):
        warning = f"the list expired on {iso(loaded.expires)}: sync"
    entry = loaded.find(number)
    if entry is None:
        return Verdict(Action.ALLOW, "not on the list", None, warning)
    days = f"seen on {entry.days} day{'s' if entry.days > 1 else ''}"
    days += f" and over {entry.window} together" if entry.window > 1 else ""
    phones = f"reported by about {counted(round(entry.estimate), 'phone')} (at least {entry.low:.0f})"
    block = policy.blocks(entry, loaded.header)
    return Verdict(Action.BLOCK if block else Action.WARN, f"{phones}, {days}", entry, warning)
