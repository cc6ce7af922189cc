"""One table of everything the API refuses: name, status, what it means, what to do. RFC 9457 on the wire.

A problem never repeats what was sent: no phone number, no token, no report.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

MEDIA_TYPE = "application/problem+json"
URN = "urn:hushcall:problem:"
SCHEMA = "#/components/schemas/Problem"


@dataclass(frozen=True, slots=True)
class Kind:
    """One way of being refused."""

    name: str
    status: int
    title: str
    todo: str


PROBLEMS = {
    kind.name: kind
    for kind in (
        Kind("bad-request", 400, "The request is not what this address takes", "Compare it with /docs."),
        Kind(
            "unknown-token", 401, "No device or operator has this token", "Send 'Authorization: Bearer TOKEN'; enrol."
        ),
        Kind("revoked", 403, "This token was revoked", "Enrol again, or ask the operator."),
        Kind("forbidden", 403, "This token may not do that", "Use an operator's token with the scope named here."),
        Kind(
            "private-reports-only",
            403,
            "This server takes no reports in the clear",
            "Report with a hushcall phone: one randomised report a round, from which nobody learns who called you.",
        ),
        Kind("enrolment-closed", 403, "Enrolment needs an invitation", "Ask the operator for an invite code."),
        Kind("not-found", 404, "There is nothing at this address", "Compare it with /docs."),
        Kind("no-round", 404, "No round has been opened yet", "Ask again later."),
        Kind("unknown-round", 404, "There is no such round", "Ask GET /v1/rounds/current."),
        Kind("future-round", 404, "That round has not been opened yet", "Ask GET /v1/rounds/current."),
        Kind(
            "unknown-ticket", 404, "This device holds no such ticket", "Announce first; use the ticket you were given."
        ),
        Kind("method-not-allowed", 405, "This address does not take that method", "Compare it with /docs."),
        Kind(
            "wrong-phase", 409, "The round is in another phase", "Ask GET /v1/rounds/current; wait for the next round."
        ),
        Kind("already-announced", 409, "This device announced another bucket", "Keep the first announcement."),
        Kind("different-report", 409, "This device sent another report before", "Nothing: the first one counts."),
        Kind("bucket-skipped", 409, "This bucket is skipped in this round", "Send nothing, and spend nothing."),
        Kind("oversized", 413, "The request is too large", "Send one report, as long as the round says."),
        Kind("wrong-bucket", 422, "The plan has no such bucket", "Announce an area code of the plan, or 0."),
        Kind("malformed-report", 422, "The report is not what the bucket's parameters allow", "Update the client."),
        Kind("malformed-number", 422, "This is no number of the plan", "Write it as +1 and ten digits."),
        Kind("too-many", 429, "Too many requests", "Wait as long as Retry-After says."),
        Kind("internal", 500, "The server failed", "Try again; the operator's log says more."),
        Kind("busy", 503, "The server is busy", "Try again after Retry-After seconds: nothing was stored."),
    )
}


class Problem(Exception):
    """Raised where a request is refused; the app turns it into an answer."""

    def __init__(self, name: str, detail: str = "", retry_after: int | None = None) -> None:
        self.kind, self.detail, self.retry_after = PROBLEMS[name], detail, retry_after
        super().__init__(f"{name}: {detail}")

    @property
    def name(self) -> str:
        """The last part of the type."""
        return self.kind.name

    def body(self) -> bytes:
        """The document."""
        return json.dumps(document(self.kind, self.detail)).encode()

    def headers(self) -> dict[str, str]:
        """What goes with it."""
        headers = {"content-type": MEDIA_TYPE}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.kind.status == 401:
            headers["www-authenticate"] = "Bearer"
        return headers


def document(kind: Kind, detail: str = "") -> dict[str, Any]:
    """A problem as RFC 9457 wants it, and with what to do."""
    return {
        "type": URN + kind.name,
        "title": kind.title,
        "status": kind.status,
        "detail": detail or f"{kind.title}.",
        "todo": kind.todo,
    }


def refusals(*names: str) -> dict[int | str, dict[str, Any]]:
    """For the API's description: which problems a route answers with."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for name in names:
        kind = PROBLEMS[name]
        described = {"schema": {"$ref": SCHEMA}, "examples": {}}
        content = by_status.setdefault(kind.status, {"description": "", "content": {MEDIA_TYPE: described}})
        content["description"] = ", ".join(filter(None, [content["description"], kind.name]))
        content["content"][MEDIA_TYPE]["examples"][name] = {"value": document(kind)}
    return by_status
