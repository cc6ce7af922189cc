"""A refusal on its way out: a name of ``protocol.problems`` comes in, an RFC 9457 document leaves.

A problem never repeats what was sent: no phone number, no token, no report.
"""

from __future__ import annotations

import json
from typing import Any

from hushcall.protocol.problems import PROBLEMS, URN, Kind

MEDIA_TYPE = "application/problem+json"
SCHEMA = "#/components/schemas/Problem"


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
        """The document of RFC 9457, with ``todo``: what to do about it."""
        return json.dumps(document(self.kind, self.detail)).encode()

    def headers(self) -> dict[str, str]:
        """Content type, and ``Retry-After`` where waiting helps."""
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
