"""The intake benchmark in short: everything it sends is stored, and its figures are in the range that it promises."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from hushcall.cli.app import app
from hushcall.lab.bench import intake


@pytest.mark.slow
def test_a_short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BLOCKS", 1)
    seen: list[str] = []
    found = intake.measure(None, 4000, 32, lambda what, _done, _total: seen.append(what), viewers=10)
    assert found["stored"] == found["reports"] == 4000
    assert found["statuses"] == {"201": 4000}
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert 0 < found["share_while_watched"] < 10
    # Promised are 1 500 a second and 35 % of the bare route, on a core that has nothing else to do. Here other tests
    # run beside it: what would be caught is a commit for every single upload.
    assert found["per_second"] > 300
    assert found["share_of_bare"] > 0.1
    assert len(set(seen)) == 3


def test_its_help_says_what_is_measured() -> None:
    text = CliRunner().invoke(app, ["bench", "intake", "--help"], env={"COLUMNS": "200"}).stdout
    assert "on disk before it is answered" in text
