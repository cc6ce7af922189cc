"""The intake benchmark in short: everything it sends is stored, and it has a figure for everything it promises."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from hushcall_lab.bench import intake
from hushcall_lab.cli import app


@pytest.mark.slow
def test_a_short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BLOCKS", 1)
    seen: list[str] = []
    found = intake.measure("", 1000, 8, lambda what, _done, _total: seen.append(what))
    assert found["stored"] == found["reports"] == 1000
    assert found["statuses"] == {"201": 1000}
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert min(found[name] for name in ("per_second", "share_of_bare")) > 0
    assert len(set(seen)) == 2


def test_its_help_says_what_is_measured() -> None:
    text = CliRunner().invoke(app, ["bench", "intake", "--help"], env={"COLUMNS": "200"}).stdout
    assert "on disk before it is answered" in text
