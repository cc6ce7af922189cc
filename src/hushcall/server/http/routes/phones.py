"""Routes of clients: enrol, read the round, announce, report."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from hushcall.mechanisms import registry
from hushcall.mechanisms.profiles import DEFAULT
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.blocklist import unix
from hushcall.protocol.numbers import NANP
from hushcall.protocol.numbers.plans import PLANS, plan_file
from hushcall.protocol.round_document import RoundInfo, bucket_parameters
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.states import COLLECTING, RoundState
from hushcall.server.auth.devices import token_hash
from hushcall.server.http import fast_path
from hushcall.server.http.context import RoundId, bearer, context_of, service_of
from hushcall.server.problems import Problem, refusals
from hushcall.server.rounds import round_status
from hushcall.server.settings import RoundSettings

router = APIRouter(prefix="/v1", tags=["phones"])
_ANNOUNCED: dict[str, Any] = {"example": {"round": 12, "bucket": 202, "ticket": "00112233445566778899aabbccddeeff"}}
_PLAN = {"format": "hushcall-plan/1", "region": "CZ", "country_code": 420, "areas": {"20": "7"}}

_EXAMPLE = RoundInfo(
    round=12,
    state=COLLECTING,
    opens=unix("2026-11-15T00:00:00Z"),
    collects=unix("2026-11-15T12:00:00Z"),
    closes=unix("2026-11-15T22:48:00Z"),
    server_time=unix("2026-11-15T13:30:00Z"),
    seed=bytes(SEED_BYTES),
    plan=RoundSettings().plan,
    window=7,
    mechanism=DEFAULT.mechanism,
    epsilon=DEFAULT.epsilon,
    buckets={"202": bucket_parameters(3, {"mechanism": registry.SUBSPACE, "epsilon": 4.0, "bits": 5, "item_bits": 24})},
    profile=DEFAULT.name,
    tau=DEFAULT.tau,
    level=DEFAULT.level,
)
_BLINDED = {
    "schema": {"type": "string", "format": "binary", "description": "a TokenRequest of RFC 9578: 259 bytes"},
    "example": "\x00\x02\x9c",
}
_SIGNATURE = {"schema": {"type": "string", "format": "binary", "description": "256 bytes"}, "example": "\x00\x5b"}
_BYTES = {"type": "string", "format": "binary", "description": "as many bytes as the round says for the bucket"}
_UPLOAD_PROBLEMS = (
    *("bad-request", "unknown-token", "revoked", "no-round", "unknown-round", "future-round", "wrong-phase"),
    *("oversized", "too-many", "busy"),
)


def _body(media_type: str, content: dict[str, Any]) -> dict[str, Any]:
    """The description of a body that a device sends, with its token."""
    return {"requestBody": {"required": True, "content": {media_type: content}}, "security": [{"device": []}]}


class Enrolment(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"invite": "hci_" + "0" * 64}})
    invite: str = Field(default="", max_length=200, description="an invite code, where the operator asks for one")
    work: str = Field(default="", max_length=80, description="'challenge:nonce', where proof of work is asked for")


class Challenge(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"challenge": "00" * 16, "bits": 20}})
    challenge: str
    bits: int


class Enrolled(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"example": {"device": 17, "token": "hcd_" + "0" * 64, "plan": NANP.name}}
    )
    device: int
    token: str
    plan: str


class Announcement(BaseModel):
    bucket: int = Field(ge=0, le=999, description="the area code; 0 where the round protects the number whole")


class Ticket(BaseModel):
    model_config = ConfigDict(json_schema_extra=_ANNOUNCED)
    round: int
    bucket: int
    ticket: str = Field(description="32 hexadecimal digits")


class Phase(BaseModel):
    """The round that is open, as phones see it. Described here; written and read in ``protocol.round_document``."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE.to_plain()})
    round: int
    state: RoundState
    opens: str
    collects: str
    closes: str
    server_time: str
    seed: str
    plan: str
    window: int
    profile: dict[str, Any]
    buckets: dict[str, Any] | None
    anonymous: dict[str, str] | None = Field(
        default=None, description="how to take part without a name: token key, gateway, relay; absent where one cannot"
    )
    crowd: int | None = Field(default=None, description="phones without a name in all buckets, once announcing is over")
    signatures: list[dict[str, str]] = Field(default=[], description="keyid and sig, by keys of the list's root")
    next: str | None = Field(default=None, description="when the next round opens")
    upload_bytes: int | None = Field(
        default=None, description="what every upload is padded to, once buckets are decided"
    )


@router.post(
    "/devices",
    status_code=201,
    response_model=Enrolled,
    responses=refusals(
        *("bad-request", "unknown-token", "revoked", "forbidden", "enrolment-closed", "work-needed"),
        *("oversized", "too-many"),
    ),
    openapi_extra={"security": [{}, {"operator": []}]},  # an operator's token enrols whatever the mode is
    summary="Enrol a device",
)
def enrol(request: Request, enrolment: Enrolment | None = None) -> dict[str, int | str]:
    """A new device's number and token. The token is shown once and stored hashed."""
    service = service_of(request)
    if "authorization" in request.headers:
        service.devices.admin(bearer(request)).need("devices")
        device, token = service.devices.enrol("operator", service.now, by_operator=True)
    else:
        enrolment = enrolment or Enrolment()
        device, token = service.enrolments.enrol(enrolment.invite, enrolment.work, service.now)
    return {"device": device, "token": token, "plan": service.plan.name}


