"""Words that phone and server share: states, problems, tickets and seeds keep their values for ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hushcall.errors import InvalidParameter
from hushcall.protocol import states
from hushcall.protocol.problems import PROBLEMS, is_final
from hushcall.protocol.seeds import TICKET_BYTES, bucket_seed, derive, report_seed, ticket_bytes, ticket_text
from hushcall.protocol.states import RoundState

SOURCE = Path(__file__).parents[2] / "src" / "hushcall"


def test_the_states_are_those_that_old_databases_hold() -> None:
    assert [str(state) for state in RoundState] == [
        "announcing",
        "collecting",
        "closed",
        "decoded",
        "published",
        "held",
    ]
    assert set(states.PHASES) == set(RoundState) - {states.HELD}
    assert set(states.PHASES) == states.TAKES_UPLOADS | states.OVER_FOR_PHONES


def test_no_other_file_compares_a_state_with_a_literal() -> None:
    literal = re.compile(rf'(?:state|phase)"?\s*(?:==|!=|in|not in|[:=])\s*[(\[{{]?\s*"(?:{"|".join(RoundState)})"')
    assert literal.search('if row.state == "held"')
    assert literal.search('{"state": "closed"}')
    for file in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.html")]:
        if file.name != "states.py" and "migrations" not in file.parts:
            assert not literal.search(file.read_text(encoding="utf-8")), file


def test_a_phone_gives_up_on_what_no_retry_can_change() -> None:
    assert {name for name in PROBLEMS if is_final(name)} == {
        *("wrong-phase", "unknown-round", "future-round", "unknown-ticket", "already-announced", "different-report"),
        *("bucket-skipped", "wrong-bucket", "malformed-report", "oversized", "bad-request"),
        *("already-issued", "expired-token", "foreign-token", "not-anonymous", "token-spent", "private-reports-only"),
    }
    assert not is_final("a name of a later release")


def test_a_ticket_is_32_small_hexadecimal_digits() -> None:
    text = "00112233445566778899aabbccddeeff"
    assert len(ticket_bytes(text)) == TICKET_BYTES
    assert ticket_text(ticket_bytes(text)) == text
    for wrong in ("", text[1:], text + "0", text.upper(), text[:-1] + "g", " " + text[1:], text[:-1] + "\n", "٠" * 32):
        with pytest.raises(InvalidParameter, match="ticket must be 32 hexadecimal digits"):
            ticket_bytes(wrong)


def test_seeds_are_derived_under_labels_that_no_other_use_has() -> None:
    seed, ticket = bytes(32), bytes(16)
    assert report_seed(seed, ticket) == derive("report", seed, ticket)
    assert bucket_seed(seed, 202) == derive("bucket", seed, b"\x00\x00\x00\xca")
    labels = [
        label
        for file in SOURCE.rglob("*.py")
        for label in re.findall(r'derive\("([^"]+)"', file.read_text(encoding="utf-8"))
        if (file.parent.name == "protocol" and file.name != "seeds.py") or label in ("report", "bucket")
    ]
    assert sorted(set(labels)) == ["bucket", "report", "work"]
