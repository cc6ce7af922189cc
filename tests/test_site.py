"""``make docs``: the site builds without a warning, no link leads nowhere, and it asks nobody else for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

import hushcall

ROOT = Path(__file__).parent.parent
MKDOCS = [sys.executable, "-m", "mkdocs", "build"]
pytestmark = pytest.mark.slow


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    places = ["--config-file", str(source / "mkdocs.yml"), "--site-dir", str(out)]
    env = {"PATH": "", "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([*MKDOCS, *places], capture_output=True, text=True, check=False, env=env, cwd=source)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    return out


def test_every_page_of_docs_is_there_and_can_be_searched(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    for page in pages:
        assert (site / page.with_suffix(".html")).exists(), page
        assert str(page.with_suffix(".html")) in index, page


def test_it_asks_nobody_else_for_anything(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]* src="?(?:https?:)?//[^ ">]+', text), page
        assert not re.findall(r'<link[^>]* rel="?(?:stylesheet|preconnect)[^>]*href="?(?:https?:)?//', text), page


def test_the_public_surface_is_spelled_out(site: Path) -> None:
    text = (site / "embedding.html").read_text(encoding="utf-8")
    for name in hushcall.__all__:
        assert re.search(rf'id="hushcall\.[\w.]*{name}"', text), name
    assert ":class:" not in text


def searched(page: Any, words: str) -> list[str]:
    """What a search shows. The page looks at its field when a key goes up, and only once it is ready to: press on."""
    box, results = page.locator("input.md-search__input"), page.locator(".md-search-result__link")
    box.press_sequentially(words)
    for _ in range(600):
        if results.count():
            break
        box.press("End")
        page.wait_for_timeout(100)
    return cast(list[str], results.all_inner_texts())


def test_a_reader_finds_what_they_search_for(site: Path, browser: Any) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        found = searched(page, "blind tokens")
        page.close()
        server.shutdown()
    assert any("token" in text.lower() for text in found)
    assert said == []


def test_a_link_that_leads_nowhere_fails(tmp_path: Path) -> None:
    for name in ("docs", "src"):
        (tmp_path / name).symlink_to(ROOT / name) if name == "src" else shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](phone.md#no-such-place)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "no-such-place" in done.stderr
