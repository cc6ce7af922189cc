"""Imported complaints: numbers that others name, in a signed file of their own beside the list.

They are stored, published, expire and are removed apart from what rounds find, which they never touch. Appeals, the
allowlist and protected codes keep them off as they keep findings off. The operator's lookup is asked at the import.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from tuf.api.metadata import TargetFile

from hushcall.errors import InvalidParameter, NotFound
from hushcall.protocol import imported
from hushcall.protocol.blocklist import line_of
from hushcall.protocol.imported import TARGET, Imported
from hushcall.server.db import list_entries, schema
from hushcall.server.db.store import PublishedFiles, Store, put_files
from hushcall.server.publishing.exclusions import look_up, read_exclusions
from hushcall.server.rounds import hints
from hushcall.server.settings import DAY_SECONDS, Settings
from hushcall.server.signing import signer
from hushcall.server.signing.keys import KeyRing

LEAST = {hints.FTC: 3, hints.PHONEBLOCK: 5}
"""Complaints that a number needs, by format. PhoneBlock's own clients drop numbers with up to four votes."""
DAYS = 30
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}")
_FILES, _NUMBERS = schema.imports.c, schema.imported.c


@dataclass(frozen=True)
class Import:
    """The result of an import. ``listed``: numbers of the source that have enough complaints now."""

    source: str
    numbers: int
    skipped: int
    listed: int
    least: int
    until: int


@dataclass(frozen=True)
class Importer:
    store: Store
    settings: Settings
    ring: Callable[[], KeyRing]

    def add(self, address: str, now: int, *, source: str = "", least: int | None = None, days: int = DAYS) -> Import:
        """Imports a file or an address: all of it, or on an error nothing. The same file again replaces itself.

        Complaints of the FTC's daily files add up. Another list replaces what its source had. By default the source is
        named after its format.
        """
        plan = self.settings.round.chosen_plan()
        try:
            complaints = hints.read_source(address, self.settings.hints, plan, now)
        except hints.Unusable as error:
            raise InvalidParameter("complaints", f"be a file or address that can be read: {error}", address) from None
        name, least = source or complaints.form, least or LEAST.get(complaints.form, 1)
        if not _NAME.fullmatch(name):
            raise InvalidParameter("source", "be at most 40 letters, digits, spaces, dots and dashes", name)
        if complaints.form == hints.PLAIN and complaints.skipped > len(complaints.numbers):
            rule = f"be a list of numbers: {complaints.skipped} lines are none of {plan.name}"
            raise InvalidParameter("complaints", rule, address)
        until = min(now, complaints.made or now) + days * DAY_SECONDS
        if until <= now:
            made = datetime.fromtimestamp(complaints.made or now, UTC).date()
            raise InvalidParameter("complaints", f"be newer than {days} days (--days): this is of {made}", address)
        numbers, settings = set(complaints.numbers), self.settings.list
        if settings.allow_command:
            numbers -= look_up(settings.allow_command, sorted(numbers), settings.allow_timeout_seconds)
        row = {"source": name, "address": address, "sha256": complaints.sha256, "at": now, "until": until}
        with self.store.write("import complaints") as connection:
            self.store.lock_publishing(connection)
            replaced = _FILES.source == name
            if complaints.form == hints.FTC:
                replaced &= _FILES.sha256 == complaints.sha256
            _delete(connection, replaced)
            added = connection.execute(sa.insert(schema.imports).values(**row, least=least).returning(_FILES.id))
            file = added.scalar_one()
            rows = [{"import_id": file, "number": n, "complaints": complaints.numbers[n]} for n in sorted(numbers)]
            for part in list_entries.chunks(rows):
                connection.execute(sa.insert(schema.imported), part)
            self._publish(connection, now)
            listed = sum(name in number.sources for number in _listed(connection, now))
        return Import(name, len(complaints.numbers), complaints.skipped, listed, least, until)

    def remove(self, source: str, now: int) -> int:
        """Removes all that was imported of a source. Returns how many files that were."""
        with self.store.write("remove an import") as connection:
            self.store.lock_publishing(connection)
            count = _delete(connection, _FILES.source == source)
            if not count:
                raise NotFound("source", "be imported", source, f"Nothing is imported of the source {source}.")
            self._publish(connection, now)
        return count

    def republish(self, now: int) -> bool:
        """Publishes what has not expired, without what operators keep off. False where that is what is signed."""
        with self.store.read() as connection:
            if connection.execute(sa.select(_FILES.id).limit(1)).first() is None and not signed(connection):
                return False
        with self.store.write("publish imported numbers") as connection:
            self.store.lock_publishing(connection)
            return self._publish(connection, now)

    def expire(self, now: int) -> None:
        if self.store.rows(sa.select(_FILES.id).where(_FILES.until <= now).limit(1)):
            self.republish(now)

    def sources(self) -> list[dict[str, Any]]:
        """The imported files, newest first, with the numbers in each."""
        count = sa.select(sa.func.count()).where(_NUMBERS.import_id == _FILES.id).scalar_subquery()
        columns = (_FILES.source, _FILES.address, _FILES.at, _FILES.until, _FILES.least, count.label("numbers"))
        return [dict(row._mapping) for row in self.store.rows(sa.select(*columns).order_by(_FILES.id.desc()))]

    def _publish(self, connection: Connection, now: int) -> bool:
        _delete(connection, _FILES.until <= now)
        files = PublishedFiles(connection)
        targets: dict[str, bytes | TargetFile] = {**signer.target_infos(files)}
        before = targets.pop(TARGET, None)
        rule = read_exclusions(connection, self.settings.list, self.settings.round.chosen_plan())
        numbers = [number for number in _listed(connection, now) if not rule.reason(number.number)]
        if rule.file_problem is not None:  # it may name any of them, so none is new
            known = _published(connection)
            numbers = [number for number in numbers if _find(known, number.number)]
        if numbers:
            targets[TARGET] = data = imported.to_bytes(numbers)
            if before == TargetFile.from_data(TARGET, data, ["sha256"]):
                return False
        elif before is None:
            return False
        put_files(connection, signer.publish(files, self.ring(), targets, datetime.fromtimestamp(now, UTC)))
        return True


