"""The signed file of imported numbers: what others complain about, apart from what phones found.

Its lines begin like a list's, so that a number is found without parsing the rest. Imported numbers only warn.

>>> number = Imported("+12025550143", {"ftc": (5, 1_800_000_000)})
>>> Imported.from_line(number.line()) == number, number.at(1_799_999_999).words, number.at(1_800_000_000)
(True, '5 complaints to ftc', None)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hushcall.errors import InvalidList
from hushcall.protocol.blocklist import E164, iso, unix
from hushcall.wording import counted

FORMAT = "hushcall-imported/1"
TARGET = "imported.jsonl"


@dataclass(frozen=True, slots=True)
class Imported:
    """A number, with the complaints of each source and when these expire (unix seconds)."""

    number: str
    sources: Mapping[str, tuple[int, int]]

    @property
    def words(self) -> str:
        return " and ".join(f"{counted(complaints, 'complaint')} to {name}" for name, (complaints, _) in self._sorted())

    @property
    def source(self) -> str:
        return " and ".join(name for name, _ in self._sorted())

    @property
    def complaints(self) -> int:
        return sum(complaints for complaints, _ in self.sources.values())

    def at(self, now: int) -> Imported | None:
        """What has not expired. None where everything has."""
        sources = {name: row for name, row in self.sources.items() if now < row[1]}
        return Imported(self.number, sources) if sources else None

    def line(self) -> bytes:
        sources = {name: {"complaints": count, "until": iso(until)} for name, (count, until) in self._sorted()}
        return _json({"number": self.number, "sources": sources})

    @classmethod
    def from_line(cls, line: bytes) -> Imported:
        try:
            row = json.loads(line)
            sources = {str(name): (int(s["complaints"]), unix(s["until"])) for name, s in row["sources"].items()}
            if E164.fullmatch(row["number"]):
                return cls(row["number"], sources)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            pass
        raise InvalidList("imported number", "be one JSON object with number and sources", line)

    def _sorted(self) -> list[tuple[str, tuple[int, int]]]:
        return sorted(self.sources.items())


def to_bytes(numbers: Iterable[Imported]) -> bytes:
    """Equal numbers give equal bytes, in whatever order they come."""
    lines = [number.line() for number in sorted(numbers, key=lambda number: number.number)]
    return b"".join([_json({"format": FORMAT, "entries": len(lines)}), *lines])


def require_header(line: bytes) -> None:
    try:
        if json.loads(line)["format"] == FORMAT:
            return
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InvalidList("imported numbers", f"start with a header of {FORMAT}", line[:100])


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
