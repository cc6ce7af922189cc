"""A read-only CardDAV address book (RFC 6352) of listed numbers: a list and a request come in, XML answers leave.

Pure: the server's routes only call it. A FRITZ!Box blocks a whole address book that it keeps in step with one.
Its books are short, so a book holds the ``limit`` largest numbers, and a contact up to nine of them.

Contacts are made so that they hardly change: a number belongs to the contact that its hash says, so one new number
changes one contact. A client asks for changes with the token of the version that it has (RFC 6578).
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from xml.sax.saxutils import escape

from hushcall.errors import InvalidData
from hushcall.formats.blocklists.writer import MARK, shortened
from hushcall.protocol.blocklist import Blocklist

ROOT, HOME = "/dav/", "/dav/books/"
USUAL_LIMIT = 1000
MOST_REQUEST_BYTES = 1 << 20
_PER_CARD, _NUMBERS_PER_BUCKET = 9, 5
_TOKEN = re.compile(r"urn:hushcall:list:([0-9]{1,10}):([0-9]{1,10})")
_NAMES = {"DAV:": "d", "urn:ietf:params:xml:ns:carddav": "c", "http://calendarserver.org/ns/": "s"}
_SPACES = "".join(f' xmlns:{short}="{name}"' for name, short in _NAMES.items())
Properties = Mapping[str, str]


@dataclass(frozen=True)
class Book:
    """The address book of one version: its contacts by file name, each a vCard 3.0."""

    blocklist: Blocklist
    limit: int

    @property
    def href(self) -> str:
        """Its path on the server, with the slash that clients compare."""
        return f"{HOME}{self.limit}/"

    @property
    def token(self) -> str:
        """What a client shows to be told what changed since."""
        return f"urn:hushcall:list:{self.blocklist.version}:{self.limit}"

    @cached_property
    def cards(self) -> dict[str, bytes]:
        """Contacts of up to nine numbers."""
        buckets: dict[int, list[str]] = defaultdict(list)
        count = -(-self.limit // _NUMBERS_PER_BUCKET)
        for entry in shortened(self.blocklist, self.limit).entries:
            hashed = hashlib.sha256(entry.number.encode()).digest()
            buckets[int.from_bytes(hashed[:8], "big") % count].append(entry.number)
        found: dict[str, bytes] = {}
        for bucket, numbers in sorted(buckets.items()):
            for part, start in enumerate(range(0, len(numbers), _PER_CARD), 1):
                name = f"{MARK}-{bucket + 1}" + (f"-{part}" if part > 1 else "")
                found[f"{name}.vcf"] = _card(name, numbers[start : start + _PER_CARD])
        return found

    def etag(self, name: str) -> str:
        """What a contact is known by: equal contacts have equal tags, whatever the version."""
        return f'"{hashlib.sha256(self.cards[name]).hexdigest()[:32]}"'


def _card(uid: str, numbers: list[str]) -> bytes:
    shown = uid.replace("-", " ")
    head = ["BEGIN:VCARD", "VERSION:3.0", f"UID:{uid}", f"FN:{shown}", f"N:{shown};;;;", f"CATEGORIES:{MARK}"]
    return "".join(f"{line}\r\n" for line in (*head, *(f"TEL;TYPE=HOME:{n}" for n in numbers), "END:VCARD")).encode()


@dataclass(frozen=True)
class Asked:
    """A request's XML: what it is, which properties it wants (none: all), which hrefs it names, and its token."""

    kind: str
    properties: tuple[str, ...] = ()
    hrefs: tuple[str, ...] = ()
    token: str = ""


