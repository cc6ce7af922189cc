"""The two uploads are answered on a fast path: it says exactly what the framework's routes would have said."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.server.conftest import MakeService
from tests.server.serving import CLOSES, COLLECTS, START, Clock, bearer, honest_report, serving

from hushcall.protocol.randomness import seeded
from hushcall.server.http import app, fast_path, limits
from hushcall.server.service import Service

JSON = {"content-type": "application/json"}
Sent = tuple[str, str, bytes, dict[str, str]]
Told = tuple[int, Any, dict[str, str | None]]


class Detour:
    """Stands where the fast path stands, and takes nothing out of the stream."""

    def __init__(self, inner: ASGIApp, **_: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.inner(scope, receive, send)


def announcement(token: str, body: bytes, number: str = "1", scheme: str = "Bearer") -> Sent:
    return "POST", f"/v1/rounds/{number}/announcements", body, {**JSON, "authorization": f"{scheme} {token}"}


def report(token: str, ticket: str, body: bytes, number: str = "1") -> Sent:
    return "PUT", f"/v1/rounds/{number}/reports/{ticket}", body, bearer(token)


def told(client: httpx.Client, sent: Sent) -> Told:
    """What a phone can see of an answer; how JSON is spaced is nobody's business."""
    method, path, body, headers = sent
    answer = client.request(method, path, content=body, headers=headers)
    seen = ("content-type", "retry-after", "www-authenticate", "allow", "content-security-policy")
    text = json.loads(answer.content) if answer.content else None
    return answer.status_code, text, {name: answer.headers.get(name) for name in seen}


def a_day(service: Service, client: httpx.Client, clock: Clock) -> list[tuple[Sent, Told]]:
    """Every kind of upload in every phase; all coins are seeded, so two services are told the same things."""
    clock.now = START
    rounds, log = service.rounds, list[tuple[Sent, Told]]()
    (_, one), (_, two), (_, lone), (last, gone) = service.devices.enrol_many(4, service.now)
    service.devices.revoke(last, service.now)

    def ask(*all_sent: Sent) -> None:
        log.extend((sent, told(client, sent)) for sent in all_sent)

    good = b'{"bucket": 202}'
    ask(announcement(one, good), report(one, "00" * 16, b""))  # before the first round
    rounds.open(service.now)
    ask(announcement(one, good), announcement(one, good), announcement(two, good), announcement(one, b'{"bucket":212}'))
    ask(announcement(lone, b'{"bucket": 999}'), announcement(lone, b'{"bucket": 1000}'))
    ask(*(announcement(lone, body) for body in (b"", b"{", b"[]", b"7", b'"x"', b"null", b'{"bucket": true}')))
    ask(*(announcement(lone, body) for body in (b'{"bucket": 2.5}', b'{"bucket": "202"}', b"\xff\xfe", b"[" * 9000)))
    ask(announcement(lone, b'{"bucket": 212, "more": 1}'), announcement("nobody", good), announcement(gone, good))
    ask(
        announcement(one, good, scheme="Basic"), announcement(one, good, scheme="bearer"), announcement("x" * 201, good)
    )
    ask(*(announcement(one, good, number) for number in ("2", "999999999", "9999999999", "0", "-1", "x", "1.0")))
    ask(("GET", *announcement(one, good)[1:]), ("PUT", *announcement(one, good)[1:]))
    ask(("POST", "/v1/rounds/1/announcements", good, {}), ("POST", "/v1/rounds/1/announcements/", good, bearer(one)))
    ask(("POST", "/v1/rounds/1/announcements", b"x" * 3000, bearer(one)))
    tickets = {token: told(client, announcement(token, good))[1]["ticket"] for token in (one, two)}
    solo = told(client, announcement(lone, b'{"bucket": 212}'))[1]["ticket"]
    ask(report(one, tickets[one], b"abc"))  # too early
    clock.now = COLLECTS
    rounds.advance(service.now)
    body = honest_report(client.get("/v1/rounds/current").json(), tickets[one], rand=seeded(b"phone"))
    ask(announcement(one, good), announcement(gone, good), announcement(two, b'{"bucket": 212}'))
    ask(report(one, tickets[two], body), report(one, "00" * 16, body), report(one, "zz" * 16, body))
    ask(report(one, "00", body), report(one, "0" * 33, body), report(lone, solo, body), report(gone, "00" * 16, body))
    ask(*(report(one, tickets[one], bad) for bad in (b"", body[:-1], body + b"x", b"\xff" + body[1:], b"x" * 3000)))
    ask(report(one, tickets[one], body), report(one, tickets[one].upper(), body), report(one, tickets[one], body[::-1]))
    ask(report(one, tickets[one], body, "2"), report(one, tickets[one], body, "0"))
    ask(("POST", *report(one, tickets[one], body)[1:]), ("DELETE", *report(one, tickets[one], body)[1:]))
    clock.now = CLOSES
    rounds.close(1)
    ask(report(one, tickets[one], body), report(two, tickets[two], body), announcement(one, good))
    return log


def test_the_fast_path_and_the_routes_answer_the_same(
    make_service: MakeService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def counted(path: str) -> SimpleNamespace:
        taken.append(path)
        return SimpleNamespace(path=path)

    def run(folder: str) -> list[tuple[Sent, Told]]:
        service = make_service(rand=seeded(b"both"), folder=folder, intake={"max_body": 2000})
        with serving(service) as client:
            return a_day(service, client, clock)

    monkeypatch.setattr(fast_path, "SimpleNamespace", counted)
    fast = run("fast")
    count = len(taken)
    monkeypatch.setattr(app, "FastPath", Detour)
    plain = run("plain")
    assert len(taken) == count > 40  # the first server took the fast path, the second did not
    for (sent, quick), (same, slow) in zip(fast, plain, strict=True):
        assert sent == same
        assert quick == slow, sent
    schemes = {sent[3]["authorization"][:6]: answer[0] for sent, answer in fast if "authorization" in sent[3]}
    assert schemes["bearer"] == 200  # the word may be written either way
    statuses = {answer[0] for _, answer in fast}
    assert statuses == {200, 201, 400, 401, 403, 404, 405, 409, 413, 422}


def test_both_ways_share_one_rate_limit(make_service: MakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 60.0))  # one minute
    service = make_service(intake={"per_device": 2})
    _, token = service.devices.enrol("open", service.now)
    service.rounds.open(service.now)
    path: Callable[[str], str] = "/v1/rounds/{}/announcements".format
    with serving(service) as client:
        asked = [client.post(path(n), json={"bucket": 202}, headers=bearer(token)) for n in ("1", "01", "1", "01")]
    assert [answer.status_code for answer in asked] == [201, 200, 429, 429]
