"""The owner's page: what it shows, who may see it, and that it changes the owner's own list only."""

from __future__ import annotations

import re
import socket
import string
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request
from tests.client.fake_server import START, FakeService, over_http
from tests.client.lists_on_disk import BLOCKED, CLEAN, WARNED, put_list

from hushcall.client.client import Client
from hushcall.client.screening.screen import Screen
from hushcall.client.storage.personal import Action, Personal
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call, CallKind
from hushcall_home import history, page
from hushcall_home.config import Config, Page, hash_password
from hushcall_home.languages import FOLDER, LANGUAGES, Language
from hushcall_home.parts import Fetched, Part, Trouble

NASTY = '<script>alert("x")</script>'
LOCAL = Page()
PASSWORD = Page("0.0.0.0:8470", hash_password("open sesame", b"salt"))
TEMPLATES = Path(page.__file__).with_name("templates")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with over_http(FakeService(lambda: START)) as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A household with a list, calls of each verdict, and one part in trouble."""
    monkeypatch.setenv("TZ", "UTC")
    at = tmp_path / "phone"
    Client.set_up(at, server).close()
    Config().save(at)
    with closing(Store.open(at)) as store:
        put_list(at, START, START + 36 * 3600)
        store.put("zone", "UTC")
        calls = (
            Call(BLOCKED, START - 60, CallKind.REJECTED),
            Call(WARNED, START - 120, CallKind.MISSED),
            Call(CLEAN, START - 180, CallKind.INCOMING, NASTY),
            Call("", START - 240, CallKind.MISSED),
        )
        history.record(store, Screen(store), "fritzbox", Fetched(calls, ""), START)
        Part("fritzbox", words="4 new calls; 1 contact.", done=START).save(store)
        words = "This FRITZ!OS has no call barring for programs."
        Part("fritzbox-barring", ok=False, words=words, todo="Update FRITZ!OS.").save(store)
    return at


def visitor(folder: Path, settings: Page = LOCAL, now: float = START, **options: Any) -> TestClient:
    app = page.make_app(folder, settings, clock=lambda: now)
    return TestClient(app, base_url=options.pop("base_url", "http://localhost:8470"), follow_redirects=False, **options)


def token_of(text: str) -> str:
    match = re.search(r'name="form" value="([0-9a-f]{64})"', text)
    assert match
    return match[1]


def own_list(folder: Path) -> dict[str, Action]:
    with closing(Store.open(folder)) as store:
        return dict(Personal.load(store).entries)


def test_calls_with_their_verdicts_and_the_next_step(folder: Path) -> None:
    text = visitor(folder).get("/").text
    for words in (BLOCKED, WARNED, CLEAN, "withheld", "blocked", "warned", "not on the list", "reported by about"):
        assert words in text
    assert "This FRITZ!OS has no call barring for programs." in text
    assert "Update FRITZ!OS." in text
    assert "<strong>1</strong> calls blocked" in text
    assert "Nothing has left this house yet." in text


def test_a_callers_name_is_text(folder: Path) -> None:
    answer = visitor(folder).get("/")
    assert NASTY not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_owners_word_and_its_undoing(folder: Path) -> None:
    client = visitor(folder)
    form = token_of(client.get("/").text)
    for action, entries in (("block", {CLEAN: Action.BLOCK}), ("allow", {CLEAN: Action.ALLOW}), ("undo", {})):
        answer = client.post("/act", data={"form": form, "number": CLEAN, "action": action})
        assert (answer.status_code, answer.headers["location"]) == (303, "./#calls")
        assert own_list(folder) == entries
    assert client.post("/act", data={"form": form, "number": "drop table", "action": "block"}).status_code == 409
    assert own_list(folder) == {}


@pytest.mark.parametrize("form", ["", "0" * 64, "ü"])
def test_a_form_of_another_page_changes_nothing(folder: Path, form: str) -> None:
    client = visitor(folder)
    answer = client.post("/act", data={"form": form, "number": CLEAN, "action": "allow"})
    assert answer.status_code == 403
    assert own_list(folder) == {}
    answer = client.post("/act", content=b"form=" + b"0" * 5000)
    assert answer.status_code == 403


def test_a_name_that_leads_here_sees_nothing(folder: Path) -> None:
    for name in ("http://evil.example", "http://192.168.1.7:8470", "http://localhost.evil.example"):
        answer = visitor(folder, base_url=name).get("/")
        assert answer.status_code == 403
        assert BLOCKED not in answer.text
    assert visitor(folder, base_url="http://127.0.0.1:8470").get("/").status_code == 200


def test_a_proxy_with_a_login_is_the_only_one_who_may_ask(folder: Path) -> None:
    only = Page("0.0.0.0:8470", only_from="172.30.32.2")
    assert visitor(folder, only, base_url="http://any", client=("172.30.32.2", 1)).get("/").status_code == 200
    answer = visitor(folder, only, client=("172.30.32.3", 1)).get("/", headers={"X-Forwarded-For": "172.30.32.2"})
    assert answer.status_code == 403


def test_the_network_needs_the_password(folder: Path) -> None:
    client = visitor(folder, PASSWORD, base_url="http://pi.local:8470")
    answer = client.get("/")
    assert answer.status_code == 401
    assert BLOCKED not in answer.text
    assert client.post("/act", data={"number": CLEAN, "action": "allow"}).status_code == 401
    assert client.post("/login", data={"password": "wrong"}).status_code == 401
    answer = client.post("/login", data={"password": "open sesame"})
    assert answer.status_code == 303
    assert {"HttpOnly", "SameSite=strict"} <= set(answer.headers["set-cookie"].split("; "))
    assert BLOCKED in client.get("/").text
    client.post("/logout")
    assert client.get("/").status_code == 401


def test_a_session_ends_and_cannot_be_made_up() -> None:
    now = [1000.0]
    guard = page.Guard(PASSWORD, lambda: now[0], secret=b"secret")

    def admitted(cookie: str) -> bool:
        headers = [(b"cookie", f"session={cookie}".encode("latin-1"))]
        return guard.admits(Request({"type": "http", "headers": headers}))

    session = guard.session(2000)
    assert admitted(session)
    for forged in ("", "2000:", session.replace("2000", "3000", 1), f"{session}0", "²:x", f"{'9' * 13}:x"):
        assert not admitted(forged)
    now[0] = 2001
    assert not admitted(session)


def test_guessing_a_password_gets_slower() -> None:
    now = [0.0]
    guard = page.Guard(PASSWORD, lambda: now[0], secret=b"secret")
    compared = 0
    for _ in range(24 * 3600 // 5):
        before = guard.failures
        assert not guard.accepts("guess")
        compared += guard.failures - before
        now[0] += 5
    assert compared <= 110, "of 17,280 guesses in a day so many are looked at"
    now[0] = guard.retry_at
    assert guard.accepts("open sesame")
    assert guard.failures == 0


def test_a_busy_port_is_said(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Trouble, match=r"cannot use .*: Address already in use") as caught:
            page.serve(folder, Page(listen), lambda: None)
    for said in map(Language.of, LANGUAGES):
        assert said.unknown(caught.value.words) == said.unknown(caught.value.todo) == []


@pytest.mark.parametrize(
    "settings",
    [
        Page("0.0.0.0:8470"),
        Page("nowhere:8470"),
        Page("127.0.0.1:0"),
        Page("8470"),
        Page("[::]:8470"),
        Page("0.0.0.0:8470", only_from="a proxy"),
    ],
)
def test_where_the_network_sees_it_nothing_is_served_without_a_password(settings: Page, folder: Path) -> None:
    with pytest.raises(InvalidParameter):
        settings.address()
    with pytest.raises(InvalidParameter):
        page.serve(folder, settings, lambda: None)


@pytest.mark.parametrize("code", list(LANGUAGES))
def test_the_page_in_every_language(folder: Path, code: str) -> None:
    client = visitor(folder)
    answer = client.get("/", headers={"Accept-Language": f"xx, {code}-CH;q=0.8"})
    assert f'<html lang="{code}">' in answer.text
    chosen = client.get("/", params={"lang": code})
    assert f'<html lang="{code}">' in client.get("/", headers={"Accept-Language": "en"}).text, chosen.headers
    if code != "en":
        for words in (
            "let through",
            "Verdict</th>" if code != "fr" else "When",
            "Update FRITZ",
            "new calls",
            "found in",
        ):
            assert words not in answer.text


def texts() -> set[str]:
    """What the templates say."""
    pages = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.html"))
    return set(re.findall(r'\bt\("([^"]+)"', pages))


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != "en"])
def test_every_catalog_is_complete_and_keeps_the_values(code: str) -> None:
    def values(text: str) -> set[str | None]:
        return {name for _, name, _, _ in string.Formatter().parse(text)} - {None}

    catalog = Language.of(code).catalog
    assert texts() <= catalog.keys()
    assert catalog.keys() == Language.of("de").catalog.keys()
    for text, translation in catalog.items():
        assert translation, text
        assert values(text) == values(translation), text
    assert (FOLDER / f"{code}.po").read_text(encoding="utf-8").count("fuzzy") == 0


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != "en"])
@pytest.mark.parametrize(
    "text",
    [
        "This phone takes part in one round a day, and has done so today.",
        "Round 2 is published: too late to join.",
        "Round 2: nothing left to do (sent).",
        "Round 2: nothing left to do (skipped: the server opened another round).",
        "Round 2: no report, its bucket is too small to be worth a budget; nothing was spent.",
        "Nothing is sent: no list has come for three days: run hushcall phone sync.",
        "https://calls.example.org does not answer (NewConnectionError): is it the right address?",
    ],
)
def test_what_happens_on_any_day_is_translated_with_its_values(code: str, text: str) -> None:
    translation = re.sub(r"\([A-Z]\w+\)|hushcall phone sync|https:\S+", "", Language.of(code).sentence(text)).lower()
    english = "is does the one too late round nothing sent was skipped server opened bucket budget no has"
    shared = {"server", "budget"} | ({"no"} if code == "es" else set())
    assert not set(re.findall(r"\w+", translation)) & (set(english.split()) - shared), translation


def test_a_sentence_that_the_catalog_does_not_know_is_noticed() -> None:
    german = Language.of("de")
    assert german.unknown("The FRITZ!Box holds 7 numbers. It sings.") == ["It sings."]
    assert german.sentence("The FRITZ!Box holds 7 numbers. It sings.") == "Die FRITZ!Box enthält 7 Nummern. It sings."
    assert german.sentence("The FRITZ!Box holds 1,200 numbers of 4,000: the most reported ones.").count(".") == 3
