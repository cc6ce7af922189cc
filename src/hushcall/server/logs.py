"""The server's log: one JSON object a line, without phone numbers, tokens and addresses.

An error is logged by type, cause and places in the code. Its message is left out, because it may quote the request.
"""

from __future__ import annotations

import errno
import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOGGER = "hushcall"
_FIELDS = "fields"
_SAFE = (LOGGER, "uvicorn", "alembic")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "event": record.getMessage()}
        if record.name != LOGGER:
            line["from"] = record.name
        if record.name.partition(".")[0] not in _SAFE:  # a library's message may quote its arguments
            line["event"] = f"{record.filename}:{record.lineno}"
        line |= getattr(record, _FIELDS, {})
        if record.exc_info and record.exc_info[0] is not None:
            kind, error, trace = record.exc_info
            cause = {"cause": cause_of(error)} if cause_of(error) else {}
            innermost = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(trace)[-6:]]
            line |= {"error": kind.__name__, **cause, "trace": innermost}
        return json.dumps(line, default=str)


_CODES: dict[str, tuple[str | int, ...]] = {
    "disk full": ("SQLITE_FULL", "53100", errno.ENOSPC, errno.EDQUOT),
    "disk error": ("SQLITE_IOERR", "58030", errno.EIO),
    "disk read-only": (errno.EROFS,),
    "file missing": (errno.ENOENT,),
    "no permission": (errno.EACCES,),
    "too many open files": (errno.EMFILE, errno.ENFILE),
    "database cannot be opened": ("SQLITE_CANTOPEN",),
    "database damaged": ("SQLITE_CORRUPT", "SQLITE_NOTADB"),
    "database locked": ("SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "40P01"),
    "database out of memory": ("53200",),
    "database read-only": ("SQLITE_READONLY", "25006"),
    "database shut down": ("57P01", "57P02"),
    "database starting up": ("57P03",),
    "database too slow": ("57014",),
    "too many connections to the database": ("53300",),
}
_CAUSES = {code: cause for cause, codes in _CODES.items() for code in codes}
"""Causes by SQLite's error name, PostgreSQL's SQLSTATE, or the system's errno."""


def cause_of(error: BaseException | None) -> str:
    """The cause of an error in the machine or the database, in a few words. Empty for any other error."""
    raw = getattr(error, "orig", None) or error
    lite, state = (str(getattr(raw, name, None) or "") for name in ("sqlite_errorname", "sqlstate"))
    if lite or state:
        return _CAUSES.get("_".join(lite.split("_")[:2]), _CAUSES.get(state, ""))
    if isinstance(raw, OSError):
        return _CAUSES.get(raw.errno or 0, "")
    if {kind.__name__ for kind in type(raw).__mro__} & {"OperationalError", "InterfaceError"}:
        return "database does not answer"  # PostgreSQL is unreachable, and sends no SQLSTATE
    pool = type(raw).__module__.startswith("sqlalchemy") and type(raw).__name__ == "TimeoutError"
    return "no free connection to the database" if pool else ""


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: object) -> None:
    """Writes one line. Callers give no phone number, token or address."""
    info = (type(error), error, error.__traceback__) if error else None
    logging.getLogger(LOGGER).log(level, event, extra={_FIELDS: fields}, exc_info=info)


def set_up(level: str = "INFO") -> None:
    """Sends our lines and those of libraries to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    logging.getLogger().handlers = [handler]
    for name in (LOGGER, "uvicorn", "uvicorn.error", "alembic"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level if name == LOGGER else logging.WARNING)
    logging.getLogger("uvicorn.access").disabled = True
