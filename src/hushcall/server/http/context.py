"""What the requests of one process share, and what every group of routes asks of a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request

from hushcall.errors import InvalidNumber
from hushcall.protocol.ranges import number_or_range
from hushcall.server import metrics
from hushcall.server.anonymity import GatewayKeys
from hushcall.server.auth.devices import Admin
from hushcall.server.http import readiness
from hushcall.server.http.limits import RateLimit, ReadThrottle
from hushcall.server.http.public_cache import Lists, Rendered
from hushcall.server.http.readiness import Readiness
from hushcall.server.ingest.group_commit import GroupCommit
from hushcall.server.ingest.ingest import Intake
from hushcall.server.problems import Problem
from hushcall.server.service import Service

FAILED_LOGINS = 10
"""That one address may make in a minute."""
RoundId = Annotated[int, Path(alias="number", ge=1, le=1 << 31, description="a round's number")]
"""In addresses it is ``{number}``: that name is in metrics and in the API's description."""


class Context:
    """Made once per application."""

    def __init__(self, service: Service) -> None:
        store, settings, options = service.store, service.settings, service.settings.intake
        intake = Intake(store, service.worker, settings.guard.per_device, options.patience)
        waiting = (options.batch, options.linger_seconds, options.queue)
        self.service = service
        self.queue = GroupCommit(intake, *waiting, metrics.observe_commit, options.patience)
        self.readiness = Readiness(lambda: readiness.check(store, settings.keys, service.worker, service.clock()))
        self.device_limit, self.sealed_limit = RateLimit(options.per_device), RateLimit(options.sealed)
        self.login_limit, self.throttle = RateLimit(FAILED_LOGINS), ReadThrottle()
        self.gateway_keys = GatewayKeys(store, service.rand)
        self.lists, self.rendered = Lists(store), Rendered()


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


def service_of(request: Request) -> Service:
    return context_of(request).service


def token_in(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token or len(token) > 200:
        raise Problem("unknown-token", "There is no bearer token in the request.")
    return token


def bearer(request: Request) -> str:
    return token_in(request.headers.get("authorization", ""))


def operator(request: Request, scope: str) -> Admin:
    admin = service_of(request).devices.admin(bearer(request))
    admin.need(scope)
    return admin


def parsed_number(request: Request, text: str) -> str:
    """A phone number in any usual notation, as the list writes it. Raises ``malformed-number``."""
    try:
        return number_or_range(text, service_of(request).plan)
    except InvalidNumber:
        raise Problem("malformed-number") from None
