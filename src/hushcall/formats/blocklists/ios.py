"""iOS Call Directory extensions: a list comes in, 64-bit integers leave, strictly ascending as CallKit demands.

Ascending as numbers, which is not the order of the list: ``+4930123456`` comes before ``+12025550143``.
"""

from __future__ import annotations

import re
from itertools import pairwise

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.writer import Writer, captured, digits, text_lines, with_plus
from hushcall.protocol.blocklist import Blocklist

_LINE = re.compile("([1-9][0-9]{6,14})")


def integers(blocklist: Blocklist | None) -> tuple[int, ...]:
    """The numbers as CallKit wants them added: ``CXCallDirectoryPhoneNumber`` is an int64."""
    return () if blocklist is None else tuple(sorted(map(int, digits(blocklist))))


def ios_changes(old: Blocklist | None, new: Blocklist) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What an extension that holds ``old`` has to add and to remove, both ascending: its incremental loading."""
    before, after = set(integers(old)), set(integers(new))
    return tuple(sorted(after - before)), tuple(sorted(before - after))


def write(blocklist: Blocklist) -> bytes:
    """One integer a line, without the plus: country code and digits, as CallKit wants them."""
    return "".join(f"{number}\n" for number in integers(blocklist)).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file; out of order is an error, as it is in CallKit."""
    lines = text_lines(data)
    numbers = with_plus(captured(lines, _LINE))
    if any(int(a) >= int(b) for a, b in pairwise(lines)):
        raise InvalidList("numbers", "ascend strictly", f"{len(lines)} lines")
    return numbers


IOS = Writer("ios", "iOS Call Directory extensions", "ios.txt", "text/plain", write, read)
