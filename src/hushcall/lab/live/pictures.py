"""``python -m hushcall.lab.live.pictures FOLDER``: the pictures of README and docs, from one real run of the demo.

The demo plays its nine days, then a real browser looks at the pages of its server, at the width of a desk and of a
hand. Nothing is drawn by hand.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.lab.live import data_path, demo_page
from hushcall.lab.live.data_path import Step
from hushcall.lab.live.demo import Day, Demo, Plan, stage

WIDTHS = {"desk": (1280, 900), "hand": (390, 844)}
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
    """The browser to look with: the first Chromium or Chrome on the path."""
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if found := shutil.which(name):
            return found
    raise InvalidParameter("browser", "be installed (apt install chromium, or Google's Chrome)", "none")


def main(folder: Path) -> None:
    """Make them all, from one run of the demo: the pictures agree with each other."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MissingExtra("the pictures", "dev") from None
    folder.mkdir(parents=True, exist_ok=True)
    plan, days = Plan(), []
    with stage(plan, 0, lambda *_: None) as demo:
        for day in demo.days():
            days.append(day)
            print(f"day {day.day} of {plan.days}", flush=True)
        (folder / "demo.svg").write_text(demo_page.chart(days) + "\n", encoding="utf-8")
        (folder / "data-path.svg").write_text(_path(demo, days), encoding="utf-8")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
            for width in WIDTHS:
                _shots(browser, demo, folder, width)
            browser.close()


def _shots(browser: Any, demo: Demo, folder: Path, width: str) -> None:
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    context = browser.new_context(viewport=size, color_scheme="light", reduced_motion="reduce")
    page, url = context.new_page(), demo.running.url

    def shot(what: str, path: str) -> None:
        """What a person sees first; of the dashboard, all of it."""
        page.goto(url + path, wait_until="load")
        page.screenshot(path=folder / f"{what}-{width}.png", full_page=what == "dashboard")

    for what, path in PUBLIC.items():
        shot(what, path)
    page.goto(f"{url}/login")
    page.fill("input[type=password]", demo.running.token)
    page.press("input[type=password]", "Enter")
    page.wait_for_url(f"{url}/")
    for what, path in PRIVATE.items():
        shot(what, path.format(number=demo.cast[0].number))
    page.emulate_media(color_scheme="dark")
    shot("dashboard-dark", "/")
    context.close()


def _path(demo: Demo, days: list[Day]) -> str:
    """The data path, with the figures of the last day."""
    day, plan = days[-1], demo.plan
    calls = day.spam_calls + day.other_calls
    return data_path.draw(
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


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
