"""The refusals of the service: name, status, title, what to do, and whether a retry can help.

The server answers with these names in RFC 9457 documents. A name never changes. New ones may be added, so a client
treats an unknown name as a refusal that may pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

URN = "urn:hushcall:problem:"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One refusal. ``final``: no retry within the round helps, so a client gives the round up."""

    name: str
    status: int
    title: str
    todo: str
    final: bool = False


_final = partial(ProblemType, final=True)
_KINDS = (
    _final("bad-request", 400, "The request is not what this address takes", "Compare it with /docs."),
    ProblemType(
        "unknown-token", 401, "No device or operator has this token", "Send 'Authorization: Bearer TOKEN'; enrol."
    ),
    _final("expired-token", 401, "This token is of another round", "Ask for a token of this round."),
    _final("foreign-token", 401, "This server issued no such token", "Ask for a token of this round."),
    ProblemType("revoked", 403, "This token was revoked", "Enrol again, or ask the operator."),
    ProblemType("forbidden", 403, "This token may not do that", "Use an operator's token with the scope named here."),
    ProblemType("enrolment-closed", 403, "Enrolment needs an invitation", "Ask the operator for an invite code."),
    ProblemType("work-needed", 403, "Enrolment asks for proof of work", "Ask GET /v1/devices/challenge, and solve it."),
    _final(
        "private-reports-only",
        403,
        "This server takes no reports in the clear",
        "Report with a hushcall phone: one randomised report a round, from which nobody learns who called you.",
    ),
    ProblemType("not-found", 404, "There is nothing at this address", "Compare it with /docs."),
    ProblemType("no-round", 404, "No round has been opened yet", "Ask again later."),
    _final("unknown-round", 404, "There is no such round", "Ask GET /v1/rounds/current."),
    _final("future-round", 404, "That round has not been opened yet", "Ask GET /v1/rounds/current."),
    _final("unknown-ticket", 404, "This device holds no such ticket", "Announce first; use the ticket you were given."),
    ProblemType("method-not-allowed", 405, "This address does not take that method", "Compare it with /docs."),
    _final("wrong-phase", 409, "The round is in another phase", "Ask GET /v1/rounds/current; wait for the next round."),
    _final("not-anonymous", 409, "This round takes no reports without a name", "Report as a device, or not."),
    _final("already-issued", 409, "This device has its token for this round", "Use the token you asked for."),
    _final("token-spent", 409, "This token was used for something else", "Nothing: the first use counts."),
    _final("already-announced", 409, "This device announced another bucket", "Keep the first announcement."),
    _final("different-report", 409, "This device sent another report before", "Nothing: the first one counts."),
    # Of servers without cover uploads.
    _final("bucket-skipped", 409, "This bucket is skipped in this round", "Send nothing, and spend nothing."),
    ProblemType("sealed-otherwise", 400, "This gateway cannot open that", "Ask GET /v1/rounds/current for the key."),
    _final("oversized", 413, "The request is too large", "Send one report, as long as the round says."),
    _final("wrong-bucket", 422, "The plan has no such bucket", "Announce an area code of the plan, or 0."),
    _final("malformed-report", 422, "The report is not what the bucket's parameters allow", "Update the client."),
    ProblemType("malformed-number", 422, "This is no number of the plan", "Write it as +1 and ten digits."),
    ProblemType("too-many", 429, "Too many requests", "Wait as long as Retry-After says."),
    ProblemType("internal", 500, "The server failed", "Try again; the operator's log says more."),
    ProblemType(
        "busy", 503, "The server is busy", "Try again after Retry-After seconds: sending the same again is safe."
    ),
)
PROBLEMS = {kind.name: kind for kind in _KINDS}


def is_final(name: str) -> bool:
    return name in PROBLEMS and PROBLEMS[name].final
