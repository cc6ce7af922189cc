"""What all formats share: bytes come in, calls leave, what cannot be read is counted and never fatal by itself.

A format is a value of one of two classes. A :class:`LogReader` reads a log that grows by lines, so it can be given the
whole log or the next chunk of it. A :class:`FileReader` reads a file that was exported at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from fnmatch import fnmatch
from typing import Any

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.calls.call import Call, CallKind, ReadResult
from hushcall.formats.calls.texts import check_size, decode, is_utf_16

LONGEST_LINE = 65_536


@dataclass
class _Tally:
    """What has been read so far."""

    unit: str
    place: int = 0
    calls: list[Call] = field(default_factory=list)
    understood: int = 0  # lines that are no calls count too: a log may begin with messages
    malformed: int = 0
    first_problem: str = ""

    def take(self, parse: Callable[[Any, tzinfo], Call | None], record: Any, zone: tzinfo) -> None:
        self.place += 1
        try:
            call = parse(record, zone)
        except InvalidData as problem:
            self.spoilt(problem)
        else:
            self.understood += 1
            if call is not None:
                self.calls.append(call)

    def spoilt(self, problem: InvalidData) -> None:
        self.malformed += 1
        self.first_problem = self.first_problem or f"{self.unit} {self.place}: {problem.field} must {problem.rule}"

    def result(self, name: str, consumed: int) -> ReadResult:
        return ReadResult(tuple(self.calls), self.malformed, self.first_problem, consumed, name)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One format: how to know it, how to read it, and how to write it for tests and samples."""

    name: str
    title: str
    files: tuple[str, ...]  # usual file names, as patterns
    sniff: Callable[[bytes], bool]  # whether a file that begins like this is one
    render: Callable[[Sequence[Call], tzinfo], bytes]
    kinds: frozenset[CallKind]  # the ones that the format tells apart
    seconds: int = 1  # its dates are whole multiples of this
    names: bool = True  # whether it shows names from the phone's contacts
    local: bool = False  # whether its dates are local, without a time zone

    @property
    def grows(self) -> bool:
        """Whether the file is a log that gets new lines at its end."""
        return isinstance(self, LogReader)

    def usual(self, filename: str) -> bool:
        """Whether the file's name is a usual one for this format."""
        name = filename.replace("\\", "/").rpartition("/")[2].lower()
        return any(fnmatch(name, pattern.lower()) for pattern in self.files)

    def read(self, data: bytes, zone: tzinfo = UTC, *, chunk: bool = False) -> ReadResult:
        """The calls of a file. Dates without a time zone are local to ``zone``.

        ``chunk`` says that a log continues elsewhere: then a last line without its end is left for the next time, and
        it is no error that no line can be read.
        """
        check_size(f"{self.title} file", data)
        if not data or data.isspace():
            return ReadResult(consumed=len(data), format=self.name)
        tally = _Tally("line" if self.grows else "record")
        consumed = self._read(data, zone, chunk, tally)
        if tally.malformed and not tally.understood and not chunk:
            rule = f"have readable {tally.unit}s ({tally.first_problem}; docs/call-logs.md shows what they look like)"
            raise InvalidData(f"{self.title} file", rule, f"{tally.malformed} malformed")
        return tally.result(self.name, consumed)

    def write(self, calls: Sequence[Call], zone: tzinfo = UTC) -> bytes:
        """A file that reads as these calls, as far as the format can hold them."""
        for call in calls:
            if call.kind not in self.kinds:
                rule = f"be one that {self.name} can hold ({', '.join(sorted(self.kinds))})"
                raise InvalidParameter("kind", rule, str(call.kind))
        return self.render(calls, zone)

    def _read(self, data: bytes, zone: tzinfo, chunk: bool, tally: _Tally) -> int:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class LogReader(Reader):
    """A log that grows: ``parse`` makes a call of a line, or ``None`` of a line that is none."""

    parse: Callable[[str, tzinfo], Call | None]
    closed: bool = True  # whether a line shows by itself that it is complete

    def _read(self, data: bytes, zone: tzinfo, chunk: bool, tally: _Tally) -> int:
        if is_utf_16(data):  # made by a redirection of output, so nobody follows it
            self._read(decode(data).encode(), zone, chunk, tally)
            return len(data)
        tail = b""
        for line in io.BytesIO(data):
            if not line.endswith(b"\n"):
                tail = line
            elif line.isspace():
                tally.place += 1
            else:
                tally.take(self._line, line, zone)
        if chunk or not tail.strip() or not self._finish(tail, zone, tally):
            return len(data) - len(tail)
        return len(data)

    def _finish(self, tail: bytes, zone: tzinfo, tally: _Tally) -> bool:
        """Read a last line without its end if it is complete; one that is still being written is not malformed."""
        try:
            self._line(tail, zone)
            complete = self.closed
        except InvalidData:
            complete = False
        if not complete and (tally.understood or tally.malformed):
            return False  # but a file of nothing else must not pass for an empty one
        tally.take(self._line, tail, zone)
        return True

    def _line(self, line: bytes, zone: tzinfo) -> Call | None:
        if len(line) > LONGEST_LINE:
            raise InvalidData("line", f"have at most {LONGEST_LINE} bytes", len(line))
        return self.parse(decode(line).rstrip("\r\n"), zone)


@dataclass(frozen=True, kw_only=True)
class FileReader(Reader):
    """A file exported at once: ``split`` finds its records, ``parse`` makes a call of each."""

    split: Callable[[bytes], Iterable[Any]]
    parse: Callable[[Any, tzinfo], Call | None]

    def _read(self, data: bytes, zone: tzinfo, chunk: bool, tally: _Tally) -> int:  # noqa: ARG002 (a file has no chunks)
        try:
            for record in self.split(data):
                tally.take(self.parse, record, zone)
        except InvalidData as problem:
            if not tally.calls:
                raise
            tally.spoilt(problem)  # the file was cut off: what came before the cut is good
        return len(data)
