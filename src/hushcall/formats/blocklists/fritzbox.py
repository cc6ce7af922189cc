"""FRITZ!Box: a list comes in, a phonebook in AVM's XML leaves, to be imported and then blocked as a whole.

A contact holds at most nine numbers, each of a type that the box knows (home, work, mobile, fax, …). What is
read goes through ``defusedxml``: no entities, no document types, no net.
"""

from __future__ import annotations

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.writer import MARK, Writer, checked, ninefold
from hushcall.protocol.blocklist import Blocklist

_START = f'<?xml version="1.0" encoding="utf-8"?>\n<phonebooks>\n<phonebook name="{MARK}">\n'
_END = "</phonebook>\n</phonebooks>\n"


def write(blocklist: Blocklist) -> bytes:
    """One phonebook; its contacts say when the list was made, in unix seconds."""
    contacts = (
        f"<contact><category>0</category><person><realName>{name}</realName></person>"
        f'<telephony nid="{len(numbers)}">{_telephony(numbers)}</telephony>'
        f"<services/><setup/><mod_time>{blocklist.made}</mod_time></contact>\n"
        for name, numbers in ninefold(blocklist)
    )
    return "".join([_START, *contacts, _END]).encode()


def read(data: bytes) -> frozenset[str]:
    """The numbers of such a phonebook."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root = fromstring(data, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        raise InvalidList("phonebook", "be XML without a document type", data) from None
    if root.tag != "phonebooks" or [child.tag for child in root] != ["phonebook"]:
        raise InvalidList("phonebook", "be one phonebook in phonebooks", root.tag)
    return checked(number.text or "" for number in root.findall("phonebook/contact/telephony/number"))


def _telephony(numbers: tuple[str, ...]) -> str:
    return "".join(
        f'<number type="home" prio="{int(place == 0)}" id="{place}">{number}</number>'
        for place, number in enumerate(numbers)
    )


FRITZBOX = Writer("fritzbox", "FRITZ!Box phonebook", "fritzbox.xml", "application/xml", write, read)
