"""The API and its description agree: generated requests get only answers that are described, and none is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode, checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Handset, Village, bearer, operator_token, serving

from hushcall.mechanisms import parameters
from hushcall.mechanisms.mechanism import report_bytes
from hushcall.protocol.problems import PROBLEMS, URN
from hushcall.protocol.round_document import RoundInfo
from hushcall.server.auth.devices import SCOPES
from hushcall.server.http.app import SECURITY, make_app
from hushcall.server.problems import MEDIA_TYPE
from hushcall.server.service import Service

EXAMPLES = 10
"""Requests generated for each operation and mode."""
CHECKS: list[Any] = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.unsupported_method,
    checks.ignored_auth,
]


BYTES = {"application/private-token-request", "message/ohttp-req"}


@schemathesis.serializer(*sorted(BYTES))
def as_they_are(_: Any, value: Any) -> bytes:
    """Bodies that are bytes: whatever was generated, as bytes."""
    return value if isinstance(value, bytes) else str(value).encode()


@dataclass
class Api:
    """A running server with a published list and an open round, and what its description says."""

    client: httpx.Client
    document: dict[str, Any]
    device: str
    operator: str

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield method, path, operation

    def token_for(self, operation: dict[str, Any]) -> dict[str, str]:
        """What the description says this needs."""
        names = {name for need in operation.get("security", []) for name in need}
        token = self.operator if "operator" in names else self.device
        return {"Authorization": f"Bearer {token}"} if names else {}


@pytest.fixture
def api(make_service: MakeService, database: str, clock: Clock) -> Iterator[Api]:
    service = make_service(database)
    village = Village(service, clock)
    village.to("published", [SPAM] * 6)
    village.to("collecting", [SPAM] * 6)
    with serving(service) as client:
        document = client.get("/openapi.json").json()
        yield Api(client, document, Handset.enrolled(client).token, operator_token(service))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: str(mode.value))
def test_generated_requests_get_only_answers_that_are_described(api: Api, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(api.document)
    bounded = settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    asked, wrong = 0, list[str]()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query or operation.path_parameters):
            continue  # nothing in it can be wrong
        try:
            asked += ask(api, operation, mode, bounded)
        except Unsatisfiable:  # every value of a body of bytes fits its description: nothing in it can be wrong
            assert mode is GenerationMode.NEGATIVE
            assert {body.media_type for body in operation.body} <= BYTES
        except FailureGroup as error:
            wrong.append(f"{operation.label}: {error}")
    assert not wrong, "\n\n".join(wrong)
    assert asked > 100


def ask(api: Api, operation: Any, mode: GenerationMode, bounded: settings) -> int:
    """Try one operation; how many requests that took."""
    headers, asked = api.token_for(operation.definition.raw), 0

    @bounded
    @given(case=operation.as_strategy(generation_mode=mode))
    def once(case: Case[Any]) -> None:
        nonlocal asked
        asked += 1
        case.call_and_validate(base_url=str(api.client.base_url), headers=headers, checks=CHECKS)

    once()
    return asked


SCOPE_OF = {
    ("get", "/v1/admin/whoami"): "read",
    ("get", "/v1/admin/rounds"): "read",
    ("get", "/v1/admin/rounds/{number}"): "read",
    ("get", "/v1/admin/numbers/{number}"): "read",
    ("get", "/v1/admin/appeals"): "read",
    ("get", "/v1/admin/allowlist"): "read",
    ("get", "/metrics"): "read",
    ("post", "/v1/admin/appeals"): "lists",
    ("post", "/v1/admin/appeals/{entry}/close"): "lists",
    ("post", "/v1/admin/allowlist"): "lists",
    ("delete", "/v1/admin/allowlist/{number}"): "lists",
    ("post", "/v1/admin/rounds/advance"): "rounds",
    ("post", "/v1/admin/rounds/{number}/hold"): "rounds",
    ("post", "/v1/admin/rounds/{number}/release"): "rounds",
    ("post", "/v1/admin/devices"): "devices",
    ("delete", "/v1/admin/devices/{device}"): "devices",
    ("post", "/v1/admin/devices/{device}/delete"): "devices",
    ("post", "/v1/admin/invites"): "devices",
    ("get", "/v1/admin/devices"): "devices",
    ("get", "/v1/admin/invites"): "devices",
    ("delete", "/v1/admin/invites/{name}"): "devices",
    ("get", "/v1/admin/log"): "read",
}
BODIES = {"Reason": {"why": "x"}, "OfNumber": {"number": SPAM, "why": "x"}, "Many": {"count": 1}, "Invitation": {}}


def test_every_operators_route_demands_a_token_with_its_scope(lite: Service) -> None:
    village = Village(lite, Clock())
    village.to("announcing")
    one_scope = {scope: operator_token(lite, scope) for scope in SCOPES}
    with serving(lite) as client:
        api = Api(client, client.get("/openapi.json").json(), Handset.enrolled(client).token, "")
        for method, path, operation in api.operations():
            if not path.startswith("/v1/admin") and path != "/metrics":
                continue
            assert operation["security"] == [{"operator": []}], path
            assert {"401", "403"} <= operation["responses"].keys(), path
            asked = fitting(method, path, operation)
            assert refusal(client.request(**asked)) == "unknown-token", path
            assert refusal(client.request(**asked, headers=bearer(api.device))) == "unknown-token", path
            refused = {
                s for s in SCOPES if refusal(client.request(**asked, headers=bearer(one_scope[s]))) == "forbidden"
            }
            assert refused == set(SCOPES) - {SCOPE_OF[method, path]}, path


def test_the_table_of_scopes_holds_every_route_that_exists_described_or_not(lite: Service) -> None:
    routes = {
        (method.lower(), route.path)
        for route in iter_routes(make_app(lite).routes)
        if route.path.startswith("/v1/admin") or route.path == "/metrics"
        for method in route.methods
    }
    assert routes == set(SCOPE_OF)


def iter_routes(routes: Any) -> Iterator[Any]:
    """Routes, also those of included routers."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from iter_routes(inner.routes)
        elif hasattr(route, "methods"):
            yield route


