"""What every group of routes asks of a request: whose service, which round, whose token, and may it do that."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request

from hushcall.errors import InvalidNumber
from hushcall.server.access.devices import Admin
from hushcall.server.http import fast_path
from hushcall.server.problems import Problem
from hushcall.server.service import Service

# In addresses a round is {number}: that name stands in metrics and in the API's description.
RoundId = Annotated[int, Path(alias="number", ge=1, le=1 << 31, description="a round's number")]


def service_of(request: Request) -> Service:
    """The service behind a request."""
    service: Service = request.app.state.service
    return service


def bearer(request: Request) -> str:
    """The token that came with a request; without one it is refused."""
    return fast_path.token_in(request.headers.get("authorization", ""))


def operator(request: Request, scope: str) -> Admin:
    """Who asks; refused without the scope."""
    admin = service_of(request).devices.admin(bearer(request))
    admin.need(scope)
    return admin


def parsed_number(request: Request, text: str) -> str:
    """A phone number in any usual notation, as the list writes it; refused where the plan has none like it."""
    try:
        return str(service_of(request).plan.parse(text))
    except InvalidNumber:
        raise Problem("malformed-number") from None
