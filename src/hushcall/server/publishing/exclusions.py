"""What is never listed, whatever many phones report: emergency numbers, the operator's allowlist, appealed numbers.

The allowlist is a file, a table, and a lookup of the operator's own, which is the paper's reverse-lookup check: a
command that reads numbers from its input, one a line, and prints those that must not be listed. One rule, read by the
publisher, which acts on it, and by the pages, which put it into words.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import phonenumbers
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidData, InvalidNumber, InvalidParameter
from hushcall.numbers import Number, NumberingPlan
from hushcall.server.db import schema
from hushcall.server.settings import ListSettings


@dataclass(frozen=True)
class Exclusions:
    """What keeps numbers off the list, but for the lookup. ``file_problem``: the allow file cannot be read."""

    plan: NumberingPlan
    appealed: frozenset[str]
    allowed: frozenset[str]
    in_file: frozenset[str]
    file_problem: InvalidData | None = None

    def why_not(self, number: str) -> str:
        """Why this number stays off the list, in a few words; empty where nothing here keeps it off."""
        reasons = (
            (number in self.appealed, "appealed"),
            (number in self.allowed, "on the allowlist"),
            (number in self.in_file, "in the allow file"),
            (is_protected(number, self.plan), "emergency or service code"),
        )
        return next((words for holds, words in reasons if holds), "")


def exclusions(connection: Connection, settings: ListSettings, plan: NumberingPlan) -> Exclusions:
    """What the tables and the file say now."""
    appealed, allowed = _in_tables(connection)
    in_file, problem = frozenset[str](), None
    if settings.allow_file is not None:
        try:
            in_file = read_allow_file(settings.allow_file, plan)
        except InvalidData as error:
            problem = error
    return Exclusions(plan, appealed, allowed, in_file, problem)


def corrected(connection: Connection, candidates: frozenset[str]) -> frozenset[str]:
    """Those of the candidates that operators keep off just now: appealed, or on the allowlist."""
    appealed, allowed = _in_tables(connection)
    return candidates & (appealed | allowed)


def _in_tables(connection: Connection) -> tuple[frozenset[str], frozenset[str]]:
    """What is appealed, and what is allowed."""
    appealed = sa.select(schema.appeals.c.number).where(schema.appeals.c.closed.is_(None))
    allowed = sa.select(schema.allowed.c.number)
    return frozenset(connection.execute(appealed).scalars()), frozenset(connection.execute(allowed).scalars())


def never_listed(
    connection: Connection,
    settings: ListSettings,
    plan: NumberingPlan,
    candidates: Collection[str],
    known: Collection[str] | None = None,
) -> frozenset[str]:
    """Those of the candidates that stay off the list.

    ``known``: what is listed already, for a correction between rounds, which must not wait for a file or a lookup that
    is out of order. What they let pass before stays, what they kept off stays off, and the lookup is not asked again.
    """
    rule = exclusions(connection, settings, plan)
    off = {number for number in candidates if rule.why_not(number)}
    if known is None:
        if rule.file_problem is not None:
            raise rule.file_problem
        left = sorted(set(candidates) - off)
        if settings.allow_command and left:
            off |= look_up(settings.allow_command, left, settings.allow_timeout)
    elif settings.allow_command or rule.file_problem is not None:
        off |= set(candidates) - set(known)
    return frozenset(off)


def is_protected(number: str | Number, plan: NumberingPlan) -> bool:
    """Whether dialling it could reach an emergency service or a short code: such a number must never be blocked.

    A number that is none of the plan's is protected too: a list names one plan, and nobody could say what this reaches.
    """
    try:
        parsed = number if isinstance(number, Number) else plan.parse(number)
    except InvalidNumber:
        return True
    # 211 … 911 as an area code: no such area exists in North America, and none may be listed.
    service = plan.country_code == 1 and parsed.area % 100 == 11
    return service or phonenumbers.connects_to_emergency_number(f"{plan.national_prefix}{parsed.digits}", plan.region)


def read_allow_file(path: Path, plan: NumberingPlan) -> frozenset[str]:
    """The numbers of a file, one a line in any usual notation; ``#`` starts a comment."""
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


def look_up(command: list[str], numbers: Collection[str], timeout: float) -> frozenset[str]:
    """Ask the operator's command. If it fails, so do we: a list is better late than wrong."""
    asked = "".join(f"{number}\n" for number in numbers)
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=timeout, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        rule = f"be a command that answers within {timeout:g} s ({error.__class__.__name__})"
        raise InvalidParameter("allow_command", rule, command[0]) from None
    return frozenset(done.stdout.split()) & frozenset(numbers)
