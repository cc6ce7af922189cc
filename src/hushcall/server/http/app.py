"""The HTTP service: requests come in, each goes to the one place that knows, answers and problem details leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from hushcall.errors import HushcallError
from hushcall.server import metrics
from hushcall.server.db.homing import homing
from hushcall.server.http.fast_path import FastPath
from hushcall.server.http.middleware import Border
from hushcall.server.http.openapi import describe
from hushcall.server.http.rate_limit import RateLimit
from hushcall.server.http.readiness import Watch
from hushcall.server.http.rendered import Rendered
from hushcall.server.http.routes import admin, carddav, gateway, lists, pages, phoneblock, phones, probes
from hushcall.server.http.share import Share
from hushcall.server.http.shedding import Shedding
from hushcall.server.intake.group_commit import GroupCommit
from hushcall.server.intake.intake import Intake
from hushcall.server.problems import Problem
from hushcall.server.scheduler import Scheduler
from hushcall.server.service import Service
from hushcall.version import __version__

_ABOUT = """Learns which phone numbers spam people, from call logs that stay private.

Phones enrol, announce an area code, send one randomised report a round, and download the signed list. Errors are
RFC 9457 problem details with a stable `type`, and say what to do next."""

_UNTRACED: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI tells whatever OpenTelemetry finds in its process each request's path and caller: a ticket, an address."""


def make_app(service: Service, scheduler: bool | None = None) -> FastAPI:
    """The application over a service; ``scheduler`` says whether rounds move by themselves (default: the settings)."""
    settings = service.settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        given = settings.intake
        intake = Intake(service.store, service.worker, settings.guard.per_device, given.patience)
        app.state.commits = GroupCommit(
            intake, given.batch, given.linger_ms / 1000, given.queue, metrics.observe_commit, given.patience
        )
        app.state.shedding = Shedding(app.state.commits, given.max_body, app.state, settings.server.access_log)
        app.state.watch = Watch(service)
        shared = metrics.Sharing(service.worker)
        shared.start()
        home = homing(service.store)
        if not service.store.postgres:
            home.start()
        hand = Scheduler(service) if (settings.round.scheduler if scheduler is None else scheduler) else None
        if hand:
            hand.start()
        yield
        await app.state.commits.stop()
        if hand:
            await asyncio.get_running_loop().run_in_executor(None, hand.stop)
        home.stop()
        shared.stop()
        app.state.watch.close()
        service.close()

    app = FastAPI(
        title="hushcall",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,  # the usual page loads its script from elsewhere; ours is /docs (routes.pages)
        redoc_url=None,
        redirect_slashes=False,  # one address a thing; a redirect would repeat what was asked for
        license_info={"name": "Apache-2.0"},
        telemetry=_UNTRACED,
    )
    app.state.service = service
    app.state.rendered, app.state.last_upload = Rendered(), float("-inf")
    app.state.limiter = RateLimit(settings.intake.per_device)
    app.state.sealed = RateLimit(settings.intake.sealed)
    for routes in (phones, gateway, lists, phoneblock, carddav, admin, probes, pages):
        app.include_router(routes.router)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HushcallError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)
    describe(app)
    app.add_middleware(Share)
    app.add_middleware(FastPath)
    app.add_middleware(Border, max_body=settings.intake.max_body, access_log=settings.server.access_log)
    return app


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101
    metrics.REFUSED.labels(error.name).inc()
    return Response(error.body(), error.kind.status, error.headers())


async def _ours(request: Request, error: Exception) -> Response:
    """A value that one of our own rules refused; what it was is not repeated."""
    detail = f"{getattr(error, 'field', 'request')} must {getattr(error, 'rule', 'be valid')}."
    return await _problem(request, Problem("bad-request", detail))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    parts = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]  # that name was sent, not ours
    place = ".".join(str(part) for part in parts)
    return await _problem(request, Problem("bad-request", f"{place}: {first['msg']}."))


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    if isinstance(error.__cause__, Problem):  # raised while the framework read the body: too large
        return await _problem(request, error.__cause__)
    if error.status_code == 404 and _wants_page(request):
        metrics.REFUSED.labels("not-found").inc()
        return await asyncio.get_running_loop().run_in_executor(None, pages.missing, request)
    names = {404: "not-found", 405: "method-not-allowed"}
    answer = await _problem(request, Problem(names.get(error.status_code, "bad-request")))
    answer.headers.update(error.headers or {})  # which methods are allowed
    return answer


def _wants_page(request: Request) -> bool:
    """Whether somebody looks at it: browsers name HTML first, and what is below /v1, /api and /dav is for machines."""
    for_machines = request.url.path.startswith(("/v1/", "/api/", "/dav/", "/static/", "/.well-known/"))
    return request.method == "GET" and not for_machines and "text/html" in request.headers.get("accept", "")
