"""The owner's page in a real browser, under its content policy: it computes what it says, and it asks nobody."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.server.web.contrast import contrast, schemes

import hushcall
from hushcall.mechanisms.profiles import DEFAULT
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader
from hushcall.protocol.items import PLACED, SUFFIX
from hushcall.protocol.numbers import NANP
from hushcall.protocol.numbers.plans import plan_named
from hushcall.protocol.seeds import report_seed
from hushcall.server.web.budget import Budget, sets_of_any_size
from hushcall.server.web.rendering import render

jinja2 = pytest.importorskip("jinja2", reason="jinja2 is not installed")

PAGES = Path(hushcall.__file__).parent / "server" / "web"
TEMPLATE = (PAGES / "templates" / "owner.html").read_text()
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

ENTRY = Entry("+12025550143", 1_800_000_000, 1_800_086_400, 2, 118.2, 97.0, 140.1, 1e-9)
TERMS = ListHeader("subspace", 4.0, 10, 1e-3, NANP.name, 7)
LIST = Blocklist(1042, 9, 1_800_100_000, replace(TERMS, block_days=2), (replace(ENTRY, window=1),)).to_bytes()
OLD_LIST = Blocklist(1042, 9, 1_800_100_000, TERMS, (ENTRY,)).to_bytes()  # format 1
LIST_URL = "lists/current/blocklist.jsonl"


def settings(**changes: object) -> dict[str, object]:
    """What the server tells the page."""
    return {
        "profile": DEFAULT.name,
        "mechanism": DEFAULT.mechanism,
        "epsilon": DEFAULT.epsilon,
        "bits_example": 5,
        "tau": DEFAULT.tau,
        "window_days": 7,
        "plan": NANP.name,
        "items": SUFFIX.layout(NANP),
        **changes,
    }


@dataclass
class Site:
    """A server of the page's files, and what it was asked for."""

    settings: dict[str, object] = field(default_factory=settings)
    published: bytes | None = LIST
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def find(self, path: str) -> tuple[str, bytes] | None:
        """(type, content) of a path."""
        if path == "/owner":
            given = jinja2.utils.htmlsafe_json_dumps(self.settings)
            budget = Budget(DEFAULT, 7)
            values = {"settings_json": given, "list_url": LIST_URL, "budget": budget, "sets": sets_of_any_size(budget)}
            return "text/html; charset=utf-8", render("owner.html", **values)
        if path == f"/{LIST_URL}" and self.published is not None:
            return "application/jsonl", self.published
        file = PAGES / path.removeprefix("/")
        return (TYPES[file.suffix], file.read_bytes()) if path.startswith("/static/") and file.is_file() else None


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            kind, content = served.find(self.path) or ("text/plain", b"")
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}/owner"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield served
        server.shutdown()


