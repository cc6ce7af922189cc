"""The list that phones download: what rounds found comes in, versioned bytes leave, and deltas between versions.

Pure, and reproducible to the byte: a list is a function of the sightings, the window, what is never listed and the
version number, whatever the order in which anything arrived. One line of JSON says how it was made; then one line an
entry, sorted by number, so that a phone can load a hundred thousand of them without parsing any.

>>> seen = [Sighting("+12025550143", 3, 1_800_000_000, 118.2, 97.0, 140.1, 1e-9)]
>>> [(e.number, e.days, round(e.estimate)) for e in listed(seen, newest=4, window=7)]
[('+12025550143', 1, 118)]
>>> listed(seen, newest=10, window=7)
()
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any

from hushcall import checks
from hushcall.errors import InvalidList, InvalidParameter

FORMATS = ("hushcall-list/1", "hushcall-list/2")
"""Both are read. In the second, entries say over how many rounds they were found, and the header when to block."""
DELTA_FORMAT = "hushcall-delta/1"
E164 = re.compile(r"\+[1-9][0-9]{6,14}", re.ASCII)
"""A listed number: a plus and 7 to 15 digits. Nothing else ever reaches a list, a delta or an export."""


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """A round found this number: when the round opened (unix seconds), how many phones reported it, how surely.

    ``window`` is over how many rounds, itself the last, the evidence was gathered.
    """

    number: str
    round: int
    at: int
    estimate: float
    low: float
    high: float
    p_value: float
    window: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A listed number. ``first`` and ``last`` are when it was seen (unix seconds), ``days`` in how many rounds.

    ``window`` is over how many rounds the last sighting was made; 0 in a list of format 1, which does not say.

    The estimate and its interval are kept to a tenth of a phone, as they are published: what is made of a list, and
    what is made of its bytes read back, never differ.
    """

    number: str
    first: int
    last: int
    days: int
    estimate: float
    low: float
    high: float
    p_value: float
    window: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.number, str) or not E164.fullmatch(self.number):
            raise InvalidList("number", "be a plus and 7 to 15 digits", self.number)
        if type(self.days) is not int or self.days < 1:
            raise InvalidList("days", "be a whole number of at least 1", self.days)
        if type(self.window) is not int or self.window < 0:
            raise InvalidList("window", "be a whole number of rounds", self.window)
        for name in ("estimate", "low", "high"):
            # + 0.0: a minus zero, equal to zero, would be printed otherwise
            object.__setattr__(self, name, round(_finite(name, getattr(self, name)), 1) + 0.0)
        object.__setattr__(self, "p_value", float(f"{_finite('p_value', self.p_value):.2e}"))

    def line(self) -> bytes:
        """One line of the list. The number comes first: a phone finds it there without parsing the rest."""
        row = {
            "number": self.number,
            "first": iso(self.first),
            "last": iso(self.last),
            "days": self.days,
            "estimate": self.estimate,
            "low": self.low,
            "high": self.high,
            "p": self.p_value,
        }
        return _json({**row, "window": self.window} if self.window else row)

    @classmethod
    def from_line(cls, line: bytes) -> Entry:
        """Read such a line back."""
        try:
            row = json.loads(line)
            first, last = unix(row["first"]), unix(row["last"])
            estimate, low, high, p_value = (float(row[key]) for key in ("estimate", "low", "high", "p"))
            window = row.get("window", 0)  # a list of format 1 has none
            return cls(row["number"], first, last, row["days"], estimate, low, high, p_value, window)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise InvalidList("entry", "be one JSON object with number, first, last, days, …", line) from None


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which terms a list was made: printed in its first line, for whoever wants to judge it.

    ``block_days``: a number warns until it was found in so many rounds, or over so many; then it blocks. None: a list
    of format 1, which leaves it to the phone.
    """

    mechanism: str
    epsilon: float
    tau: int
    level: float
    plan: str
    window: int
    block_days: int | None = None

    def __post_init__(self) -> None:
        for name in ("mechanism", "plan"):
            if not isinstance(getattr(self, name), str):
                raise InvalidList(name, "be a text", getattr(self, name))
        for name in ("epsilon", "level"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidList(name, "be a finite number", value)
        checks.whole("tau", self.tau, 0)
        checks.whole("window", self.window, 1)
        if self.block_days is not None:
            checks.whole("block_days", self.block_days, 1)

    def block(self, entry: Entry) -> bool:
        """Whether a number is to be blocked, by the list's own rule; otherwise to be warned of."""
        return self.block_days is None or max(entry.days, entry.window) >= self.block_days


