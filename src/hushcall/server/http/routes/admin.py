"""Routes of operators. A token allows no more than its scopes: read, lists, rounds, devices."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from hushcall.errors import InvalidParameter, NotFound
from hushcall.protocol.states import RoundState
from hushcall.server.auth.devices import Admin
from hushcall.server.http.context import RoundId, context_of, operator, parsed_number, service_of
from hushcall.server.problems import Problem, refusals
from hushcall.server.publishing import exclusions, publisher
from hushcall.server.rounds import holding
from hushcall.server.rounds.round_status import newest_statuses, status
from hushcall.server.service import Service
from hushcall.wording import counted

router = APIRouter(
    prefix="/v1/admin", tags=["operators"], responses=refusals("bad-request", "unknown-token", "revoked", "forbidden")
)
Id = Annotated[int, Path(ge=1, le=1 << 31)]
DeviceId = Annotated[int, Path(ge=1, le=1 << 53)]
PhoneNumber = Annotated[str, Path(max_length=40, description="in any usual notation")]
LOGGED = 1000
Before = Annotated[int | None, Query(ge=1, le=1 << 53, description="an entry")]
_NO_NUL = r"^[^\x00]*$"  # PostgreSQL keeps no NUL in a text
_NUMBER = refusals("malformed-number")
_ROUND = refusals("unknown-round")
_MOVED = refusals("unknown-round", "wrong-phase")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Reason(_Body):
    why: str = Field(min_length=1, max_length=1000, pattern=_NO_NUL)


class OfNumber(Reason):
    number: str = Field(max_length=40)
    who: str = Field(default="operator", max_length=200, pattern=_NO_NUL)


class Invitation(_Body):
    uses: int = Field(default=1, ge=1, le=1_000_000)
    note: str = Field(default="", max_length=200, pattern=_NO_NUL)


class Many(_Body):
    count: int = Field(ge=1, le=10_000)


def _acting(service: Service, admin: Admin, what: str, about: str = "", why: str = "") -> AbstractContextManager[None]:
    return service.audit.act(admin.id, admin.note, what, about, why)


@router.get("/whoami", summary="What this token may do")
def whoami(request: Request) -> dict[str, Any]:
    """The token's note and scopes."""
    admin = operator(request, "read")
    return {"id": admin.id, "note": admin.note, "scopes": sorted(admin.scopes)}


@router.get("/rounds/{number}", responses=_ROUND, summary="A round, with its numbers")
def round_status(request: Request, round_id: RoundId) -> dict[str, Any]:
    """State, deadlines, participation, buckets, progress."""
    operator(request, "read")
    return _status(request, round_id)


def _status(request: Request, round_id: int) -> dict[str, Any]:
    try:
        return status(service_of(request).store, round_id)
    except InvalidParameter:
        raise Problem("unknown-round") from None


@router.get("/rounds", summary="The last rounds")
def all_rounds(request: Request) -> dict[str, Any]:
    """The newest thirty, newest first."""
    operator(request, "read")
    return {"rounds": newest_statuses(service_of(request).store, 30)}


@router.post("/rounds/advance", summary="Move rounds on")
def advance(
    request: Request,
    force: bool = False,
    seen_round: Annotated[int | None, Query(alias="round", ge=1, le=1 << 31)] = None,
    seen_state: Annotated[RoundState | None, Query(alias="state")] = None,
) -> dict[str, Any]:
    """Do what is due; with ``force``, the next step of the newest round is.

    With ``round`` and ``state``, only if the newest round is that one and in that state: two operators who force the
    same step at once do not skip a phase.
    """
    admin, service = operator(request, "rounds"), service_of(request)
    expected = (seen_round, seen_state) if seen_round is not None and seen_state is not None else None
    with _acting(service, admin, "force" if force else "advance"):
        return {"done": service.rounds.advance(service.now, force=force, seen=expected)}


@router.post("/rounds/{number}/hold", responses=_MOVED, summary="Stop a round where it is")
def hold(request: Request, round_id: RoundId, reason: Reason) -> dict[str, Any]:
    """It takes no uploads and is not decoded until it is released."""
    return _change(request, round_id, "hold", reason.why)


@router.post("/rounds/{number}/release", responses=_MOVED, summary="Let a held round go on")
def release(request: Request, round_id: RoundId) -> dict[str, Any]:
    """From the state in which it was held."""
    return _change(request, round_id, "release")


def _change(request: Request, round_id: int, name: str, *why: str) -> dict[str, Any]:
    admin, service = operator(request, "rounds"), service_of(request)
    _status(request, round_id)
    try:
        with _acting(service, admin, name, f"round {round_id}", *why):
            holding.CHANGES[name](service.store, round_id, *why)
    except holding.WrongState as error:
        raise Problem("wrong-phase", str(error)) from None
    return _status(request, round_id)


@router.get("/numbers/{number}", responses=_NUMBER, summary="The history of a number")
def history(request: Request, number: PhoneNumber) -> dict[str, Any]:
    """In which rounds it was found, and what was said about it."""
    operator(request, "read")
    store, text = service_of(request).store, parsed_number(request, number)
    entries = [asdict(row) for row in exclusions.appeals(store, text)]
    allowed = bool(exclusions.allowlist(store, text))
    named = context_of(request).lists.named_by_others(text, service_of(request).now)
    sources = (
        {name: {"complaints": count, "until": until} for name, (count, until) in named.sources.items()} if named else {}
    )
    seen = publisher.history(store, text)
    return {"number": text, "seen": seen, "imported": sources, "appeals": entries, "allowed": allowed}


