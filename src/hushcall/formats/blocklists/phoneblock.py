"""PhoneBlock's JSON: a list comes in, what its ``/api/blocklist`` would answer leaves."""

from __future__ import annotations

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.writer import Writer, checked
from hushcall.formats.phoneblock import changes_between, document, parse
from hushcall.protocol.blocklist import Blocklist


def write(blocklist: Blocklist) -> bytes:
    """The whole list as one document."""
    return document(changes_between(None, blocklist), blocklist.version, "json")[0]


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a document; a whole list removes nothing."""
    changes, _ = parse(data)
    if any(change.votes == 0 for change in changes):
        raise InvalidList("document", "be a whole list, without removals", f"{len(changes)} changes")
    return checked(change.phone for change in changes)


PHONEBLOCK = Writer("phoneblock", "clients of PhoneBlock's API", "phoneblock.json", "application/json", write, read)
