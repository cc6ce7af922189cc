"""Files come in whole: a call log or contacts are read, taken in and only then ticked off; nothing here sends anything.

The order is what survives a crash: calls are taken in first, the cursor moves after. Cut in between, the same calls are
read again, and taking in a call twice changes nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.calls.reader import Reader
from hushcall.numbers import NumberingPlan
from hushcall.phone.calls import candidates, log_cursor
from hushcall.phone.calls.candidates import Ingested
from hushcall.phone.home.store import Store

if TYPE_CHECKING:
    from hushcall.formats.calls.call import ReadResult


@dataclass(frozen=True, slots=True)
class LogTaken:
    """What became of one log. ``first_problem`` says where and which rule was broken, never a phone number."""

    format: str
    counts: Ingested
    malformed: int
    first_problem: str
    local: bool = False  # whether its dates have no time zone


def take_log(
    store: Store,
    path: Path,
    plan: NumberingPlan,
    now: int,
    form: str | Reader | None = None,
    zone: tzinfo = UTC,
    *,
    again: bool = False,
) -> LogTaken:
    """Take in what a log holds beyond the phone's cursor; all of it where ``again``.

    ``form`` is the format, by default recognised.
    """
    result, cursor = log_cursor.read_new(store, path, form, zone, again=again)
    counts = candidates.ingest(store, result.calls, plan, now)
    log_cursor.keep(store, path, cursor)
    return _taken(result, counts)


def take_bytes(
    store: Store, data: bytes, plan: NumberingPlan, now: int, form: str | Reader | None = None, zone: tzinfo = UTC
) -> LogTaken:
    """Take in a log that is no file; ``form`` is its format, by default recognised."""
    from hushcall.formats.calls.reading import read_calls  # all formats at once

    result = form.read(data, zone) if isinstance(form, Reader) else read_calls(data, form, zone)
    return _taken(result, candidates.ingest(store, result.calls, plan, now))


@dataclass(frozen=True, slots=True)
class ContactsTaken:
    """How many of the plan's numbers a file of contacts held, and how many entries could not be read."""

    numbers: int
    malformed: int


def take_contacts(store: Store, path: Path, plan: NumberingPlan) -> ContactsTaken:
    """Take in a file of contacts: their numbers are never reported, and always let through."""
    from hushcall.formats.calls.contacts import read_contacts

    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidData("contacts", f"be readable ({error.strerror})", path.name) from None
    found = read_contacts(data)
    return ContactsTaken(candidates.add_contacts(store, found.numbers, plan), found.malformed)


def zone_of_logs(store: Store, given: str | None = None) -> tzinfo:
    """The zone of logs in local time: the one given, which is remembered, or the one given last, or this machine's."""
    from zoneinfo import ZoneInfo

    name = given or store.get("zone")
    if not name:
        return machines_zone()
    try:
        found = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidParameter("zone", "be a time zone like Europe/Berlin", name) from None
    if given:
        store.put("zone", given)
    return found


def machines_zone() -> tzinfo:
    """The zone of this machine's clock: ``TZ``, or what ``/etc/localtime`` is; else its difference from UTC today."""
    from zoneinfo import ZoneInfo

    named = os.environ.get("TZ", "").lstrip(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    try:
        return ZoneInfo(named)
    except (KeyError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever a log does; None while there is none, as between the two files of a rotation."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _taken(result: ReadResult, counts: Ingested) -> LogTaken:
    from hushcall.formats.calls.reading import READERS

    local = result.format in READERS and READERS[result.format].local
    return LogTaken(result.format, counts, result.malformed, result.first_problem, local)
