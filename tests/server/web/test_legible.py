"""The pages can be read by everybody: on any screen, in both schemes, with a keyboard, read aloud, without motion."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.web.contrast import contrast, schemes
from tests.server.web.seeded import LISTED, UNLISTED
from tests.server.web.visiting import AUDIT, Visit

from hushcall.server.web.rendering import static_files

PUBLIC = ("/", "/list", "/list?q=202", "/login", "/docs", "/owner")
PRIVATE = (
    "/",
    "/list?q=2",
    "/list?q=2025550143",
    f"/numbers/{LISTED}",
    f"/numbers/{UNLISTED}",
    "/rounds/13",
    "/rounds/14",
    "/appeals",
    "/access",
    "/log",
    "/system",
    "/plan",
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "light"),
        (1280, "dark"),
        (390, "dark"),
        (1280, "light"),
    ],
)
def test_nothing_sticks_out_and_nothing_complains(browser: Any, visit: Visit, width: int, scheme: str) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    visit.page.set_viewport_size({"width": width, "height": 800})
    for path in PUBLIC:
        assert visit.go(path).evaluate("document.documentElement.scrollWidth") <= width, path
    visit.log_in()
    for path in PRIVATE:
        page = visit.go(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(246, 245, 241)", "dark": "rgb(17, 23, 26)"}[scheme]


def test_every_page_can_be_read_by_a_machine_that_reads_aloud(visit: Visit) -> None:
    for path in ("/", "/list", "/login", "/docs"):
        assert visit.go(path).evaluate(AUDIT) == [], path
    visit.log_in()
    for path in PRIVATE:
        assert visit.go(path).evaluate(AUDIT) == [], path


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(visit: Visit) -> None:
    page = visit.log_in()
    visit.go("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break  # once around
        seen.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid", seen[-1]
    order = [seen.index(name) for name in ("Overview", "Log out", "Move on now", "Round 14", "As a table", "Search")]
    assert order == sorted(order)


CONTRAST = """() => {
  const luminance = (c) => {
    const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const c = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$|transparent/.test(c)) return c;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const node of document.querySelectorAll("main *, header *")) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || node.closest("svg, .unseen, .skip, [hidden]") || !node.checkVisibility()) continue;
    const [a, b] = [luminance(getComputedStyle(node).color), luminance(ground(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${node.outerHTML.slice(0, 90)}`);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_of_the_newer_pages_can_be_read(visit: Visit, scheme: str) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    visit.log_in()
    for path in ("/access", "/system", "/log", "/rounds/14", "/no/such/page"):
        page = visit.go(path)
        page.evaluate("for (const node of document.querySelectorAll('details')) node.open = true")
        assert page.evaluate(CONTRAST) == [], path
    visit.forgive(404)


def test_motion_is_left_out_for_those_who_ask(visit: Visit) -> None:
    visit.page.emulate_media(reduced_motion="reduce")
    visit.log_in()
    page = visit.go("/plan")
    assert page.evaluate("getComputedStyle(document.getElementById('plan-answer')).transitionProperty") == "none"


def test_contrast_of_the_heat_map_is_enough_in_both_schemes() -> None:
    style = static_files()["dashboard.css"].data.decode()
    for scheme in schemes(style):
        for level in range(1, 6):
            front = scheme["on-light" if level < 4 else "on-deep"]
            assert contrast(front, scheme[f"heat-{level}"]) >= 4.5, (level, front)
