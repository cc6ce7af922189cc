"""The API's description: what the framework found out comes in; leaves what is true of every route.

The framework knows parameters and bodies. It does not know that everything refused is a problem detail, nor what the
two kinds of tokens are.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from hushcall.protocol.problems import PROBLEMS, URN
from hushcall.server.problems import document, refusals

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
_GUESSED = ("HTTPValidationError", "ValidationError")  # what the framework would have answered to a wrong parameter


def describe(app: FastAPI) -> None:
    """Have the application describe itself like this."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        license_info=app.license_info,
        routes=app.routes,
    )
    parts = found.setdefault("components", {})
    parts["securitySchemes"] = SECURITY
    schemas = {name: schema for name, schema in parts.get("schemas", {}).items() if name not in _GUESSED}
    parts["schemas"] = {**schemas, "Problem": _PROBLEM}
    for methods in found["paths"].values():
        for operation in methods.values():
            _correct(operation)
    return found


def _correct(operation: dict[str, Any]) -> None:
    """Parameters that do not fit are ``bad-request``, bodies may be too large, and anything may fail."""
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
