"""A read-only CardDAV address book (RFC 6352) of listed numbers, which a FRITZ!Box can block as a whole.

A book holds the ``limit`` largest numbers, and a contact up to nine of them. A number's hash decides its contact, so
one new number changes one contact. A client asks for changes with the token of the version that it has (RFC 6578).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from xml.sax.saxutils import escape

from hushcall.errors import InvalidData
from hushcall.formats.blocklists.address_books import MAX_NUMBERS, vcard
from hushcall.formats.blocklists.writer import MARK, shortened
from hushcall.protocol.blocklist import Blocklist

ROOT, HOME = "/dav/", "/dav/books/"
DEFAULT_LIMIT = 1000
_MEAN_NUMBERS = 5
_TOKEN = re.compile(r"urn:hushcall:list:([0-9]{1,10}):([0-9]{1,10})")
_NAMES = {"DAV:": "d", "urn:ietf:params:xml:ns:carddav": "c", "http://calendarserver.org/ns/": "s"}
_SPACES = "".join(f' xmlns:{short}="{name}"' for name, short in _NAMES.items())


@dataclass(frozen=True)
class Book:
    """The address book of one version: its contacts by file name, each a vCard 3.0."""

    blocklist: Blocklist
    limit: int

    @property
    def href(self) -> str:
        """Its path on the server. Clients compare the slash at its end."""
        return f"{HOME}{self.limit}/"

    @property
    def token(self) -> str:
        return f"urn:hushcall:list:{self.blocklist.version}:{self.limit}"

    @cached_property
    def cards(self) -> dict[str, bytes]:
        buckets: dict[int, list[str]] = defaultdict(list)
        count = math.ceil(self.limit / _MEAN_NUMBERS)
        for entry in shortened(self.blocklist, self.limit).entries:
            digest = hashlib.sha256(entry.number.encode()).digest()
            buckets[int.from_bytes(digest[:8], "big") % count].append(entry.number)
        cards: dict[str, bytes] = {}
        for bucket, numbers in sorted(buckets.items()):
            for part, start in enumerate(range(0, len(numbers), MAX_NUMBERS), 1):
                name = f"{MARK}-{bucket + 1}" + (f"-{part}" if part > 1 else "")
                telephones = (f"TEL;TYPE=HOME:{number}" for number in numbers[start : start + MAX_NUMBERS])
                cards[f"{name}.vcf"] = vcard(name, name.replace("-", " "), telephones)
        return cards

    def etag(self, name: str) -> str:
        return f'"{hashlib.sha256(self.cards[name]).hexdigest()[:32]}"'


@dataclass(frozen=True)
class DavRequest:
    """The XML of a PROPFIND or REPORT. No properties mean all."""

    kind: str
    properties: tuple[str, ...] = ()
    hrefs: tuple[str, ...] = ()
    token: str = ""


def read_request(data: bytes) -> DavRequest:
    """An empty body asks for everything."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    if not data.strip():
        return DavRequest("d:propfind")
    try:
        root = fromstring(data, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        raise InvalidData("request", "be XML without a document type", f"{len(data)} bytes") from None
    properties = root.find("{DAV:}prop")
    return DavRequest(
        _short(root.tag),
        tuple(_short(element.tag) for element in properties) if properties is not None else (),
        tuple((element.text or "").strip() for element in root.findall("{DAV:}href")),
        (root.findtext("{DAV:}sync-token") or "").strip(),
    )


def _short(tag: str) -> str:
    """``{DAV:}prop`` → ``d:prop``. A name of an unknown namespace stays as it is."""
    space, _, name = tag[1:].rpartition("}") if tag.startswith("{") else ("", "", tag)
    return f"{_NAMES[space]}:{name}" if space in _NAMES else tag


def root_properties(href: str) -> dict[str, str]:
    return {
        "d:resourcetype": "<d:collection/>" + ("<d:principal/>" if href == ROOT else ""),
        "d:displayname": MARK,
        "d:current-user-principal": f"<d:href>{ROOT}</d:href>",
        "d:principal-URL": f"<d:href>{ROOT}</d:href>",
        "c:addressbook-home-set": f"<d:href>{HOME}</d:href>",
        "d:current-user-privilege-set": "<d:privilege><d:read/></d:privilege>",
    }


def book_properties(book: Book) -> dict[str, str]:
    reports = ("c:addressbook-multiget", "c:addressbook-query", "d:sync-collection")
    supported = (f"<d:supported-report><d:report><{name}/></d:report></d:supported-report>" for name in reports)
    return root_properties(book.href) | {
        "d:resourcetype": "<d:collection/><c:addressbook/>",
        "d:displayname": f"{MARK}: the {book.limit} most reported numbers",
        "c:addressbook-description": "Numbers that many phones reported as spam. Block this whole book.",
        "s:getctag": escape(book.token),
        "d:sync-token": escape(book.token),
        "d:supported-report-set": "".join(supported),
        "c:supported-address-data": '<c:address-data-type content-type="text/vcard" version="3.0"/>',
    }


def card_properties(book: Book, name: str, *, content: bool) -> dict[str, str]:
    data = {"c:address-data": escape(book.cards[name].decode())} if content else {}
    return {
        "d:resourcetype": "",
        "d:getetag": escape(book.etag(name)),
        "d:getcontenttype": "text/vcard; charset=utf-8",
        "d:getcontentlength": str(len(book.cards[name])),
        **data,
    }


def response(href: str, properties: Mapping[str, str], request: DavRequest) -> str:
    names = request.properties or tuple(properties)
    present = "".join(f"<{name}>{properties[name]}</{name}>" for name in names if name in properties)
    absent = "".join(_empty(name) for name in names if name not in properties)
    parts = _propstat(present, "200 OK") + (_propstat(absent, "404 Not Found") if absent else "")
    return f"<d:response><d:href>{escape(href)}</d:href>{parts}</d:response>"


def multistatus(responses: Iterable[str], token: str = "") -> bytes:
    sync = f"<d:sync-token>{escape(token)}</d:sync-token>" if token else ""
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<d:multistatus{_SPACES}>{"".join(responses)}{sync}</d:multistatus>\n'
    ).encode()


