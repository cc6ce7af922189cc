"""The API's own description as a page: the OpenAPI document comes in, operations by subject with examples leave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hushcall.protocol.problems import PROBLEMS
from hushcall.server.problems import MEDIA_TYPE

METHODS = ("get", "post", "put", "patch", "delete")
WHO = {"device": "a device's token", "operator": "an operator's token"}
ABOUT = {
    "phones": "What a phone calls, once or twice a round.",
    "lists": "What phones and content networks download: signed, cacheable, the same bytes for everyone.",
    "PhoneBlock": "The dialect of apps that speak PhoneBlock's: change one address and they work.",
    "operators": "What an operator's tools call. Each token may do what its scopes say.",
    "probes": "What machines that watch the service call.",
}
_DEEPEST = 8
_PLAIN = {"string": "text", "integer": 1, "number": 1.0, "boolean": True, "null": None}


@dataclass(frozen=True)
class Parameter:
    """Something in the path, the query or a header."""

    name: str
    where: str
    required: bool
    kind: str
    about: str


@dataclass(frozen=True)
class Content:
    """What is sent or answered. ``example`` is empty where it is bytes; ``status`` is empty for a request."""

    status: str
    about: str
    media: str
    example: str


@dataclass(frozen=True)
class Operation:
    """One method of one address."""

    method: str
    path: str
    summary: str
    about: str
    needs: str
    parameters: tuple[Parameter, ...]
    request: Content | None
    answers: tuple[Content, ...]
    refusals: tuple[tuple[str, str], ...]  # (status, name of the problem)

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        words = "".join(letter if letter.isalnum() else "-" for letter in f"{self.method} {self.path}".lower())
        return "-".join(filter(None, words.split("-")))


@dataclass(frozen=True)
class Group:
    """Operations on one subject."""

    tag: str
    about: str
    operations: tuple[Operation, ...]


def groups(document: Mapping[str, Any]) -> tuple[Group, ...]:
    """The whole document, subjects in the order in which they first appear."""
    found: dict[str, list[Operation]] = {}
    for path, methods in document.get("paths", {}).items():
        for method in METHODS:
            if method in methods:
                given = methods[method]
                tag = next(iter(given.get("tags", [])), "other")
                found.setdefault(tag, []).append(_operation(document, method, path, given))
    return tuple(Group(tag, ABOUT.get(tag, ""), tuple(made)) for tag, made in found.items())


def _operation(document: Mapping[str, Any], method: str, path: str, given: Mapping[str, Any]) -> Operation:
    answers, refusals = [], []
    for status, answer in given.get("responses", {}).items():
        content = answer.get("content", {})
        examples = content.get(MEDIA_TYPE, {}).get("examples", {})
        if examples:
            refusals += [(status, name) for name in examples if name in PROBLEMS]
        elif status != "422":  # the framework's own; ours are problems too
            about = answer.get("description", "").replace("Successful Response", "")
            answers.append(_content(document, status, about, content))
    body = given.get("requestBody", {}).get("content", {})
    ways = given.get("security", [])
    needs = " or ".join(WHO.get(name, name) for one in ways for name in one)
    if needs:
        needs = f"Works without a token, or with {needs}." if {} in ways else f"Needs {needs}."
    return Operation(
        method.upper(),
        path,
        given.get("summary", ""),
        given.get("description", "").replace("``", ""),
        needs,
        tuple(_parameter(document, one) for one in given.get("parameters", [])),
        _content(document, "", "", body) if body else None,
        tuple(answers),
        tuple(refusals),
    )


def _parameter(document: Mapping[str, Any], given: Mapping[str, Any]) -> Parameter:
    schema = _resolved(document, given.get("schema", {}))
    kind = " or ".join(str(one) for one in schema["enum"]) if "enum" in schema else str(schema.get("type", "text"))
    limits = [f"{words} {schema[key]}" for key, words in _LIMITS.items() if key in schema]
    return Parameter(
        given["name"],
        given.get("in", ""),
        bool(given.get("required")),
        ", ".join([kind, *limits]),
        str(given.get("description", "") or schema.get("description", "")),
    )


_LIMITS = {
    "minimum": "from",
    "maximum": "to",
    "maxLength": "at most this long:",
    "pattern": "of the shape",
    "default": "otherwise",
}


def _content(document: Mapping[str, Any], status: str, about: str, content: Mapping[str, Any]) -> Content:
    media = next(iter(content), "")
    given = content.get(media, {})
    example = ""
    if "json" in media:
        example = json.dumps(_example(document, given), indent=2, ensure_ascii=False)
    return Content(status, about, media, "" if example in ("{}", "null") else example)


def _example(document: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """The example that is given, or one made up from the schema."""
    if "example" in given:
        return given["example"]
    if given.get("examples"):
        first = next(iter(given["examples"].values()))
        return first.get("value", first)
    return _made_up(document, given.get("schema", {}), 0)


def _made_up(document: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> Any:
    schema = _resolved(document, schema)
    if depth > _DEEPEST:
        return None
    said = [schema[key] for key in ("example", "const", "default") if key in schema]
    said += [schema[key][0] for key in ("examples", "enum") if schema.get(key)]
    if said:
        return said[0]
    if "properties" in schema:
        return {name: _made_up(document, part, depth + 1) for name, part in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_made_up(document, schema.get("items", {}), depth + 1)]
    if schema.get("type") == "integer":
        return schema.get("minimum", _PLAIN["integer"])
    return _PLAIN.get(str(schema.get("type", "")), {})


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references, and take the first choice that is not null."""
    for _ in range(_DEEPEST):
        if "$ref" in schema:
            found: Any = document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found.get(part, {})
            schema = found
        elif choices := [one for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, [])]:
            schema = {**choices[0], **{key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}}
            schema.pop("allOf", None)
        else:
            break
    return schema
