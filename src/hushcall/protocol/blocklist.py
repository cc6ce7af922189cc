"""The list that clients download, its versions and the deltas between them.

A list is a function of the sightings, the window, the exclusions and the version number. It is reproducible to the
byte, in whatever order its input came. The first line is a JSON header. Each further line is one entry, sorted by
number, so that a client can load a hundred thousand of them without parsing any.

>>> seen = [Sighting("+12025550143", 3, 1_800_000_000, 118.2, 97.0, 140.1, 1e-9)]
>>> [(e.number, e.days, round(e.estimate)) for e in listed(seen, newest=4, window_rounds=7)]
[('+12025550143', 1, 118)]
>>> listed(seen, newest=10, window_rounds=7)
()
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby, pairwise
from mmap import mmap
from typing import Any, BinaryIO, ClassVar, Self

from hushcall import checks
from hushcall.errors import InvalidList, InvalidParameter

FORMATS = ("hushcall-list/1", "hushcall-list/2")
"""Both are read. The second has the window of each entry, and when to block: in each entry, or once in the header."""
OLDER_CLIENTS_WARN = 32
"""``block_days`` of a list whose entries say what blocks, for clients that do not read these: more than any window."""
DELTA_FORMAT = "hushcall-delta/1"
E164 = re.compile(r"\+[1-9][0-9]{6,14}", re.ASCII)
"""A plus and 7 to 15 digits. Nothing else ever reaches a list, a delta or an export."""
_BLOCK_BYTES = 1 << 18
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """A round found this number. ``at`` is when the round opened (unix seconds).

    ``window`` is the number of rounds, up to this one, that the evidence is from. ``strict`` is the fewest
    rounds that pass the rule of blocking, 0 if none do. ``hinted``: 2 if it was found only because a hint named it, 1
    if that is why it passed the strict rule.
    """

    number: str
    round: int
    at: int
    estimate: float
    low: float
    high: float
    p_value: float
    window: int = 0
    strict: int = 0
    hinted: int = 0
    rounds_per_day: int = 0
    """0: as many as on the newest round's day."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A listed number, seen from ``first`` to ``last`` (unix seconds).

    ``days`` is on how many days it was found, ``window`` how many days are behind the last sighting (0 in a list of
    format 1). Where rounds are shorter than a day, both are rounded up. ``block`` says whether the number blocks. It is
    None in an older list, whose header says it. ``hinted``: without a hint that named the number, it would not be on
    the list, or would not block. ``source`` is in no list: who names the number instead of a server's phones, for an
    export of several lists.

    The estimate and its interval are rounded to a tenth, as they are published, so that a list equals its bytes read
    back.
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
    block: bool | None = None
    hinted: bool = False
    source: str = ""
    PATTERN: ClassVar = E164

    def __post_init__(self) -> None:
        if not isinstance(self.number, str) or not self.PATTERN.fullmatch(self.number):
            raise InvalidList("number", "be a plus and 7 to 15 digits", self.number)
        if type(self.days) is not int or self.days < 1:
            raise InvalidList("days", "be a whole number of at least 1", self.days)
        if type(self.window) is not int or self.window < 0:
            raise InvalidList("window", "be a whole number of days", self.window)
        if type(self.block) not in (bool, type(None)) or type(self.hinted) is not bool:
            raise InvalidList("block and hinted", "be true or false", (self.block, self.hinted))
        for name in ("estimate", "low", "high"):
            # + 0.0: a minus zero equals zero and prints differently
            object.__setattr__(self, name, round(_finite(name, getattr(self, name)), 1) + 0.0)
        object.__setattr__(self, "p_value", float(f"{_finite('p_value', self.p_value):.2e}"))

    def line(self) -> bytes:
        """One line of the list. The number comes first, so that a client finds it without parsing the rest."""
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
        row |= {"window": self.window} if self.window else {}
        row |= {} if self.block is None else {"block": self.block}
        return _json(row | ({"hinted": True} if self.hinted else {}))

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        try:
            row = json.loads(line)
            first, last = unix(row["first"]), unix(row["last"])
            estimate, low, high, p_value = (float(row[key]) for key in ("estimate", "low", "high", "p"))
            window = row.get("window", 0)  # a list of format 1 has none
            tier = row.get("block"), row.get("hinted", False)  # an older list has none
            return cls(row["number"], first, last, row["days"], estimate, low, high, p_value, window, *tier)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise InvalidList("entry", "be one JSON object with number, first, last, days, …", line) from None


