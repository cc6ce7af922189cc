"""PhoneBlock's dialect, as its clients use it: full, then since N, then removals; checks by hash and prefix."""

import hashlib
import json
import re
from dataclasses import dataclass, field, replace

import pytest
from defusedxml.ElementTree import fromstring
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.formats.blocklists.readers import parse
from tests.lists import START, blocklists, sample

from hushcall.errors import InvalidList, InvalidParameter
from hushcall.formats.phoneblock import (
    STEPS,
    Change,
    CheckIndex,
    Format,
    Rated,
    changes_between,
    check_document,
    document,
    largest,
    prefix_document,
    sha1_of,
    votes,
)
from hushcall.protocol.blocklist import Blocklist, Entry

ENTRY = Entry("+12025550143", START, START + 86_400, 2, 118.2, 97.0, 140.1, 1e-9)


@dataclass
class Server:
    """What a server does with the pure functions: it keeps some versions, and knows all numbers once listed."""

    kept: dict[int, Blocklist]
    once: set[str]
    newest: int

    def blocklist(self, since: int | None, fmt: Format) -> bytes:
        new = self.kept[self.newest]
        if since is None:
            changes = changes_between(None, new)
        elif since in self.kept:
            changes = changes_between(self.kept[since], new)
        else:
            listed = {entry.number for entry in new.entries}
            gone = [Change(number, 0, new.made * 1000) for number in sorted(self.once - listed)]
            changes = changes_between(None, new) + gone
        return document(changes, new.version, fmt)[0]


@dataclass
class SpamBlocker:
    """A client as the app is set up: it fetches, looks with its own patterns, and upserts or removes by votes."""

    fmt: Format
    database: dict[str, int] = field(default_factory=dict)
    version: int | None = None

    def sync(self, server: Server) -> None:
        answer = server.blocklist(self.version, self.fmt)
        if self.fmt == "json":
            found = json.loads(answer)
            rows, self.version = found["numbers"], int(found["version"])
        else:
            root = fromstring(answer)
            rows, self.version = [dict(row.items()) for row in root.iter("phone-info")], int(root.get("version", ""))
        for row in rows:
            if int(row["votes"]) > 0:
                assert re.fullmatch("D_POLL|G_FRAUD|E_ADVERTISING|F_GAMBLE|B_MISSED", row["rating"])
                self.database[row["phone"]] = int(row["votes"])
            else:
                self.database.pop(row["phone"], None)

    def is_spam(self, answer: bytes) -> str | None:
        """The app's two patterns for the answer of a check: is it bad, and what kind."""
        text = answer.decode()
        if not re.search("(D_POLL|G_FRAUD|E_ADVERTISING|F_GAMBLE|B_MISSED)", text):
            return None
        category = re.search('"rating":"(.+?)"', text)
        return category[1] if category else None


@given(st.lists(blocklists(), min_size=1, max_size=6), st.data())
def test_a_client_ends_with_exactly_the_current_list(made: list[Blocklist], data: st.DataObject) -> None:
    versions = {i: replace(blocklist, version=i) for i, blocklist in enumerate(made, 1)}
    server, clients = Server({}, set(), 0), [SpamBlocker("json"), SpamBlocker("xml")]
    for number, blocklist in versions.items():
        server.kept[number], server.newest = blocklist, number
        server.once |= {entry.number for entry in blocklist.entries}
        if data.draw(st.booleans()):
            server.kept.pop(data.draw(st.sampled_from(sorted(server.kept))), None)  # an old version is forgotten
            server.kept[number] = blocklist
        for client in clients:
            if number == len(made) or data.draw(st.booleans()):  # a phone may miss some days
                client.sync(server)
    current = {entry.number: votes(entry) for entry in made[-1].entries}
    for client in clients:
        assert client.database == current
        assert client.version == len(made)


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [(-5.0, 10), (0.0, 10), (3.6, 10), (9.6, 10), (19.0, 10), (20.0, 20), (99.0, 50), (1e9, 100)],
)
def test_votes_are_the_highest_step_reached(estimate: float, expected: int) -> None:
    assert votes(replace(ENTRY, estimate=estimate)) == expected
    assert expected in STEPS


def test_documents_look_as_clients_expect() -> None:
    changes = [Change("+12025550143", 100, 1000), Change("+12025550144", 0, 2000)]
    data, media_type = document(changes, 42, "json")
    assert media_type == "application/json"
    assert data == (
        b'{"numbers":[{"phone":"+12025550143","votes":100,"rating":"B_MISSED","lastActivity":1000},'
        b'{"phone":"+12025550144","votes":0,"rating":"A_LEGITIMATE","lastActivity":2000}],"version":42}'
    )
    data, media_type = document(changes, 42, "xml")
    assert media_type == "application/xml"
    assert b'<phone-info phone="+12025550143" votes="100" rating="B_MISSED" last-activity="1000"/>' in data
    assert fromstring(data).get("version") == "42"


