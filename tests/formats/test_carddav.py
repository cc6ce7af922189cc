"""The address book as CardDAV clients see it: a limit keeps the largest, and a new number changes one contact."""

import re
from dataclasses import replace

import pytest
from defusedxml.ElementTree import fromstring
from tests.lists import big_list, sample

from hushcall.errors import InvalidData
from hushcall.formats.blocklists import shortened
from hushcall.formats.carddav import Book, DavRequest, changes, multiget, read_request, response, version_of

D, C = "{DAV:}", "{urn:ietf:params:xml:ns:carddav}"
ALL = DavRequest("d:sync-collection")


def phones(book: Book) -> list[str]:
    return re.findall(r"TEL;TYPE=HOME:(\+[0-9]+)\r\n", b"".join(book.cards.values()).decode())


def test_a_limit_keeps_the_largest_in_contacts_of_nine_at_most() -> None:
    made = big_list(3000)
    book = Book(made, 1000)
    least = sorted((entry.estimate for entry in made.entries), reverse=True)[999]
    estimates = {entry.number: entry.estimate for entry in made.entries}
    assert len(phones(book)) == len(set(phones(book))) == 1000
    assert all(estimates[number] >= least for number in phones(book))
    assert set(phones(book)) == {entry.number for entry in shortened(made, 1000).entries}
    assert all(1 <= card.count(b"TEL;") <= 9 for card in book.cards.values())
    assert len(book.cards) < 300  # a FRITZ!Box takes some hundreds


def test_one_number_more_or_less_changes_one_contact_each() -> None:
    made = big_list(500)
    fewer = replace(made, version=made.version - 1, entries=made.entries[1:])
    old, new = Book(fewer, 1000), Book(made, 1000)
    root = fromstring(changes(old, new, ALL))
    answers = root.findall(f"{D}response")
    assert len(answers) == 1
    assert made.entries[0].number in (answers[0].findtext(f".//{C}address-data") or "")
    assert root.findtext(f"{D}sync-token") == new.token
    assert len(fromstring(changes(None, new, ALL)).findall(f"{D}response")) == len(new.cards)
    assert fromstring(changes(new, new, ALL)).findall(f"{D}response") == []


def test_what_is_gone_is_said_to_be() -> None:
    old, new = Book(sample(), 1000), Book(replace(sample(), version=13, entries=()), 1000)
    statuses = [node.text for node in fromstring(changes(old, new, ALL)).iter(f"{D}status")]
    assert statuses == ["HTTP/1.1 404 Not Found"] * len(old.cards)


def test_contacts_by_name_and_names_that_there_are_not() -> None:
    book = Book(sample(), 1000)
    name = next(iter(book.cards))
    root = fromstring(
        multiget(book, DavRequest("c:addressbook-multiget", ("d:getetag",), (book.href + name, "/dav/books/1000/x")))
    )
    assert [node.text for node in root.iter(f"{D}getetag")] == [book.etag(name)]
    assert [node.text for node in root.iter(f"{D}status")] == ["HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found"]


def test_a_property_that_there_is_not_is_named_as_such() -> None:
    asked = read_request(
        b'<propfind xmlns="DAV:"><prop><getetag/><x xmlns="urn:a&amp;b"/><nonsense/></prop></propfind>'
    )
    root = fromstring(
        response("/x&y", {"d:getetag": "1"}, asked).replace("<d:response>", '<d:response xmlns:d="DAV:">')
    )
    assert [[child.tag for child in prop] for prop in root.iter(f"{D}prop")] == [
        [f"{D}getetag"],
        ["{urn:a&b}x", f"{D}nonsense"],
    ]
    assert root.findtext(f"{D}href") == "/x&y"


@pytest.mark.parametrize("data", [b"<", b"<!DOCTYPE x><x/>", b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', b"\xff"])
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidData, match="XML without a document type"):
        read_request(data)


def test_tokens_belong_to_a_version_and_a_limit() -> None:
    assert version_of(Book(sample(), 1000).token, 1000) == 12
    assert version_of(Book(sample(), 1000).token, 300) is None
    assert version_of("urn:other", 1000) is None
