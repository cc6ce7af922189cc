"""Nine days over real HTTP with the library's own phones, on both databases: from calls to the signed list and back."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import MakeService
from tests.server.serving import Clock, operator_token

from hushcall.lab.live.fleet import Fleet, Operator
from hushcall.lab.live.live_day import play_day
from hushcall.lab.live.stream import REGION, Campaign, Stream
from hushcall.numbers import NANP
from hushcall.phone.reporting import ledger
from hushcall.phone.screening.list_sync import ListClient
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.logs import LOGGER, JsonLines
from hushcall.server.serve import running

PHONES, DAYS, WINDOW = 2000, 9, 3


def _number(area: int, line: int) -> Any:
    return NANP.number(area, 5_550_100 + line)


SPAMMERS = [
    Campaign("steady", _number(202, 1), 0.06),
    Campaign("toll-free", _number(800, 2), 0.05),
    Campaign("late", _number(703, 3), 0.06, first=5),
    Campaign("early", _number(410, 4), 0.07, last=2),
    Campaign("moves", _number(571, 5), 0.06, last=4),
    Campaign("moved", _number(571, 6), 0.06, first=5),
]
PHARMACY = Campaign("on the allowlist", _number(301, 7), 0.06, spam=False)
CLINIC = Campaign("in the allowlist's file", _number(443, 8), 0.06, spam=False)
SCHOOL = Campaign("appealed on its first day", _number(804, 9), 0.06, spam=False)
CAMPAIGNS = [*SPAMMERS, PHARMACY, CLINIC, SCHOOL]
STEADY, TOLL_FREE, LATE, EARLY, MOVES, MOVED = (str(campaign.number) for campaign in SPAMMERS)


class _Lines(logging.Handler):
    """Every line that the server would have written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log_lines() -> Iterator[list[str]]:
    """The log of the run, with a line for every request."""
    handler, loggers = _Lines(), [logging.getLogger(name) for name in (LOGGER, "uvicorn", "alembic")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.DEBUG if logger.name == LOGGER else logging.WARNING)  # as logs.set_up has it
    yield handler.lines
    for logger, (level, propagate) in zip(loggers, before, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.mark.slow
def test_nine_days_of_two_thousand_phones(
    make_service: MakeService, database: str, clock: Clock, tmp_path: Path, log_lines: list[str]
) -> None:
    allowed = tmp_path / "allowed.txt"
    allowed.write_text(f"# a clinic\n{CLINIC.number}\n", encoding="utf-8")
    service = make_service(
        database,
        server={"access_log": True},
        round={"profile": "balanced", "period": 86_400, "decoders": 0},
        list={"window": WINDOW, "allow_file": allowed, "exports": ["plain"]},
    )
    token = operator_token(service)
    stream = Stream(PHONES, CAMPAIGNS)
    lists: list[dict[str, Any]] = []
    with running(service) as url:
        operator = Operator(url, token)
        fleet = Fleet(operator, PHONES, clock)
        operator.ask("POST", "/v1/admin/allowlist", {"number": str(PHARMACY.number), "why": "a pharmacy"})
        operator.ask("POST", "/v1/admin/appeals", {"number": str(SCHOOL.number), "why": "a school", "who": "its head"})
        reader = ListClient(tmp_path / "reader", url)
        (tmp_path / "reader").mkdir()
        for day in range(1, DAYS + 1):
            figures = play_day(operator, fleet, clock, stream.day(day))
            assert figures["state"] == "published"
            assert figures["announced"] == PHONES
            assert figures["refused"] == {}
            _same_as_the_phones_books(fleet, figures)
            synced = reader.sync()
            assert synced.version == day
            read = Blocklist.from_bytes(reader.load().index.data)
            lists.append({entry.number: entry for entry in read.entries})
        rotten = operator.ask("GET", f"/v1/admin/numbers/{SCHOOL.number}")
        tokens = [token, *(phone.server._token for phone in fleet.phones[:50])]  # type: ignore[attr-defined]
        fleet.close()
    seen = [set(numbers) for numbers in lists]

    # Planted spammers get listed, and soon.
    assert {STEADY, TOLL_FREE, EARLY} <= seen[0] | seen[1]
    assert LATE in seen[5] | seen[6]
    assert LATE not in set().union(*seen[:4])
    assert MOVED in seen[5] | seen[6]
    # Those who stopped leave when their last sighting is a window old; phones had some more to tell for a while.
    assert EARLY not in seen[8]
    assert MOVES in seen[2] | seen[3]
    assert MOVES not in seen[8] or lists[8][MOVES].last_seen > lists[3][MOVES].last_seen
    # Those with a right to call never appear, although they were found.
    assert not set().union(*seen) & {str(c.number) for c in (PHARMACY, CLINIC, SCHOOL)}
    assert rotten["seen"], "the school was never found: the appeal had nothing to do"
    # Nothing else does: at level 0.01 a bucket and day, 12 buckets in 9 days give a stranger with chance about 2/3 …
    strangers = set().union(*seen) - {str(c.number) for c in CAMPAIGNS}
    assert len(strangers) <= 5, strangers  # … and six or more of them once in 10^4 runs
    # Estimates hold what they promise: STEADY's interval is about what phones reported that day.
    assert lists[0][STEADY].low <= 0.06 * PHONES

    _nothing_personal(log_lines, tokens)


def _same_as_the_phones_books(fleet: Fleet, figures: dict[str, Any]) -> None:
    """What the server counted is what phones paid for; a phone in a skipped bucket paid nothing."""
    spent = sent = 0
    for phone in fleet.phones:
        (state,) = phone.store.row("SELECT state FROM rounds ORDER BY seq DESC LIMIT 1")
        paid = [line for line in ledger.spends(phone.store) if line.round == figures["round"]]
        assert [line.epsilon for line in paid] == ([Fraction(4)] if state == "sent" else []), state
        assert state in ("sent", "skipped")
        spent, sent = spent + len(paid), sent + (state == "sent")
    assert spent == sent == figures["reports"]
    assert figures["buckets_skipped"] > 100
    assert figures["buckets_run"] >= len(REGION)
    assert sent < PHONES


def _nothing_personal(lines: list[str], tokens: list[str]) -> None:
    """No phone number, token or address in any line."""
    assert len(lines) > 4 * PHONES, "requests were logged"
    everything = "\n".join(lines)
    for campaign in CAMPAIGNS:
        assert str(campaign.number)[1:] not in everything
        assert str(campaign.number)[2:] not in everything
    assert not re.search(r"\+1[2-9]\d{9}", everything)
    assert not re.search(
        r"(?<!\d)[2-9]\d{2}[ .)-]{0,2}\d{3}[ .-]?\d{4}(?!\d)", re.sub(r'"at": "[^"]*"', "", everything)
    )
    assert not re.search(r"\b\d{1,3}(\.\d{1,3}){3}\b", everything)
    assert not any(token in everything for token in tokens)
    for line in lines:
        assert isinstance(json.loads(line), dict)
