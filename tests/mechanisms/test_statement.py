"""Who can learn how much: the rows against the bounds they come from, and words that agree with the figures."""

import math
import re
from pathlib import Path

import pytest

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.privacy.shuffle import shuffled_epsilon
from hushcall.mechanisms.privacy.statement import (
    REAL_CALLS,
    Deployment,
    calls_in_words,
    in_words,
    not_hidden,
    statement,
    suspicion_after,
)

PAGE = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text(encoding="utf-8")
FLAGSHIP = Deployment(epsilon=6.0, crowd=1_000_000, bucketed=False, anonymous=True, relay=True)


@pytest.mark.parametrize(
    ("anonymous", "relay", "hidden"),
    [(False, False, False), (True, False, False), (False, True, False), (True, True, True)],
)
def test_the_server_is_kept_out_only_by_tokens_and_relay_together(anonymous: bool, relay: bool, hidden: bool) -> None:
    readers, server, both = statement(
        Deployment(epsilon=4.0, crowd=50_000, bucketed=True, anonymous=anonymous, relay=relay)
    )
    crowd = shuffled_epsilon(4.0, 50_000)
    assert (readers.report, server.report, both.report) == (crowd, crowd if hidden else 4.0, 4.0)
    assert (readers.delta, server.delta, both.delta) == (1e-6, 1e-6 if hidden else 0.0, 0.0)
    assert both.month == 120.0


def test_a_caller_costs_what_a_report_costs_and_a_month_never_less() -> None:
    for row in statement(FLAGSHIP):
        assert row.caller == row.report <= row.month <= 30 * 6.0


def test_a_tiny_crowd_is_worth_nothing() -> None:
    readers, server, both = statement(Deployment(epsilon=6.0, crowd=2, bucketed=False, anonymous=True, relay=True))
    assert readers.report == pytest.approx(6.0, abs=1e-2) == server.report
    assert readers.month <= both.month


def test_the_words_say_the_figures() -> None:
    readers, _, both = statement(FLAGSHIP)
    assert "16.1 % more or less likely, but for a chance of one in 1,000,000" in in_words(FLAGSHIP, readers)
    assert "could become at most 1.16 %" in in_words(FLAGSHIP, readers)
    assert "403 times more or less likely. " in in_words(FLAGSHIP, both)
    assert "any other number" in in_words(FLAGSHIP, both)
    bucketed = Deployment(epsilon=4.0, crowd=1_000, bucketed=True)
    assert "another number with the same area code" in in_words(bucketed, statement(bucketed)[0])
    assert any("area code" in line for line in not_hidden(bucketed))
    assert not any("area code" in line for line in not_hidden(FLAGSHIP))


def test_what_area_codes_tell_is_what_was_measured() -> None:
    assert "looks like one with them" in calls_in_words(FLAGSHIP)
    assert "After 1, 7, 30 and 60 announcements" in calls_in_words(Deployment(4.0, 1_000, bucketed=True))
    measured = re.search(
        r"right in ([\d.%, ]+), the owner's area code known; that area code in ([\d.%, ]+)\.[^0-9]", PAGE
    )
    assert measured is not None
    columns = zip(*(re.findall(r"[\d.]+", group) for group in measured.groups()), strict=True)
    for (_, told, home), (measured_told, measured_home) in zip(REAL_CALLS, columns, strict=True):
        assert float(measured_told) == pytest.approx(told, abs=0.5)
        assert float(measured_home) == pytest.approx(home, abs=0.5)


def test_a_suspicion_grows_by_the_odds() -> None:
    for epsilon in (0.1, 1.0, 6.0):
        after = suspicion_after(epsilon, 0.2)
        assert math.log(after / (1 - after)) - math.log(0.2 / 0.8) == pytest.approx(epsilon)


def test_the_table_of_the_page_is_what_is_computed() -> None:
    crowds = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    for epsilon in (2, 4, 6, 8):
        row = re.search(rf"^\| {epsilon} \| (.+) \|$", PAGE, re.MULTILINE)
        assert row is not None
        for crowd, cell in zip(crowds, row[1].split(" | "), strict=True):
            assert cell == f"{shuffled_epsilon(float(epsilon), crowd):.3g}"


@pytest.mark.parametrize(
    "change", [{"epsilon": 0.0}, {"crowd": 0}, {"reports_a_month": 0}, {"horizon": 0}, {"delta": 0.0}], ids=str
)
def test_what_makes_no_sense_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter):
        Deployment(**{"epsilon": 4.0, "crowd": 10, "bucketed": True, **change})  # type: ignore[arg-type]
