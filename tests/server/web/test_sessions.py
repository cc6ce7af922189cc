"""Sessions: who is let in, for how long, and which forms are believed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from securesystemslib.signer import CryptoSigner
from tests.server.serving import newest
from tests.server.web.conftest import LogIn, csrf_in
from tests.server.web.seeded import NOW, Seeded

from hushcall.server.auth.operators import COOKIE, SESSION_SECONDS, from_here, safe_path
from hushcall.server.http import limits
from hushcall.server.http.app import make_app
from hushcall.server.http.context import FAILED_LOGINS
from hushcall.server.http.public_cache import Lists
from hushcall.server.problems import Problem
from hushcall.server.service import Service
from hushcall.server.signing import keys
from hushcall.server.web.site import Site


def cookie_of(client: TestClient) -> str:
    return str(client.cookies[COOKIE])


def test_a_token_opens_a_session_that_scripts_and_other_sites_cannot_use(visitor: TestClient, seeded: Seeded) -> None:
    answer = visitor.post("/login", data={"token": f" {seeded.token} ", "next": "/system"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/system")
    set_cookie = next(one for one in answer.headers.get_list("set-cookie") if one.startswith(COOKIE))
    for part in ("HttpOnly", "SameSite=strict", "Path=/", f"Max-Age={SESSION_SECONDS}"):
        assert part in set_cookie
    assert "Secure" not in set_cookie
    assert seeded.token not in set_cookie
    assert visitor.get("/system").status_code == 200


def test_over_https_the_cookie_is_for_https_only(app: FastAPI, seeded: Seeded) -> None:
    client = TestClient(app, base_url="https://testserver", follow_redirects=False)
    answer = client.post("/login", data={"token": seeded.token})
    assert all("Secure" in one for one in answer.headers.get_list("set-cookie"))


@pytest.mark.parametrize("said", [{"x-forwarded-proto": "https"}, {"forwarded": "for=x;Proto=https"}])
def test_behind_a_proxy_with_tls_the_cookie_is_for_https_only(
    visitor: TestClient, seeded: Seeded, said: dict[str, str]
) -> None:
    answer = visitor.post("/login", data={"token": seeded.token}, headers=said)
    assert all("Secure" in one for one in answer.headers.get_list("set-cookie"))


@pytest.mark.parametrize("token", ["", "hca_wrong", "é" * 300, "\ud7ff"])
def test_a_wrong_token_is_refused_and_not_repeated(visitor: TestClient, token: str) -> None:
    answer = visitor.post("/login", data={"token": token})
    assert answer.status_code == 401
    assert "No operator has this token." in answer.text
    assert COOKIE not in answer.cookies
    assert not token or token not in answer.text


def test_a_token_that_may_not_read_is_refused(visitor: TestClient, seeded: Seeded) -> None:
    answer = visitor.post("/login", data={"token": seeded.token_for("lists")})
    assert answer.status_code == 403
    assert "scope" in answer.text


def test_attempts_to_log_in_are_counted(visitor: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 6018.0))  # one minute, for ever
    statuses = [visitor.post("/login", data={"token": "hca_wrong"}).status_code for _ in range(FAILED_LOGINS)]
    assert statuses == [401] * FAILED_LOGINS
    refused = visitor.post("/login", data={"token": "hca_wrong"})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "42")
    assert "Too many requests" in refused.text


def test_a_session_ends_after_its_hours(operator: TestClient, seeded: Seeded) -> None:
    seeded.clock.now = NOW + SESSION_SECONDS - 1
    assert operator.get("/system").status_code == 200
    seeded.clock.now += 1
    assert operator.get("/system").headers["location"] == "/login?next=/system"


def test_a_revoked_token_ends_its_sessions_at_once(log_in: LogIn, seeded: Seeded) -> None:
    client = log_in("read")
    assert client.get("/system").status_code == 200
    admin = int(cookie_of(client).split(".")[0])
    seeded.service.devices.revoke_admin(admin, NOW)
    assert client.get("/system").status_code == 303
    assert client.get("/live/decided").status_code == 401


def test_a_changed_cookie_is_no_session(operator: TestClient, seeded: Seeded) -> None:
    sessions, good = Site(seeded.service, Lists(seeded.service.store)).sessions, cookie_of(operator)
    assert sessions.read(good, NOW) is not None
    admin, expires, seed, mac = good.split(".")
    other = "0" if mac[0] != "0" else "1"
    for bad in (
        "",
        "x",
        f"{admin}.{expires}.{seed}",
        f"{int(admin) + 1}.{expires}.{seed}.{mac}",
        f"{admin}.{int(expires) + 1}.{seed}.{mac}",
        f"{admin}.{expires}.{'0' * 32}.{mac}",
        f"{admin}.{expires}.{seed}.{other}{mac[1:]}",
        f"{'9' * 19}.{expires}.{seed}.{mac}",
        f"{good}\n",
    ):
        assert sessions.read(bad, NOW) is None, bad


def test_another_worker_on_the_same_data_knows_the_session(operator: TestClient, seeded: Seeded) -> None:
    again = Service(seeded.service.settings, seeded.service.store, clock=seeded.clock)
    other = TestClient(make_app(again), follow_redirects=False, cookies={COOKIE: cookie_of(operator)})
    assert other.get("/system").status_code == 200


def test_another_timestamp_key_ends_all_sessions(operator: TestClient, seeded: Seeded) -> None:
    for path in keys.key_files(seeded.service.settings.keys, "timestamp"):
        path.unlink()
    keys.save(seeded.service.settings.keys, "timestamp", CryptoSigner.generate_ed25519())
    assert operator.get("/system").status_code == 303


def test_the_database_holds_nothing_that_opens_a_session(operator: TestClient, seeded: Seeded) -> None:
    _, _, seed, mac = cookie_of(operator).split(".")
    stored = b"".join(path.read_bytes() for path in seeded.service.settings.data.glob("hushcall.db*"))
    assert bytes.fromhex(mac) not in stored
    assert mac.encode() not in stored
    assert seed.encode() not in stored


def test_logging_out_needs_the_form_of_the_session(operator: TestClient) -> None:
    assert operator.post("/logout", data={}).status_code == 403
    assert operator.get("/system").status_code == 200
    page = operator.get("/").text
    answer = operator.post("/logout", data={"csrf": csrf_in(page)})
    assert answer.status_code == 303
    assert operator.get("/system").status_code == 303


def test_a_cookie_that_was_copied_is_worth_nothing_after_its_owner_logged_out(log_in: LogIn, seeded: Seeded) -> None:
    one, other = log_in("read"), log_in("read")
    copied, kept = cookie_of(one), cookie_of(other)
    csrf = csrf_in(one.get("/").text)
    assert one.post("/logout", data={"csrf": csrf}).status_code == 303
    sessions = Site(seeded.service, Lists(seeded.service.store)).sessions
    assert sessions.read(copied, NOW) is None
    assert sessions.read(kept, NOW) is not None, "another session goes on"


def test_a_form_of_another_session_is_refused(log_in: LogIn, seeded: Seeded) -> None:
    mine, theirs = log_in(), log_in()
    token = csrf_in(theirs.get("/").text)
    answer = mine.post("/actions/hold", data={"csrf": token, "round": 14, "why": "x", "confirmed": "yes"})
    assert answer.status_code == 403
    assert newest(seeded.service).state == "collecting"


@pytest.mark.parametrize("csrf", [None, "", "0" * 64, "é"])
def test_a_form_without_the_sessions_token_is_refused(operator: TestClient, seeded: Seeded, csrf: str | None) -> None:
    form = {"round": 14, "why": "x", "confirmed": "yes"} | ({} if csrf is None else {"csrf": csrf})
    answer = operator.post("/actions/hold", data=form)
    assert answer.status_code == 403
    assert "did not come from a page of your session" in answer.text
    assert newest(seeded.service).state == "collecting"


@pytest.mark.parametrize(
    "headers",
    [{"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"origin": "https://evil.example"}],
)
def test_a_form_from_another_site_is_refused_even_with_the_token(
    operator: TestClient, seeded: Seeded, headers: dict[str, str]
) -> None:
    form = {"csrf": csrf_in(operator.get("/").text), "round": 14, "why": "x", "confirmed": "yes"}
    assert operator.post("/actions/hold", data=form, headers=headers).status_code == 403
    assert operator.post("/login", data={"token": seeded.token}, headers=headers).status_code == 403
    assert newest(seeded.service).state == "collecting"


@pytest.mark.parametrize(
    ("headers", "believed"),
    [
        ({}, True),  # no browser
        ({"origin": "http://host:1", "host": "host:1"}, True),
        ({"origin": "https://HOST:1", "host": "host:1"}, True),  # a proxy ended TLS
        ({"origin": "http://host:2", "host": "host:1"}, False),
        ({"origin": "http://host:1.evil.example", "host": "host:1"}, False),
        ({"origin": "null", "host": "host"}, False),
        ({"origin": "null", "host": "host", "sec-fetch-site": "same-origin"}, True),
        ({"origin": "http://[", "host": "host"}, False),
        ({"origin": "http://host", "host": "host", "sec-fetch-site": "none"}, False),
    ],
)
def test_where_a_form_comes_from(headers: dict[str, str], believed: bool) -> None:
    assert from_here(headers) is believed


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/", "/"),
        ("/rounds/14", "/rounds/14"),
        ("/numbers/+12025550143", "/numbers/+12025550143"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_nowhere_else(path: str, target: str, visitor: TestClient, seeded: Seeded) -> None:
    assert safe_path(path) == target
    answer = visitor.post("/login", data={"token": seeded.token, "next": path})
    assert answer.headers["location"] == target


def test_only_an_operator_who_may_read_can_have_a_session(seeded: Seeded) -> None:
    admin = seeded.service.devices.admin(seeded.token_for("rounds"))
    with pytest.raises(Problem, match="read"):
        Site(seeded.service, Lists(seeded.service.store)).sessions.open(admin, NOW, seeded.service.rand)
