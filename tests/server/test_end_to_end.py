"""Days over real HTTP with the library's own phones, on both databases: from calls to the signed list and back."""

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
from tests.server.seasons import SHORT, WHOLE, Season
from tests.server.serving import Clock, operator_token

from hushcall.client.reporting import ledger
from hushcall.client.screening.list_sync import ListClient
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.logs import LOGGER, JsonLines
from hushcall_lab.servers import running
from hushcall_lab.simulation.fleet import Fleet, Operator
from hushcall_lab.simulation.processes import play_day
from hushcall_lab.simulation.stream import Stream


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


@pytest.mark.parametrize("season", [SHORT, pytest.param(WHOLE, marks=pytest.mark.slow)], ids=["short", "whole"])
def test_days_of_many_phones(
    make_service: MakeService, database: str, clock: Clock, tmp_path: Path, log_lines: list[str], season: Season
) -> None:
    allowed = tmp_path / "allowed.txt"
    allowed.write_text(f"# a clinic\n{season.clinic.number}\n", encoding="utf-8")
    service = make_service(
        database,
        server={"access_log": True},
        round={"profile": "balanced", "period": 86_400, "decoders": 0},
        list={"window": season.window, "allow_file": allowed, "exports": ["plain"]},
    )
    token = operator_token(service)
    stream = Stream(season.phones, season.campaigns)
    lists: list[dict[str, Any]] = []
    with running(service) as url:
        operator = Operator(url, token)
        fleet = Fleet(url, operator.enrol(season.phones), clock)
        operator.ask("POST", "/v1/admin/allowlist", {"number": str(season.pharmacy.number), "why": "a pharmacy"})
        school = str(season.school.number)
        operator.ask("POST", "/v1/admin/appeals", {"number": school, "why": "a school", "who": "its head"})
        reader = ListClient(tmp_path / "reader", url)
        (tmp_path / "reader").mkdir()
        for day in range(1, season.days + 1):
            figures = play_day(operator, fleet, clock, stream.day(day))
            assert figures["state"] == "published"
            assert figures["announced"] == season.phones
            assert figures["refused"] == {}
            _same_as_the_ledger(fleet, figures)
            synced = reader.sync()
            assert synced.version == day
            read = Blocklist.from_bytes(bytes(reader.load().data))
            lists.append({entry.number: entry for entry in read.entries})
        rotten = operator.ask("GET", f"/v1/admin/numbers/{school}")
        tokens = [token, *(phone.transport._token for phone in fleet.phones[:50])]  # type: ignore[attr-defined]
        fleet.close()
    season.spammers_come_and_go(lists)
    listed = set[str]().union(*lists)
    # Those with a right to call never appear, although they were found.
    assert not listed & {str(one.number) for one in (season.pharmacy, season.clinic, season.school)}
    assert rotten["seen"], "the school was never found: the appeal had nothing to do"
    # Nothing else does; the level lets a stranger in now and then, and these coins do not.
    assert listed <= {str(one.number) for one in season.campaigns}
    # Estimates hold what they promise: the interval is about what phones reported that day.
    steady = season.spammers[0]
    assert lists[0][str(steady.number)].low <= steady.reach * season.phones

    _nothing_personal(season, log_lines, tokens)


def _same_as_the_ledger(fleet: Fleet, figures: dict[str, Any]) -> None:
    """What the server counted is what phones paid for; a phone in a skipped bucket paid nothing."""
    spent = sent = 0
    for phone in fleet.phones:
        ((state,),) = phone.store.rows("SELECT state FROM rounds ORDER BY seq DESC LIMIT 1")
        paid = [line for line in ledger.spends(phone.store) if line.round == figures["round"]]
        assert [line.epsilon for line in paid] == ([Fraction(4)] if state == "sent" else []), state
        assert state in ("sent", "skipped")
        spent, sent = spent + len(paid), sent + (state == "sent")
    assert spent == sent == figures["reports"]
    assert figures["buckets_skipped"] > 20
    assert figures["buckets_run"] > 3
    assert sent < len(fleet.phones)


def _nothing_personal(season: Season, lines: list[str], tokens: list[str]) -> None:
    """No phone number, token or address in any line."""
    assert len(lines) > 4 * season.phones, "requests were logged"
    everything = "\n".join(lines)
    for campaign in season.campaigns:
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
