"""Everything that the service refuses, as a table: name, status, what it means, what to do, whether a retry can help.

The server answers with these names (``server.problems`` puts them into RFC 9457), a phone reads them. A name is
for ever; a new one may be added, so a reader treats a name that it does not know as a refusal that may pass.
"""

from __future__ import annotations

from dataclasses import dataclass

URN = "urn:hushcall:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """One way of being refused. ``final``: no retry within the round can change it, so a phone gives the round up."""

    name: str
    status: int
    title: str
    todo: str
    final: bool = False


def _table(*kinds: Kind) -> dict[str, Kind]:
    return {kind.name: kind for kind in kinds}


PROBLEMS = _table(
    Kind("bad-request", 400, "The request is not what this address takes", "Compare it with /docs.", final=True),
    Kind("unknown-token", 401, "No device or operator has this token", "Send 'Authorization: Bearer TOKEN'; enrol."),
    Kind("expired-token", 401, "This token is of another round", "Ask for a token of this round.", final=True),
    Kind("foreign-token", 401, "This server issued no such token", "Ask for a token of this round.", final=True),
    Kind("revoked", 403, "This token was revoked", "Enrol again, or ask the operator."),
    Kind("forbidden", 403, "This token may not do that", "Use an operator's token with the scope named here."),
    Kind("enrolment-closed", 403, "Enrolment needs an invitation", "Ask the operator for an invite code."),
    Kind("work-needed", 403, "Enrolment asks for proof of work", "Ask GET /v1/devices/challenge, and solve it."),
    Kind(
        "private-reports-only",
        403,
        "This server takes no reports in the clear",
        "Report with a hushcall phone: one randomised report a round, from which nobody learns who called you.",
        final=True,
    ),
    Kind("not-found", 404, "There is nothing at this address", "Compare it with /docs."),
    Kind("no-round", 404, "No round has been opened yet", "Ask again later."),
    Kind("unknown-round", 404, "There is no such round", "Ask GET /v1/rounds/current.", final=True),
    Kind("future-round", 404, "That round has not been opened yet", "Ask GET /v1/rounds/current.", final=True),
    Kind(
        "unknown-ticket",
        404,
        "This device holds no such ticket",
        "Announce first; use the ticket you were given.",
        final=True,
    ),
    Kind("method-not-allowed", 405, "This address does not take that method", "Compare it with /docs."),
    Kind(
        "wrong-phase",
        409,
        "The round is in another phase",
        "Ask GET /v1/rounds/current; wait for the next round.",
        final=True,
    ),
    Kind("not-anonymous", 409, "This round takes no reports without a name", "Report as a device, or not.", final=True),
    Kind("already-issued", 409, "This device has its token for this round", "Use the token you asked for.", final=True),
    Kind("token-spent", 409, "This token was used for something else", "Nothing: the first use counts.", final=True),
    Kind("already-announced", 409, "This device announced another bucket", "Keep the first announcement.", final=True),
    Kind(
        "different-report", 409, "This device sent another report before", "Nothing: the first one counts.", final=True
    ),
    # Of servers before there was cover: phones still meet them.
    Kind("bucket-skipped", 409, "This bucket is skipped in this round", "Send nothing, and spend nothing.", final=True),
    Kind("sealed-otherwise", 400, "This gateway cannot open that", "Ask GET /v1/rounds/current for the key."),
    Kind("oversized", 413, "The request is too large", "Send one report, as long as the round says.", final=True),
    Kind("wrong-bucket", 422, "The plan has no such bucket", "Announce an area code of the plan, or 0.", final=True),
    Kind(
        "malformed-report",
        422,
        "The report is not what the bucket's parameters allow",
        "Update the client.",
        final=True,
    ),
    Kind("malformed-number", 422, "This is no number of the plan", "Write it as +1 and ten digits."),
    Kind("too-many", 429, "Too many requests", "Wait as long as Retry-After says."),
    Kind("internal", 500, "The server failed", "Try again; the operator's log says more."),
    Kind("busy", 503, "The server is busy", "Try again after Retry-After seconds: sending the same again is safe."),
)


def is_final(name: str) -> bool:
    """Whether a phone that was refused like this should stop trying in this round."""
    kind = PROBLEMS.get(name)
    return kind is not None and kind.final
