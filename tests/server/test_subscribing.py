"""Whoever subscribes: exports at addresses that stay, and the address book over CardDAV."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from defusedxml import ElementTree
from tests.formats.blocklists.readers import held_by, numbers_of, read
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, serving

from hushcall.formats.blocklists import WRITERS
from hushcall.protocol.blocklist import Blocklist

OTHER, THIRD = "+12025550199", "+12025550177"
D = "{DAV:}"
SYNC = (
    '<d:sync-collection xmlns:d="DAV:"><d:sync-token>{}</d:sync-token><d:prop><d:getetag/></d:prop></d:sync-collection>'
)


@pytest.fixture
def town(make_service: MakeService, clock: Clock) -> Iterator[tuple[Village, httpx.Client]]:
    service = make_service(list={"window": 2, "deltas": 1, "block_days": 1})
    with serving(service) as client:
        yield Village(service, clock), client


def hrefs(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 207
    return [node.text or "" for node in ElementTree.fromstring(answer.content).iter(f"{D}href")]


def test_exports_stay_where_they_are_and_are_fetched_once(town: tuple[Village, httpx.Client]) -> None:
    village, client = town
    assert client.get("/v1/lists/current/yacb.csv").status_code == 404  # before the first list
    village.to("published", [SPAM] * 12 + [OTHER] * 6)
    page = client.get("/list").text
    made = Blocklist.from_bytes(client.get("/v1/lists/current/blocklist.jsonl").content)
    assert numbers_of(made) == {SPAM, OTHER}
    for writer in WRITERS.values():
        answer = client.get(f"/v1/lists/current/{writer.filename}")
        assert answer.headers["content-type"].partition(";")[0] == writer.media_type
        assert read(writer.name, answer.content) == held_by(writer.name, made)
        again = client.get(answer.url, headers={"if-none-match": f'"x", W/{answer.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert f'href="/v1/lists/current/{writer.filename}"' in page
    assert client.get("/v1/lists/current/winamp.csv").status_code == 404
    assert read("fritzbox", client.get("/v1/lists/current/fritzbox.xml?limit=1").content) == {SPAM}


def test_a_broken_download_goes_on(town: tuple[Village, httpx.Client]) -> None:
    village, client = town
    village.to("published", [SPAM] * 6)
    whole = client.get("/v1/lists/current/hushcall.txt")
    size, tag = len(whole.content), whole.headers["etag"]
    for asked, part in (("bytes=10-19", slice(10, 20)), ("bytes=10-", slice(10, None)), ("bytes=-5", slice(-5, None))):
        answer = client.get(whole.url, headers={"range": asked, "if-range": tag})
        assert (answer.status_code, answer.content) == (206, whole.content[part])
        first, last = part.indices(size)[:2]
        assert answer.headers["content-range"] == f"bytes {first}-{last - 1}/{size}"
    assert client.get(whole.url, headers={"range": f"bytes={size}-"}).status_code == 416
    for headers in ({"range": "bytes=0-1,3-4"}, {"range": "bytes=0-1", "if-range": '"old"'}, {"range": "lines=1-2"}):
        assert client.get(whole.url, headers=headers).content == whole.content


def test_an_address_book_is_found_fetched_and_kept_in_step(town: tuple[Village, httpx.Client]) -> None:
    village, client = town
    book = "/dav/books/1000/"
    assert client.request("PROPFIND", book).status_code == 404
    village.to("published", [SPAM] * 6)
    assert client.request("PROPFIND", "/.well-known/carddav").headers["location"] == "/dav/"
    assert "/dav/books/" in hrefs(client.request("PROPFIND", "/dav/"))
    assert book in hrefs(client.request("PROPFIND", "/dav/books/", headers={"depth": "1"}))
    assert "addressbook" in client.options(book).headers["dav"]
    contacts = hrefs(client.request("PROPFIND", book, headers={"depth": "1"}))[2:]
    card = client.get(contacts[-1])
    assert re.findall(r"TEL;TYPE=HOME:(.+)\r", card.text) == [SPAM]
    assert client.get(contacts[-1], headers={"if-none-match": card.headers["etag"]}).status_code == 304
    first = client.request("REPORT", book, content=SYNC.format(""))
    token = ElementTree.fromstring(first.content).findtext(f"{D}sync-token")
    village.to("published", [OTHER] * 6)
    changed = client.request("REPORT", book, content=SYNC.format(token))
    assert hrefs(changed) != []
    assert contacts[-1] not in hrefs(changed)  # the old number's contact is as it was
    village.to("published", [THIRD] * 6)
    village.to("published", [SPAM] * 6)
    stale = client.request("REPORT", book, content=SYNC.format(token))  # two older versions are kept
    assert (stale.status_code, b"valid-sync-token" in stale.content) == (403, True)
    assert client.put(contacts[-1], content=b"x").status_code == 405
    assert client.request("REPORT", book, content="<").status_code == 400
