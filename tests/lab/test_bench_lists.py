"""The benchmarks of large lists and of long years in short: each has a figure for everything that it promises."""

from __future__ import annotations

import pytest

from hushcall_lab.bench import lists, years


def quiet(_what: str, _done: int, _total: int) -> None:
    pass


@pytest.mark.slow
def test_versions_of_a_list() -> None:
    result = lists.measure("", 1000, 3, quiet)
    assert [row["what"] for row in result["rows"]] == ["version 1", "version 2", "version 3", "an appeal"]
    for row in result["rows"]:
        assert 0 < row["longest_transaction"] <= row["processor_seconds"]
        assert row["longest_wait_seconds"] >= 0
        assert row["peak_mb_above_empty"] >= row["resident_mb_above_empty"]
    assert "MB from the first to the last" in lists.summary(result["rows"])


@pytest.mark.slow
def test_years(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(years, "TIMES", 1)
    monkeypatch.setattr(years, "YOUNG_PEOPLE", 10)
    result = years.measure("", 70, 3600, 50, quiet)
    rows = {row["what"]: row for row in result["rows"]}
    assert {"start", "/", "/log (operator)", "an appeal", "backup", "scheduler, nothing due"} <= rows.keys()
    assert all(row["old_ms"] > 0 and row["young_ms"] > 0 for row in rows.values())
