"""The owner's page: calls and verdicts, undo, what left the house, freshness, the next step.

By default only this machine can ask for it. On the network it wants a password. It changes the owner's own list only.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from jinja2 import Environment, FileSystemLoader
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from hushcall.client.calls.ingest import zone_of_logs
from hushcall.client.client import Client
from hushcall.client.health import examine
from hushcall.client.reporting import ledger
from hushcall.client.storage.personal import Action, Personal
from hushcall.client.storage.store import DAY_SECONDS
from hushcall.errors import HushcallError
from hushcall_home import history
from hushcall_home.config import Page, hash_password
from hushcall_home.languages import LANGUAGES, Language
from hushcall_home.parts import RINGING, Part, Trouble

SHOWN_CALLS = 200
SESSION_SECONDS = 30 * DAY_SECONDS
FREE_TRIES, MAX_WAIT_SECONDS = 5, 900
LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
MAX_FORM_BYTES = 4096
_ACTIONS = {"allow": Action.ALLOW, "block": Action.BLOCK, "undo": None}
_HERE = Path(__file__).parent
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'self';"
    " base-uri 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


@dataclass
class Guard:
    """Who may see the page: requests by this machine's own name, by the password, or from one address."""

    page: Page
    clock: Callable[[], float]
    secret: bytes = field(default_factory=partial(os.urandom, 32), repr=False)
    failures: int = 0
    retry_at: float = 0

    @property
    def form_token(self) -> str:
        return hmac.new(self.secret, b"form", "sha256").hexdigest()

    def session(self, expires: int) -> str:
        return f"{expires}:{hmac.new(self.secret, f'session {expires}'.encode(), 'sha256').hexdigest()}"

    def admits(self, request: Request) -> bool:
        if self.page.only_from:
            return request.client is not None and request.client.host == self.page.only_from
        if not self.page.password:  # the name guards against pages elsewhere whose name leads here
            return (request.url.hostname or "") in LOCAL
        cookie = request.cookies.get("session", "")
        expires = cookie.partition(":")[0]
        if not expires.isdecimal() or not expires.isascii() or len(expires) > 12 or int(expires) < self.clock():
            return False
        return hmac.compare_digest(cookie.encode(), self.session(int(expires)).encode())

    def accepts(self, password: str) -> bool:
        """Compare a password. After a few wrong ones each further one has to wait, twice as long every time."""
        if self.clock() < self.retry_at:
            return False
        salt = bytes.fromhex(self.page.password.partition(":")[0])
        if hmac.compare_digest(hash_password(password, salt), self.page.password):
            self.failures = 0
            return True
        self.failures += 1
        if self.failures >= FREE_TRIES:
            wait_seconds = 2 ** min(self.failures - FREE_TRIES + 1, 10)
            self.retry_at = self.clock() + min(wait_seconds, MAX_WAIT_SECONDS)
        return False


