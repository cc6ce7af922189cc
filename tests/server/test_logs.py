"""Log lines are JSON, one a line, and hold neither an error's message nor what a library has to say."""

from __future__ import annotations

import json
import logging
import sys

from tests.server.serving import SPAM

from hushcall.server.logs import LOGGER, JsonLines


def line(name: str, message: str, error: BaseException | None = None, **fields: object) -> dict[str, object]:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord(name, logging.ERROR, __file__, 7, message, (), info)
    record.__dict__["fields"] = fields
    text = JsonLines().format(record)
    assert "\n" not in text
    found: dict[str, object] = json.loads(text)
    return found


def test_a_line_holds_time_level_event_and_fields() -> None:
    found = line(LOGGER, "round moved", round=3, state="closed")
    assert str(found.pop("at")).endswith("+00:00")
    assert found == {"level": "error", "event": "round moved", "round": 3, "state": "closed"}


def test_an_error_is_told_by_its_kind_and_place_without_its_message() -> None:
    try:
        raise ValueError(f"no good: {SPAM}")
    except ValueError as error:
        found = line(LOGGER, "request failed", error)
    assert found["error"] == "ValueError"
    assert "test_logs.py" in str(found["trace"])
    assert SPAM not in str(found)


def test_what_a_library_says_is_told_by_its_place_alone() -> None:
    found = line("asyncio", f"Task exception was never retrieved\nfuture: {SPAM}")
    assert (found["from"], found["event"]) == ("asyncio", "test_logs.py:7")
    assert SPAM not in str(found)


def test_what_the_web_server_says_is_kept() -> None:
    found = line("uvicorn.error", "Invalid HTTP request received.")
    assert (found["from"], found["event"]) == ("uvicorn.error", "Invalid HTTP request received.")


def test_a_process_that_is_set_up_writes_nothing_but_json() -> None:
    import subprocess

    program = (
        "import logging, warnings; from hushcall.server.logs import log, set_up; set_up(); log('ours', x=1); "
        f"warnings.warn('{SPAM}'); logging.getLogger('psycopg').warning('{SPAM}'); logging.getLogger('x').info('no')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    lines = [json.loads(text) for text in done.stderr.splitlines()]
    assert [found.get("from", "ours") for found in lines] == ["ours", "py.warnings", "psycopg"]
    assert SPAM not in done.stderr + done.stdout
