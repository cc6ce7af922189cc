"""Figures in words: rounded for a reader, but a bound never downwards."""

from __future__ import annotations

from tests.server.web.seeded import LISTED, NOW

from hushcall.server.web.rendering import bound, figure, from_now, number, percent, span


def test_words() -> None:
    assert (figure(54.598), figure(0.000593), figure(2.5e-9), figure(12345), figure(0)) == (
        "54.6",
        "0.000593",
        "2.5 × 10⁻⁹",
        "12,345",
        "0",
    )
    assert (percent(0.99999), percent(1), percent(0.5), percent(1e-7)) == (
        "99.99\u00a0%",
        "100\u00a0%",
        "50\u00a0%",
        "under\u00a00.01\u00a0%",
    )
    assert [span(s) for s in (-5, 44, 119, 120, 7199, 7200, 200_000)] == [
        "0 s",
        "40 s",
        "115 s",
        "2 min",
        "119 min",
        "2 h",
        "2 days",
    ]
    assert (from_now(NOW + 7200, NOW), from_now(NOW - 300, NOW)) == ("in 2 h", "5 min ago")
    assert (number(LISTED), number("x")) == ("+1 202 555 0143", "x")


def test_a_bound_is_never_rounded_down() -> None:
    assert [bound(value) for value in (54.598, 148.413, 7.3891, 100, 0.001234, 0)] == [
        "54.6",
        "149",
        "7.39",
        "100",
        "0.00124",
        "0",
    ]