def make_app(
    folder: Path, page: Page, changed: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.time
) -> Starlette:
    """The page of one folder. ``changed`` is called after the owner's list has changed."""
    environment = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True, trim_blocks=True)
    guard = Guard(page, clock)

    def language_of(request: Request) -> Language:
        code = request.query_params.get("lang") or request.cookies.get("lang", "")
        return Language.of(code) if code in LANGUAGES else Language.accepted(request.headers.get("accept-language", ""))

    def html(request: Request, name: str, status: int = 200, **values: object) -> Response:
        language = language_of(request)
        text = environment.get_template(name).render(
            t=language.say,
            s=language.sentence,
            lang=language.code,
            languages=LANGUAGES,
            form=guard.form_token,
            **values,
        )
        response = HTMLResponse(text, status, _HEADERS)
        if "lang" in request.query_params:
            response.set_cookie("lang", language.code, max_age=SESSION_SECONDS, samesite="strict", httponly=True)
        return response

    async def form_of(request: Request) -> dict[str, str]:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM_BYTES:
                return {}
        return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}

    def closed(request: Request) -> Response:
        if page.password:
            return html(request, "login.html", 401, wait=max(0, round(guard.retry_at - clock())), failed=guard.failures)
        return html(request, "refused.html", 403)

    async def show(request: Request) -> Response:
        if not guard.admits(request):
            return closed(request)
        view = await run_in_threadpool(view_of, folder, language_of(request), clock)
        return html(request, "page.html", **view, can_log_out=bool(page.password))

    async def act(request: Request) -> Response:
        form = await form_of(request)
        action = form.get("action", "")
        if not guard.admits(request):
            return closed(request)
        if action not in _ACTIONS or not hmac.compare_digest(form.get("form", "").encode(), guard.form_token.encode()):
            return html(request, "refused.html", 403)
        try:
            await run_in_threadpool(mark, folder, form.get("number", ""), _ACTIONS[action])
        except HushcallError as error:
            return html(request, "refused.html", 409, why=str(error))
        changed()
        return RedirectResponse("./#calls", 303, _HEADERS)

    async def log_in(request: Request) -> Response:
        form = await form_of(request)
        if not page.password or not await run_in_threadpool(guard.accepts, form.get("password", "")):
            return closed(request)
        response = RedirectResponse("./", 303, _HEADERS)
        session = guard.session(int(clock()) + SESSION_SECONDS)
        response.set_cookie("session", session, max_age=SESSION_SECONDS, httponly=True, samesite="strict")
        return response

    async def log_out(_: Request) -> Response:
        response = RedirectResponse("./", 303, _HEADERS)
        response.delete_cookie("session")
        return response

    async def style(_: Request) -> Response:
        return Response((_HERE / "templates" / "page.css").read_bytes(), 200, _HEADERS, "text/css; charset=utf-8")

    return Starlette(
        routes=[
            Route("/", show),
            Route("/page.css", style),
            Route("/favicon.ico", lambda _: Response(status_code=204)),
            Route("/act", act, methods=["POST"]),
            Route("/login", log_in, methods=["POST"]),
            Route("/logout", log_out, methods=["POST"]),
        ]
    )


def mark(folder: Path, number: str, action: Action | None) -> None:
    with closing(Client.open(folder)) as client, client.alone():
        client.mark([number], action)


def view_of(folder: Path, language: Language, clock: Callable[[], float]) -> dict[str, Any]:
    """What the page shows of a folder."""
    with closing(Client.open(folder)) as client:
        client.clock = clock
        store, now, zone = client.store, int(clock()), zone_of_logs(client.store)
        calls = history.calls(store, now - history.KEPT_DAYS * DAY_SECONDS)
        parts, findings = Part.all(store), examine(client, offline=True)
        own = Personal.load(store)
        spends, limits = ledger.spends(store), client.limits
        window = float(ledger.spent(store, now - limits.window_days * DAY_SECONDS))
        life = float(ledger.spent(store))

    def day_of(at: int) -> str:
        return datetime.fromtimestamp(at, zone).date().isoformat()

    blocked_on = Counter(day_of(call.at) for call in calls if call.blocked)
    days = [day_of(now - back * DAY_SECONDS) for back in range(history.KEPT_DAYS - 1, -1, -1)]
    return {
        "calls": [
            {
                "day": language.day(call.at, zone),
                "at": language.moment(call.at, zone),
                "call": call,
                "own": own.verdict(call.number) if call.number else None,
                "removable": call.number in own.entries,
            }
            for call in calls[:SHOWN_CALLS]
        ],
        "more": max(0, len(calls) - SHOWN_CALLS),
        "parts": [part for part in parts if part.name != RINGING],
        "ringing": next((json.loads(p.memory) for p in parts if p.name == RINGING and p.done > now - 60), None),
        "findings": findings,
        "troubles": [*(part for part in parts if not part.ok), *(row for row in findings if not row.ok)],
        "blocked": sum(blocked_on.values()),
        "warned": sum(call.action is Action.WARN for call in calls),
        "bars": [(day, blocked_on[day]) for day in days],
        "tallest": max(blocked_on.values(), default=0),
        "own": own.entries,
        "spends": [
            {"at": language.moment(spend.at, zone), "epsilon": float(spend.epsilon), "kind": spend.what}
            for spend in reversed(spends[-30:])
        ],
        "window": window,
        "life": life,
        "limits": limits,
        "now": language.moment(now, zone),
    }


def serve(folder: Path, page: Page, changed: Callable[[], None]) -> Callable[[], None]:
    """Serve the page in a thread. Returns what ends it."""
    host, port = page.address()
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        words = f"The owner's page cannot use {page.listen}: {os.strerror(error.errno or 0)}."
        raise Trouble(words, "Choose another address or port: hushcall home init --page ADDRESS:PORT") from None
    app = make_app(folder, page, changed)
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, server_header=False, proxy_headers=False, lifespan="off")
    )
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()

    def end() -> None:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()

    return end
