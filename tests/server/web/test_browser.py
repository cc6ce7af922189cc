"""The pages in a real browser, under their content policy: what people do with them, live, with and without script."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.server.serving import newest
from tests.server.web.seeded import LISTED, NOW, open_seeded
from tests.server.web.visiting import AUDIT, Visit, playwright

from hushcall.mechanisms import parameters
from hushcall.protocol.randomness import seeded as seeded_rand
from hushcall.protocol.seeds import report_seed
from hushcall.server.db import schema
from hushcall.server.rounds import holding
from hushcall.server.web.rendering import render
from hushcall_lab.servers import running


def test_the_overview_follows_a_round_held_elsewhere_and_keeps_the_focus(visit: Visit) -> None:
    page = visit.log_in()
    page.focus("#link-14")
    page.click("#took-table summary")
    page.focus("#link-14")
    status = page.locator("#part-status")
    playwright.expect(status).to_have_text("Round 14 is collecting.")
    holding.hold(visit.seeded.service.store, 14, "looked at by hand")
    playwright.expect(status).to_have_text("Round 14 is held.")
    playwright.expect(page.locator(".round .notice").first).to_have_text("looked at by hand")
    assert page.evaluate("document.activeElement.id") == "link-14"
    assert page.locator("#took-table[open]").count() == 1


@pytest.mark.parametrize("visit", [False], indirect=True)
def test_a_whole_round_is_seen_live_without_a_reload(visit: Visit) -> None:
    service, expect, clock = visit.seeded.service, playwright.expect, visit.seeded.clock
    page = visit.log_in()
    page.click("text=Move on now")
    expect(page.locator("main form p").first).to_have_text("The first round opens now.")
    page.click("main button.primary")
    expect(page.locator(".flash")).to_have_text("Rounds move on now.")
    expect(page.locator("#part-status")).to_have_text("Round 1 is announcing.")
    page.evaluate("document.documentElement.dataset.same = 'page'")
    tickets = [number.to_bytes(16, "big") for number in range(1, 61)]
    with service.store.write("announce") as connection:
        rows = [{"round": 1, "device": n, "bucket": 202, "ticket": ticket} for n, ticket in enumerate(tickets)]
        connection.execute(sa.insert(schema.announcements), rows)
    facts = page.locator(".round .facts")
    expect(facts).to_contain_text(re.compile(r"announced\s*60"))
    service.rounds.advance(int(clock.now), force=True)
    expect(page.locator("#part-status")).to_have_text("Round 1 is collecting.")
    expect(page.locator("#part-buckets h2")).to_have_text("Area codes of round 1")
    report_for(service, tickets, 5_550_143)
    expect(facts).to_contain_text(re.compile(r"reports\s*60 of 60"))
    service.rounds.advance(int(clock.now), force=True)
    expect(page.locator("#part-found")).to_contain_text("+1 202 555 0143", timeout=120_000)
    expect(page.locator("#part-tiles")).to_contain_text("version 1")
    expect(page.locator("#part-found .tag.on")).to_have_text("listed")
    assert page.evaluate("document.documentElement.dataset.same") == "page"


def report_for(service: Any, tickets: list[bytes], suffix: int) -> None:
    """Every phone reports the same caller."""
    round_ = newest(service)
    bucket = service.store.rows(sa.select(schema.buckets).where(schema.buckets.c.round == round_.id))[0]
    mechanism: Any = parameters.from_plain(json.loads(bucket.parameters))
    rows = []
    for ticket in tickets:
        body = mechanism.privatise(suffix, report_seed(bytes(round_.seed), ticket), seeded_rand(ticket))
        rows.append({"ticket": ticket, "round": round_.id, "bucket": bucket.bucket, "body": body})
    with service.store.write("report") as connection:
        connection.execute(sa.insert(schema.reports), rows)


def test_a_number_is_searched_appealed_and_leaves_the_published_list(visit: Visit) -> None:
    def downloaded() -> str:
        return httpx.get(f"{visit.url}/v1/lists/current/blocklist.jsonl", timeout=60).text

    page = visit.log_in()
    assert LISTED in downloaded()
    page.fill("#q", "(202) 555-0143")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".verdict-box h2")).to_have_text("+1 202 555 0143 is on the list")
    page.click("text=Its history, appeal, allowlist")
    page.fill("#appeal-why", "a school's daily call")
    page.fill("#appeal-who", "the school")
    page.click("text=Open an appeal")
    playwright.expect(page.locator("h1")).to_have_text("Appeal a number?")
    assert LISTED in downloaded()
    page.click("text=Take it off")
    playwright.expect(page.locator(".flash")).to_have_text(
        "The appeal is open. A list without the number is published."
    )
    playwright.expect(page.locator("h1 + p .tag")).to_have_text("off: appealed")
    assert LISTED not in downloaded()
    page.fill("#q, [id^=close-]", "withdrawn")
    page.click("text=Close the appeal")
    page.click("main button.primary")
    playwright.expect(page.locator(".flash")).to_contain_text("a new list is published")
    assert LISTED in downloaded()


def test_a_wrong_token_is_told_at_the_field(visit: Visit) -> None:
    page = visit.go("/login?next=/system")
    page.fill("#token", "hca_wrong")
    page.click("main button")
    playwright.expect(page.locator("#token-error")).to_have_text("No operator has this token.")
    assert page.get_attribute("#token", "aria-invalid") == "true"
    assert page.input_value("#token") == ""
    page.fill("#token", visit.seeded.token)
    page.keyboard.press("Enter")
    playwright.expect(page.locator("h1")).to_have_text("System")
    visit.forgive(401)


def test_a_form_that_lost_its_token_is_refused(visit: Visit) -> None:
    page = visit.log_in()
    visit.go("/rounds/14").fill("#hold-why", "x")
    page.evaluate("for (const node of document.querySelectorAll('[name=csrf]')) node.remove()")
    page.click("text=Hold it")
    playwright.expect(page.locator("main")).to_contain_text("did not come from a page of your session")
    assert newest(visit.seeded.service).state == "collecting"
    visit.forgive(403)


def test_another_site_cannot_send_a_form_with_the_session(visit: Visit, tmp_path: Path) -> None:
    page = visit.log_in()
    csrf = page.get_attribute("[name=csrf] >> nth=0", "value")
    other = open_seeded(tmp_path / "other", story=False)
    with running(other.service) as elsewhere:  # another port is another origin, and the same site
        stranger = page.context.new_page()
        stranger.route(
            f"{elsewhere}/",
            lambda route: route.fulfill(
                content_type="text/html",
                body=f"<form method=post action={visit.url}/actions/hold><input name=csrf value={csrf}>"
                "<input name=round value=14><input name=why value=x><input name=confirmed value=yes></form>"
                "<script>document.forms[0].submit()</script>",
            ),
        )
        stranger.goto(elsewhere)
        playwright.expect(stranger.locator("main")).to_contain_text("did not come from a page of your session")
    assert newest(visit.seeded.service).state == "collecting"


def test_the_planner_answers_while_one_types(visit: Visit) -> None:
    visit.log_in()
    page = visit.go("/plan")
    before = page.inner_text("#plan-answer .tile dd")
    page.fill("#epsilon", "8")
    playwright.expect(page.locator("#plan-answer .tile dd").first).not_to_have_text(before)
    playwright.expect(page.locator("tr.chosen th")).to_contain_text("8")
    assert "epsilon=8" in page.url
    page.fill("#epsilon", "x")
    playwright.expect(page.locator("#plan-answer")).to_contain_text("a number from 0.1 to 16")


def test_everything_works_without_script(browser: Any, visit: Visit) -> None:
    visit.page.context.close()
    page = visit.open(browser, java_script_enabled=False)
    visit.log_in()
    playwright.expect(page.locator("#part-status")).to_have_text("Round 14 is collecting.")
    page.click("#link-14")
    page.fill("#hold-why", "by hand")
    page.click("text=Hold it")
    page.click("main button.primary")
    playwright.expect(page.locator(".flash")).to_have_text("The round is held.")
    page.click("text=Release it")
    page.click("main button.primary")
    playwright.expect(page.locator(".flash")).to_have_text("The round goes on.")
    visit.go("/plan")
    page.fill("#users", "5000")
    page.click("text=Work it out")
    assert "users=5000" in page.url
    page.click("text=Log out")
    playwright.expect(page.locator(".flash")).to_have_text("You are logged out.")


def test_an_invite_code_is_made_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit.log_in()
    visit.go("/access")
    page.focus("main")
    for _ in range(60):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        if page.evaluate("document.activeElement.id") == "uses":
            break
    page.keyboard.type("2")
    page.keyboard.press("Tab")
    page.keyboard.type("the choir")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("h1")).to_have_text("Make an invite code?")
    page.focus("main button")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("h1")).to_have_text("Keep this code")
    assert re.fullmatch(r"hci_[0-9a-f]{64}", page.inner_text(".secret code"))
    visit.go("/access")
    playwright.expect(page.locator("main")).to_contain_text("the choir")
    visit.go("/log")
    playwright.expect(page.locator("main")).to_contain_text("2 devices")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_not_there_is_a_page(visit: Visit, scheme: str) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    for width in (390, 1280):
        visit.page.set_viewport_size({"width": width, "height": 800})
        page = visit.go("/no/such/page")
        playwright.expect(page.locator("h1")).to_have_text("There is no such page")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(AUDIT) == []
    visit.forgive(404)


@pytest.mark.parametrize("visit", [False], indirect=True)
def test_a_server_without_phones_says_how_to_connect_one(visit: Visit) -> None:
    page = visit.log_in()
    visit.page.set_viewport_size({"width": 390, "height": 800})
    visit.go("/")
    playwright.expect(page.locator(".command")).to_contain_text(
        f"hushcall phone init --server '{visit.url}#root-sha256="
    )
    assert page.evaluate("document.querySelector('.qr').getBoundingClientRect().width") >= 150
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(AUDIT) == []
    light = page.evaluate("getComputedStyle(document.querySelector('.qr rect')).fill")
    dark = page.evaluate("getComputedStyle(document.querySelector('.qr path')).fill")
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(16, 20, 24)")  # in any scheme: a camera reads it


def test_a_server_that_went_away_is_said(visit: Visit) -> None:
    page = visit.log_in()
    visit.go("/")
    page.route("**/live", lambda route: route.abort())
    playwright.expect(page.locator("#live-state")).to_contain_text("does not answer")
    visit.complaints = [said for said in visit.complaints if "net::ERR_FAILED" not in said]


def test_no_template_holds_script_or_style() -> None:
    folder = Path(__file__).parents[3] / "src" / "hushcall" / "server" / "web" / "templates"
    found = list(folder.rglob("*.html"))
    assert len(found) > 12
    for path in found:
        text = path.read_text()
        assert re.findall(r"<script(?![^>]*(?:src=|application/json))", text) == [], path.name
        assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:|https?://", text) == [], path.name
        safe = re.findall(r"\{\{[^}]*\|\s*safe[^}]*\}\}", text)
        assert set(safe) <= {"{{ live | safe }}", "{{ decided | safe }}"}, path.name  # parts that were rendered before


def test_what_people_typed_is_shown_as_text() -> None:
    from hushcall.server.problems import Problem

    page = render(
        "refused.html", session=None, flash="", path="/", now=NOW, problem=Problem("bad-request", "<script>x</script>")
    )
    assert b"<script>x" not in page
    assert b"&lt;script&gt;x" in page
