"""What is public is made once per version and process: exports, files, the list in the formats of its interfaces."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cached_property
from threading import Lock

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import Response

from hushcall.formats.carddav import Book
from hushcall.formats.phoneblock import CheckIndex
from hushcall.formats.ranges import MIN_LISTED, Ranges, ranges
from hushcall.protocol.blocklist import Blocklist, ListHeader, unix
from hushcall.protocol.imported import Imported
from hushcall.protocol.list_index import ListIndex
from hushcall.protocol.ranges import NO_RANGES, RangeList
from hushcall.server.db import list_entries, schema
from hushcall.server.db.store import Store
from hushcall.server.problems import Problem
from hushcall.server.publishing import imports
from hushcall.server.publishing.imports import Published
from hushcall.server.publishing.ranges import published
from hushcall.server.web.rendering import Served

MAX_BYTES = 64 << 20
CPU_SHARE = 0.2
"""Of one processor, for making what is not in the cache: a caller may ask for a thousand lengths of a list."""
MAX_SAVED_SECONDS = 10.0
"""Processor time that may be saved up, for the moment after a new list."""
_MAX_BOOKS = 8


class Rendered:
    """A bounded cache of bytes, with a budget of processor time for filling it.

    ``cpu`` is the processor time of this thread in seconds: waiting is free.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self.clock, self.cpu = clock, cpu
        self._lock, self._entries, self._bytes = Lock(), dict[Hashable, Served](), 0
        self._saved_seconds, self._at = MAX_SAVED_SECONDS, clock()

    def get(self, key: Hashable, make: Callable[[], tuple[bytes, str]]) -> Served:
        """The bytes of this key. ``make`` returns them with their media type, when they are first needed."""
        served = self._entries.get(key)
        if served is not None:
            return served
        with self._lock:  # one thread makes it, the others wait
            served = self._entries.get(key)
            if served is None:
                started = self._begin()
                served = Served.of(*make())
                self._saved_seconds -= self.cpu() - started
                self._add(key, served)
        return served

    def _begin(self) -> float:
        now = self.clock()
        self._saved_seconds = min(MAX_SAVED_SECONDS, self._saved_seconds + CPU_SHARE * (now - self._at))
        self._at = now
        if self._saved_seconds <= 0:
            seconds = math.ceil(1 - self._saved_seconds / CPU_SHARE)
            raise Problem("busy", "Too many different lists were asked for.", seconds)
        return self.cpu()

    def _add(self, key: Hashable, served: Served) -> None:
        self._entries[key] = served
        self._bytes += len(served.data)
        while self._bytes > MAX_BYTES and len(self._entries) > 1:
            oldest = next(iter(self._entries))
            self._bytes -= len(self._entries.pop(oldest).data)


class PublishedList:
    """A version of the list, with what pages and interfaces need of it. That is made when first asked for.

    Pages use its index: a hundred thousand entries cost no more than the ten that are shown.
    """

    def __init__(self, data: bytes, ranges_: RangeList = NO_RANGES) -> None:
        head = json.loads(data[: data.find(b"\n")])
        self.version, self.made, self.round = int(head["version"]), unix(head["made"]), int(head["round"])
        self.header, self.index = ListHeader.from_plain(head), ListIndex.of_entries(data)
        self._data, self._books = data, dict[int, Book]()
        self.found_ranges = ranges_

    @cached_property
    def ranges(self) -> Ranges:
        """Its rented blocks. Parses only entries that may be part of one."""
        near = self.index.entries(self.index.in_company(MIN_LISTED))
        return ranges((entry for entry in near if self.header.block(entry)), self.found_ranges.entries)

    @cached_property
    def blocklist(self) -> Blocklist:
        return replace(Blocklist.from_bytes(self._data), ranges=self.found_ranges.entries)

    @cached_property
    def check_index(self) -> CheckIndex:
        return CheckIndex(self.blocklist)

    def book(self, limit: int) -> Book:
        if limit not in self._books:
            if len(self._books) >= _MAX_BOOKS:
                self._books.pop(next(iter(self._books)), None)
            self._books[limit] = Book(self.blocklist.to_block(), limit)
        return self._books[limit]


class Lists:
    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, Lock()
        self._cached: PublishedList | None = None
        self._imported: Published | None = None

    def imported(self) -> Published | None:
        """What operators imported, as it is signed."""
        with self._lock, self._store.read() as connection:
            self._imported = imports.published(connection, self._imported)
            return self._imported

    def named_by_others(self, number: str, now: int) -> Imported | None:
        published = self.imported()
        return published.find(number, now) if published else None

    def newest(self) -> PublishedList | None:
        table = schema.versions.c
        version = self._store.rows(sa.select(sa.func.max(table.version)))[0][0]
        if version is None:
            return None
        with self._lock:  # one thread reads, the others wait for it
            if self._cached is None or self._cached.version != version:
                with self._store.read() as connection:
                    data, ranges_ = list_entries.whole(connection, version) or b"", published(connection)
                self._cached = PublishedList(data, ranges_)
            return self._cached


def answer(request: Request, served: Served, caching: str, **more: str) -> Response:
    headers = {"etag": served.etag, "cache-control": caching, **more}
    if unchanged(request, served.etag):
        return Response(status_code=304, headers=headers)
    return Response(served.data, headers=headers, media_type=served.media)


def unchanged(request: Request, etag: str) -> bool:
    tags = request.headers.get("if-none-match", "")
    return tags == "*" or etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))