def test_a_number_is_told_again_only_when_it_crosses_a_step_or_is_seen_again() -> None:
    old = sample()
    grown = tuple(replace(entry, estimate=entry.estimate + 6) for entry in old.entries)
    changes = changes_between(old, replace(old, version=13, entries=grown))
    assert 0 < len(changes) < len(old.entries)
    assert changes_between(old, replace(old, version=13)) == []
    seen = tuple(replace(entry, last=entry.last + 86_400) for entry in old.entries[:3])
    fresh = changes_between(old, replace(old, version=13, entries=(*seen, *old.entries[3:])))
    assert [(change.phone, change.last_activity_ms) for change in fresh] == [(e.number, e.last * 1000) for e in seen]
    gone = changes_between(old, replace(old, version=13, entries=old.entries[1:]))
    assert gone == [Change("+12025550140", 0, START * 1000)]


@given(blocklists(), st.integers(0, 10**9))
def test_json_is_read_back(blocklist: Blocklist, version: int) -> None:
    changes = changes_between(blocklist, replace(blocklist, entries=blocklist.entries[::2]))
    changes += changes_between(None, blocklist)
    assert parse(document(changes, version, "json")[0]) == (changes, version)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"numbers":{},"version":1}',
        b'{"numbers":[1],"version":1}',
        b'{"numbers":[],"version":1.0}',
        b'{"numbers":[],"version":true}',
        b'{"numbers": [],"version":1}',
        b'{"numbers":[{"phone":"911","votes":10,"rating":"B_MISSED","lastActivity":1}],"version":1}',
        b'{"numbers":[{"phone":"+12025550143","votes":3,"rating":"B_MISSED","lastActivity":1}],"version":1}',
        b'{"numbers":[{"phone":"+12025550143","votes":10,"rating":"G_FRAUD","lastActivity":1}],"version":1}',
        b'{"numbers":[{"phone":"+12025550143","votes":10,"rating":"B_MISSED","lastActivity":NaN}],"version":1}',
        b'{"numbers":' + b"[" * 100_000,
    ],
)
def test_other_documents_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidList):
        parse(data)


def test_a_check_by_hash_says_what_the_app_looks_for() -> None:
    index, app = CheckIndex(sample()), SpamBlocker("json")
    listed = hashlib.sha1(b"+12025550143", usedforsecurity=False).hexdigest()
    assert sha1_of("+12025550143") == listed.upper()
    for spelling in (listed, listed.upper()):
        entry = index.check(spelling)
        assert entry is not None
        assert entry.entry.number == "+12025550143"
        answer, media_type = check_document(entry, "json")
        assert media_type == "application/json"
        assert app.is_spam(answer) == "B_MISSED"
        assert json.loads(answer)["phone"] == "+12025550143"
        assert json.loads(answer)["lastUpdate"] == START * 1000
    assert index.check(sha1_of("+12025550199")) is None
    answer, _ = check_document(None, "json")
    assert app.is_spam(answer) is None
    assert json.loads(answer)["votes"] == 0