def fitting(method: str, path: str, operation: dict[str, Any]) -> dict[str, Any]:
    """A request that is right in all but its token."""
    asked: dict[str, Any] = {"method": method.upper(), "url": path.format(number=1, entry=1, device=999, name="0" * 12)}
    if "/numbers/" in path or "/allowlist/" in path:
        asked["url"] = path.format(number=SPAM)
    if "requestBody" in operation:
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        asked["json"] = BODIES[name]
    return asked


def refusal(answer: httpx.Response) -> str:
    """The problem's name; "" where there is none."""
    if answer.headers.get("content-type") != MEDIA_TYPE:
        return ""
    return str(answer.json()["type"]).removeprefix(URN)


def test_the_description_names_both_kinds_of_tokens_and_every_phone_route_has_examples(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert document["components"]["securitySchemes"] == SECURITY
    assert {(scheme["type"], scheme["scheme"]) for scheme in SECURITY.values()} == {("http", "bearer")}
    schemas = document["components"]["schemas"]

    def exemplified(content: dict[str, Any]) -> bool:
        (media,) = content.values()
        schema = media.get("schema", {})
        named = [schema, *schema.get("anyOf", [])]
        parts = [schemas[part["$ref"].rpartition("/")[2]] for part in named if "$ref" in part]
        return "example" in media or any("example" in part for part in parts)

    phones = [o for _, path, o in Api(client, document, "", "").operations() if "phones" in o.get("tags", [])]
    assert len(phones) == 10
    for operation in phones:
        if "requestBody" in operation:
            assert exemplified(operation["requestBody"]["content"]), operation["summary"]
        told = [answer for status, answer in operation["responses"].items() if status in ("200", "201")]
        assert all(exemplified(answer["content"]) for answer in told if "content" in answer), operation["summary"]
        assert all(
            answer["content"][MEDIA_TYPE]["examples"] for s, answer in operation["responses"].items() if s > "399"
        )


def test_the_example_of_a_round_is_one_that_a_phone_can_read(client: httpx.Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    example = schemas["Phase"]["example"]
    assert RoundInfo.from_plain(example).round == example["round"]
    for bucket in example["buckets"].values():
        if bucket["runs"]:
            assert report_bytes(parameters.from_plain(bucket["parameters"])) == bucket["report_bytes"]
    assert set(example) == set(schemas["Phase"]["required"])


def test_every_problem_that_a_route_names_is_described_by_one_schema(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"] == [URN + n for n in PROBLEMS]
    assert "HTTPValidationError" not in client.get("/openapi.json").text
    for _, path, operation in Api(client, document, "", "").operations():
        assert "500" in operation["responses"], path


def test_a_text_with_a_nul_is_refused_on_both_databases(service: Service) -> None:
    headers = bearer(operator_token(service))
    service.rounds.open(service.now)
    asked = {
        "/v1/admin/invites": {"note": "a\x00b"},
        "/v1/admin/appeals": {"number": SPAM, "why": "a\x00b"},
        "/v1/admin/allowlist": {"number": SPAM, "why": "x", "who": "\x00"},
        "/v1/admin/rounds/1/hold": {"why": "a\x00b"},
    }
    with serving(service) as client:
        for path, body in asked.items():
            assert refusal(client.post(path, json=body, headers=headers)) == "bad-request", path
        assert refusal(client.get("/v1/lists/metadata/%00.json")) == "not-found"
        assert refusal(client.get("/v1/admin/numbers/%00", headers=headers)) == "malformed-number"
