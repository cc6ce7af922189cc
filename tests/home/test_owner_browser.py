"""The owner's page in a real browser: narrow and wide, light and dark, by keyboard, and with axe where npm gave it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.client.fake_server import START
from tests.client.lists_on_disk import CLEAN
from tests.home.test_owner_page import folder, own_list, server  # noqa: F401  (fixtures)

from hushcall.client.storage.personal import Action
from hushcall_home import page as owner_page
from hushcall_home.config import Page
from hushcall_lab.servers import threaded_server

AXE = Path(__file__).parents[2] / ".interop" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
def url(folder: Path) -> Iterator[str]:  # noqa: F811
    app = owner_page.make_app(folder, Page(), clock=lambda: START)
    with threaded_server(uvicorn.Config(app, log_config=None), socket.create_server(("127.0.0.1", 0)), "page") as at:
        yield at


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_has_no_serious_finding(browser: Any, url: str, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    for language in ("en", "de"):
        page.goto(f"{url}/?lang={language}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if AXE.exists():
            page.evaluate(AXE.read_text(encoding="utf-8"))
            violations = page.evaluate("axe.run()")["violations"]
            assert not [row["id"] for row in violations if row["impact"] in ("serious", "critical")]
    assert complaints == []
    context.close()


def test_a_number_is_let_through_and_undone_by_keyboard(browser: Any, url: str, folder: Path) -> None:  # noqa: F811
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for words, action in ((f"Let through {CLEAN}", Action.ALLOW), (f"Undo {CLEAN}", None)):
        button = page.get_by_role("button", name=words).first
        button.focus()
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert own_list(folder).get(CLEAN) is action
    assert all(address.startswith(url) for address in requests)
    page.close()
