"""What every test run shares: generated examples follow from the test alone, and what is left out is said.

``make test`` tries fewer of them than ``make test-all``. ``--hypothesis-profile=chance`` draws other examples each
time, for whoever wants to look further.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import settings
from tests.postgres import postgres

settings.register_profile("steady", derandomize=True, deadline=None)  # no example fails for the time it takes
settings.register_profile("chance", derandomize=False, deadline=None, print_blob=True)
settings.register_profile("few", settings.get_profile("steady"), max_examples=30)
settings.load_profile("steady")

__all__ = ["postgres"]

LEFT_OUT = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Without the long proofs, fewer examples, unless somebody asked for a profile."""
    if config.option.markexpr == "not slow" and not config.getoption("--hypothesis-profile"):
        settings.load_profile("few")


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count them, in a worker for its controller: workers are not listened to otherwise."""
    config, long = items[0].config, [item for item in items if item.get_closest_marker("slow")]
    config.stash[LEFT_OUT] = config.stash.get(LEFT_OUT, 0) + len(long)
    getattr(config, "workeroutput", {})["left_out"] = config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker is done: it says what it left out, and all leave out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for each reason to skip, however many tests had it; and one for what was left out."""
    reasons = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")
    if left_out := config.stash.get(LEFT_OUT, 0):
        more = "test-night" if config.option.markexpr == "not night" else "test-all"
        terminalreporter.write_line(f"{left_out} long proofs were left out: make {more} runs them.")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser; whoever has none is told how many tests were skipped, and how to get one."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("tests in a real browser: none is installed (apt install chromium, or Google's Chrome)")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=path, args=root)
        yield launched
        launched.close()
