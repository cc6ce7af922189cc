"""Rounds are signed, the list names their digests, and a phone that was shown another one sees it at its next sync."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.serving import SPAM, Clock, Village, newest, serving, settings_for, shared_rand

from hushcall.client.client import Client
from hushcall.client.health import examine
from hushcall.client.reporting import split_view
from hushcall.client.storage.store import Store
from hushcall.protocol import round_commitment
from hushcall.protocol.states import PUBLISHED
from hushcall.server.db.store import PublishedFiles
from hushcall.server.publishing.publisher import _rounds
from hushcall.server.rounds import holding, round_status
from hushcall.server.service import Service, open_service
from hushcall.server.signing import ceremony
from hushcall.server.signing.signer import newest_root_path


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[tuple[Service, Clock, Village, httpx.Client, Client]]:
    clock = Clock()
    service = open_service(settings_for(tmp_path / "server"), shared_rand("signed"), clock)
    with serving(service) as client:
        village = Village(service, clock)
        village.to(PUBLISHED, [SPAM] * 8)
        phone = Client.set_up(tmp_path / "phone", str(client.base_url), limits={"report": 16, "rounds_per_day": 100})
        phone.sync()
        yield service, clock, village, client, phone
        phone.close()
    service.close()


def a_round(stage: tuple[Service, Clock, Village, httpx.Client, Client]) -> list[str]:
    """One round in which the phone takes part with the others; what it did in each phase."""
    service, clock, village, _, phone = stage
    service.rounds.open(service.now)
    done = [phone.report(skip_delays=True).action]
    village.announce([SPAM] * 8)
    clock.now = newest(service).collects
    service.rounds.advance(service.now)
    done.append(phone.report(skip_delays=True).action)
    village.report([SPAM] * 8)
    clock.now = newest(service).closes
    service.rounds.advance(service.now)
    clock.now = newest(service).next
    return done


def test_an_honest_server_is_never_suspected(stage: Any) -> None:
    service, _, _, client, phone = stage
    for place in range(3):
        if place == 1:  # a rotation between a sync and the next round
            folder = service.settings.keys
            ceremony.rotate(service.store, folder, "timestamp", datetime.fromtimestamp(service.now, UTC), lambda _: b"")
        assert a_round(stage)[0] == "announced"
        phone.sync()
        assert split_view.rejection(phone.store, phone.transport.url) is None
    assert phone.store.get(split_view.SIGNED) == phone.transport.url
    named = client.get("/v1/rounds/current").json()["signatures"]
    assert {len(one["sig"]) for one in named} == {128}


def test_a_phone_that_is_shown_another_round_sees_it_at_its_next_sync(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _, _, _, phone = stage
    honest = round_status.round_info

    class Other:
        def __init__(self, info: Any) -> None:
            self.info = info

        def to_plain(self) -> dict[str, Any]:
            return {**self.info.to_plain(), "seed": "ab" * 32}  # a round only for whoever asks now; signed like any

    monkeypatch.setattr(round_status, "round_info", lambda *given: Other(honest(*given)))
    assert a_round(stage)[0] == "announced"
    monkeypatch.undo()
    assert split_view.rejection(phone.store, phone.transport.url) is None
    phone.sync()
    why = split_view.rejection(phone.store, phone.transport.url)
    assert "another round 2 than everybody else" in str(why)
    service.rounds.open(service.now)
    assert phone.report(skip_delays=True).action == "stopped"
    (finding,) = [one for one in examine(phone) if one.topic == "terms"]
    assert (finding.ok, "--trust-again" in finding.todo) == (False, True)
    kept = {row[0] for row in phone.store.rows("SELECT part FROM documents WHERE round = 2")}
    assert kept >= {"opened", "opened, by the list"}  # both stay as evidence
    split_view.trust_again(phone.store)
    assert phone.report(skip_delays=True).action == "announced"


def test_a_round_that_is_not_signed_any_more_or_wrongly_is_not_joined(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _, _, _, phone = stage
    assert a_round(stage)[0] == "announced"
    service.rounds.open(service.now)
    for made, words in (
        (lambda document: document, "not signed any more"),
        (lambda document: {**document, "signatures": [{"keyid": "00", "sig": "00"}]}, "no key that this phone knows"),
        (lambda document: SIGNED(service, {**document, "window": 9}) | {"window": 7}, "does not hold"),
    ):
        monkeypatch.setattr(service.round_signer, "signed", made)
        outcome = phone.report(skip_delays=True)
        assert (outcome.action, words in outcome.words) == ("stopped", True), outcome


def SIGNED(service: Service, document: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
    return type(service.round_signer).signed(service.round_signer, document)


@pytest.mark.parametrize("rounds", [12, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.night])])
def test_an_honest_server_is_not_suspected_through_restarts_holds_rotations_and_discards(
    tmp_path: Path, rounds: int
) -> None:
    """What a phone would keep and verify in every phase, compared with what the list names: never any trouble."""
    clock, store = Clock(), Store.open(tmp_path / "phone")
    settings = settings_for(tmp_path / "server")
    rand = shared_rand("shown")
    service = open_service(settings, rand, clock)
    for place in range(rounds):
        village = Village(service, clock)
        if place % 7 == 3:
            moment = datetime.fromtimestamp(service.now, UTC)
            ceremony.rotate(service.store, settings.keys, "timestamp", moment, lambda _: b"")
        trust_the_root(store, service)
        number = service.rounds.open(service.now)
        look(store, service)
        village.announce([SPAM] * (6 if place % 4 == 0 else 1))
        if place % 3 == 0:
            holding.hold(service.store, number, "a look")
            holding.release(service.store, number)
        if place % 11 == 5:  # before its buckets were decided
            drop(service, number)
        clock.now = newest(service).collects
        service.rounds.advance(service.now)
        if place % 5 == 0:  # a restart in the middle
            service.close()
            service = open_service(settings, rand, clock)
        look(store, service)
        if place % 11 == 10:  # and after
            drop(service, number)
        clock.now = newest(service).closes
        service.rounds.advance(service.now)
        clock.now = newest(service).next
        with service.store.read() as connection:
            named = round_commitment.read_rounds_file(_rounds(connection, number))
        assert set(named[number]) == {round_commitment.OPENED, round_commitment.DECIDED}
        assert split_view.compare(store, "s", named, int(clock.now)) is None
    service.close()
    store.close()


def drop(service: Service, number: int) -> None:
    holding.hold(service.store, number, "junk")
    holding.discard(service.store, number, "junk")


def trust_the_root(store: Store, service: Service) -> None:
    """As a sync leaves it."""
    with service.store.read() as connection:
        files = PublishedFiles(connection)
        root = files[newest_root_path(files)]
    (store.lists / "metadata").mkdir(parents=True, exist_ok=True)
    (store.lists / "metadata" / "root.json").write_bytes(root)


def look(store: Store, service: Service) -> None:
    """What a phone does with a document before it acts on it."""
    info = round_status.round_info(service.store, newest(service), service.now)
    document = service.round_signer.signed(info.to_plain())
    assert split_view.signature_rejection(store, "s", document) is None
    split_view.record(store, "s", document, service.now)


def test_a_list_that_leaves_a_round_out_denies_it() -> None:
    store = Store.in_memory()
    document = {"round": 2, "plan": "p", "window": 7, "seed": "00", "buckets": None}
    split_view.record(store, "s", {**document, "profile": {"mechanism": "m", "epsilon": 4}}, 0)
    named = {round_commitment.OPENED: "0" * 64}
    assert split_view.compare(store, "s", {}, 0) is None
    assert split_view.compare(store, "s", {1: named}, 0) is None  # it does not speak of round 2 yet
    assert "another round 2" in str(split_view.compare(store, "s", {1: named, 3: named}, 0))
