"""What the server writes about itself: one JSON object a line, and never a phone number, a token or an address.

Errors are logged by their kind, their cause and where they arose, without their message: that may quote what was sent.
"""

from __future__ import annotations

import errno
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


def where(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> dict[str, Any]:
    """An error without its message: its type, what is behind it, and the innermost places that it came through."""
    frames = traceback.extract_tb(trace)[-6:]
    cause = {"cause": found} if (found := cause_of(error)) else {}
    places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
    return {"error": kind.__name__, **cause, "trace": places}


_CAUSES = {
    "SQLITE_FULL": "disk full",
    "SQLITE_BUSY": "database locked",
    "SQLITE_LOCKED": "database locked",
    "SQLITE_READONLY": "database read-only",
    "SQLITE_IOERR": "disk error",
    "SQLITE_CANTOPEN": "database cannot be opened",
    "SQLITE_CORRUPT": "database damaged",
    "SQLITE_NOTADB": "database damaged",
    "53100": "disk full",
    "53200": "database out of memory",
    "53300": "too many connections to the database",
    "25006": "database read-only",
    "55P03": "database locked",
    "40P01": "database locked",
    "57014": "database too slow",
    "57P01": "database shut down",
    "57P02": "database shut down",
    "57P03": "database starting up",
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full",
    errno.EROFS: "disk read-only",
    errno.EACCES: "no permission",
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
    errno.ENOENT: "file missing",
}
"""What is behind an error: by SQLite's name, PostgreSQL's SQLSTATE, or the system's number."""


def cause_of(error: BaseException | None) -> str:
    """What an operator has to look at, in a few words; empty where this is not a matter of machine or database."""
    raw = getattr(error, "orig", None) or error
    lite, state = (str(getattr(raw, name, None) or "") for name in ("sqlite_errorname", "sqlstate"))
    if lite or state:
        return _CAUSES.get("_".join(lite.split("_")[:2]), _CAUSES.get(state, ""))
    if isinstance(raw, OSError):
        return _CAUSES.get(raw.errno or 0, "")
    if {kind.__name__ for kind in type(raw).__mro__} & {"OperationalError", "InterfaceError"}:
        return "database does not answer"  # PostgreSQL is away: no state can have come from it
    pool = type(raw).__module__.startswith("sqlalchemy") and type(raw).__name__ == "TimeoutError"
    return "no free connection to the database" if pool else ""


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
