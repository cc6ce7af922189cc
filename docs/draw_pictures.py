"""Draws the pictures of README and docs, from one run of the demo: charts, and screenshots of its server's pages.

python docs/draw_pictures.py docs/pictures
"""

from __future__ import annotations

import html
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from hushcall.errors import InvalidParameter
from hushcall_lab.simulation.demo import Day, Demo, Plan, stage

WIDTHS = {"desk": (1280, 900), "hand": (390, 844)}
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 260, 48, 34
"""Of the chart of the days."""
PUBLIC = {"welcome": "/", "owner": "/owner", "api": "/docs"}
PRIVATE = {
    "dashboard": "/",
    "list": "/list",
    "number": "/numbers/{number}",
    "access": "/access",
    "log": "/log",
    "system": "/system",
    "plan": "/plan",
}


def browser_path() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    raise InvalidParameter("browser", "be installed (apt install chromium, or Google's Chrome)", "none")


def main(folder: Path) -> None:
    """Make all pictures from one run of the demo, so that they agree with each other."""
    folder.mkdir(parents=True, exist_ok=True)
    plan, days = Plan(), []
    with stage(plan, 0, lambda *_: None) as demo:
        for day in demo.days():
            days.append(day)
            print(f"day {day.day} of {plan.days}", flush=True)
        (folder / "demo.svg").write_text(_chart(days) + "\n", encoding="utf-8")
        (folder / "data-path.svg").write_text(_path(demo, days), encoding="utf-8")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
            for width in WIDTHS:
                _shots(browser, demo, folder, width)
            browser.close()


def _chart(days: Sequence[Day]) -> str:
    """Each day's spam calls as SVG, and how many of them the list stopped."""
    highest = max((d.spam_calls for d in days), default=1) or 1
    step = (_WIDTH - _LEFT - 10) / max(len(days), 1)
    room = _HEIGHT - _BOTTOM - 40
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' "
        "font-family='system-ui, sans-serif' font-size='13'>",
        "<title>Spam calls by day, and those that were blocked</title>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='#fff'/>",
        "<rect x='48' y='10' width='12' height='12' fill='#0072B2'/><text x='66' y='21' fill='#222'>blocked</text>",
        "<rect x='140' y='10' width='12' height='12' fill='#E69F00'/><text x='158' y='21' fill='#222'>rang with a "
        "warning</text>",
        "<rect x='300' y='10' width='12' height='12' fill='#D3D3D3'/><text x='318' y='21' fill='#222'>rang</text>",
    ]
    for place, d in enumerate(days):
        x, base = _LEFT + place * step + step * 0.15, float(_HEIGHT - _BOTTOM)
        for count, colour in (
            (d.blocked, "#0072B2"),
            (d.warned, "#E69F00"),
            (d.spam_calls - d.blocked - d.warned, "#D3D3D3"),
        ):
            tall = room * count / highest
            base -= tall
            parts.append(
                f"<rect x='{x:.1f}' y='{base:.1f}' width='{step * 0.7:.1f}' height='{tall:.1f}' fill='{colour}'/>"
            )
        middle = x + step * 0.35
        share = d.blocked / d.spam_calls if d.spam_calls else 0.0
        parts.append(f"<text x='{middle:.1f}' y='{base - 5:.1f}' text-anchor='middle' fill='#222'>{share:.0%}</text>")
        parts.append(f"<text x='{middle:.1f}' y='{_HEIGHT - 14}' text-anchor='middle' fill='#222'>day {d.day}</text>")
    parts.append(f"<text x='4' y='{_HEIGHT - _BOTTOM}' fill='#222'>0</text>")
    parts.append(f"<text x='4' y='{_HEIGHT - _BOTTOM - room + 10}' fill='#222'>{highest:,}</text></svg>")
    return "".join(parts)


def _shots(browser: Any, demo: Demo, folder: Path, width: str) -> None:
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    context = browser.new_context(viewport=size, color_scheme="light", reduced_motion="reduce")
    page, url = context.new_page(), demo.operator.url

    def shot(name: str, path: str) -> None:
        """The first screen, or the full page of the dashboard."""
        page.goto(url + path, wait_until="load")
        page.screenshot(path=folder / f"{name}-{width}.png", full_page=name == "dashboard")

    for name, path in PUBLIC.items():
        shot(name, path)
    page.goto(f"{url}/login")
    page.fill("input[type=password]", demo.operator.token)
    page.press("input[type=password]", "Enter")
    page.wait_for_url(f"{url}/")
    for name, path in PRIVATE.items():
        shot(name, path.format(number=demo.cast[0].number))
    page.emulate_media(color_scheme="dark")
    shot("dashboard-dark", "/")
    context.close()