def read(data: bytes) -> Asked:
    """Read a PROPFIND's or REPORT's body; an empty one asks for everything."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    if not data.strip():
        return Asked("d:propfind")
    try:
        root = fromstring(data, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        raise InvalidData("request", "be XML without a document type", f"{len(data)} bytes") from None
    wanted = root.find("{DAV:}prop")
    return Asked(
        _short(root.tag),
        tuple(_short(element.tag) for element in wanted) if wanted is not None else (),
        tuple((element.text or "").strip() for element in root.findall("{DAV:}href")),
        (root.findtext("{DAV:}sync-token") or "").strip(),
    )


def _short(tag: str) -> str:
    """``{DAV:}prop`` → ``d:prop``; a name of another space keeps it, and is never one of ours."""
    space, _, name = tag[1:].rpartition("}") if tag.startswith("{") else ("", "", tag)
    return f"{_NAMES[space]}:{name}" if space in _NAMES else tag


def root_properties(href: str) -> dict[str, str]:
    """What the entrance says: where the books are."""
    return {
        "d:resourcetype": "<d:collection/>" + ("<d:principal/>" if href == ROOT else ""),
        "d:displayname": MARK,
        "d:current-user-principal": f"<d:href>{ROOT}</d:href>",
        "d:principal-URL": f"<d:href>{ROOT}</d:href>",
        "c:addressbook-home-set": f"<d:href>{HOME}</d:href>",
        "d:current-user-privilege-set": "<d:privilege><d:read/></d:privilege>",
    }


def book_properties(book: Book) -> dict[str, str]:
    """What a book says of itself."""
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


def card_properties(book: Book, name: str, *, whole: bool) -> dict[str, str]:
    """What a contact says of itself, in reports with its content."""
    content = {"c:address-data": escape(book.cards[name].decode())} if whole else {}
    return {
        "d:resourcetype": "",
        "d:getetag": escape(book.etag(name)),
        "d:getcontenttype": "text/vcard; charset=utf-8",
        "d:getcontentlength": str(len(book.cards[name])),
        **content,
    }


def found(href: str, properties: Properties, asked: Asked) -> str:
    """One answer of many: the properties that were asked for, and those that there are not."""
    wanted = asked.properties or tuple(properties)
    have = "".join(f"<{name}>{properties[name]}</{name}>" for name in wanted if name in properties)
    lack = "".join(_empty(name) for name in wanted if name not in properties)
    parts = _propstat(have, "200 OK") + (_propstat(lack, "404 Not Found") if lack else "")
    return f"<d:response><d:href>{escape(href)}</d:href>{parts}</d:response>"


def missing(href: str) -> str:
    """One answer of many: that there is no such thing, or no more."""
    return f"<d:response><d:href>{escape(href)}</d:href><d:status>HTTP/1.1 404 Not Found</d:status></d:response>"


def multistatus(answers: Iterable[str], token: str = "") -> bytes:
    """A 207 document (RFC 4918) of these answers, with a sync token where one is given."""
    sync = f"<d:sync-token>{escape(token)}</d:sync-token>" if token else ""
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<d:multistatus{_SPACES}>{"".join(answers)}{sync}</d:multistatus>\n'
    ).encode()


def multiget(book: Book, asked: Asked) -> bytes:
    """The contacts that were named, or without names all of them."""
    names = [href.rpartition("/")[2] for href in asked.hrefs] or list(book.cards)
    return multistatus(
        found(book.href + name, card_properties(book, name, whole=True), asked)
        if name in book.cards
        else missing(book.href + name)
        for name in names
    )


def changes(old: Book | None, book: Book, asked: Asked) -> bytes:
    """What changed since ``old``, or everything; with the token for the next time."""
    before = {} if old is None else old.cards
    changed = [name for name, card in book.cards.items() if before.get(name) != card]
    answers = [found(book.href + name, card_properties(book, name, whole=True), asked) for name in changed]
    gone = [missing(book.href + name) for name in before if name not in book.cards]
    return multistatus([*answers, *gone], book.token)


def version_of(token: str, limit: int) -> int | None:
    """The version that a token names; None where it is not one of this book's."""
    parts = _TOKEN.fullmatch(token)
    return int(parts[1]) if parts and int(parts[2]) == limit else None


STALE = (f'<?xml version="1.0" encoding="utf-8"?>\n<d:error{_SPACES}><d:valid-sync-token/></d:error>\n').encode()
"""The answer to a token of a version that is not kept any more: the client then asks for everything."""


def _propstat(properties: str, status: str) -> str:
    return f"<d:propstat><d:prop>{properties}</d:prop><d:status>HTTP/1.1 {status}</d:status></d:propstat>"


def _empty(name: str) -> str:
    space, brace, local = name[1:].rpartition("}")
    if not brace:
        return f"<{name}/>" if re.fullmatch(r"[a-z]:[\w.-]+", name) else ""
    return f'<x:{local} xmlns:x="{escape(space, {chr(34): "&quot;"})}"/>' if re.fullmatch(r"[\w.-]+", local) else ""
