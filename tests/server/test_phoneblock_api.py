"""PhoneBlock's dialect over HTTP: an app that syncs from any older version ends with exactly the current list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from defusedxml import ElementTree
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, serving

from hushcall.formats.phoneblock import sha1_of, votes_in
from hushcall.server.http.routes.phoneblock import check_prefix
from hushcall.server.publishing import exclusions
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.service import Service

B, C = "+12025550199", "+12025550177"
WEEK: tuple[list[str], ...] = (
    [SPAM] * 6 + [B] * 5,
    [SPAM] * 12 + [C] * 5,  # more votes for one, one new
    [C] * 6,
    [],  # the first two leave: the window is two rounds
    [B] * 25,  # one comes back
    [],
    [],  # nothing is left
    [SPAM] * 5,
)


@dataclass
class App:
    """What SpamBlocker does: it keeps numbers and the version it has, and asks for what changed since."""

    client: httpx.Client
    fmt: str
    version: int = 0
    numbers: dict[str, int] = field(default_factory=dict)

    def sync(self) -> None:
        answer = self.client.get("/api/blocklist", params={"since": self.version, "format": self.fmt})
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] == f"application/{self.fmt}"
        if self.fmt == "json":
            found = answer.json()
            self.version = found["version"]
            rows = [(row["phone"], row["votes"]) for row in found["numbers"]]
        else:
            root = ElementTree.fromstring(answer.text.encode())
            self.version = int(root.get("version", "0"))
            rows = [(row.get("phone", ""), int(row.get("votes", "0"))) for row in root.iter("phone-info")]
        for phone, count in rows:
            if count:
                self.numbers[phone] = count
            else:
                self.numbers.pop(phone, None)

    def copy(self) -> App:
        return App(self.client, self.fmt, self.version, dict(self.numbers))


def current(service: Service) -> dict[str, int]:
    with service.store.read() as connection:
        found = newest_list(connection)
    return {} if found is None else {entry.number: votes_in(found, entry) for entry in found.entries}


@pytest.fixture
def town(make_service: MakeService, database: str, clock: Clock) -> Iterator[tuple[Village, httpx.Client]]:
    service = make_service(database, list={"window": 2, "deltas": 2, "block_days": 1})
    with serving(service) as client:
        yield Village(service, clock), client


@pytest.mark.parametrize("fmt", ["json", "xml"])
def test_an_app_of_any_older_version_ends_with_exactly_the_current_list(
    town: tuple[Village, httpx.Client], fmt: str
) -> None:
    village, client = town
    faithful, sizes = App(client, fmt), list[int]()
    faithful.sync()
    assert (faithful.version, faithful.numbers) == (0, {})
    older = [faithful.copy()]
    for callers in WEEK:
        village.to("published", callers)
        faithful.sync()
        older.append(faithful.copy())
        for app in [old.copy() for old in older] + [App(client, fmt)]:
            app.sync()
            assert app.numbers == current(village.service)
            assert app.version == len(older) - 1
        sizes.append(len(faithful.numbers))
    assert sizes == [2, 3, 2, 1, 1, 1, 0, 1]


def test_an_app_that_is_up_to_date_is_told_nothing_and_a_new_one_no_removals(
    town: tuple[Village, httpx.Client],
) -> None:
    village, client = town
    for callers in WEEK[:4]:
        village.to("published", callers)
    assert client.get("/api/blocklist?since=4").json() == {"numbers": [], "version": 4}
    assert [row["votes"] for row in client.get("/api/blocklist").json()["numbers"]] == [10]
    since_one = client.get("/api/blocklist?since=1").json()["numbers"]
    assert {row["phone"]: row["votes"] for row in since_one} == {SPAM: 0, B: 0, C: 10}
    assert {row["rating"] for row in since_one} == {"A_LEGITIMATE", "B_MISSED"}


def test_an_appealed_number_leaves_every_app_at_its_next_sync(town: tuple[Village, httpx.Client]) -> None:
    village, client = town
    village.to("published", WEEK[0])
    app, service = App(client, "json"), village.service
    app.sync()
    assert SPAM in app.numbers
    exclusions.appeal(service.store, SPAM, "a school", "the school", service.now)
    service.publisher.republish(service.now)
    app.sync()
    assert (list(app.numbers), app.version) == ([B], 2)


def test_hashes_of_a_number_and_its_blocks_name_it_and_the_pages_say_so() -> None:
    """Four digits of each: 200 of 200 numbers are found among a hundred thousand. By their own four digits, few are."""
    numbers = [f"+1202{suffix}" for suffix in range(2_000_000, 2_100_000)]

    def askers(*cuts: int) -> Counter[tuple[str, ...]]:
        begun = {cut: {prefix: sha1_of(prefix)[:4] for prefix in {n[: len(n) - cut] for n in numbers}} for cut in cuts}
        return Counter(tuple(begun[cut][number[: len(number) - cut]] for cut in cuts) for number in numbers)

    def named(*cuts: int) -> int:
        counts = askers(*cuts)
        return sum(counts[tuple(sha1_of(n[: len(n) - cut])[:4] for cut in cuts)] == 1 for n in numbers[::500])

    assert named(0, 1, 2) == 200
    assert named(0) < 100
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    assert "with these the server learns which number it is" in page
    assert "it learns which number it is" in (check_prefix.__doc__ or "")


def test_numbers_are_checked_by_their_hash_or_the_beginning_of_it(town: tuple[Village, httpx.Client]) -> None:
    village, client = town
    listed, other = sha1_of(SPAM), sha1_of(C)
    assert client.get("/api/check", params={"sha1": listed}).json()["votes"] == 0  # before the first list
    assert client.get("/api/check-prefix", params={"sha1": listed[:4]}).json()["numbers"] == []
    village.to("published", WEEK[0])
    found = client.get("/api/check", params={"sha1": listed}).json()
    assert (found["phone"], found["votes"], found["rating"]) == (SPAM, 10, "B_MISSED")
    assert client.get("/api/check", params={"sha1": listed.lower()}).json() == found
    unlisted = client.get("/api/check", params={"sha1": other}).json()
    assert (unlisted["phone"], unlisted["votes"], unlisted["rating"]) == ("unknown", 0, "A_LEGITIMATE")
    for digits in (listed[:4], listed[:10].lower(), listed):
        assert client.get("/api/check-prefix", params={"sha1": digits}).json()["numbers"] == [found]
    assert client.get("/api/check-prefix", params={"sha1": other[:4]}).json()["numbers"] == []
    as_xml = client.get("/api/check", params={"sha1": listed, "format": "xml"})
    root = ElementTree.fromstring(as_xml.text.encode())
    assert (root.tag, root.get("phone"), root.get("votes")) == ("phone-info", SPAM, "10")
    assert '"rating":"B_MISSED"' in client.get("/api/check", params={"sha1": listed}).text  # SpamBlocker looks for it


def test_what_phoneblocks_apps_ask_besides(town: tuple[Village, httpx.Client]) -> None:
    village, client = town
    village.to("published", [SPAM] * 30 + [B] * 5)
    assert client.get("/api/test").text == "ok"
    by_hash = client.get("/api/check", params={"sha1": sha1_of(SPAM)}).json()
    for written in (SPAM, "0012025550143", "2025550143", "(202) 555-0143"):
        assert client.get(f"/api/num/{written}").json() == by_hash
    unlisted = client.get(f"/api/num/{C}", params={"format": "json"}).json()
    assert (unlisted["phone"], unlisted["votes"], unlisted["heat"]) == (C, 0, 0.0)
    assert client.get("/api/num/anonymous").json()["phone"] == "unknown"
    for accept in ("*/xml", "application/xml", "text/xml;q=0.9, */*;q=0.1"):
        answer = client.get("/api/blocklist", headers={"accept": accept})
        assert len(ElementTree.fromstring(answer.content).findall("numbers/phone-info")) == 2
    assert client.get("/api/blocklist?since=").json() == client.get("/api/blocklist").json()
    assert [row["phone"] for row in client.get("/api/blocklist?since=&limit=1").json()["numbers"]] == [SPAM]


def test_reports_in_the_clear_are_refused_with_a_word_on_why(client: httpx.Client) -> None:
    for path in ("/api/rate", f"/api/report-call/{SPAM}"):
        answer = client.post(path, json={"phone": SPAM, "rating": "G_FRAUD"})
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:hushcall:problem:private-reports-only")
        assert "randomised report" in answer.json()["todo"]
        assert SPAM not in answer.text


def test_a_number_that_only_warns_has_the_fewest_votes_until_it_blocks(make_service: MakeService, clock: Clock) -> None:
    service = make_service(list={"block_days": 2})
    village = Village(service, clock)
    with serving(service) as client:
        shown = []
        for _ in range(2):
            village.to("published", [SPAM] * 12)
            told = client.get("/api/blocklist").json()["numbers"]
            check = client.get("/api/check", params={"sha1": sha1_of(SPAM)}).json()["votes"]
            shown.append(([row["votes"] for row in told], check))
    assert shown == [([2], 2), ([10], 10)]


def test_the_check_follows_the_list(town: tuple[Village, httpx.Client]) -> None:
    village, client = town
    answers = []
    for callers in WEEK[:4]:
        village.to("published", callers)
        answers.append([client.get("/api/check", params={"sha1": sha1_of(n)}).json()["votes"] for n in (SPAM, B, C)])
    assert answers == [[10, 10, 0], [10, 10, 10], [10, 0, 10], [0, 0, 10]]


@pytest.mark.parametrize("digits", ["", "abc", "x" * 40, "a" * 41, "+12025550143"])
def test_a_prefix_that_is_too_short_or_no_hash_is_refused(client: httpx.Client, digits: str) -> None:
    assert client.get("/api/check-prefix", params={"sha1": digits}).status_code == 400
    assert client.get("/api/check", params={"sha1": digits}).status_code == 400
