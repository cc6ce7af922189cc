"""Blocklists in the formats of apps, exchanges and routers. ``WRITERS`` is the table.

>>> writer_named("ios").filename
'ios.txt'
"""

from __future__ import annotations

from hushcall import checks
from hushcall.formats.blocklists import address_books, apps, exchanges
from hushcall.formats.blocklists.apps import ios_changes
from hushcall.formats.blocklists.writer import Writer, shortened

__all__ = ["WRITERS", "Writer", "ios_changes", "shortened", "writer_named"]

WRITERS = {
    writer.name: writer for writer in (*apps.WRITERS, *exchanges.WRITERS, *address_books.WRITERS, *apps.SUBSCRIPTIONS)
}


def writer_named(name: str) -> Writer:
    checks.one_of("export", name, WRITERS)
    return WRITERS[name]