def multiget(book: Book, request: DavRequest) -> bytes:
    names = [href.rpartition("/")[2] for href in request.hrefs] or list(book.cards)
    return multistatus(_with_content(book, name, request) for name in names)


def changes(old: Book | None, book: Book, request: DavRequest) -> bytes:
    """The changes since ``old``, or everything, with the next sync token."""
    before = {} if old is None else old.cards
    changed = [name for name, card in book.cards.items() if before.get(name) != card]
    removed = [name for name in before if name not in book.cards]
    return multistatus((_with_content(book, name, request) for name in (*changed, *removed)), book.token)


def _with_content(book: Book, name: str, request: DavRequest) -> str:
    href = book.href + name
    if name not in book.cards:
        return f"<d:response><d:href>{escape(href)}</d:href><d:status>HTTP/1.1 404 Not Found</d:status></d:response>"
    return response(href, card_properties(book, name, content=True), request)


def version_of(token: str, limit: int) -> int | None:
    """The version that a token names. None where it is not one of this book's."""
    parts = _TOKEN.fullmatch(token)
    return int(parts[1]) if parts and int(parts[2]) == limit else None


STALE = (f'<?xml version="1.0" encoding="utf-8"?>\n<d:error{_SPACES}><d:valid-sync-token/></d:error>\n').encode()
"""The answer to a token of a version that is not stored any more: the client then asks for everything."""


def _propstat(properties: str, status: str) -> str:
    return f"<d:propstat><d:prop>{properties}</d:prop><d:status>HTTP/1.1 {status}</d:status></d:propstat>"


def _empty(name: str) -> str:
    space, brace, local = name[1:].rpartition("}")
    if not brace:
        return f"<{name}/>" if re.fullmatch(r"[a-z]:[\w.-]+", name) else ""
    return f'<x:{local} xmlns:x="{escape(space, {chr(34): "&quot;"})}"/>' if re.fullmatch(r"[\w.-]+", local) else ""
