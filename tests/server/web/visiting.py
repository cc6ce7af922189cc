"""A browser's window onto a server with a story, for the tests of the pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.server.web.seeded import Seeded

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
playwright.expect.set_options(timeout=120_000)  # how long a busy machine may take; a quick one waits for no such time
AUDIT = """() => {
  const found = [];
  const say = (what, node) => found.push(`${what}: ${node.outerHTML.slice(0, 120)}`);
  if (document.documentElement.lang !== "en") found.push("no language");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  if (!document.querySelector("main#main") || !document.querySelector("a.skip[href='#main']")) found.push("no way in");
  for (const node of document.querySelectorAll("input:not([type=hidden]):not([aria-hidden]), select"))
    if (!node.labels.length) say("no label", node);
  for (const node of document.querySelectorAll("th")) if (!node.scope) say("no scope", node);
  for (const node of document.querySelectorAll("table")) if (!node.caption) say("no caption", node);
  for (const node of document.querySelectorAll("img")) if (!node.hasAttribute("alt")) say("no alt", node);
  for (const node of document.querySelectorAll("svg:not([aria-hidden])"))
    if (node.getAttribute("role") !== "img" || !node.getAttribute("aria-label")) say("no name", node);
  for (const node of document.querySelectorAll("a, button")) if (!node.textContent.trim()) say("no text", node);
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`twice: ${id}`);
  for (const node of document.querySelectorAll("[aria-describedby]"))
    if (!node.getAttribute("aria-describedby").split(" ").every((id) => ids.includes(id))) say("nothing there", node);
  for (const form of document.querySelectorAll("form[method=post]"))
    if (!form.action.endsWith("/login") && !form.querySelector("[name=csrf]")) say("no token", form);
  return found;
}"""


@dataclass
class Visit:
    """A browser's window onto a server, what it requested and what it complained about."""

    seeded: Seeded
    url: str
    page: Any = None
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, browser: Any, **context: Any) -> Any:
        self.page = browser.new_context(viewport={"width": 1280, "height": 900}, **context).new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return self.page

    def go(self, path: str) -> Any:
        self.page.goto(self.url + path)
        return self.page

    def log_in(self) -> Any:
        self.go("/login")
        self.page.fill("#token", self.seeded.token)
        self.page.click("main button")
        playwright.expect(self.page.locator(".flash")).to_have_text("You are logged in.")
        return self.page

    def forgive(self, status: int) -> None:
        """The browser's own line about a status that the test asked for."""
        self.complaints = [said for said in self.complaints if f"status of {status}" not in said]
