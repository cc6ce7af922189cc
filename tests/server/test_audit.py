"""What operators do leaves a trace, wherever they do it; invite codes and devices can be looked at and revoked."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Handset, bearer, operator_token
from typer.testing import CliRunner

from hushcall.cli import app
from hushcall.errors import InvalidParameter
from hushcall.server.problems import Problem
from hushcall.server.service import Service


def _log(service: Service) -> list[tuple[int, str, str, str]]:
    """(operator, what, about, outcome), oldest first."""
    return [(row.operator, row.what, row.about, row.outcome) for row in reversed(service.audit.entries())]


def test_what_is_done_over_the_api_is_in_the_log(lite: Service, client: httpx.Client) -> None:
    headers = bearer(operator_token(lite))
    lite.rounds.open(lite.now)
    why = {"why": "a test"}
    assert client.post("/v1/admin/rounds/1/hold", json=why, headers=headers).status_code == 200
    assert client.post("/v1/admin/rounds/1/hold", json=why, headers=headers).status_code == 409
    assert client.post("/v1/admin/rounds/1/release", headers=headers).status_code == 200
    client.post("/v1/admin/appeals", json={"number": SPAM, **why}, headers=headers)
    client.post("/v1/admin/appeals/1/close", json=why, headers=headers)
    client.post("/v1/admin/allowlist", json={"number": SPAM, **why}, headers=headers)
    client.delete(f"/v1/admin/allowlist/{SPAM}", headers=headers)
    device = client.post("/v1/admin/devices", json={"count": 1}, headers=headers).json()["devices"][0]["device"]
    client.delete(f"/v1/admin/devices/{device}", headers=headers)
    client.post("/v1/admin/invites", json={"uses": 3}, headers=headers)
    client.post("/v1/admin/rounds/advance", headers=headers)
    assert _log(lite) == [
        (1, "hold", "round 1", "done"),
        (1, "hold", "round 1", "refused"),
        (1, "release", "round 1", "done"),
        (1, "appeal", SPAM, "done"),
        (1, "close", "appeal 1", "done"),
        (1, "allow", SPAM, "done"),
        (1, "disallow", SPAM, "done"),
        (1, "enrol", "1 device", "done"),
        (1, "revoke", f"device {device}", "done"),
        (1, "invite", "3 devices", "done"),
        (1, "advance", "", "done"),
    ]
    told = client.get("/v1/admin/log", params={"before": 3}, headers=headers).json()["log"]
    assert [(one["what"], one["why"], one["at"], one["name"]) for one in told] == [
        ("hold", "a test", lite.now, "a test")
    ] * 2
    assert client.get("/v1/admin/log", headers=bearer(operator_token(lite, "lists"))).status_code == 403


def test_what_is_done_on_a_page_is_in_the_log_and_shown(lite: Service, client: httpx.Client) -> None:
    lite.rounds.open(lite.now)
    client.post("/login", data={"token": operator_token(lite)})
    page = client.get("/").text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    form = {"csrf": csrf, "round": "1", "why": "<b>odd</b>", "confirmed": "yes"}
    assert client.post("/actions/hold", data=form).status_code == 303
    assert _log(lite) == [(1, "hold", "round 1", "done")]
    shown = client.get("/log").text
    assert "round 1" in shown
    assert "&lt;b&gt;odd&lt;/b&gt;" in shown
    client.cookies.clear()
    assert client.get("/log").headers["location"] == "/login?next=/log"


def test_what_is_done_on_the_command_line_is_in_the_log(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    service.rounds.open(service.now)
    for words in (["round", "hold", "--why", "x"], ["admin", "invite", "--uses", "2"], ["admin", "revoke", "77"]):
        CliRunner().invoke(app, [*words, "--data", str(tmp_path / "data")])
    assert _log(service) == [
        (0, "hold", "round 1", "done"),
        (0, "invite", "2 devices", "done"),
        (0, "revoke", "device 77", "refused"),
    ]
    found = CliRunner().invoke(app, ["admin", "log", "--data", str(tmp_path / "data")], env={"COLUMNS": "200"})
    assert "device 77" in found.stdout


def test_a_server_that_dies_in_the_middle_leaves_the_order_in_the_log(service: Service) -> None:
    class Killed(BaseException):
        """As if the process had ended."""

    def fault(name: str) -> None:
        if name == "audit outcome: before commit":
            raise Killed

    object.__setattr__(service.store, "fault", fault)
    with pytest.raises(Killed), service.audit.act(3, "me", "hold", "round 1", "why"):
        pass
    assert _log(service) == [(3, "hold", "round 1", "asked")]


def test_an_invite_code_is_listed_by_a_name_and_revoked(lite: Service, client: httpx.Client) -> None:
    headers = bearer(operator_token(lite))
    code = lite.devices.invite(5, "spring letter", lite.now)
    other = lite.devices.invite(1, "", lite.now)
    assert lite.devices.enrol("invite", lite.now, invite=code)
    told = client.get("/v1/admin/invites", headers=headers).json()["invites"]
    assert {(one["note"], one["uses_left"]) for one in told} == {("spring letter", 4), ("", 1)}
    assert code not in str(told)
    (name,) = (one["name"] for one in told if one["note"])
    assert client.delete(f"/v1/admin/invites/{name}", headers=headers).status_code == 204
    with pytest.raises(Problem, match="enrolment-closed"):
        lite.devices.enrol("invite", lite.now, invite=code)
    assert lite.devices.enrol("invite", lite.now, invite=other)
    with pytest.raises(InvalidParameter):
        lite.devices.revoke_invite(name)
    assert _log(lite)[-1] == (1, "revoke invite", name, "done")


def test_devices_are_listed_by_the_thousand(lite: Service, client: httpx.Client) -> None:
    headers = bearer(operator_token(lite, "devices"))
    Handset.enrolled(client)
    lite.devices.enrol_many(5, lite.now)
    known = [row.id for row in lite.devices.devices()]
    assert (len(known), known) == (6, sorted(known))
    lite.devices.revoke(known[0], lite.now)
    told = client.get("/v1/admin/devices", params={"after": known[3]}, headers=headers).json()["devices"]
    assert [one["id"] for one in told] == known[4:]
    assert client.get("/v1/admin/devices", headers=headers).json()["devices"][0]["revoked"] == lite.now
    assert set(told[0]) == {"id", "enrolled", "revoked"}, "nothing that a device could be recognised by elsewhere"
