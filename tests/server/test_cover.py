"""Cover: whatever is sent for a skipped bucket is answered like a report and thrown away; padding is taken off."""

from pathlib import Path

import sqlalchemy as sa
from tests.server.serving import SPAM, Clock, Village, newest, settings_for, shared_rand

from hushcall.mechanisms import parameters
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import report_seed
from hushcall.protocol.wire import COVER, pad
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import schema
from hushcall.server.ingest.ingest import Announce, Answer, Intake, Upload
from hushcall.server.rounds import round_status
from hushcall.server.service import open_service

LONELY = 303


def test_cover_and_padding(tmp_path: Path) -> None:
    clock = Clock()
    service = open_service(settings_for(tmp_path), shared_rand("cover"), clock)
    village, intake = Village(service, clock), Intake(service.store, "test")
    village.grow(9)
    number = service.rounds.open(service.now)
    village.announce([SPAM] * 8)
    lonely = token_hash(village.tokens[8])
    (given,) = intake.accept([Announce(lonely, number, LONELY)])
    assert isinstance(given, Answer)
    clock.now = newest(service).collects
    service.rounds.advance(service.now)
    document = round_status.round_info(service.store, newest(service), service.now).to_plain()
    size = document["upload_bytes"]
    assert str(LONELY) not in document["buckets"]  # not even named
    assert size == max(one["report_bytes"] for one in document["buckets"].values())
    ticket = bytes.fromhex(given.body["ticket"])
    for body in (COVER + bytes(size - 1), b"anything at all"):
        assert intake.accept([Upload(lonely, number, ticket, body)]) == [Answer(201)]
    (again,) = village.announce([SPAM])
    assert isinstance(again, Answer)
    token, mine = token_hash(village.tokens[0]), bytes.fromhex(again.body["ticket"])
    assert intake.accept([Upload(token, number, mine, COVER + bytes(size - 1))]) == [Answer(201)]
    assert service.store.rows(sa.select(schema.reports)) == []  # nothing of all that is kept
    made = parameters.from_plain(document["buckets"]["202"]["parameters"])
    report = made.privatise(NANP.parse(SPAM).suffix, report_seed(newest(service).seed, mine), seeded(b"one"))
    for padded in (pad(report, size + 5), report + bytes(size) + b"x"):
        (refused,) = intake.accept([Upload(token, number, mine, padded)])
        assert getattr(refused, "name", "") == "malformed-report"
    assert intake.accept([Upload(token, number, mine, pad(report, size))]) == [Answer(201)]
    assert intake.accept([Upload(token, number, mine, report)]) == [Answer(200)]
    (row,) = service.store.rows(sa.select(schema.reports.c.body))
    assert bytes(row.body) == report
    service.close()
