"""The HTTP application: routes, error handlers, middleware, and its description as OpenAPI and on the page /docs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response

from hushcall.errors import HushcallError
from hushcall.protocol.problems import PROBLEMS, URN
from hushcall.server import metrics
from hushcall.server.db.store import wal_checkpoints
from hushcall.server.http.context import Context
from hushcall.server.http.fast_path import FastPath
from hushcall.server.http.middleware import RequestMiddleware
from hushcall.server.http.routes import admin, carddav, gateway, lists, pages, phoneblock, phones, probes
from hushcall.server.problems import MEDIA_TYPE, Problem, document, refusals
from hushcall.server.repeating import Repeating
from hushcall.server.scheduler import Scheduler
from hushcall.server.service import Service
from hushcall.server.web.site import FOREVER, Site
from hushcall.version import __version__

_ABOUT = """Learns which phone numbers spam people, from call logs that stay private.

Phones enrol, announce an area code, send one randomised report a round, and download the signed list. Errors are
RFC 9457 problem details with a stable `type`, and say what to do next."""

_UNTRACED: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI reports each request's path and caller to an OpenTelemetry in its process: a ticket, an address."""
SECURITY = {
    "device": {"type": "http", "scheme": "bearer", "description": "a device's token, from POST /v1/devices"},
    "operator": {
        "type": "http",
        "scheme": "bearer",
        "description": "an operator's token (hushcall admin token) with the scope that the route needs",
    },
}
_PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457 problem details. The type is stable; nothing that was sent is repeated.",
    "required": ["type", "title", "status", "detail", "todo"],
    "properties": {
        "type": {"type": "string", "enum": [URN + name for name in PROBLEMS]},
        "title": {"type": "string"},
        "status": {"type": "integer", "enum": sorted({kind.status for kind in PROBLEMS.values()})},
        "detail": {"type": "string"},
        "todo": {"type": "string", "description": "what to do about it"},
    },
    "example": document(PROBLEMS["wrong-phase"]),
}
_UNUSED_SCHEMAS = ("HTTPValidationError", "ValidationError")  # FastAPI's own answers to wrong parameters
_PLAIN = {"string": "text", "boolean": True}


def make_app(service: Service, scheduler: bool | None = None) -> FastAPI:
    settings, context = service.settings, Context(service)
    runs_scheduler = settings.round.scheduler if scheduler is None else scheduler

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        context.queue.start()
        jobs: list[Repeating] = [metrics.Sharing(service.worker)]
        if not service.store.postgres:
            jobs.append(wal_checkpoints(service.store))
        if runs_scheduler:
            jobs.append(Scheduler(service))
        for job in jobs:
            job.start()
        yield
        await context.queue.stop()
        for job in reversed(jobs):
            await asyncio.get_running_loop().run_in_executor(None, job.stop)
        context.readiness.close()
        service.close()

    app = FastAPI(
        title="hushcall",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's page loads its script from elsewhere. Ours is /docs (routes.pages)
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat the path
        license_info={"name": "Apache-2.0"},
        telemetry=_UNTRACED,
    )
    app.state.context, app.state.site = context, Site(service, context.lists)
    app.state.site.add("docs.html", lambda: _docs_values(app.openapi()), FOREVER)
    for routes in (phones, gateway, lists, phoneblock, carddav, admin, probes, pages):
        app.include_router(routes.router)
    app.add_exception_handler(HushcallError, _hushcall_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.add_middleware(FastPath, context=context)
    app.add_middleware(
        RequestMiddleware,
        throttle=context.throttle,
        max_body=settings.intake.max_body,
        access_log=settings.server.access_log,
    )
    return app


async def _hushcall_error(_: Request, error: Exception) -> Response:
    """A value that breaks a rule of ours. The value is not repeated. The request middleware answers the problem."""
    raise Problem("bad-request", f"{getattr(error, 'field', 'request')} must {getattr(error, 'rule', 'be valid')}.")


async def _validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    parts = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]  # the last part was sent
    place = ".".join(str(part) for part in parts)
    raise Problem("bad-request", f"{place}: {first['msg']}.")


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    if isinstance(error.__cause__, Problem):  # raised while the framework read the body: too large
        raise error.__cause__
    if error.status_code < 400:  # to the login
        return Response(status_code=error.status_code, headers=error.headers)
    if error.status_code == 404 and _wants_page(request):
        metrics.REFUSED.labels("not-found").inc()
        return await asyncio.get_running_loop().run_in_executor(None, pages.missing, request)
    problem = Problem({404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "bad-request"))
    metrics.REFUSED.labels(problem.name).inc()
    response = problem.response()
    response.headers.update(error.headers or {})  # the allowed methods
    return response


