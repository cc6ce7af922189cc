"""Imported complaints: numbers that others name, in a signed file of their own beside the list.

They are stored, published, expire and are removed apart from what rounds find, which they never touch. Appeals, the
allowlist and protected codes keep them off as they keep findings off. The operator's lookup is asked at the import.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from tuf.api.metadata import TargetFile

from hushcall.errors import InvalidParameter, NotFound
from hushcall.protocol import imported
from hushcall.protocol.blocklist import line_of
from hushcall.protocol.imported import TARGET, Imported
from hushcall.protocol.numbers import NumberingPlan
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
_MOST = (1 << 31) - 1
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
        plan = self._plan
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
            counts = ((number, min(complaints.numbers[number], _MOST)) for number in sorted(numbers))
            rows = [{"import_id": file, "number": number, "complaints": count} for number, count in counts]
            for part in list_entries.chunks(rows):
                connection.execute(sa.insert(schema.imported), part)
            enough, _ = self._publish(connection, now)
        listed = sum(name in number.sources for number in enough)
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
            return self._publish(connection, now)[1]

    def expire(self, now: int) -> None:
        if self.store.rows(sa.select(_FILES.id).where(_FILES.until <= now).limit(1)):
            self.republish(now)

    def sources(self) -> list[dict[str, Any]]:
        """The imported files, newest first, with the numbers in each."""
        count = sa.select(sa.func.count()).where(_NUMBERS.import_id == _FILES.id).scalar_subquery()
        columns = (_FILES.source, _FILES.address, _FILES.at, _FILES.until, _FILES.least, count.label("numbers"))
        return [dict(row._mapping) for row in self.store.rows(sa.select(*columns).order_by(_FILES.id.desc()))]

    def _publish(self, connection: Connection, now: int) -> tuple[list[Imported], bool]:
        """The numbers with enough complaints, and whether the signed file changed."""
        _delete(connection, _FILES.until <= now)
        files = PublishedFiles(connection)
        targets: dict[str, bytes | TargetFile] = {**signer.target_infos(files)}
        before = targets.pop(TARGET, None)
        rule, enough = read_exclusions(connection, self.settings.list, self._plan), _with_enough(connection)
        numbers = [number for number in enough if not rule.reason(number.number)]
        if rule.file_problem is not None:  # it may name any of them, so none is new
            known = published(connection)
            numbers = [number for number in numbers if known and known.find(number.number, now)]
        if numbers:
            targets[TARGET] = data = imported.to_bytes(numbers)
            if before == TargetFile.from_data(TARGET, data, ["sha256"]):
                return enough, False
        elif before is None:
            return enough, False
        put_files(connection, signer.publish(files, self.ring(), targets, datetime.fromtimestamp(now, UTC)))
        return enough, True

    @property
    def _plan(self) -> NumberingPlan:
        return self.settings.round.chosen_plan()


@dataclass(frozen=True)
class Published:
    """The signed file. ``sources``: how many numbers each names."""

    path: str
    data: bytes = field(repr=False)

    @cached_property
    def sources(self) -> list[tuple[str, int]]:
        rows = map(Imported.from_line, self.data.splitlines()[1:])
        return sorted(Counter(name for row in rows for name in row.sources).items())

    def find(self, number: str, now: int) -> Imported | None:
        start, end = line_of(self.data, number.encode(), self.data.find(b"\n") + 1)
        return Imported.from_line(self.data[start:end]).at(now) if start < end else None


def signed(connection: Connection) -> dict[str, TargetFile]:
    """The signed file's info, for those who sign another list beside it."""
    info = signer.target_infos(PublishedFiles(connection)).get(TARGET)
    return {TARGET: info} if info else {}


def published(connection: Connection, before: Published | None = None) -> Published | None:
    """The signed file. ``before`` is given again where it is still that."""
    path = next(map(signer.place_of, signed(connection).values()), "")
    if not path or (before and before.path == path):
        return before if path else None
    return Published(path, PublishedFiles(connection)[path])


def _delete(connection: Connection, which: sa.ColumnElement[bool]) -> int:
    files = sa.select(_FILES.id).where(which)
    connection.execute(sa.delete(schema.imported).where(_NUMBERS.import_id.in_(files)))
    return int(connection.execute(sa.delete(schema.imports).where(which)).rowcount)


def _with_enough(connection: Connection) -> list[Imported]:
    """The numbers with enough complaints, whatever operators say of them. The threshold is that of the newest file."""
    files = connection.execute(sa.select(schema.imports).order_by(_FILES.id)).all()
    least = {file.source: file.least for file in files}
    expires = {file.id: file.until for file in files}
    sums: dict[str, dict[str, tuple[int, int]]] = {}
    for source, needed in least.items():
        own = [file.id for file in files if file.source == source]
        enough = sa.select(_NUMBERS.number).where(_NUMBERS.import_id.in_(own)).group_by(_NUMBERS.number)
        enough = enough.having(sa.func.sum(_NUMBERS.complaints) >= needed)
        rows = sa.select(schema.imported).where(_NUMBERS.import_id.in_(own), _NUMBERS.number.in_(enough))
        counts: dict[str, list[tuple[int, int]]] = {}
        for row in connection.execute(rows):
            counts.setdefault(row.number, []).append((expires[row.import_id], row.complaints))
        for number, dated in counts.items():
            sums.setdefault(number, {})[source] = _total(dated, needed)
    return [Imported(number, sources) for number, sources in sums.items()]


def _total(dated: list[tuple[int, int]], least: int) -> tuple[int, int]:
    """All complaints, and when too few of them are left."""
    total, until = 0, 0
    for expires, count in sorted(dated, reverse=True):
        total += count
        until = until or (expires if total >= least else 0)
    return total, until