@router.get("/appeals", summary="The log of appeals")
def appeal_log(request: Request, before: Before = None) -> dict[str, Any]:
    """Open and closed ones, a thousand at a time, newest first."""
    operator(request, "read")
    rows = exclusions.appeals(service_of(request).store, limit=LOGGED, before=before)
    return {"appeals": [asdict(row) for row in rows]}


@router.post("/appeals", status_code=201, responses=_NUMBER, summary="Take a number off the list")
def appeal(request: Request, body: OfNumber) -> dict[str, Any]:
    """At once, and for as long as the appeal is open."""
    admin = operator(request, "lists")
    service, text = service_of(request), parsed_number(request, body.number)
    with _acting(service, admin, "appeal", text, body.why):
        entry, published = service.corrections.appeal(text, body.why, body.who, service.now)
    return {"appeal": entry, "published": published}


@router.post("/appeals/{entry}/close", summary="End an appeal")
def close_appeal(request: Request, entry: Id, reason: Reason) -> dict[str, Any]:
    """The number may be listed again."""
    admin, service = operator(request, "lists"), service_of(request)
    with _acting(service, admin, "close", f"appeal {entry}", reason.why):
        published = service.corrections.close(entry, reason.why, service.now)
    return {"appeal": entry, "published": published}


@router.get("/allowlist", summary="The allowlist")
def allowlist(request: Request) -> dict[str, Any]:
    """Numbers that are never listed."""
    operator(request, "read")
    return {"allowed": [asdict(row) for row in exclusions.allowlist(service_of(request).store)]}


@router.post("/allowlist", status_code=201, responses=_NUMBER, summary="Never list a number")
def allow(request: Request, body: OfNumber) -> dict[str, Any]:
    """If it is listed now, it leaves at once."""
    admin = operator(request, "lists")
    service, text = service_of(request), parsed_number(request, body.number)
    with _acting(service, admin, "allow", text, body.why):
        published = service.corrections.allow(text, body.why, body.who, service.now)
    return {"number": text, "published": published}


@router.delete("/allowlist/{number}", responses=_NUMBER, summary="Take a number off the allowlist")
def disallow(request: Request, number: PhoneNumber) -> dict[str, Any]:
    """It may be listed again."""
    admin = operator(request, "lists")
    service, text = service_of(request), parsed_number(request, number)
    with _acting(service, admin, "disallow", text):
        published = service.corrections.disallow(text, service.now)
    return {"number": text, "published": published}


@router.post("/devices", status_code=201, summary="Enrol many devices")
def enrol_many(request: Request, body: Many) -> dict[str, Any]:
    """Their tokens are shown once."""
    admin, service = operator(request, "devices"), service_of(request)
    with _acting(service, admin, "enrol", counted(body.count, "device")):
        enrolled = service.devices.enrol_many(body.count, service.now)
    return {"devices": [{"device": device, "token": token} for device, token in enrolled]}


@router.delete("/devices/{device}", status_code=204, summary="Revoke a device")
def revoke(request: Request, device: DeviceId) -> Response:
    """It is refused from its next request on."""
    admin, service = operator(request, "devices"), service_of(request)
    with _acting(service, admin, "revoke", f"device {device}"):
        service.devices.revoke(device, service.now)
    return Response(status_code=204)


@router.post("/devices/{device}/delete", status_code=204, responses=refusals("not-found"), summary="Delete a device")
def delete(request: Request, device: DeviceId) -> Response:
    """With every row that names it. What sealed tallies hold of it stays: nobody can tell which report is its own."""
    admin, service = operator(request, "devices"), service_of(request)
    try:
        with _acting(service, admin, "delete device", f"device {device}"):
            service.devices.delete(device)
    except NotFound as error:
        raise Problem("not-found", error.fact) from None
    return Response(status_code=204)


@router.get("/devices", summary="Devices")
def devices(
    request: Request, after: Annotated[int, Query(ge=0, le=1 << 53, description="the last one that you know")] = 0
) -> dict[str, Any]:
    """A thousand at a time, by number: when each enrolled, and when it was revoked."""
    operator(request, "devices")
    return {"devices": [asdict(row) for row in service_of(request).devices.devices(after=after)]}


@router.get("/invites", summary="Invite codes")
def invites(request: Request) -> dict[str, Any]:
    """All that were made, newest first, by names that enrol nobody."""
    operator(request, "devices")
    return {"invites": [asdict(row) for row in service_of(request).devices.invites()]}


@router.delete("/invites/{name}", status_code=204, summary="Revoke an invite code")
def revoke_invite(request: Request, name: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]) -> Response:
    """It enrols nobody else. Devices that came with it stay."""
    admin, service = operator(request, "devices"), service_of(request)
    with _acting(service, admin, "revoke invite", name):
        service.devices.revoke_invite(name)
    return Response(status_code=204)


@router.get("/log", summary="What operators did")
def audit_log(request: Request, before: Before = None) -> dict[str, Any]:
    """A thousand entries at a time, newest first."""
    operator(request, "read")
    return {"log": [asdict(row) for row in service_of(request).audit.entries(LOGGED, before)]}


@router.post("/invites", status_code=201, summary="Make an invite code")
def invite(request: Request, body: Invitation) -> dict[str, Any]:
    """The code is shown once."""
    admin, service = operator(request, "devices"), service_of(request)
    with _acting(service, admin, "invite", counted(body.uses, "device"), body.note):
        return {"invite": service.devices.invite(body.uses, body.note, service.now), "uses": body.uses}