@dataclass(frozen=True, slots=True)
class ListHeader:
    """How a list was made: the round parameters of its first line.

    In a list whose entries do not say it, a number blocks once it was found on ``block_days`` days, or over so
    many, and warns before. None in a list of format 1, which leaves it to the client.
    """

    mechanism: str
    epsilon: float
    tau: int
    level: float
    plan: str
    window_days: int
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
        checks.whole("window", self.window_days, 1)
        if self.block_days is not None:
            checks.whole("block_days", self.block_days, 1)

    def block(self, entry: Entry) -> bool:
        """Whether the list's own rule blocks a number. Otherwise it warns."""
        if entry.block is not None:
            return entry.block
        return self.block_days is None or max(entry.days, entry.window) >= self.block_days

    def to_plain(self) -> dict[str, Any]:
        return {key: getattr(self, name) for name, key in _HEADER_KEYS.items() if getattr(self, name) is not None}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> ListHeader:
        keys = [
            (name, key) for name, key in _HEADER_KEYS.items() if name != "block_days" or values["format"] != FORMATS[0]
        ]
        return cls(**{name: values[key] for name, key in keys})


_HEADER_KEYS = {name: name for name in ("mechanism", "epsilon", "tau", "level", "plan")} | {
    "window_days": "window",
    "block_days": "block_days",
}