@dataclass
class Visit:
    """The open page, what it requested and what it complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, url: str) -> Any:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready]")
        return self.page


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    made = Visit(context.new_page())
    yield made
    context.close()
    assert made.complaints == []


def text(page: Any, selector: str) -> str:
    return " ".join(page.inner_text(selector).split())


def sent(page: Any) -> bytes:
    """The bytes that the page shows as sent."""
    found = re.match(r"Sent: ([0-9a-f ]+)\.", text(page, "#roll-status"))
    assert found is not None
    return bytes.fromhex(found[1])


# Entropy is replaced by a stream that is known here too: runs repeat, and the library can be asked for the same bytes.
KNOWN_ENTROPY = """
let state = 1;
const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 24;
crypto.getRandomValues = (block) => { for (const at of block.keys()) block[at] = next(); return block; };
"""


def known_entropy(count: int) -> bytes:
    """The first bytes of that stream."""
    state, stream = 1, bytearray()
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % (1 << 32)
        stream.append(state >> 24)
    return bytes(stream)


def test_nothing_is_requested_once_the_page_is_there(site: Site, visit: Visit) -> None:
    page = visit.open(site.url)
    assert all(url.startswith(site.url.removesuffix("owner")) for url in visit.requests)
    loaded, asked = len(visit.requests), len(site.asked)
    page.fill("#number", "(212) 555-0187")
    page.type("#other", "0123456789")
    for button in ("#roll", "#roll", "#renew", "#shuffle", "#roll"):
        page.click(button)
    page.wait_for_timeout(300)
    assert (len(visit.requests), len(site.asked)) == (loaded, asked)
    assert "Rolled 5 times" in text(page, "#tally-words")


def test_the_page_sends_what_a_phone_would(site: Site, visit: Visit) -> None:
    visit.page.add_init_script(KNOWN_ENTROPY)
    page = visit.open(site.url)
    stream = known_entropy(32 + 16 + 3 * 8)
    public = report_seed(stream[:32], stream[32:48])
    phone, item = Subspace(4.0, 5, SUFFIX.bits(NANP)), SUFFIX.item(NANP.parse("+12025550143"), NANP)
    for start in (48, 56, 64):
        report = phone.privatise(item, public, lambda count, at=start: stream[at : at + count])  # type: ignore[misc]
        assert sent(page) == report
        assert text(page, "#sent-value") == f"{phone.parse(report):05b}"
        page.click("#roll")


def test_true_and_false_reports_come_as_often_as_promised(site: Site, visit: Visit) -> None:
    visit.page.add_init_script(KNOWN_ENTROPY)
    page = visit.open(site.url)
    page.evaluate("for (let i = 0; i < 399; i++) document.getElementById('roll').click()")
    found = re.search(r"Rolled 400 times here: (\d+) true, (\d+) false", text(page, "#tally-words"))
    assert found is not None
    assert int(found[1]) / 400 == pytest.approx(0.638, abs=0.072)  # three standard deviations


@pytest.mark.parametrize("published", [LIST, OLD_LIST])
def test_the_list_is_asked_for_once_and_searched_at_home(site: Site, visit: Visit, published: bytes) -> None:
    site.published = published
    page = visit.open(site.url)
    before = len(visit.requests)
    assert not page.is_visible("#lookup-form")
    page.click("#download")
    page.wait_for_selector("#lookup-form:visible")
    assert visit.requests[before:] == [site.url.removesuffix("owner") + LIST_URL]
    assert "Version 1,042 of 16 January 2027" in text(page, "#list-status")
    for typed, answer in {
        "202-555-0143": "+12025550143 is on the list",
        "+1 202 555 0144": "+1 202 555 0144 is not on the list",
    }.items():
        page.fill("#wanted", typed)
        page.click("#look")
        assert text(page, "#answer h3") == answer
    page.fill("#wanted", "2025550143")
    page.click("#look")
    for part in ("about 118", "97 to 140", "days that found it 2", "15 January 2027", "16 January 2027"):
        assert part in text(page, "#answer")
    assert len(visit.requests) == before + 1


@pytest.mark.parametrize("published", [None, b"<!doctype html>", LIST[: LIST.index(b"\n") + 1]])
def test_a_list_that_cannot_be_read_is_said(site: Site, visit: Visit, published: bytes | None) -> None:
    site.published = published
    page = visit.open(site.url)
    page.click("#download")
    page.wait_for_selector("#list-status:has-text('The list could not be read')")
    assert not page.is_visible("#lookup-form")
    assert page.is_enabled("#download")
    visit.complaints = [said for said in visit.complaints if "404" not in said]  # the browser's own line


def test_the_keyboard_is_enough(site: Site, visit: Visit) -> None:
    page = visit.open(site.url)

    def tab_to(wanted: str) -> None:
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == wanted:
                return
        pytest.fail(f"{wanted} cannot be reached")

    tab_to("number")
    page.keyboard.press("Control+A")
    page.keyboard.type("415 555 0100")
    assert text(page, "#area") == "+1 415"
    page.keyboard.press("Enter")
    assert "Rolled 2 times" in text(page, "#tally-words")
    tab_to("roll")
    page.keyboard.press("Space")
    assert "Rolled 3 times" in text(page, "#tally-words")
    tab_to("other")
    page.keyboard.press("Control+A")
    page.keyboard.type("415 555 0101")
    assert text(page, "#theirs-name") == "+1 415 555 0101"
    tab_to("download")
    page.keyboard.press("Enter")
    page.wait_for_selector("#wanted:focus")
    page.keyboard.type(ENTRY.number)
    page.keyboard.press("Enter")
    assert "is on the list" in text(page, "#answer")


def test_a_wrong_number_is_named_and_results_fade(site: Site, visit: Visit) -> None:
    page = visit.open(site.url)
    for typed in ("", "911", "+44 20 7946 0958", "+1 202 155 0143", "+1 999 555 0143", "<b>"):
        page.fill("#number", typed)
        assert text(page, "#number-error").startswith("This must "), typed
        assert page.get_attribute("#number", "aria-invalid") == "true"
        assert page.locator("#leaves.stale").count() == 1
    page.fill("#number", "+1 202 555 0143")
    assert text(page, "#number-error") == ""
    assert page.locator(".stale").count() == 0


def test_only_numbers_that_can_hide_each_other_are_compared(site: Site, visit: Visit) -> None:
    page = visit.open(site.url)
    page.fill("#other", "+1 415 555 0143")
    assert "start with +1 202" in text(page, "#other-error")
    page.fill("#other", "+1 202 555 0143")
    assert "another number than yours" in text(page, "#other-error")
    page.fill("#number", "+1 415 555 0143")
    assert page.input_value("#other").startswith("+1 415 ")
    assert text(page, "#other-error") == ""


def test_the_verdict_agrees_with_the_odds(site: Site, visit: Visit) -> None:
    visit.page.add_init_script(KNOWN_ENTROPY)
    page = visit.open(site.url)
    seen = set()
    for _ in range(25):
        page.click("#roll")
        mine, theirs, verdict = (text(page, part) for part in ("#chance-mine", "#chance-theirs", "#verdict"))
        seen.add((mine, theirs))
        expected = {
            ("63.8 %", "1.17 %"): "54.6 times as likely with your number",
            ("1.17 %", "63.8 %"): "point away from you",
            ("1.17 %", "1.17 %"): "equally often",
            ("63.8 %", "63.8 %"): "cannot tell them apart",
        }[mine, theirs]
        assert expected in verdict or "same bits" in verdict
    assert len(seen) > 1
    assert "at most 54.6 times" in text(page, "#bound-words")
    assert "98.2 %" in text(page, "#doubt-words")


def test_what_a_thief_learns(site: Site, visit: Visit) -> None:
    page = visit.open(site.url)
    assert text(page, "#possible") == "8,000,000"
    assert text(page, "#before") == "1 in 8,000,000"
    assert int(text(page, "#fitting").replace(",", "")) == pytest.approx(250_000, rel=0.01)
    assert text(page, "#after") in ("1 in 392,000", "1 in 21,400,000")


def test_a_server_that_protects_whole_numbers(site: Site, visit: Visit) -> None:
    site.settings = settings(
        profile="sensitive-whole", mechanism="whole-number", epsilon=8.0, bits_example=17, items=PLACED.layout(NANP)
    )
    page = visit.open(site.url)
    assert text(page, "#area-fate") == "never leaves as it is"
    assert text(page, "#possible") == "3,752,000,000"
    assert sent(page)[:2] == bytes((1, 5))
    assert len(sent(page)) == 5
    assert "not even its area code" in text(page, "#learns-area")
    assert "100 %" not in text(page, "#doubt-words")  # 99.97 % is not certainty
    page.fill("#other", "+1 415 555 0143")
    assert text(page, "#other-error") == ""


def test_a_mechanism_that_the_page_does_not_know(site: Site, visit: Visit) -> None:
    site.settings = settings(profile="</script><b>", mechanism="sh-extended", epsilon=11.8)
    page = visit.open(site.url)
    assert "cannot show the reports of this server" in text(page, "#unsupported")
    assert not page.is_visible("#leaves")
    page.click("#download")
    page.wait_for_selector("#lookup-form:visible")


def test_a_server_of_another_country_says_what_it_learns(site: Site, visit: Visit) -> None:
    site.settings = settings(plan="de-f9328cd872b6", items=SUFFIX.layout(plan_named("DE")))
    page = visit.open(site.url)
    assert "it rolls numbers of one length, and those of de-f9328cd872b6 have several" in text(page, "#unsupported")
    assert not page.is_visible("#leaves")
    assert "area code of one unknown caller a day" in text(page, "#learns-area")
    assert page.is_visible("#learns-bits")
    assert "numbers of de-f9328cd872b6" in text(page, "#terms")
    page.click("#download")
    page.fill("#wanted", "030 12345678")
    page.click("#look")
    assert "+49 301 234 5678 is not on the list" in text(page, "#answer")
    page.fill("#wanted", "12345678")
    page.click("#look")
    assert "from + or 0 on" in text(page, "#wanted-error")


def test_a_server_of_another_country_with_one_length_shows_its_reports(site: Site, visit: Visit) -> None:
    site.settings = settings(plan="fr-cff646aa737b", items=SUFFIX.layout(plan_named("FR")))
    page = visit.open(site.url)
    assert page.is_visible("#leaves")
    assert text(page, "#area").startswith("+33 ")
    page.fill("#number", "06 12 34 56 78")
    assert (text(page, "#area"), text(page, "#suffix")) == ("+33 61", "234 5678")
    assert text(page, "#number-error") == ""


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_sticks_out(site: Site, visit: Visit, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 800})
    site.settings = settings(mechanism="whole-number", epsilon=8.0, bits_example=17, items=PLACED.layout(NANP))
    page = visit.open(site.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_contrast_is_enough_in_both_schemes() -> None:
    style = (PAGES / "static" / "hushcall.css").read_text()
    grounds = ("ground", "surface")
    text_on = {"ink": (*grounds, "sunken", "accent-soft", "other-soft"), "quiet": grounds, "wrong": grounds}
    text_on |= {"accent": (*grounds, "accent-soft"), "other": (*grounds, "other-soft"), "on-accent": ("accent",)}
    for scheme in schemes(style):
        for front, backs in text_on.items():
            for back in backs:
                assert contrast(scheme[front], scheme[back]) >= 4.5, (front, back)


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    assert re.findall(r"<script(?![^>]*(?:src=|application/json))", TEMPLATE) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", TEMPLATE) == []
    files = [file for file in (PAGES / "static").iterdir() if file.suffix in TYPES]
    assert len(files) > 10
    for file in files:
        content = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"https?://|url\(|@import|innerHTML|eval\(", content) == [], file.name
        if file.suffix == ".js":
            calls = re.findall(r"fetch\(|XMLHttpRequest|sendBeacon|WebSocket|EventSource|localStorage|cookie", content)
            assert calls == (["fetch("] if file.name in ("lookup.js", "fragments.js") else []), file.name
