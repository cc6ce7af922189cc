"""Evidence that was read already, for engines that decode it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hushcall.learn.window import Past
from hushcall.profiles import Profile


@dataclass(frozen=True)
class InMemory:
    """The rounds of one bucket, newest first."""

    key: tuple[int, int, int]
    held: list[Past]
    profile: Profile
    parts: int = 1

    @property
    def learner(self) -> Any:
        return self.held[0].learner

    def past(self, tallies: object = None) -> list[Past]:
        return self.held

    def pieces(self) -> list[list[Any]]:
        return []