def _path(demo: Demo, days: list[Day]) -> str:
    day, plan = days[-1], demo.plan
    calls = day.spam_calls + day.other_calls
    return draw_path(
        [
            Step("calls", f"{calls:,} of strangers", f"to {plan.phones:,} phones"),
            Step("one of them", "not a contact, not told", "within a week; or a dummy"),
            Step("randomiser", "ε = 4, exact", "more than a third false"),
            Step("ledger", "first written down,", "then sent: 3 bytes"),
        ],
        [
            Step("intake", f"{day.reports:,} reports,", "on disk before an answer"),
            Step("tally", f"{day.buckets_run} area codes run,", f"{day.buckets_skipped} too small: skipped"),
            Step("decode", "every number that exists", f"{len(day.found)} spammers found"),
            Step("signed list", f"{day.listed} numbers, version {day.version}", "allowlist and appeals first"),
        ],
        "an area code and three bytes",
        f"verified and looked up offline: {day.blocked:,} of {day.spam_calls:,} spam calls blocked",
    )


_BOX, _GAP, _TALL = 178, 30, 92
_STYLE = """
.box { fill: #fff; stroke: #4a6fa5; stroke-width: 1.5 } .phone { fill: #eef4fb } .server { fill: #fdf3e7 }
.head { font-weight: 600 } .small { font-size: 12px }
text { fill: #222; text-anchor: middle } .from { text-anchor: start } .to { text-anchor: end }
"""


@dataclass(frozen=True)
class Step:
    """One box of the data path, with a name and two lines of text."""

    name: str
    first: str
    second: str


def draw_path(phone: Sequence[Step], server: Sequence[Step], between: str, back: str) -> str:
    """An SVG with the phone's steps above, the server's below, and what travels between them."""
    count = max(len(phone), len(server))
    width, height = count * (_BOX + _GAP) + _GAP, 2 * _TALL + 190
    upper, lower = 46, _TALL + 150
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' "
        "font-family='system-ui, sans-serif' font-size='14'>",
        "<title>From a call to the signed list, and back</title>",
        f"<style>{_STYLE}</style><rect width='{width}' height='{height}' fill='#fff'/>",
        "<defs><marker id='tip' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' markerHeight='7' "
        "orient='auto-start-reverse'><path d='M0 0 10 5 0 10z' fill='#4a6fa5'/></marker></defs>",
        f"<text class='from head' x='{_GAP}' y='26'>on the phone</text>",
        f"<text class='from head' x='{_GAP}' y='{lower + _TALL + 26}'>on the server</text>",
    ]
    for row, (steps, top, kind) in enumerate(((phone, upper, "phone"), (server, lower, "server"))):
        for place, step in enumerate(steps):
            # A report goes down on the right and the list comes up on the left: the server's steps run to the left.
            x = _GAP + (count - 1 - place if row else place) * (_BOX + _GAP)
            parts.append(_box(step, x, top, kind))
            if place:
                start, end = (x + _BOX + _GAP, x + _BOX) if row else (x - _GAP, x)
                parts.append(_arrow(start, top + _TALL / 2, end, top + _TALL / 2))
    right, first = _GAP + (count - 1) * (_BOX + _GAP) + _BOX / 2, _GAP + _BOX / 2
    level = upper + _TALL
    parts.append(_arrow(right, upper + _TALL, right, lower))
    parts.append(f"<text class='to' x='{right - 10}' y='{level + 40}'>{_e(between)}</text>")
    parts.append(_arrow(first, lower, first, upper + _TALL))
    parts.append(f"<text class='from' x='{first + 10}' y='{level + 74}'>{_e(back)}</text></svg>")
    return "\n".join(parts) + "\n"


def _box(step: Step, x: float, top: float, kind: str) -> str:
    middle = x + _BOX / 2
    return (
        f"<rect class='box {kind}' x='{x}' y='{top}' width='{_BOX}' height='{_TALL}' rx='8'/>"
        f"<text class='head' x='{middle}' y='{top + 28}'>{_e(step.name)}</text>"
        f"<text class='small' x='{middle}' y='{top + 52}'>{_e(step.first)}</text>"
        f"<text class='small' x='{middle}' y='{top + 72}'>{_e(step.second)}</text>"
    )


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='#4a6fa5' stroke-width='2' marker-end='url(#tip)'/>"


def _e(text: str) -> str:
    return html.escape(text, quote=False)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
