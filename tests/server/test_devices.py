"""Who may speak: enrolment in its three modes, invitations that run out, tokens that only their owner has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, everything

from hushcall.errors import InvalidParameter
from hushcall.protocol.randomness import seeded
from hushcall.server.auth.devices import INVITE, SCOPES, Devices, new_token, token_hash
from hushcall.server.db import schema
from hushcall.server.ingest.ingest import Announce, Answer, Intake
from hushcall.server.problems import Problem
from hushcall.server.service import Service


def enrolled(service: Service) -> int:
    return int(service.store.rows(sa.select(sa.func.count(schema.devices.c.id)))[0][0])


def speaks(service: Service, token: str) -> str:
    """ "" if the intake knows the token; otherwise how it refuses it."""
    service.rounds.open(service.now)
    (answer,) = Intake(service.store, "test").accept([Announce(token_hash(token), 1, 202)])
    return "" if isinstance(answer, Answer) else answer.name


def test_anyone_enrols_where_enrolment_is_open(service: Service) -> None:
    made = [service.devices.enrol("open", service.now) for _ in range(3)]
    assert len({device for device, _ in made}) == len({token for _, token in made}) == 3
    assert [speaks(service, token) for _, token in made] == ["", "", ""]
    assert speaks(service, "hcd_" + "00" * 32) == "unknown-token"


def test_only_an_operator_enrols_where_enrolment_is_closed(service: Service) -> None:
    with pytest.raises(Problem, match="enrolment-closed"):
        service.devices.enrol("operator", service.now, invite="anything")
    assert enrolled(service) == 0
    assert speaks(service, service.devices.enrol("operator", service.now, by_operator=True)[1]) == ""


def test_an_invitation_counts_down_and_is_needed_only_where_asked_for(service: Service) -> None:
    code = service.devices.invite(2, "two", service.now)
    service.devices.enrol("open", service.now, invite=code)
    for _ in range(2):
        service.devices.enrol("invite", service.now, invite=code)
    for wrong in (code, "", "hci_" + "00" * 32, "\ud800"):
        with pytest.raises(Problem, match="enrolment-closed"):
            service.devices.enrol("invite", service.now, invite=wrong)
    service.devices.enrol("invite", service.now, by_operator=True)
    assert enrolled(service) == 4


def test_an_invitation_counts_down_exactly_when_many_use_it_at_once(service: Service) -> None:
    code = service.devices.invite(5, "", service.now)

    def enrol(_: int) -> bool:
        try:
            service.devices.enrol("invite", service.now, invite=code)
        except Problem:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(enrol, range(24))) == 5
    assert enrolled(service) == 5
    assert [row.uses_left for row in service.store.rows(sa.select(schema.invites.c.uses_left))] == [0]


def test_a_revoked_invitation_is_that_one(service: Service) -> None:
    first, second = (service.devices.invite(1, note, service.now) for note in ("first", "second"))
    names = {invite.note: invite.name for invite in service.devices.invites()}
    service.devices.revoke_invite(names["first"])
    assert {invite.note: invite.uses_left for invite in service.devices.invites()} == {"first": 0, "second": 1}
    with pytest.raises(InvalidParameter, match="invite must exist and not be used up"):
        service.devices.revoke_invite(names["first"])
    with pytest.raises(Problem, match="enrolment-closed"):
        service.devices.enrol("invite", service.now, invite=first)
    service.devices.enrol("invite", service.now, invite=second)


def test_many_devices_get_a_token_each_in_their_order(service: Service) -> None:
    made = service.devices.enrol_many(1203, service.now)
    assert len({token for _, token in made}) == len({device for device, _ in made}) == 1203
    table = schema.devices.c
    stored = {row.id: bytes(row.token_hash) for row in service.store.rows(sa.select(table.id, table.token_hash))}
    assert all(stored[device] == token_hash(token) for device, token in made)


def test_a_revoked_device_is_refused_and_cannot_be_revoked_twice(service: Service) -> None:
    device, token = service.devices.enrol("open", service.now)
    service.devices.revoke(device, service.now)
    assert speaks(service, token) == "revoked"
    for wrong in (device, 999):
        with pytest.raises(InvalidParameter, match=f"device must exist and not be revoked, got {wrong}"):
            service.devices.revoke(wrong, service.now)


def test_an_operators_token_has_the_scopes_it_was_made_with(service: Service) -> None:
    token = service.devices.new_admin(frozenset({"read", "lists"}), "a clerk", service.now)
    admin = service.devices.admin(token)
    assert (admin.note, admin.scopes) == ("a clerk", frozenset({"read", "lists"}))
    admin.need("lists")
    with pytest.raises(Problem, match="forbidden: This needs the scope 'rounds'"):
        admin.need("rounds")
    for scopes in (frozenset[str](), frozenset({"read", "all"})):
        with pytest.raises(InvalidParameter, match="scope must be some of read, lists, rounds, devices"):
            service.devices.new_admin(scopes, "", service.now)


def test_a_revoked_operators_token_is_refused(service: Service) -> None:
    assert not service.devices.admins()
    token = service.devices.new_admin(frozenset(SCOPES), "", service.now)
    assert service.devices.admins()
    service.devices.revoke_admin(1, service.now)
    with pytest.raises(Problem, match="revoked"):
        service.devices.admin(token)
    with pytest.raises(InvalidParameter, match="token must exist and not be revoked, got 1"):
        service.devices.revoke_admin(1, service.now)


def test_a_devices_token_is_no_operators_token(service: Service) -> None:
    _, token = service.devices.enrol("open", service.now)
    with pytest.raises(Problem, match="unknown-token"):
        service.devices.admin(token)


def test_no_token_or_code_is_anywhere_in_the_database(village: Village, tmp_path: Path) -> None:
    service = village.service
    secrets = [
        service.devices.enrol("open", service.now)[1],
        service.devices.new_admin(frozenset(SCOPES), "", service.now),
        service.devices.invite(3, "", service.now),
        *(token for _, token in service.devices.enrol_many(2, service.now)),
    ]
    village.to("published", [SPAM] * 4)
    rows = repr(everything(service)).encode()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("hushcall.db*"))
    assert stored or service.store.postgres
    for secret in secrets:
        raw = bytes.fromhex(secret[4:])
        for shape in (secret.encode(), secret[4:].encode(), raw, repr(raw)[2:-1].encode()):
            assert shape not in rows
            assert shape not in stored
    assert repr(token_hash(secrets[0]))[2:-1].encode() in rows  # the search finds what is there


def test_tokens_come_from_the_coins_that_were_handed_in(make_service: MakeService, clock: Clock) -> None:
    service = make_service()
    first = Devices(service.store, seeded(b"same")).invite(1, "", 0)
    second = Devices(service.store, seeded(b"other")).invite(1, "", 0)
    assert first == new_token(INVITE, seeded(b"same"))
    assert first != second
