"""Plain text, for scripts and for apps that subscribe to a URL: a list comes in, a commented list of numbers leaves.

The header is that of ad-blocking lists: ``! Key: value``, with when to fetch the next version.
"""

from __future__ import annotations

import re

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.writer import MARK, Writer, captured, checked, text_lines
from hushcall.protocol.blocklist import Blocklist, iso

_KEYS = ("Title", "Version", "Last modified", "Expires", "Licence", "Terms", "Entries")
_LINE = re.compile(r"(\+[0-9]+)")


def write(blocklist: Blocklist) -> bytes:
    """A header and one number a line."""
    terms = blocklist.terms
    made_with = f"{terms.mechanism} epsilon {terms.epsilon:g} more than {terms.tau} reports window {terms.window}"
    values = (
        MARK,
        str(blocklist.version),
        iso(blocklist.made),
        "1 days",
        "ask whoever publishes this list",
        re.sub(r"[^ -~]", "?", made_with),
        str(len(blocklist.entries)),
    )
    header = [f"! {key}: {value}" for key, value in zip(_KEYS, values, strict=True)]
    return "".join(f"{line}\n" for line in (*header, *(entry.number for entry in blocklist.entries))).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file; their count has to be the header's."""
    lines = text_lines(data)
    header, rest = lines[: len(_KEYS)], lines[len(_KEYS) :]
    if [line.partition(": ")[0] for line in header] != [f"! {key}" for key in _KEYS]:
        raise InvalidList("header", f"have the keys {', '.join(_KEYS)}", header[:1])
    if header[-1] != f"! {_KEYS[-1]}: {len(rest)}":
        raise InvalidList("file", f"be whole, with {header[-1][2:]}", f"{len(rest)} numbers")
    return checked(captured(rest, _LINE))


PLAIN = Writer("plain", "scripts, and apps that subscribe to a URL", "hushcall.txt", "text/plain", write, read)
