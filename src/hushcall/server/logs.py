"""What the server writes about itself: one JSON object a line, and never a phone number, a token or an address.

Errors are logged by their kind and where they arose, without their message: a message may quote what was sent.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

LOGGER = "hushcall"
_FIELDS = "fields"
_KNOWN = (LOGGER, "uvicorn", "alembic")


class JsonLines(logging.Formatter):
    """One line a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, event, and the fields that go with it."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "event": record.getMessage()}
        if record.name != LOGGER:
            line["from"] = record.name
        if record.name.partition(".")[0] not in _KNOWN:  # a library's message may quote what it was given
            line["event"] = f"{record.filename}:{record.lineno}"
        line |= getattr(record, _FIELDS, {})
        if record.exc_info and record.exc_info[0] is not None:
            line |= where(*record.exc_info)
        return json.dumps(line, default=str)


def where(kind: type[BaseException], _: BaseException | None, trace: TracebackType | None) -> dict[str, Any]:
    """An error without its message: its type, and the innermost places that it came through."""
    frames = traceback.extract_tb(trace)[-6:]
    return {"error": kind.__name__, "trace": [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]}


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: Any) -> None:
    """Write one line: an event's name and its fields; callers give no number, token or address."""
    info = (type(error), error, error.__traceback__) if error else None
    logging.getLogger(LOGGER).log(level, event, extra={_FIELDS: fields}, exc_info=info)


def set_up(level: str = "INFO") -> None:
    """Send our lines, and uvicorn's, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    logging.getLogger().handlers = [handler]  # whatever else has something to say
    for name in (LOGGER, "uvicorn", "uvicorn.error", "alembic"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level if name == LOGGER else logging.WARNING)
    logging.getLogger("uvicorn.access").disabled = True
