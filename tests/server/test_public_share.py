"""Those who only look: what they get is made once, and however many they are, uploads come first."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, serving

from hushcall.formats import phoneblock
from hushcall.formats.blocklists import WRITERS
from hushcall.server.db.store import Store
from hushcall.server.http import app, limits, public_cache
from hushcall.server.http.limits import READS_AT_ONCE, ReadThrottle
from hushcall.server.http.middleware import PIECE_BYTES, RequestMiddleware
from hushcall.server.http.public_cache import MAX_SAVED_SECONDS, Rendered
from hushcall.server.problems import Problem


def test_what_is_public_is_made_once_a_version(
    make_service: MakeService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(list={"block_days": 1})
    Village(service, clock).to("published", [SPAM] * 6)
    made: list[str] = []

    def counted(place: Any, name: str) -> None:
        work = getattr(place, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            made.append(name)
            return work(*arguments, **named)

        monkeypatch.setattr(place, name, counting)

    counted(phoneblock, "document")
    counted(app, "_docs_values")
    counted(Store, "file")
    plain = WRITERS["plain"]
    paths = ("/api/blocklist", f"/v1/lists/current/{plain.filename}", "/docs", "/v1/lists/current/blocklist.jsonl")
    with serving(service) as client:
        for path in paths:
            first = client.get(path)
            assert first.status_code == 200
            for same in (path, f"{path}?limit=1000" if "api" in path or "plain" in path else path):
                assert client.get(same).content == first.content
            again = client.get(path, headers={"if-none-match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        assert sorted(made) == ["_docs_values", "document", "file"]
        service.corrections.appeal(SPAM, "mine", "its owner", service.now)
        assert client.get("/api/blocklist").json()["numbers"] == []
    assert made.count("document") == 2


def test_exports_at_their_fixed_address_hold_what_blocks(make_service: MakeService, clock: Clock) -> None:
    service = make_service()  # two days until a number blocks
    village = Village(service, clock)
    path = f"/v1/lists/current/{WRITERS['plain'].filename}"
    with serving(service) as client:
        village.to("published", [SPAM] * 6)
        assert SPAM not in client.get(path).text
        assert SPAM in client.get("/v1/lists/current/blocklist.jsonl").text
        village.to("published", [SPAM] * 6)
        assert SPAM in client.get(path).text


def test_the_first_page_is_made_for_all_who_are_nobody_in_particular(make_service: MakeService) -> None:
    with serving(make_service()) as client:
        first = client.get("/")
        assert (first.headers["vary"], first.headers["cache-control"]) == ("cookie", "no-cache")
        assert client.get("/", headers={"if-none-match": first.headers["etag"]}).status_code == 304


def test_a_thousand_different_lists_are_not_made_at_once() -> None:
    now, worked = [0.0], [0.0]
    kept = Rendered(lambda: now[0], lambda: worked[0])

    def make() -> tuple[bytes, str]:
        worked[0] += 1.0
        return b"x", "text/plain"

    done = int(MAX_SAVED_SECONDS)
    for key in range(done):
        kept.get(key, make)
    with pytest.raises(Problem) as refused:
        kept.get(1000, make)
    assert (refused.value.name, refused.value.retry_after) == ("busy", 1)
    assert kept.get(0, make).data == b"x", "what is there is there for all"
    now[0] += 100
    for key in range(2000, 2010):
        kept.get(key, make)
    with pytest.raises(Problem):
        kept.get(3000, make)
    assert done + 10 == worked[0]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_cache, "MAX_BYTES", 250)
    kept = Rendered()
    for key in range(10):
        kept.get(key, lambda: (bytes(100), "text/plain"))
    assert list(kept._entries) == [8, 9]


class _Crowd:
    """Requests to a server: how many are answered at once."""

    def __init__(self, last_upload: float) -> None:
        self.inside, self.most, self.done = 0, 0, 0
        self.throttle = ReadThrottle()
        self.throttle.last_upload = last_upload
        self.middleware = RequestMiddleware(self.app, self.throttle, 1000)

    async def app(self, _: Any, __: Any, send: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0.001)
        self.inside -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.done += 1
        await asyncio.sleep(0)

    async def come(self, count: int, method: str = "GET", path: str = "/") -> None:
        scope = {"type": "http", "method": method, "path": path, "headers": []}

        async def nothing(*_: Any) -> Any:
            return None

        await asyncio.gather(*(self.middleware(scope, nothing, nothing) for _ in range(count)))


def test_those_who_look_take_turns_and_those_who_act_do_not() -> None:
    async def day() -> None:
        looking, acting = _Crowd(float("-inf")), _Crowd(float("-inf"))
        await looking.come(100)
        assert (looking.most, looking.done, looking.throttle.turns._value) == (READS_AT_ONCE, 100, READS_AT_ONCE)
        await acting.come(100, "POST")
        await acting.come(100, path="/v1/admin/rounds")
        assert acting.most == 100

    asyncio.run(day())


def test_a_turn_is_followed_by_a_pause_while_uploads_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def day() -> None:
        loop, crowd = asyncio.get_running_loop(), _Crowd(time.monotonic() + 3600)
        later = loop.call_later

        def noted(delay: float, callback: Any, *arguments: Any) -> Any:
            if callback == crowd.throttle.turns.release:
                pauses.append(delay)
            return later(delay, callback, *arguments)

        monkeypatch.setattr(loop, "call_later", noted)
        await crowd.come(20)
        assert crowd.done == 20

    asyncio.run(day())
    assert len(pauses) == 20
    assert min(pauses) >= limits.MIN_PAUSE_SECONDS
    assert max(pauses) <= limits.MAX_PAUSE_SECONDS


def test_long_answers_share_so_many_bytes_a_second_while_uploads_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    async def download(last_upload: float) -> None:
        body = {"type": "http.response.body", "body": bytes(10 * PIECE_BYTES)}
        throttle = ReadThrottle()
        throttle.last_upload = last_upload
        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        sent: list[int] = []

        async def app(_: Any, __: Any, send: Any) -> None:
            await send(body)

        async def send(message: Any) -> None:
            sent.append(len(message["body"]))

        middleware = RequestMiddleware(app, throttle, 1)
        await asyncio.gather(*(middleware(scope, None, send) for _ in range(3)))  # type: ignore[arg-type]
        assert sent == [PIECE_BYTES] * 30

    monkeypatch.setattr(asyncio, "sleep", noted)
    asyncio.run(download(float("-inf")))
    assert waited == [], "nobody uploads: as fast as they are read"
    asyncio.run(download(time.monotonic() + 3600))
    assert len(waited) == 30
    assert sorted(waited)[-1] > 0, "they take turns"


def test_too_many_who_wait_are_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WAITING", 5)
    monkeypatch.setattr(limits, "TIMEOUT_SECONDS", 0.05)

    async def day() -> None:
        throttle = ReadThrottle()
        for _ in range(READS_AT_ONCE):
            await throttle._acquire()
        outcomes = await asyncio.gather(*(throttle._acquire() for _ in range(7)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Problem] * 7
        for _ in range(READS_AT_ONCE):
            throttle.turns.release()
        assert throttle.turns._value == READS_AT_ONCE

    asyncio.run(day())
