"""Which of the two numbers of an exchange's log belongs to the stranger: never somebody whom a desk called."""

from dataclasses import replace

import pytest

from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.exchanges import ASTERISK, FREESWITCH, outside_party

OUTSIDE, OTHER = "+12025550143", "2025550199"
START = 1_709_287_872


@pytest.mark.parametrize(
    ("source", "target", "came_in", "expected"),
    [
        (OUTSIDE, "100", True, (OUTSIDE, False)),
        (OUTSIDE, "s", False, (OUTSIDE, False)),
        (OUTSIDE, "100", False, (OUTSIDE, False)),  # handed on to a desk
        (OUTSIDE, OTHER, True, (OUTSIDE, False)),  # the exchange's own long number was called
        (OTHER, OUTSIDE, False, (OUTSIDE, True)),  # a desk that shows the exchange's long number
        ("100", OUTSIDE, True, (OUTSIDE, True)),
        ("alice", OUTSIDE, True, (OUTSIDE, True)),
        ("anonymous", "100", True, ("", False)),
        ("anonymous", OUTSIDE, False, (OUTSIDE, True)),  # a desk that hides its number
        ("", "100", True, ("", False)),
        ("", OUTSIDE, False, (OUTSIDE, True)),
        ("100", "101", False, None),
        ("100", "911", False, None),
    ],
)
def test_the_outside_party(source: str, target: str, came_in: bool, expected: tuple[str, bool] | None) -> None:
    assert outside_party(source, target, came_in) == expected


def row(
    source: str,
    target: str,
    context: str,
    channel: str,
    other: str,
    application: str,
    data: str,
    how: str = "ANSWERED",
    *,
    billsec: int = 0,
) -> Call | None:
    """What Asterisk's line of these columns is read as. A duration of 0 is left out."""
    head = f'"","{source}","{target}","{context}","","{channel}","{other}","{application}","{data}"'
    times = f'"2024-03-01 10:11:12","","2024-03-01 10:11:32",99,{billsec}'
    result = ASTERISK.read(f'{head},{times},"{how}","DOCUMENTATION"\n'.encode())
    assert result.malformed == 0
    return next((replace(call, duration_seconds=call.duration_seconds or None) for call in result.calls), None)


OWN = "2025550100"
TRUNK, DESK = "PJSIP/sipgate-00000001", "PJSIP/100-00000002"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((OWN, OUTSIDE, "phones", DESK, TRUNK, "Dial", f"PJSIP/{OUTSIDE}@sipgate"), OUTSIDE),
        ((OWN, OUTSIDE, "LocalSets", "SIP/alice-01", "SIP/sipgate-02", "Dial", f"SIP/sipgate/{OUTSIDE}"), OUTSIDE),
        (("anonymous", OUTSIDE, "phones", DESK, TRUNK, "Dial", f"PJSIP/{OUTSIDE}@sipgate"), OUTSIDE),
        ((OWN, "s", "macro-dialout-trunk", DESK, TRUNK, "Dial", f"PJSIP/{OUTSIDE}@sipgate,300"), OUTSIDE),
        ((OWN, "s", "macro-dialout-trunk", DESK, "", "Congestion", ""), None),
        ((OUTSIDE, "s", "default", TRUNK, "", "AppDial", "(Outgoing Line)"), OUTSIDE),
        ((OWN, OUTSIDE, "from-trunk", TRUNK, "", "AppDial", "(Outgoing Line)"), OWN),
        (("100", "", "default", DESK, "", "AppDial", "(Outgoing Line)"), None),
        ((OUTSIDE, "600", "ext-queues", DESK, "", "AppQueue", "(Outgoing Line)"), OUTSIDE),
    ],
)
def test_whom_asterisk_called_is_no_caller(columns: tuple[str, ...], expected: str | None) -> None:
    found = row(*columns)
    assert found == (None if expected is None else Call(expected, START, CallKind.OUTGOING))


@pytest.mark.parametrize(
    "columns",
    [
        (OUTSIDE, OWN, "from-pstn", TRUNK, DESK, "Dial", "PJSIP/100,20"),
        (OUTSIDE, OWN, "telekom", TRUNK, DESK, "Dial", "PJSIP/100,20"),  # an extension got it
        (OUTSIDE, OWN, "telekom", TRUNK, "", "Queue", "sales"),
        (OUTSIDE, "100", "anything", TRUNK, DESK, "Dial", "PJSIP/100"),
        (OUTSIDE, "s", "from-trunk", TRUNK, "", "Playback", "hello"),
    ],
)
def test_whoever_called_asterisk_still_is_one(columns: tuple[str, ...]) -> None:
    assert row(*columns) == Call(OUTSIDE, START, CallKind.INCOMING)


@pytest.mark.parametrize(
    ("columns", "seconds"),
    [
        ((OUTSIDE, "100", "from-trunk", TRUNK, DESK, "Dial", "PJSIP/100,20"), 55),
        ((OUTSIDE, OWN, "telekom", TRUNK, DESK, "Queue", "sales"), 55),
        ((OUTSIDE, "s", "ivr", TRUNK, "", "BackGround", "menu"), None),  # only the exchange was talked to
        ((OUTSIDE, "100", "from-trunk", TRUNK, "", "VoiceMail", "100@default,u"), None),
    ],
)
def test_a_talk_of_asterisk_has_two_channels(columns: tuple[str, ...], seconds: int | None) -> None:
    source, target, context, channel, other, application, data = columns
    call = row(source, target, context, channel, other, application, data, billsec=55)
    assert call is not None
    assert call.duration_seconds == seconds


def test_a_call_given_up_while_it_rang_was_missed() -> None:
    found = row(OUTSIDE, "100", "from-trunk", TRUNK, DESK, "Dial", "PJSIP/100,20", "CANCEL")
    assert found == Call(OUTSIDE, START, CallKind.MISSED)


@pytest.mark.parametrize(("context", "kind"), [("public", "incoming"), ("default", "outgoing"), ("office", "outgoing")])
def test_freeswitch_with_two_long_numbers(context: str, kind: str) -> None:
    dates = ",".join(['"2024-03-01 10:11:12"'] * 3)
    line = f'"","{OUTSIDE}","{OTHER}","{context}",{dates},"20","20","NORMAL_CLEARING"\n'
    number = OUTSIDE if kind == "incoming" else OTHER
    assert FREESWITCH.read(line.encode()).calls == (Call(number, START, CallKind(kind), duration_seconds=20),)
