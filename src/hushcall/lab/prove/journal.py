"""What a simulated server writes about itself: its log by the line, with who wrote it and what ailed the disk."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hushcall.server.logs import LOGGER, JsonLines


@dataclass(frozen=True)
class Line:
    """One line: the worker whose turn it was, if any, and the disk's trouble."""

    place: int | None
    disk: str
    text: str

    @property
    def said(self) -> dict[str, Any]:
        """Its fields."""
        found: dict[str, Any] = json.loads(self.text)
        return found


@dataclass(frozen=True)
class Turn:
    """A worker's turn is over: it went well, something failed, or (None) the worker died."""

    place: int
    went_well: bool | None


class Journal(logging.Handler):
    """Takes all that the server logs, as it would be written; nobody else sees it until this is closed."""

    def __init__(self, where: Callable[[], tuple[int | None, str]]) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.where, self.entries = where, list[Line | Turn]()
        logger = logging.getLogger(LOGGER)
        self._before = logger.handlers, logger.propagate, logger.level
        logger.handlers, logger.propagate = [self], False
        logger.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """One line more."""
        self.entries.append(Line(*self.where(), self.format(record)))

    def turned(self, place: int, *, went_well: bool) -> None:
        """A worker's turn is over."""
        self.entries.append(Turn(place, went_well))

    def died(self, place: int) -> None:
        """A worker is gone, and what it had noticed with it."""
        self.entries.append(Turn(place, None))

    def taken(self) -> list[Line | Turn]:
        """What came since this was asked last."""
        found, self.entries = self.entries, []
        return found

    def close(self) -> None:
        """Let others see the log again."""
        logger = logging.getLogger(LOGGER)
        logger.handlers, logger.propagate, level = self._before
        logger.setLevel(level)
        super().close()
