"""Which of the two numbers of an exchange's log belongs to the stranger."""

import pytest

from hushcall.formats.calls.exchange import stranger

OUTSIDE, OTHER = "+12025550143", "2025550199"


@pytest.mark.parametrize(
    ("source", "target", "context_is_inner", "expected"),
    [
        (OUTSIDE, "100", False, (OUTSIDE, False)),
        (OUTSIDE, "s", False, (OUTSIDE, False)),
        (OUTSIDE, "100", True, (OUTSIDE, False)),  # handed on to a desk
        (OUTSIDE, OTHER, False, (OUTSIDE, False)),  # the exchange's own long number was called
        (OTHER, OUTSIDE, True, (OUTSIDE, True)),  # a desk that shows the exchange's long number
        ("100", OUTSIDE, False, (OUTSIDE, True)),
        ("alice", OUTSIDE, False, (OUTSIDE, True)),
        ("anonymous", "100", False, ("", False)),
        ("", "100", False, ("", False)),
        ("", OUTSIDE, True, (OUTSIDE, True)),
        ("100", "101", True, None),
        ("100", "911", True, None),
    ],
)
def test_the_stranger(source: str, target: str, context_is_inner: bool, expected: tuple[str, bool] | None) -> None:
    assert stranger(source, target, context_is_inner) == expected
