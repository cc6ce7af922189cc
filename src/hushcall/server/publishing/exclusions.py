"""What is never listed, whatever many phones report: emergency numbers, the operator's allowlist, appealed numbers.

The allowlist is a file, a table, and a lookup of the operator's own, which is the paper's reverse-lookup check: a
command that reads numbers from its input, one a line, and prints those that must not be listed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path

import phonenumbers
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidData, InvalidNumber, InvalidParameter
from hushcall.numbers import NANP, Number
from hushcall.server.db import schema
from hushcall.server.settings import ListSettings


def never_listed(
    connection: Connection, settings: ListSettings, candidates: Collection[str], known: Collection[str] | None = None
) -> frozenset[str]:
    """Those of the candidates that stay off the list.

    ``known``: what is listed already, for a correction between rounds, which must not wait for a file or a lookup that
    is out of order. What they let pass before stays, what they kept off stays off, and the lookup is not asked again.
    """
    appealed = sa.select(schema.appeals.c.number).where(schema.appeals.c.closed.is_(None))
    off = {str(number) for number in connection.execute(sa.select(schema.allowed.c.number)).scalars()}
    off |= {str(number) for number in connection.execute(appealed).scalars()}
    off |= {number for number in candidates if is_protected(NANP.parse(number))}
    if known is not None and settings.allow_command:
        off |= set(candidates) - set(known)
    if settings.allow_file is not None:
        try:
            off |= read_allow_file(settings.allow_file)
        except InvalidData:
            if known is None:
                raise
            off |= set(candidates) - set(known)
    left = sorted(set(candidates) - off)
    if settings.allow_command and left and known is None:
        off |= look_up(settings.allow_command, left, settings.allow_timeout)
    return frozenset(off)


def is_protected(number: Number) -> bool:
    """Whether dialling it could reach an emergency service or a short code: such a number must never be blocked."""
    digits = f"{number.national}"
    service = number.area % 100 == 11  # 211 … 911 as an area code: no such area exists, and none may be listed
    return service or phonenumbers.connects_to_emergency_number(digits, NANP.region)


def read_allow_file(path: Path) -> frozenset[str]:
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
                numbers.add(str(NANP.parse(plain)))
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