def signed(connection: Connection) -> dict[str, TargetFile]:
    """The signed file, for those who sign another list beside it."""
    info = signer.target_infos(PublishedFiles(connection)).get(TARGET)
    return {TARGET: info} if info else {}


def find(store: Store, number: str, now: int) -> Imported | None:
    """What is published about a number."""
    with store.read() as connection:
        row = _find(_published(connection), number)
    return row and row.at(now)


def published_sources(store: Store) -> list[tuple[str, int]]:
    """The sources that are published, and how many numbers each names."""
    with store.read() as connection:
        lines = _published(connection).splitlines()[1:]
    counts: dict[str, int] = {}
    for name in (name for line in lines for name in Imported.from_line(line).sources):
        counts[name] = counts.get(name, 0) + 1
    return sorted(counts.items())


def current(store: Store) -> str:
    """The path of the signed file. Empty where there is none."""
    with store.read() as connection:
        return next(map(signer.place_of, signed(connection).values()), "")


def _published(connection: Connection) -> bytes:
    info = signed(connection).get(TARGET)
    return PublishedFiles(connection)[signer.place_of(info)] if info else b""


def _find(data: bytes, number: str) -> Imported | None:
    start, end = line_of(data, number.encode(), data.find(b"\n") + 1)
    return Imported.from_line(data[start:end]) if start < end else None


def _delete(connection: Connection, which: sa.ColumnElement[bool]) -> int:
    files = sa.select(_FILES.id).where(which)
    connection.execute(sa.delete(schema.imported).where(_NUMBERS.import_id.in_(files)))
    return int(connection.execute(sa.delete(schema.imports).where(which)).rowcount)


def _listed(connection: Connection, now: int) -> list[Imported]:
    """The numbers with enough complaints, whatever operators say of them."""
    files = {row.id: row for row in connection.execute(sa.select(schema.imports).order_by(_FILES.id))}
    least = {row.source: row.least for row in files.values()}  # of the newest file
    sums: dict[str, dict[str, tuple[int, int]]] = {}
    for source, own in groupby(sorted(files.values(), key=lambda row: row.source), key=lambda row: row.source):
        kept: dict[str, list[tuple[int, int]]] = {}
        for file in own:
            rows = sa.select(_NUMBERS.number, _NUMBERS.complaints).where(_NUMBERS.import_id == file.id)
            for number, count in connection.execute(rows) if file.until > now else ():
                kept.setdefault(number, []).append((file.until, count))
        for number, counts in kept.items():
            total, enough = 0, 0
            for until, count in sorted(counts, reverse=True):
                total += count
                enough = enough or (until if total >= least[source] else 0)  # then too few are left
            if enough:
                sums.setdefault(number, {})[source] = total, enough
    return [Imported(number, sources) for number, sources in sums.items()]
