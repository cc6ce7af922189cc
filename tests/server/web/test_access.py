"""Devices, codes, tokens, discarding, settings in force, and the way in for a phone: seen and changed on pages."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.server.web.conftest import Act, LogIn, csrf_in
from tests.server.web.seeded import DEVICE, NOW, Seeded

from hushcall.client.client import Client
from hushcall.errors import InvalidParameter, UntrustedList
from hushcall.protocol import pairing
from hushcall.server.auth.devices import SCOPES
from hushcall.server.http.public_cache import Lists
from hushcall.server.settings import load_settings
from hushcall.server.signing.ceremony import root_sha256
from hushcall.server.web.actions import ACTIONS
from hushcall.server.web.health import settings_by_section
from hushcall.server.web.rendering import Bucket, heat_map, render
from hushcall.server.web.site import Site
from hushcall_lab.servers import running


def test_devices_codes_and_tokens_are_listed_and_nothing_secret_is(operator: TestClient, seeded: Seeded) -> None:
    code = seeded.service.devices.invite(5, "the choir", NOW)
    page = operator.get("/access").text
    assert str(DEVICE) in page
    assert "the choir" in page
    assert "1 (yours)" in page
    assert code not in page
    assert seeded.token not in page
    assert TestClient(operator.app, follow_redirects=False).get("/access").status_code == 303


def test_a_device_is_revoked_and_that_is_in_the_log(operator: TestClient, seeded: Seeded, act: Act) -> None:
    assert act(operator, "revoke-device", device=DEVICE, why="lost").headers["location"] == "/access"
    assert [one.revoked for one in seeded.service.devices.devices()] == [NOW]
    entry = seeded.service.audit.entries(1)[0]
    assert (entry.what, entry.about, entry.why, entry.outcome) == ("revoke", f"device {DEVICE}", "lost", "done")
    assert "must exist and not be revoked" in unescape(act(operator, "revoke-device", device=DEVICE, why="x").text)
    for wrong in ("0", "-1", "x", str(1 << 60)):
        assert act(operator, "revoke-device", device=wrong, why="x").status_code == 400


def test_a_code_is_made_asked_for_first_shown_once_and_revoked(operator: TestClient, seeded: Seeded, act: Act) -> None:
    asked = operator.post(
        "/actions/invite", data={"csrf": csrf_in(operator.get("/").text), "uses": "3", "note": "the choir"}
    )
    assert "A code that enrols 3 devices" in asked.text
    assert seeded.service.devices.invites() == []
    made = act(operator, "invite", uses=3, note="the choir")
    (code,) = re.findall(r"hci_[0-9a-f]{64}", made.text)
    assert made.headers["cache-control"] == "no-store"
    assert seeded.service.devices.enrol("invite", NOW, invite=code)[0]
    (row,) = seeded.service.devices.invites()
    assert (row.uses_left, row.note) == (2, "the choir")
    assert act(operator, "revoke-invite", invite=row.name).status_code == 303
    assert seeded.service.devices.invites()[0].uses_left == 0
    assert [one.what for one in seeded.service.audit.entries(2)] == ["revoke invite", "invite"]


def test_nobody_hands_out_or_takes_away_more_than_they_may_do(log_in: LogIn, seeded: Seeded, act: Act) -> None:
    clerk = log_in("devices", "read")
    made = act(clerk, "token", note="a monitor", **{"scope-read": "yes"})
    (token,) = re.findall(r"hca_[0-9a-f]{64}", made.text)
    assert seeded.service.devices.admin(token).scopes == {"read"}
    more = act(clerk, "token", note="me again", **{"scope-read": "yes", "scope-rounds": "yes"})
    none = act(clerk, "token", note="nobody")
    assert (more.status_code, none.status_code) == (403, 403)
    mine = {one.note: one.id for one in seeded.service.devices.admins()}
    assert act(clerk, "revoke-token", token=mine["the operator"]).status_code == 403
    assert seeded.service.devices.admin(seeded.token).scopes == frozenset(SCOPES)
    assert act(clerk, "revoke-token", token=mine["a monitor"]).status_code == 303
    assert act(log_in("read", "lists", "rounds"), "invite", uses=1).status_code == 403
    assert "Make a token" not in log_in("read").get("/access").text


def test_a_held_round_is_discarded_from_its_page(operator: TestClient, seeded: Seeded, act: Act) -> None:
    assert "discard-why" not in operator.get("/rounds/14").text
    act(operator, "hold", round=14, why="odd")
    assert "discard-why" in operator.get("/rounds/14").text
    assert act(operator, "discard", round=14, why="flooded").headers["location"] == "/rounds/14"
    assert "This round was discarded: flooded" in operator.get("/rounds/14").text
    assert "be held" in act(operator, "discard", round=13, why="x").text


def test_settings_in_force_are_all_there_and_no_password_is(operator: TestClient, tmp_path: Path) -> None:
    settings = load_settings(data=tmp_path, database="postgresql://u:secret@h/n", round={"period": 600})
    found = dict(settings_by_section(settings))
    named = {f"{section}.{name}" for section, rows in found.items() for name, _, _ in rows}
    sections = {name: section for name, section in settings if name not in ("data", "database")}
    assert named == {"general.data", "general.database"} | {f"{s}.{n}" for s, v in sections.items() for n, _ in v}
    assert ("period", "600", True) in found["round"]
    assert ("announce", "0.5", False) in found["round"]
    assert "secret" not in json.dumps(found)
    page = operator.get("/system").text
    assert "Effective settings" in page
    assert "per_device" in page


def test_an_address_that_names_nothing_is_a_page_for_people_and_a_problem_for_programs(visitor: TestClient) -> None:
    page = visitor.get("/no/such/page", headers={"accept": "text/html,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no such page" in page.text
    for path, accept in (("/no/such/page", "*/*"), ("/v1/nothing", "text/html"), ("/api/nothing", "text/html")):
        answer = visitor.get(path, headers={"accept": accept})
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert (
        visitor.post("/no/such/page", headers={"accept": "text/html"}).headers["content-type"].endswith("problem+json")
    )


def test_a_phone_connects_with_what_the_page_says(seeded: Seeded, tmp_path: Path) -> None:
    digest = root_sha256(seeded.service.store.files())
    with running(seeded.service) as url:
        how = Site(seeded.service, Lists(seeded.service.store)).connect(url, "open")
        assert how.command == f"hushcall phone init --server '{url}#root-sha256={digest}'"
        phone = Client.set_up(tmp_path / "phone", how.address)
        assert (phone.transport.url, phone.store.get("root_sha256")) == (url, digest)
        assert phone.sync().version == 1
        phone.close()
        enrolled = seeded.service.devices.devices(100)
        with pytest.raises(UntrustedList, match="not the one that you gave"):
            Client.set_up(tmp_path / "other", pairing.pairing(url, "ab" * 32))
        assert seeded.service.devices.devices(100) == enrolled, "it was not named to this server"
        with pytest.raises(InvalidParameter, match="enrolled first"):
            Client.open(tmp_path / "other")
        for wrong in (f"{url}#root-sha256=ab", f"{url}#something"):
            with pytest.raises(InvalidParameter):
                Client.set_up(tmp_path / "wrong", wrong)
        with pytest.raises(InvalidParameter, match="be the digest that the address names"):
            Client.set_up(tmp_path / "wrong", how.address, root_sha256="ab" * 32)


def test_the_code_has_a_margin_and_the_way_in_follows_enrolment(seeded: Seeded) -> None:
    how = Site(seeded.service, Lists(seeded.service.store)).connect("https://calls.example.org", "invite")
    assert how.command.endswith("' --invite CODE")
    places = [(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", how.path)]
    assert (min(places), max(x for x, _ in places)) == ((4, 4), how.size - 5)
    assert len(set(places)) == len(places) > 500
    assert (
        Site(seeded.service, Lists(seeded.service.store))
        .connect("https://x.org", "operator")
        .command.endswith("' --token TOKEN")
    )


def test_one_area_code_and_one_number_read_as_one() -> None:
    buckets = (Bucket(202, 60, True, 1),)
    values = {"bucket_round": 1, "buckets": buckets, "map": heat_map(buckets), "found": None}
    page = render("parts/decided.html", decided_key="", **values).decode()
    assert "The area code as a table" in page
    assert page.count('class="key heat-') == 1
    assert "skipped" not in page.partition("<table")[0]
    assert "60 phones</li>" in page


def test_every_action_has_one_name_and_a_scope() -> None:
    assert len(ACTIONS) == 14
    assert {one.scope for one in ACTIONS.values()} <= set(SCOPES)
