"""Refused requests as RFC 9457 documents. They never repeat a phone number, a token or a report of the request."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from hushcall.protocol.problems import PROBLEMS, URN, ProblemType

MEDIA_TYPE = "application/problem+json"
SCHEMA = "#/components/schemas/Problem"


class Problem(Exception):
    """Raised where a request is refused. ``name`` is one of ``protocol.problems``, ``retry_after`` in seconds."""

    def __init__(self, name: str, detail: str = "", retry_after: int | None = None) -> None:
        self.kind, self.detail, self.retry_after = PROBLEMS[name], detail, retry_after
        super().__init__(f"{name}: {detail}")

    @property
    def name(self) -> str:
        return self.kind.name

    def response(self) -> Response:
        headers = {"content-type": MEDIA_TYPE}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.kind.status == 401:
            headers["www-authenticate"] = "Bearer"
        return Response(json.dumps(document(self.kind, self.detail)), self.kind.status, headers)


def document(kind: ProblemType, detail: str = "") -> dict[str, Any]:
    """The document of RFC 9457. ``todo`` says what to do."""
    return {
        "type": URN + kind.name,
        "title": kind.title,
        "status": kind.status,
        "detail": detail or f"{kind.title}.",
        "todo": kind.todo,
    }


def refusals(*names: str) -> dict[int | str, dict[str, Any]]:
    by_status: dict[int | str, dict[str, Any]] = {}
    for name in names:
        kind = PROBLEMS[name]
        described = {"schema": {"$ref": SCHEMA}, "examples": {}}
        content = by_status.setdefault(kind.status, {"description": "", "content": {MEDIA_TYPE: described}})
        content["description"] = ", ".join(filter(None, [content["description"], kind.name]))
        content["content"][MEDIA_TYPE]["examples"][name] = {"value": document(kind)}
    return by_status