@router.get(
    "/plans/{name}",
    response_class=Response,
    responses={200: {"content": {"application/json": {"example": _PLAN}}}, **refusals("not-found")},
    summary="A shipped numbering plan, or the server's own",
)
def plan(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
    """The file that ``hushcall plan-of`` wrote. The name of a plan that is not shipped is the digest of its file."""
    data = plan_file(name) if name in (*PLANS, service_of(request).plan.name) else None
    if data is None:
        raise Problem("not-found", "This is no plan of this server, and no shipped one.")
    return Response(data, media_type="application/json", headers={"cache-control": "public, max-age=86400"})


@router.delete(
    "/devices/self",
    status_code=204,
    responses=refusals("unknown-token"),
    openapi_extra={"security": [{"device": []}]},
    summary="Delete the device that asks",
)
def leave(request: Request) -> Response:
    """With every row that names it, also of the round that is open. A revoked device may ask too."""
    service_of(request).devices.delete_own(bearer(request))
    return Response(status_code=204)


@router.get("/devices/challenge", response_model=Challenge, summary="What enrolment asks for")
def challenge(request: Request) -> dict[str, int | str]:
    """The work to prove before enrolling; 0 bits where none is asked. It changes every ten minutes."""
    service = service_of(request)
    text, bits = service.enrolments.challenge(service.now)
    return {"challenge": text, "bits": bits}


@router.get(
    "/rounds/current",
    response_model=Phase,
    responses={304: {"description": "as before"}, **refusals("no-round")},
    summary="The round that is open",
)
def current(request: Request) -> Response:
    """State, deadlines, parameters, and once announcing is over which buckets run, and how."""
    service = service_of(request)
    row = service.rounds.newest()
    if row is None:
        raise Problem("no-round")
    etag = f'W/"{row.id}-{row.state}-{row.closes}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"etag": etag})
    document = service.round_signer.signed(round_status.round_info(service.store, row, service.now).to_plain())
    return JSONResponse(document, headers={"etag": etag, "cache-control": "no-cache"})


@router.post(
    "/rounds/{number}/announcements",
    status_code=201,
    response_model=Ticket,
    responses={
        200: {"description": "announced before: the same ticket", "content": {"application/json": _ANNOUNCED}},
        **refusals(*_UPLOAD_PROBLEMS, "already-announced", "wrong-bucket"),
    },
    openapi_extra=_body("application/json", {"schema": Announcement.model_json_schema(), "example": {"bucket": 202}}),
    summary="Announce a bucket, get a ticket",
)
async def announce(request: Request, round_id: RoundId) -> Response:
    """Idempotent: the same bucket again gives the same ticket, another bucket is refused."""
    header = request.headers.get("authorization", "")
    answer = await fast_path.announce(context_of(request), header, round_id, await request.body())
    return JSONResponse(answer.body, answer.status)


@router.post(
    "/rounds/{number}/tokens",
    status_code=200,
    response_class=Response,
    responses={
        200: {"description": "the blind signature", "content": {tokens.RESPONSE_TYPE: _SIGNATURE}},
        **refusals(
            *("bad-request", "unknown-token", "revoked", "unknown-round", "wrong-phase", "not-anonymous"),
            *("already-issued", "oversized", "too-many"),
        ),
    },
    openapi_extra=_body(tokens.REQUEST_TYPE, _BLINDED),
    summary="Get a blind token",
)
async def issue(request: Request, number: RoundId) -> Response:
    """One a device and round, while it is announcing. The same request again is signed again; another is refused."""
    context, token = context_of(request), token_hash(bearer(request))
    context.device_limit.check(token)
    body = await request.body()
    signature = await run_in_threadpool(context.service.issuer.issue, token, number, body)
    return Response(signature, media_type=tokens.RESPONSE_TYPE)


@router.put(
    "/rounds/{number}/reports/{ticket}",
    status_code=201,
    response_class=Response,
    responses={
        200: {"description": "stored before, counted once"},
        201: {"description": "stored: on disk when this is answered"},
        **refusals(*_UPLOAD_PROBLEMS, "unknown-ticket", "different-report", "malformed-report"),
    },
    openapi_extra=_body("application/octet-stream", {"schema": _BYTES, "example": "\x01\x04\x1a"}),
    summary="Send the report",
)
async def report(
    request: Request, round_id: RoundId, ticket: Annotated[str, Path(description="32 hexadecimal digits")]
) -> Response:
    """Raw bytes, as ``docs/protocol.md`` lays them out. Idempotent; answered only when they are on disk."""
    header = request.headers.get("authorization", "")
    answer = await fast_path.report(context_of(request), header, round_id, ticket, await request.body())
    return Response(status_code=answer.status)
