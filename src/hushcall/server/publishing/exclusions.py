"""What keeps numbers off the list: open appeals, the allowlist, protected codes, and the operator's own lookup.

The allowlist is a table and a file. The lookup is the paper's reverse-lookup check: a command that reads numbers, one a
line, and prints those that must not be listed. Appeals and the allowlist change under the publishing lock: a list that
is about to be published either sees a change, or is corrected afterwards. Numbers are written as the list writes them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import phonenumbers
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidData, InvalidNumber, InvalidParameter, NotFound
from hushcall.protocol.items import OPEN
from hushcall.protocol.numbers import Number, NumberingPlan
from hushcall.server.db import schema
from hushcall.server.db.rows import AllowedRow, AppealRow, typed
from hushcall.server.db.store import Store
from hushcall.server.settings import ListSettings

EMERGENCY_DIGITS = 7
"""More than any emergency number has, so that the digits after these decide nothing."""


def appeal(store: Store, number: str, why: str, who: str, now: int) -> int:
    """Opens an appeal, unless the number has an open one. Returns its id."""
    table = schema.appeals.c
    with store.write("appeal") as connection:
        store.lock_publishing(connection)
        row = {"number": number, "why": why, "who": who, "at": now}
        store.insert_new(connection, schema.appeals, [row], key=("number",))  # unique among open appeals
        still_open = sa.select(table.id).where(table.number == number, table.closed.is_(None))
        return int(connection.execute(still_open).scalar_one())


def close_appeal(store: Store, entry: int, why: str, now: int) -> None:
    """Closes an appeal that was rejected or withdrawn. The number may be listed again."""
    table = schema.appeals.c
    with store.write("close appeal") as connection:
        store.lock_publishing(connection)
        update = sa.update(schema.appeals).where(table.id == entry, table.closed.is_(None))
        if connection.execute(update.values(closed=now, closed_why=why)).rowcount != 1:
            raise NotFound("appeal", "be open", entry, f"There is no open appeal {entry}.")


def allow(store: Store, number: str, why: str, who: str, now: int) -> None:
    row = {"number": number, "why": why, "who": who, "at": now}
    with store.write("allow") as connection:
        store.lock_publishing(connection)
        store.insert_new(connection, schema.allowed, [row], key=("number",))


def disallow(store: Store, number: str) -> None:
    with store.write("disallow") as connection:
        store.lock_publishing(connection)
        if connection.execute(sa.delete(schema.allowed).where(schema.allowed.c.number == number)).rowcount != 1:
            raise NotFound("number", "be on the allowlist", number, "This number is not on the allowlist.")


def appeals(
    store: Store, number: str | None = None, limit: int | None = None, skipped: int = 0, before: int | None = None
) -> list[AppealRow]:
    """The log of appeals, newest first, of one number or all."""
    table = schema.appeals.c
    query = sa.select(schema.appeals).order_by(table.id.desc()).limit(limit).offset(skipped)
    if number is not None:
        query = query.where(table.number == number)
    return typed(AppealRow, store.rows(query if before is None else query.where(table.id < before)))


def count_appeals(store: Store) -> int:
    return int(store.rows(sa.select(sa.func.count(schema.appeals.c.id)))[0][0])


def allowlist(store: Store, number: str | None = None) -> list[AllowedRow]:
    """The allowlist by number, of one number or all."""
    query = sa.select(schema.allowed).order_by(schema.allowed.c.number)
    return typed(AllowedRow, store.rows(query if number is None else query.where(schema.allowed.c.number == number)))


class Reason(StrEnum):
    """Why a number stays off the list."""

    APPEALED = "appealed"
    ALLOWED = "on the allowlist"
    IN_FILE = "in the allow file"
    PROTECTED = "emergency or service code"


@dataclass(frozen=True)
class Exclusions:
    """What keeps numbers off the list, except the lookup. ``file_problem``: the allow file cannot be read."""

    plan: NumberingPlan
    appealed: frozenset[str]
    allowed: frozenset[str]
    in_file: frozenset[str]
    file_problem: InvalidData | None = None

    def reason(self, number: str) -> Reason | None:
        reasons = (
            (number in self.appealed, Reason.APPEALED),
            (number in self.allowed, Reason.ALLOWED),
            (number in self.in_file, Reason.IN_FILE),
            (not number.endswith(OPEN) and is_protected(number, self.plan), Reason.PROTECTED),
        )
        return next((reason for holds, reason in reasons if holds), None)


def read_exclusions(connection: Connection, settings: ListSettings, plan: NumberingPlan) -> Exclusions:
    appealed, allowed = _appealed_and_allowed(connection)
    in_file, problem = frozenset[str](), None
    if settings.allow_file is not None:
        try:
            in_file = read_allow_file(settings.allow_file, plan)
        except InvalidData as error:
            problem = error
    return Exclusions(plan, appealed, allowed, in_file, problem)


KEPT_OFF = (
    sa.select(schema.appeals.c.number)
    .where(schema.appeals.c.closed.is_(None))
    .union(sa.select(schema.allowed.c.number))
)
"""The numbers of open appeals and of the allowlist."""


def kept_off_by_operators(connection: Connection) -> frozenset[str]:
    return frozenset(connection.execute(KEPT_OFF).scalars())


def _appealed_and_allowed(connection: Connection) -> tuple[frozenset[str], frozenset[str]]:
    appealed = sa.select(schema.appeals.c.number).where(schema.appeals.c.closed.is_(None))
    allowed = sa.select(schema.allowed.c.number)
    return frozenset(connection.execute(appealed).scalars()), frozenset(connection.execute(allowed).scalars())


def never_listed(
    connection: Connection,
    settings: ListSettings,
    plan: NumberingPlan,
    candidates: Collection[str],
    listed: Collection[str] | None = None,
) -> frozenset[str]:
    """The candidates that stay off the list.

    ``listed`` is the present list, for a correction between rounds. That must not fail with a broken allow file or wait
    for a slow lookup: where either is configured or broken, only numbers of the present list are let through.
    """
    rule = read_exclusions(connection, settings, plan)
    off = {number for number in candidates if rule.reason(number)}
    if listed is None:
        if rule.file_problem is not None:
            raise rule.file_problem
        remaining = sorted(set(candidates) - off)
        if settings.allow_command and remaining:
            off |= look_up(settings.allow_command, remaining, settings.allow_timeout_seconds)
    elif settings.allow_command or rule.file_problem is not None:
        off |= set(candidates) - set(listed)
    return frozenset(off)


def is_protected(number: str | Number, plan: NumberingPlan) -> bool:
    """Whether dialling the number could reach an emergency service or a short code.

    A number outside the plan is protected too, because nobody knows what it reaches.
    """
    try:
        parsed = number if isinstance(number, Number) else plan.parse(number)
    except InvalidNumber:
        return True
    # 211 … 911 as an area code: no such area exists in North America, and none may be listed.
    service = plan.country_code == 1 and parsed.area % 100 == 11
    return service or _reaches_emergency(f"{plan.national_prefix}{parsed.digits}"[:EMERGENCY_DIGITS], plan.region)


@lru_cache(maxsize=1 << 18)
def _reaches_emergency(beginning: str, region: str) -> bool:
    return bool(phonenumbers.connects_to_emergency_number(beginning, region))


def read_allow_file(path: Path, plan: NumberingPlan) -> frozenset[str]:
    """The numbers of a file, one a line in any notation. ``#`` starts a comment."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidData("allow_file", f"be a readable text file ({error.__class__.__name__})", str(path)) from None
    numbers = set()
    for place, line in enumerate(text.splitlines(), 1):
        plain = line.split("#")[0].strip()
        if plain:
            try:
                numbers.add(str(plan.parse(plain)))
            except InvalidNumber:
                raise InvalidData("allow_file", f"hold a number in line {place}", str(path)) from None
    return frozenset(numbers)


def look_up(command: list[str], numbers: Collection[str], timeout_seconds: float) -> frozenset[str]:
    """Runs the operator's lookup. If it fails, so does the list: better late than wrong."""
    lines = "".join(f"{number}\n" for number in numbers)
    try:
        done = subprocess.run(  # noqa: S603
            command, input=lines, capture_output=True, text=True, timeout=timeout_seconds, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        rule = f"be a command that answers within {timeout_seconds:g} s ({error.__class__.__name__})"
        raise InvalidParameter("allow_command", rule, command[0]) from None
    return frozenset(done.stdout.split()) & frozenset(numbers)