@dataclass(frozen=True)
class Blocklist:
    """One version of the list. ``round`` is the newest round that went in, ``made`` when it closed (unix seconds)."""

    version: int
    round: int
    made: int
    terms: Terms
    entries: tuple[Entry, ...] = field(repr=False)

    def __post_init__(self) -> None:
        checks.whole("version", self.version, 0)
        checks.whole("round", self.round, 0)
        numbers = [entry.number for entry in self.entries]
        if any(a >= b for a, b in pairwise(numbers)):
            raise InvalidList("entries", "be sorted by number, each number once", f"{len(numbers)} entries")
        if any((entry.window > 0) != (self.terms.block_days is not None) for entry in self.entries):
            raise InvalidList("entries", f"have a window in {FORMATS[1]}, and none in {FORMATS[0]}", self.format)

    @property
    def format(self) -> str:
        """Which layout it is written in: the first where nothing says when to block."""
        return FORMATS[0] if self.terms.block_days is None else FORMATS[1]

    def to_block(self) -> Blocklist:
        """The same list without the numbers that only warn: for whatever can block and cannot warn."""
        return replace(self, entries=tuple(entry for entry in self.entries if self.terms.block(entry)))

    def header(self) -> dict[str, Any]:
        """The first line: version, round, time and terms, without which entries mean nothing."""
        terms = {name: getattr(self.terms, name) for name in Terms.__slots__}
        if self.terms.block_days is None:
            del terms["block_days"]
        start = {"format": self.format, "version": self.version, "round": self.round, "made": iso(self.made)}
        return {**start, **terms, "entries": len(self.entries)}

    def to_bytes(self) -> bytes:
        """Equal lists give equal bytes."""
        return b"".join([_json(self.header()), *(entry.line() for entry in self.entries)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Blocklist:
        """Read a list back, strictly: only what :meth:`to_bytes` writes is one."""
        lines = data.splitlines(keepends=True)
        found = _from_header(lines[0] if lines else b"", tuple(Entry.from_line(line) for line in lines[1:]))
        if found.to_bytes() != data:
            raise InvalidList("list", "be written as this release writes it", f"{len(data)} bytes")
        return found


def listed(
    sightings: Iterable[Sighting], newest: int, window: int, never: Collection[str] = frozenset()
) -> tuple[Entry, ...]:
    """The numbers seen in the last ``window`` rounds, up to round ``newest``, without those never to be listed.

    An entry tells of the unbroken run of sightings that ends in the window: a number that left the list and came back
    starts anew, since it may have another owner by now.
    """
    checks.whole("window", window, 1)
    unlisted = frozenset(never)
    known = sorted(s for s in sightings if s.round <= newest and s.number not in unlisted)
    entries = []
    for number, group in groupby(known, key=lambda sighting: sighting.number):
        run: list[Sighting] = []
        for sighting in group:
            if run and sighting.round - run[-1].round > window:  # a gap of one window: listed the day before, too
                run = []
            run.append(sighting)
        if newest - run[-1].round < window:
            last, days = run[-1], len({sighting.round for sighting in run})
            entries.append(
                Entry(
                    *(number, run[0].at, last.at, days, last.estimate, max(0.0, last.low), last.high, last.p_value),
                    window=last.window,
                )
            )
    return tuple(entries)


def delta(old: Blocklist, new: Blocklist) -> bytes:
    """What turns one version's bytes into another's: the new header, then lines to remove and lines to put."""
    before = {entry.number: entry.line() for entry in old.entries}
    after = {entry.number: entry.line() for entry in new.entries}
    head = {
        "format": DELTA_FORMAT,
        "from": old.version,
        "from_sha256": _digest(_json(old.header()), before.values()),
        "to": new.version,
        "to_sha256": _digest(_json(new.header()), after.values()),
        "header": new.header(),
    }
    removed = [_json({"remove": number}) for number in sorted(before.keys() - after.keys())]
    put = [line for number, line in after.items() if before.get(number) != line]
    return b"".join([_json(head), *removed, *put])


def apply_delta(old: bytes, change: bytes) -> bytes:
    """The new list's bytes from the old one's: checked against the digest that the delta names.

    Works on lines: no entry is parsed. The caller still has to compare the result with the *signed* digest.
    """
    first, _, rest = change.partition(b"\n")
    try:
        head = json.loads(first)
        versions = (head["format"], head["from_sha256"], head["to_sha256"])
        header = _json(dict(head["header"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidList("delta", f"start with a {DELTA_FORMAT} header", first) from None
    if versions[0] != DELTA_FORMAT:
        raise InvalidList("delta", f"have the format {DELTA_FORMAT}", versions[0])
    if digest(old) != versions[1]:
        raise InvalidList("list", "be the version that the delta starts from", digest(old))
    lines = {_number_of(line): line for line in old.splitlines(keepends=True)[1:]}
    for line in rest.splitlines(keepends=True):
        if line.startswith(b'{"remove":'):
            lines.pop(_number_of(line), None)
        else:
            lines[_number_of(line)] = line
    result = b"".join([header, *(lines[number] for number in sorted(lines))])
    if digest(result) != versions[2]:
        raise InvalidList("delta", "lead to the version that it names", digest(result))
    return result


def _digest(header: bytes, lines: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join([header, *lines])).hexdigest()


def _number_of(line: bytes) -> bytes:
    """What stands in the first value of a line, without parsing it."""
    parts = line.split(b'"', 4)
    if len(parts) < 4:
        raise InvalidList("line", "start with a number", line)
    return parts[3]


def _from_header(line: bytes, entries: tuple[Entry, ...]) -> Blocklist:
    try:
        head = json.loads(line)
        if head["format"] not in FORMATS:
            raise InvalidList("list", f"have a format of {', '.join(FORMATS)}", head["format"])
        terms = terms_of(head)
        return Blocklist(head["version"], head["round"], unix(head["made"]), terms, entries)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, InvalidParameter):
        raise InvalidList("list", f"start with a header of {', '.join(FORMATS)}", line) from None


def terms_of(header: Mapping[str, Any]) -> Terms:
    """The terms that a list's first line names."""
    known = [name for name in Terms.__slots__ if name != "block_days" or header["format"] != FORMATS[0]]
    return Terms(**{name: header[name] for name in known})


def digest(data: bytes) -> str:
    """What deltas and signatures know a version by: SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def renumbered(made: Blocklist, version: int) -> Blocklist:
    """The same list under another version number."""
    return replace(made, version=version)


def _finite(field: str, value: float) -> float:
    if not math.isfinite(value):
        raise InvalidList(field, "be a finite number", value)
    return float(value)


def iso(seconds: int) -> str:
    """Unix seconds as the list prints them."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"


def unix(text: str) -> int:
    """The inverse of :func:`iso`: only that one layout, since ``fromisoformat`` (ten times faster) reads many."""
    if not _ISO.fullmatch(text):
        raise ValueError(f"not a time as a list prints it: {text!r}")
    return int(datetime.fromisoformat(text).timestamp())


def _json(value: dict[str, Any]) -> bytes:
    return _ENCODER.encode(value).encode() + b"\n"
