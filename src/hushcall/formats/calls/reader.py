"""The base classes of call-log formats. Unreadable records are counted, and are no error while others can be read."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, ReadResult
from hushcall.formats.calls.text import check_size, decode, is_utf_16

MAX_LINE_BYTES = 65_536


@dataclass
class _Progress:
    unit: str
    place: int = 0
    calls: list[Call] = field(default_factory=list)
    understood: int = 0  # includes lines that are not calls: a log may begin with messages
    malformed: int = 0
    first_problem: str = ""

    def parse(self, parse: Callable[[Any, tzinfo], Call | None], record: Any, zone: tzinfo) -> None:
        self.place += 1
        try:
            call = parse(record, zone)
        except InvalidData as problem:
            self.count(problem)
        else:
            self.understood += 1
            if call is not None:
                self.calls.append(call)

    def count(self, problem: InvalidData) -> None:
        self.malformed += 1
        self.first_problem = self.first_problem or f"{self.unit} {self.place}: {problem.field} must {problem.rule}"


@dataclass(frozen=True)
class Reader:
    name: str
    title: str
    sniff: Callable[[bytes], bool]  # whether a file that begins like this is one
    local: bool = field(default=False, kw_only=True)  # whether its dates are local, without a time zone

    @property
    def grows(self) -> bool:
        return isinstance(self, LogReader)

    def read(self, data: bytes, zone: tzinfo = UTC, *, chunk: bool = False) -> ReadResult:
        """The calls of a file. Dates without a time zone are local to ``zone``.

        With ``chunk`` the log continues elsewhere: an unfinished last line is left for the next chunk, and a chunk
        without any readable line is no error.
        """
        check_size(f"{self.title} file", data)
        if not data or data.isspace():
            return ReadResult(consumed=len(data), format=self.name)
        progress = _Progress("line" if self.grows else "record")
        consumed = self._read(data, zone, chunk, progress)
        if progress.malformed and not progress.understood and not chunk:
            examples = "docs/formats.md shows what they look like"
            rule = f"have readable {progress.unit}s ({progress.first_problem}; {examples})"
            raise InvalidData(f"{self.title} file", rule, f"{progress.malformed} malformed")
        return ReadResult(tuple(progress.calls), progress.malformed, progress.first_problem, consumed, self.name)

    def _read(self, data: bytes, zone: tzinfo, chunk: bool, progress: _Progress) -> int:
        raise NotImplementedError


@dataclass(frozen=True)
class LogReader(Reader):
    """A log that grows by lines, read whole or by chunks. ``parse`` gives None for a line that is no call."""

    parse: Callable[[str, tzinfo], Call | None]
    closed: bool = field(default=True, kw_only=True)  # whether a line shows by itself that it is complete

    def _read(self, data: bytes, zone: tzinfo, chunk: bool, progress: _Progress) -> int:
        if is_utf_16(data):  # redirected output, which no program follows
            self._read(decode(data).encode(), zone, chunk, progress)
            return len(data)
        tail = b""
        for line in io.BytesIO(data):
            if not line.endswith(b"\n"):
                tail = line
            elif line.isspace():
                progress.place += 1
            else:
                progress.parse(self._line, line, zone)
        if chunk or not tail.strip() or not self._finish(tail, zone, progress):
            return len(data) - len(tail)
        return len(data)

    def _finish(self, tail: bytes, zone: tzinfo, progress: _Progress) -> bool:
        """Reads a last line without its end if it is complete. One that is still being written is not malformed."""
        try:
            self._line(tail, zone)
            complete = self.closed
        except InvalidData:
            complete = False
        if not complete and (progress.understood or progress.malformed):
            return False  # but a file of nothing else must not pass for an empty one
        progress.parse(self._line, tail, zone)
        return True

    def _line(self, line: bytes, zone: tzinfo) -> Call | None:
        if len(line) > MAX_LINE_BYTES:
            raise InvalidData("line", f"have at most {MAX_LINE_BYTES} bytes", len(line))
        return self.parse(decode(line).rstrip("\r\n"), zone)


@dataclass(frozen=True)
class FileReader(Reader):
    """A file exported at once: ``split`` yields its records, ``parse`` makes a call of each."""

    split: Callable[[bytes], Iterable[Any]]
    parse: Callable[[Any, tzinfo], Call | None]

    def _read(self, data: bytes, zone: tzinfo, chunk: bool, progress: _Progress) -> int:  # noqa: ARG002 (no chunks here)
        try:
            for record in self.split(data):
                progress.parse(self.parse, record, zone)
        except InvalidData as problem:
            if not progress.calls:
                raise
            progress.count(problem)  # the file was cut off: the calls before the cut are good
        return len(data)