@dataclass(frozen=True)
class Blocklist:
    """One version of the list. ``round`` is its newest round, ``made`` when that closed (unix seconds).

    ``ranges`` are those that are listed beside it (``protocol.ranges``), for exports.
    """

    version: int
    round: int
    made: int
    header: ListHeader
    entries: tuple[Entry, ...] = field(repr=False)
    ranges: tuple[Entry, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.whole("version", self.version, 0)
        checks.whole("round", self.round, 0)
        numbers = [entry.number for entry in self.entries]
        if any(a >= b for a, b in pairwise(numbers)):
            raise InvalidList("entries", "be sorted by number, each number once", f"{len(numbers)} entries")
        if any((entry.window > 0) != (self.header.block_days is not None) for entry in self.entries):
            raise InvalidList("entries", f"have a window in {FORMATS[1]}, and none in {FORMATS[0]}", self.format)
        if len({entry.block is None for entry in self.entries}) > 1:
            raise InvalidList("entries", "all say whether they block, or none", self.format)

    @property
    def format(self) -> str:
        return FORMATS[0] if self.header.block_days is None else FORMATS[1]

    def to_block(self) -> Blocklist:
        """The same list without the numbers that only warn, for programs that cannot warn."""
        ranges = tuple(entry for entry in self.ranges if entry.block)
        return replace(self, entries=tuple(entry for entry in self.entries if self.header.block(entry)), ranges=ranges)

    def first_line(self) -> dict[str, Any]:
        start = {"format": self.format, "version": self.version, "round": self.round, "made": iso(self.made)}
        return {**start, **self.header.to_plain(), "entries": len(self.entries)}

    def to_bytes(self) -> bytes:
        """Equal lists give equal bytes."""
        return b"".join([_json(self.first_line()), *(entry.line() for entry in self.entries)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Blocklist:
        """Reads a list strictly: only what :meth:`to_bytes` writes is one."""
        lines = data.splitlines(keepends=True)
        blocklist = _from_first_line(lines[0] if lines else b"", tuple(Entry.from_line(line) for line in lines[1:]))
        if blocklist.to_bytes() != data:
            raise InvalidList("list", "be written as this release writes it", f"{len(data)} bytes")
        return blocklist


def first_line(version: Blocklist, entries: int) -> bytes:
    """The first line of a version whose entries are elsewhere."""
    return _json({**version.first_line(), "entries": entries})


def read_first_line(line: bytes) -> tuple[Blocklist, int]:
    """The inverse: a version without its entries, and how many it has."""
    return _from_first_line(line, ()), int(json.loads(line)["entries"])


def listed(
    sightings: Iterable[Sighting],
    newest: int,
    window_rounds: int,
    never: Collection[str] = frozenset(),
    block_rounds: int | None = None,
    rounds_per_day: int = 1,
    kind: type[Entry] = Entry,
) -> tuple[Entry, ...]:
    """The numbers seen in the last ``window_rounds`` rounds, up to round ``newest``, without those in ``never``.

    An entry sums up the unbroken run of sightings that ends in the window. A number that left the list and came back
    starts a new run, since it may have another owner. Its first finding is the new run's.

    With ``block_rounds``, entries say whether they block (:func:`blocking`). Days are counted from a run's first round.
    """
    checks.whole("window", window_rounds, 1)
    unlisted = frozenset(never)
    candidates = sorted(s for s in sightings if s.round <= newest and s.number not in unlisted)
    entries = []
    for number, group in groupby(candidates, key=lambda sighting: sighting.number):
        run: list[Sighting] = []
        for sighting in group:
            if run and sighting.round - run[-1].round > window_rounds:  # listed until the round before
                run = []
            run.append(sighting)
        if newest - run[-1].round < window_rounds:
            last, lengths = run[-1], {sighting.rounds_per_day or rounds_per_day for sighting in run}
            recent = late = [sighting for sighting in run if newest - sighting.round < window_rounds]
            block_days = 0 if block_rounds is None else (block_rounds - 1) // rounds_per_day
            if len(lengths) == 1:
                (length,) = lengths
                days = len({(sighting.round - run[0].round) // length for sighting in run})
                least = block_days * length + 1
            else:  # rounds became longer or shorter: days are the calendar's
                days = len({sighting.at // DAY_SECONDS for sighting in run})
                late = [sighting for sighting in recent if sighting.at - run[0].at >= block_days * DAY_SECONDS]
                least = min(block_days, 1) + 1
            blocks = [] if block_rounds is None else blocking(late, run[0].round, least)
            entries.append(
                kind(
                    number,
                    first=run[0].at,
                    last=last.at,
                    days=days,
                    estimate=last.estimate,
                    low=max(0.0, last.low),
                    high=last.high,
                    p_value=last.p_value,
                    window=-(-last.window // (last.rounds_per_day or rounds_per_day)),
                    block=None if block_rounds is None else bool(blocks),
                    hinted=all(each.hinted for each in blocks) if blocks else all(s.hinted == 2 for s in recent),
                )
            )
    return tuple(entries)


def blocking(sightings: Iterable[Sighting], first: int, block_rounds: int) -> list[Sighting]:
    """The sightings that block a number which was first found in round ``first``.

    They pass the strict rule by new evidence: over rounds that are all later than the first finding, so that no report
    counts for both. With the first as round 1, each is of round ``block_rounds`` or later. With 1, the strict rule
    alone blocks.
    """
    strict = [sighting for sighting in sightings if sighting.strict and sighting.round - first + 1 >= block_rounds]
    if block_rounds == 1:
        return strict
    return [sighting for sighting in strict if sighting.round - sighting.strict + 1 > first]


def delta(old: Blocklist, new: Blocklist) -> bytes:
    """The change from one version to another: the new first line, lines to remove, lines to put."""
    before = {entry.number: entry.line() for entry in old.entries}
    after = {entry.number: entry.line() for entry in new.entries}
    changes = {
        number: (before.get(number), after.get(number))
        for number in before.keys() | after.keys()
        if before.get(number) != after.get(number)
    }
    return delta_of(old.version, _json(new.first_line()), (digest(old.to_bytes()), digest(new.to_bytes())), changes)


def delta_of(
    old: int, header: bytes, digests: tuple[str, str], changes: Mapping[str, tuple[bytes | None, bytes | None]]
) -> bytes:
    """A delta from version ``old`` to the one with this first line, by the changed lines: before and after."""
    plain = json.loads(header)
    head = {
        "format": DELTA_FORMAT,
        "from": old,
        "from_sha256": digests[0],
        "to": plain["version"],
        "to_sha256": digests[1],
        "header": plain,
    }
    removed = [_json({"remove": number}) for number, (_, after) in sorted(changes.items()) if after is None]
    put = [after for _, (_, after) in sorted(changes.items()) if after is not None]
    return b"".join([_json(head), *removed, *put])


def apply_delta(old: bytes, change: bytes) -> bytes:
    """The new list's bytes from the old one's, as :func:`patched` makes them."""
    return b"".join(patched([old], change))


def patched(blocks: Iterable[bytes], change: bytes) -> Iterator[bytes]:
    """The new list from the old one and a delta, both in blocks of whole lines.

    It is checked against the digests that the delta names, at the end. No entry is parsed. The caller still has to
    compare the result with the *signed* digest.
    """
    first, _, lines = change.partition(b"\n")
    try:
        head = json.loads(first)
        versions = (head["format"], head["from_sha256"], head["to_sha256"])
        header = _json(dict(head["header"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidList("delta", f"start with a {DELTA_FORMAT} header", first) from None
    if versions[0] != DELTA_FORMAT:
        raise InvalidList("delta", f"have the format {DELTA_FORMAT}", versions[0])
    changes = sorted({_number_of(line): line for line in lines.splitlines(keepends=True)}.items(), reverse=True)
    before, after = hashlib.sha256(), hashlib.sha256(header)
    yield header
    for place, block in enumerate(blocks):
        before.update(block)
        copied, parts = block.find(b"\n") + 1 if place == 0 else 0, list[bytes]()
        last = _number_of(block[block.rfind(b"\n", 0, -1) + 1 :]) if copied < len(block) else b""
        while changes and changes[-1][0] <= last:
            number, line = changes.pop()
            start, end = line_of(block, number, copied)
            parts += [block[copied:start], _put(line)]
            copied = end
        parts.append(block[copied:])
        after.update(b"".join(parts))
        yield from parts
    rest = [_put(line) for _, line in reversed(changes)]
    after.update(b"".join(rest))
    yield from rest
    if before.hexdigest() != versions[1]:
        raise InvalidList("list", "be the version that the delta starts from", before.hexdigest())
    if after.hexdigest() != versions[2]:
        raise InvalidList("delta", "lead to the version that it names", after.hexdigest())


def _put(line: bytes) -> bytes:
    return b"" if line.startswith(b'{"remove":') else line


def line_of(data: bytes | mmap, number: bytes, start: int) -> tuple[int, int]:
    """Where a number's line starts and ends, of the sorted lines from ``start`` on. Both are equal if it has none."""
    low, high = start, len(data)
    while low < high:
        line = data.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = data.find(b"\n", line) + 1 or len(data)
        found = _number_of(data[line:end])
        if found == number:
            return line, end
        low, high = (end, high) if found < number else (low, line)
    return low, low


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    """A list's file in blocks of whole lines."""
    while block := file.read(_BLOCK_BYTES):
        yield block + file.readline()


def _number_of(line: bytes) -> bytes:
    """The first value of a line, without parsing it."""
    parts = line.split(b'"', 4)
    if len(parts) < 4:
        raise InvalidList("line", "start with a number", line)
    return parts[3]


def _from_first_line(line: bytes, entries: tuple[Entry, ...]) -> Blocklist:
    try:
        head = json.loads(line)
        if head["format"] not in FORMATS:
            raise InvalidList("list", f"have a format of {', '.join(FORMATS)}", head["format"])
        header = ListHeader.from_plain(head)
        return Blocklist(head["version"], head["round"], unix(head["made"]), header, entries)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, InvalidParameter):
        raise InvalidList("list", f"start with a header of {', '.join(FORMATS)}", line) from None


def digest(data: bytes) -> str:
    """The identity of a version in deltas and signatures: SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _finite(field: str, value: float) -> float:
    if not math.isfinite(value):
        raise InvalidList(field, "be a finite number", value)
    return float(value)


@lru_cache(maxsize=1024)
def iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"


def unix(text: str) -> int:
    """The inverse of :func:`iso`. Only that one layout is read."""
    if not _ISO.fullmatch(text):
        raise ValueError(f"not a time as a list prints it: {text!r}")
    return int(datetime.fromisoformat(text).timestamp())


def _json(value: dict[str, Any]) -> bytes:
    return _ENCODER.encode(value).encode() + b"\n"