def test_a_check_in_xml_has_the_same_fields() -> None:
    for entry in (Rated(ENTRY, votes(ENTRY)), None):
        plain = json.loads(check_document(entry, "json")[0])
        root = fromstring(check_document(entry, "xml")[0])
        assert root.tag == "phone-info"
        shown = {
            dashed(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in plain.items()
        }
        assert dict(root.items()) == shown


@given(blocklists(), st.integers(4, 40), st.data())
def test_a_check_by_prefix_finds_all_and_only_those(blocklist: Blocklist, length: int, data: st.DataObject) -> None:
    index = CheckIndex(blocklist)
    hashes = {sha1_of(entry.number): entry.number for entry in blocklist.entries}
    start = data.draw(st.sampled_from([*hashes, "0" * 40, "F" * 40]))[:length]
    found = index.prefix(start.lower())
    assert {one.entry.number for one in found} == {number for sha1, number in hashes.items() if sha1.startswith(start)}
    answer = json.loads(prefix_document(found, "json")[0])
    assert [row["phone"] for row in answer["numbers"]] == [one.entry.number for one in found]
    assert answer["range10"] == answer["range100"] == []
    assert len(fromstring(prefix_document(found, "xml")[0]).findall("numbers/phone-info")) == len(found)


def dashed(name: str) -> str:
    """As PhoneBlock's generator makes XML names of properties."""
    return re.sub("([A-Z]|[0-9]+)", r"-\1", name).lower()


# Property names of PhoneBlock's published models (its api.proto and the readers generated from it): which of them an
# answer of ours must have, so that its readers find every number.
BLOCKLIST_ENTRY = {"phone", "votes", "rating", "lastActivity"}
PHONE_INFO = {
    "phone",
    "votes",
    "rating",
    "votesWildcard",
    "whiteListed",
    "blackListed",
    "dateAdded",
    "lastUpdate",
    "heat",
}
RANGE_MATCH = {"prefix", "votes", "cnt"}
ROOT_OF_PREFIX_CHECK = {"numbers": "phone-info", "range10": "range-match", "range100": "range-match"}


def crowded() -> Blocklist:
    """A list with a block of a hundred: four of each of three tens."""
    made = tuple(replace(ENTRY, number=f"+120255501{ten}{one}") for ten in range(3) for one in range(4))
    return replace(sample(), entries=made)


def test_json_answers_have_the_properties_of_phoneblocks_models() -> None:
    index = CheckIndex(crowded())
    blocks = index.blocks(sha1_of("+1202555010")[:4], sha1_of("+120255501")[:4])
    found = json.loads(prefix_document(index.prefix(sha1_of("+12025550100")), "json", blocks)[0])
    assert found.keys() == ROOT_OF_PREFIX_CHECK.keys()
    assert all(row.keys() >= PHONE_INFO for row in found["numbers"])
    assert [row.keys() for row in found["range10"] + found["range100"]] == [RANGE_MATCH, RANGE_MATCH]
    assert [(row["prefix"], row["cnt"]) for row in found["range10"]] == [("+1202555010", 4)]
    assert [(row["prefix"], row["cnt"]) for row in found["range100"]] == [("+120255501", 12)]
    whole = json.loads(document(changes_between(None, crowded()), 3, "json")[0])
    assert whole.keys() == {"numbers", "version"}
    assert all(row.keys() == BLOCKLIST_ENTRY for row in whole["numbers"])


def test_xml_answers_are_what_phoneblocks_reader_walks_through() -> None:
    """Its reader takes attributes by their dashed names, and rows only from inside the element of their list."""
    index = CheckIndex(crowded())
    blocks = index.blocks(sha1_of("+1202555010"), sha1_of("+120255501"))
    root = fromstring(prefix_document(index.prefix(sha1_of("+12025550100")), "xml", blocks)[0])
    assert root.tag == "prefix-check-result"
    assert [part.tag for part in root] == [dashed(name) for name in ROOT_OF_PREFIX_CHECK]
    for part, row in zip(root, ROOT_OF_PREFIX_CHECK.values(), strict=True):
        assert [element.tag for element in part] == [row]
        names = PHONE_INFO if row == "phone-info" else RANGE_MATCH
        assert {dashed(name) for name in names} <= set(part[0].keys())
    whole = fromstring(document(changes_between(None, crowded()), 3, "xml")[0])
    assert (whole.tag, [part.tag for part in whole]) == ("blocklist", ["numbers"])
    rows = whole.findall("numbers/phone-info")
    assert len(rows) == 12
    assert all(set(row.keys()) == {dashed(name) for name in BLOCKLIST_ENTRY} for row in rows)


@given(blocklists())
def test_a_client_that_drops_what_has_few_votes_keeps_every_listed_number(blocklist: Blocklist) -> None:
    rows = json.loads(document(changes_between(None, blocklist), 1, "json")[0])["numbers"]
    assert {row["phone"] for row in rows if row["votes"] > 4} == {entry.number for entry in blocklist.entries}


@given(blocklists(), st.integers(1, 30))
def test_a_limit_keeps_the_largest_and_every_removal(blocklist: Blocklist, limit: int) -> None:
    puts = changes_between(None, blocklist)
    gone = [Change("+4930123456", 0, 1), Change("+4930123457", 0, 1)]
    kept = largest([*puts, *gone], limit)
    assert [change for change in kept if not change.votes] == gone
    chosen = [change.votes for change in kept if change.votes]
    assert sorted(chosen, reverse=True) == sorted((change.votes for change in puts), reverse=True)[:limit]


def test_a_number_that_is_not_listed_itself_gets_the_votes_of_its_block() -> None:
    index = CheckIndex(crowded())
    votes_of_ten = index.wildcard(sha1_of("+1202555010"), None)
    assert votes_of_ten == round(index.blocks(sha1_of("+1202555010"), None)[0][0].estimate) == 473
    answer = json.loads(check_document(None, "json", wildcard=votes_of_ten)[0])
    assert (answer["phone"], answer["votes"], answer["votesWildcard"]) == ("unknown", 0, votes_of_ten)
    assert answer["rating"] == "B_MISSED"
    assert index.wildcard(sha1_of("+4930123456"), None) == index.wildcard(None, None) == 0


@given(st.text(max_size=45))
@example("A" * 41)
@example("ABC")
@example("ABCD\n")
def test_what_is_no_hash_is_refused(text: str) -> None:
    assume(not re.fullmatch("[0-9A-Fa-f]{4,40}", text))
    index = CheckIndex(sample())
    with pytest.raises(InvalidParameter, match="be 4 to 40 hex digits"):
        index.prefix(text)
    with pytest.raises(InvalidParameter, match="be 40 hex digits"):
        index.check(text)
    with pytest.raises(InvalidParameter, match="be 40 hex digits"):
        index.check("ABCD")
