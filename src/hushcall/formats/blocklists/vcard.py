"""vCard 3.0: a list comes in, an address book of spammers leaves, for phones and CardDAV servers.

A contact holds at most nine numbers: several phones keep no more of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.writer import MARK, Writer, captured, checked, ninefold, text_lines
from hushcall.protocol.blocklist import Blocklist, iso

_CARD = re.compile(
    r"BEGIN:VCARD\r\nVERSION:3\.0\r\nUID:hushcall-[0-9]+\r\nFN:(hushcall [0-9]+)\r\nN:\1;;;;\r\nCATEGORIES:hushcall\r\n"
    r"REV:[0-9T:Z-]{20}\r\n((?:TEL;TYPE=VOICE:\+[0-9]+\r\n){1,9})END:VCARD\r\n"
)
_TEL = re.compile(r"TEL;TYPE=VOICE:(\+[0-9]+)")


def cards(blocklist: Blocklist) -> Iterator[tuple[str, bytes]]:
    """Each contact's UID (made of its first number) and its card: what a CardDAV server serves one by one."""
    for name, numbers in ninefold(blocklist):
        uid = f"{MARK}-{numbers[0][1:]}"
        head = ["BEGIN:VCARD", "VERSION:3.0", f"UID:{uid}", f"FN:{name}", f"N:{name};;;;", f"CATEGORIES:{MARK}"]
        lines = [*head, f"REV:{iso(blocklist.made)}", *(f"TEL;TYPE=VOICE:{number}" for number in numbers), "END:VCARD"]
        yield uid, "".join(f"{line}\r\n" for line in lines).encode()


def write(blocklist: Blocklist) -> bytes:
    """All cards in one file, several numbers a card: address books slow down with their number of cards."""
    return b"".join(card for _, card in cards(blocklist))


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a file, as the app would take them: how tests check what was written."""
    text, end = "\r\n".join([*text_lines(data, "\r\n"), ""]), 0
    phones: list[str] = []
    while card := _CARD.match(text, end):
        phones += card[2].split("\r\n")[:-1]
        end = card.end()
    if end != len(text):
        raise InvalidList("card", "be a vCard 3.0 as this release writes it", text[end : end + 40])
    return checked(captured(phones, _TEL))


VCARD = Writer("vcard", "phones and CardDAV servers (vCard 3.0)", "hushcall.vcf", "text/vcard", write, read)