def _wants_page(request: Request) -> bool:
    """Whether a browser asks: it names HTML first, and paths below /v1, /api and /dav are for machines."""
    for_machines = request.url.path.startswith(("/v1/", "/api/", "/dav/", "/static/", "/.well-known/"))
    return request.method == "GET" and not for_machines and "text/html" in request.headers.get("accept", "")


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's description, with problem details for everything that is refused, and the two kinds of tokens."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            license_info=app.license_info,
            routes=app.routes,
        )
        components = schema.setdefault("components", {})
        components["securitySchemes"] = SECURITY
        schemas = {name: part for name, part in components.get("schemas", {}).items() if name not in _UNUSED_SCHEMAS}
        components["schemas"] = {**schemas, "Problem": _PROBLEM}
        for methods in schema["paths"].values():
            for operation in methods.values():
                _complete(operation)
        app.openapi_schema = schema
    return app.openapi_schema


def _complete(operation: dict[str, Any]) -> None:
    """Parameters that do not fit are ``bad-request``, bodies may be too large, and anything may fail."""
    if "operators" in operation.get("tags", ()):
        operation["security"] = [{"operator": []}]
    answers = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422")):
        del answers["422"]
    common = ["internal"]
    if operation.get("parameters") or "requestBody" in operation:
        common.append("bad-request")
    if "requestBody" in operation:
        common.append("oversized")
    for status, answer in refusals(*common).items():
        answers.setdefault(str(status), answer)
    operation["responses"] = dict(sorted(answers.items()))


def _docs_values(document: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI's operations by tag, each with its method, path and refusals: (status, problem)."""
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            refusals = [
                (status, name)
                for status, answer in operation["responses"].items()
                for name in answer.get("content", {}).get(MEDIA_TYPE, {}).get("examples", ())
            ]
            own = {"method": method, "path": path, "refusals": refusals}
            by_tag.setdefault(operation["tags"][0], []).append({**operation, **own})
    read = {"resolved": partial(_resolved, document), "example": partial(_example, document)}
    return {"groups": by_tag, "problems": PROBLEMS, **read}


def _example(document: dict[str, Any], content: dict[str, Any]) -> str:
    """An example of a JSON body, as text. Empty for bytes, and where nothing is known of the body."""
    if next(iter(content), "") != "application/json":
        return ""
    described = content["application/json"]
    value = described["example"] if "example" in described else _sample(document, described.get("schema", {}))
    return json.dumps(value, indent=2, ensure_ascii=False) if value else ""


def _sample(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    schema = _resolved(document, schema)
    values = [schema[key] for key in ("example", "default") if key in schema] + schema.get("enum", [])[:1]
    if values:
        return values[0]
    if "properties" in schema:
        return {name: _sample(document, part) for name, part in schema["properties"].items()}
    return schema.get("minimum", 1) if schema.get("type") == "integer" else _PLAIN.get(schema.get("type", ""), {})


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Follows references, and takes the first of several choices."""
    while "$ref" in schema or "anyOf" in schema:
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        else:
            schema = {**schema["anyOf"][0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    return schema
