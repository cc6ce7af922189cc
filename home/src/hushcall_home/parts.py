"""The interfaces of ``hushcall home``: a source of calls, and a place that blocks. And what is recorded of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from hushcall.client.storage.store import Store
from hushcall.errors import HushcallError
from hushcall.formats.calls.call import Call

RETRY_SECONDS = 60
MAX_RETRY_SECONDS = 3600
RINGING = "ringing"
"""The part whose ``memory`` is the last caller that was listed: ``done`` says when it rang."""


class Trouble(HushcallError):
    """What a later try may not meet. ``todo`` is the owner's next step, ``wait`` the least time to a retry."""

    def __init__(self, words: str, todo: str = "", wait: int = RETRY_SECONDS) -> None:
        self.words, self.todo, self.wait = words, todo, wait
        super().__init__(f"{words} {todo}".strip())


@dataclass(frozen=True, slots=True)
class Fetched:
    """New calls, and the position to fetch from next time. ``marks`` tell apart calls of one number in one minute."""

    calls: tuple[Call, ...]
    position: str
    marks: tuple[str, ...] = ()
    malformed: int = 0
    words: str = ""  # what could not be read


class Source(Protocol):
    name: str

    def calls(self, since: str) -> Fetched:
        """The calls after a position, which is empty at first."""

    def contacts(self) -> Iterable[str]:
        """Numbers that are never reported, as the source writes them."""
        return ()

    def listen(self, tell: Callable[[str | None], None]) -> None:  # noqa: ARG002 (not all sources tell)
        """Tell each number that rings, and None when a call has ended. Starts it, or starts it again where it ended."""
        return

    def close(self) -> None:
        return


class Place(Protocol):
    name: str

    def write(self, numbers: Sequence[str]) -> str:
        """Make these the numbers of ours, in E.164, the most important first. Entries of others are not touched.

        Returns what the place holds now, in words.
        """


@dataclass(frozen=True, slots=True)
class Part:
    """How one part of the program is doing. ``memory`` is what it needs to go on, ``done`` its last success."""

    name: str
    ok: bool = True
    words: str = ""
    todo: str = ""
    done: int = 0
    tried: int = 0
    failures: int = 0
    next: int = 0
    memory: str = ""

    @classmethod
    def load(cls, store: Store, name: str) -> Part:
        row = store.row("SELECT state FROM parts WHERE name = ?", name)
        return cls(**json.loads(row[0])) if row else cls(name)

    @classmethod
    def all(cls, store: Store) -> list[Part]:
        return [cls(**json.loads(state)) for (state,) in store.rows("SELECT state FROM parts ORDER BY name")]

    def save(self, store: Store) -> None:
        store.run("INSERT OR REPLACE INTO parts (name, state) VALUES (?, ?)", self.name, json.dumps(asdict(self)))
