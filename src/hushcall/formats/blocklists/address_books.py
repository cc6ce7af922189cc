"""Address books of spammers, to be blocked as a whole: a FRITZ!Box phonebook and vCards.

A contact holds at most nine numbers: a FRITZ!Box and several phones store no more of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hushcall.formats.blocklists.writer import MARK, Writer
from hushcall.protocol.blocklist import Blocklist, iso

MAX_NUMBERS = 9


def _contacts(blocklist: Blocklist) -> Iterator[tuple[str, list[str]]]:
    numbers = [entry.number for entry in blocklist.entries]
    for place, start in enumerate(range(0, len(numbers), MAX_NUMBERS), 1):
        yield f"{MARK} {place}", numbers[start : start + MAX_NUMBERS]


def _fritzbox(blocklist: Blocklist) -> bytes:
    contacts = (
        f"{_contact(name, numbers, f'<mod_time>{blocklist.made}</mod_time>')}\n"
        for name, numbers in _contacts(blocklist)
    )
    start = f'<?xml version="1.0" encoding="utf-8"?>\n<phonebooks>\n<phonebook name="{MARK}">\n'
    return "".join([start, *contacts, "</phonebook>\n</phonebooks>\n"]).encode()


def contact_xml(name: str, numbers: Sequence[str], unique_id: int | None = None) -> str:
    """One entry of a FRITZ!Box phonebook, as TR-064 takes it. An entry with a known id replaces the box's."""
    last = "" if unique_id is None else f"<uniqueid>{unique_id}</uniqueid>"
    return f'<?xml version="1.0" encoding="utf-8"?>{_contact(name, numbers, last)}'


def _contact(name: str, numbers: Sequence[str], last: str) -> str:
    telephony = "".join(
        f'<number type="home" prio="{int(place == 0)}" id="{place}">{number}</number>'
        for place, number in enumerate(numbers)
    )
    return (
        f"<contact><category>0</category><person><realName>{name}</realName></person>"
        f'<telephony nid="{len(numbers)}">{telephony}</telephony><services/><setup/>{last}</contact>'
    )


def _vcard(blocklist: Blocklist) -> bytes:
    rev = f"REV:{iso(blocklist.made)}"
    cards = (
        vcard(f"{MARK}-{numbers[0][1:]}", name, [rev, *(f"TEL;TYPE=VOICE:{number}" for number in numbers)])
        for name, numbers in _contacts(blocklist)
    )
    return b"".join(cards)


def vcard(uid: str, name: str, properties: Iterable[str]) -> bytes:
    head = ["BEGIN:VCARD", "VERSION:3.0", f"UID:{uid}", f"FN:{name}", f"N:{name};;;;", f"CATEGORIES:{MARK}"]
    return "".join(f"{line}\r\n" for line in (*head, *properties, "END:VCARD")).encode()


WRITERS = (
    Writer("fritzbox", "FRITZ!Box phonebook", "fritzbox.xml", "application/xml", _fritzbox),
    Writer("vcard", "phones and CardDAV servers (vCard 3.0)", "hushcall.vcf", "text/vcard", _vcard),
)
