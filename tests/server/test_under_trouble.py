"""What an operator does, or what fails, at the wrong moment: nothing else may suffer from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, newest, serving
from typer.testing import CliRunner

from hushcall.cli import app
from hushcall.client.screening.list_sync import ListClient
from hushcall.decoding import backends
from hushcall.errors import InvalidParameter
from hushcall.server.auth.devices import SCOPES
from hushcall.server.db import schema
from hushcall.server.db.engine import parse_url
from hushcall.server.db.store import PublishedFiles
from hushcall.server.http import limits
from hushcall.server.publishing import exclusions
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import holding, round_data
from hushcall.server.scheduler import Scheduler
from hushcall.server.service import Service
from hushcall.server.signing import ceremony, signer
from hushcall_lab.servers import running

OTHER = "+12025550177"
CALLERS = [SPAM] * 8 + [OTHER] * 8
DAY = 86_400


def _listed(service: Service) -> list[str]:
    with service.store.read() as connection:
        found = newest_list(connection)
    return [entry.number for entry in found.entries] if found else []


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets", "root"])
def test_a_list_published_while_a_passphrase_is_typed_survives_the_rotation(
    make_service: MakeService, database: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    clock.now = time.time()
    service = make_service(database)
    Village(service, clock).to("published", CALLERS)
    find: Callable[..., Any] = ceremony._current_root

    def slowly(*arguments: Any) -> Any:
        found = find(*arguments)
        exclusions.appeal(service.store, SPAM, "mine", "its owner", service.now)
        assert service.publisher.republish(service.now)
        return found

    monkeypatch.setattr(ceremony, "_current_root", slowly)
    moment = datetime.fromtimestamp(service.now, UTC)
    (tmp_path / "phone").mkdir()
    with running(service) as url:
        reader = ListClient(tmp_path / "phone", url)
        assert reader.sync().version == 1
        ceremony.rotate(service.store, service.settings.keys, role, moment, lambda _: b"")
        assert reader.sync().version == 2
        assert reader.load().find(SPAM) is None
    assert _listed(service) == [OTHER]


@pytest.mark.parametrize("moment", ["seal", "decode"])
def test_a_round_discarded_while_it_is_decoded_stays_empty(
    village: Village, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    service, number = village.service, village.to("closed", CALLERS)
    module, place = (round_data, "sealed_tally") if moment == "seal" else (backends, "decode")
    work: Callable[..., Any] = getattr(module, place)

    def interrupted(*arguments: Any) -> Any:
        found = work(*arguments)
        holding.hold(service.store, number, "a flood")
        holding.discard(service.store, number, "a flood")
        return found

    monkeypatch.setattr(module, place, interrupted)
    service.rounds.learn(number)
    assert newest(service).state == "published"
    assert service.store.rows(sa.select(schema.hitters)) == []
    assert [bytes(row.data) for row in service.store.rows(sa.select(schema.tallies.c.data))] in ([], [b""])
    service.publisher.republish(service.now)
    assert _listed(service) == []


def test_signatures_are_renewed_although_a_round_is_stuck(
    make_service: MakeService, clock: Clock, tmp_path: Path
) -> None:
    clock.now = time.time()
    allowed = tmp_path / "allowed.txt"
    service = make_service(list={"allow_file": allowed})
    allowed.write_text("no number\n", encoding="utf-8")
    Village(service, clock).to("decoded", CALLERS)
    clock.now += 4 * DAY
    hand = Scheduler(service)
    hand.start()
    deadline = time.monotonic() + 60
    while _expired(service):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    hand.stop()
    assert newest(service).state in ("announcing", "collecting"), "and the next round has opened"


def _expired(service: Service) -> list[str]:
    with service.store.read() as connection:
        standing = signer.status(PublishedFiles(connection), datetime.fromtimestamp(service.now, UTC))
        return [role.role for role in standing if role.expired]


def test_a_round_whose_decoder_dies_keeps_no_other_waiting(
    lite: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Village(lite, clock).to("closed", CALLERS)

    def die(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(backends, "decode", die)
    for _ in range(3):
        clock.now += 1000
        with pytest.raises(MemoryError):
            lite.rounds.advance(lite.now)
    states = [row.state for row in lite.store.rows(sa.select(schema.rounds.c.state).order_by(schema.rounds.c.id))]
    assert states[0] == "closed"
    assert len(states) > 2


def test_a_lonely_area_code_is_not_told_to_anybody(village: Village) -> None:
    village.to("collecting", [*CALLERS, "+19075550123"])
    with serving(village.service) as client:
        assert set(client.get("/v1/rounds/current").json()["buckets"]) == {"202"}


def test_a_new_device_does_not_learn_how_many_there_are(lite: Service) -> None:
    with serving(lite) as client:
        numbers = [client.post("/v1/devices").json()["device"] for _ in range(20)]
    assert len({number >> 40 for number in numbers}) > 5, "false once in 10^40"
    assert max(numbers) < 1 << 53


def test_strangers_cannot_lock_an_operator_out(lite: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 60.0))  # the minute lasts
    token = lite.devices.new_admin(frozenset(SCOPES), "me", lite.now)
    with serving(lite) as client:
        answers = [client.post("/login", data={"token": f"hca_{place:064x}"}).status_code for place in range(15)]
        assert answers[:10] == [401] * 10
        assert answers[-1] == 429
        assert client.post("/login", data={"token": token}).status_code == 303


def test_a_made_up_address_gives_nobody_more_attempts(lite: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 60.0))  # the minute lasts
    with serving(lite) as client:
        answers = [
            client.post(
                "/login", data={"token": f"hca_{place:064x}"}, headers={"x-forwarded-for": f"192.0.2.{place}"}
            ).status_code
            for place in range(15)
        ]
        assert (answers[:10], answers[-1]) == ([401] * 10, 429)


def test_huge_figures_in_forms_are_refused_and_not_computed(lite: Service) -> None:
    token = lite.devices.new_admin(frozenset(SCOPES), "me", lite.now)
    with serving(lite) as client:
        client.post("/login", data={"token": token})
        for users in ("00000000000200000000", "9" * 40):
            answer = client.get("/plan/answer", params={"users": users})
            assert answer.status_code in (200, 400)
            assert "whole number from" in answer.text
        answer = client.post("/actions/release", data={"round": "0000000000019999999999999999"})
        assert answer.status_code < 500


def test_an_operators_words_are_shown_as_they_were_typed(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    service.rounds.open(service.now)
    holding.hold(service.store, 1, "as [/b] said [sic]")
    exclusions.appeal(service.store, SPAM, "as [/b] said [sic]", "[red]me", service.now)
    service.close()
    for command in (["admin", "appeals"], ["round", "status"]):
        found = CliRunner().invoke(app, [*command, "--data", str(tmp_path / "data")], env={"COLUMNS": "200"})
        assert found.exit_code == 0, found.exception
        assert {"[/b]", "[sic]"} <= set(found.stdout.split()), found.stdout


@pytest.mark.parametrize("url", ["postgresql://u:s3cret@h:port/x", "postgresql//u:s3cret@h/x"])
def test_a_password_in_a_wrong_address_is_not_shown(url: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_url(url)
    assert "s3cret" not in str(caught.value)
