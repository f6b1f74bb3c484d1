"""GitHub's own description of its API, and whether a request and its response keep to it."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openapi_core import OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest, MockResponse

DESCRIPTION = Path(__file__).parents[1] / "data" / "github_openapi.json.gz"
RUNNERS = DESCRIPTION.with_name("github_openapi_runners.json")
"""The part about runners, with the components that the other file does not have."""
ISSUES = DESCRIPTION.with_name("github_openapi_issues.json")
"""The part about issues, likewise."""
PROVENANCE = DESCRIPTION.with_name("github_openapi_provenance.json")
"""The parts about lists of runs and about trees, likewise."""
_HOST = "https://api.github.com"
_WITH_SLASHES = ("contents", "ref", "branches", "compare")
"""The last part of these addresses may hold slashes, which a template of OpenAPI does not match."""


@functools.cache
def description() -> dict[str, Any]:
    """The document, read once a process, with what it leaves out and GitHub does."""
    document = json.loads(gzip.decompress(DESCRIPTION.read_bytes()))
    for more in (json.loads(place.read_text(encoding="utf-8")) for place in (RUNNERS, ISSUES, PROVENANCE)):
        for path, operations in more["paths"].items():
            document["paths"].setdefault(path, {}).update(operations)
        for kind, parts in more["components"].items():
            document["components"][kind] |= parts
    schemas = document["components"]["schemas"]
    # The head's repository is null where the fork was deleted.
    for fields, name, kind in (
        (schemas["pull-request"]["properties"]["head"]["properties"], "repo", "repository"),
        (schemas["pull-request-simple"]["properties"]["head"]["properties"], "repo", "repository"),
        (schemas["workflow-run"]["properties"], "head_repository", "minimal-repository"),
    ):
        fields[name] = {**schemas[kind], "nullable": True}
    _name_null(document)
    # A file's bytes, as its reference page has it.
    for template in ("{path}", "results/baseline.json"):
        found = document["paths"][f"/repos/{{owner}}/{{repo}}/contents/{template}"]["get"]["responses"]["200"]["content"]
        found["application/vnd.github.raw+json"] = {}
    return document


def _name_null(part: Any) -> None:
    """Put null among the values of every enumeration that may be null: OpenAPI 3.0 wants it there."""
    if isinstance(part, dict):
        if part.get("nullable") and None not in part.get("enum", [None]):
            part["enum"].append(None)
        for each in part.values():
            _name_null(each)
    elif isinstance(part, list):
        for each in part:
            _name_null(each)


@functools.cache
def _openapi() -> OpenAPI:
    return OpenAPI.from_dict(description())


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without its outermost ``$ref``."""
    while "$ref" in schema:
        here: Any = description()
        for part in schema["$ref"].removeprefix("#/").split("/"):
            here = here[part]
        schema = here
    return schema


@functools.lru_cache(maxsize=1024)
def template_of(path: str) -> str | None:
    """The template that describes a path, with the fewest parts left open."""
    parts = _folded(path).split("/")
    fitting = [
        template
        for template in description()["paths"]
        if len(pieces := template.split("/")) == len(parts)
        and all(piece.startswith("{") or piece == part for piece, part in zip(pieces, parts, strict=True))
    ]
    return min(fitting, key=lambda template: template.count("{"), default=None)


def broken_request(method: str, path: str, query: dict[str, str], body: bytes) -> list[str]:
    """What a request breaks, a sentence each.

    Beyond what the description says, a query parameter or a field of the body that it does not name counts: GitHub would
    ignore it in silence.
    """
    return list(_broken_request(method, path, tuple(query.items()), body))


@functools.lru_cache(maxsize=1024)  # most tests begin with the same requests, and checking one takes milliseconds
def _broken_request(method: str, path: str, query_items: tuple[tuple[str, str], ...], body: bytes) -> list[str]:
    query = dict(query_items)
    operation = _operation(method, path)
    if operation is None:
        return ["GitHub describes no such call"]
    found = _unnamed(operation, query, body)
    try:
        _openapi().validate_request(_request(method, path, query, body))
    except OpenAPIError as problem:
        found.append(f"request: {_words(problem)}")
    return found


def broken_response(method: str, path: str, status: int, answer: bytes, kind: str) -> list[str]:
    """What a response breaks; of errors that the description does not list, only the shape is checked."""
    return list(_broken_response(method, path, status, answer, kind))


@functools.lru_cache(maxsize=1024)
def _broken_response(method: str, path: str, status: int, answer: bytes, kind: str) -> list[str]:
    operation = _operation(method, path)
    if operation is None:
        return []
    if str(status) not in operation["responses"]:
        return [] if status >= 400 and _is_error(answer) else [f"answers {status}, which GitHub does not"]
    try:
        _openapi().validate_response(
            _request(method, path, {}, b""), MockResponse(answer, status, content_type=kind.partition(";")[0])
        )
    except OpenAPIError as problem:
        if answer or "content" in resolve(operation["responses"][str(status)]):
            return [f"response {status}: {_words(problem)}"]
    return []


def _operation(method: str, path: str) -> dict[str, Any] | None:
    template = template_of(path)
    return description()["paths"][template].get(method.lower()) if template else None


def _request(method: str, path: str, query: dict[str, str], body: bytes) -> MockRequest:
    content_type = "application/json" if body else ""
    return MockRequest(_HOST, method, _folded(path), args=query, data=body or None, content_type=content_type)


def _folded(path: str) -> str:
    parts = path.split("/")
    for word in _WITH_SLASHES:
        if word in parts[4:5] or (word == "ref" and parts[4:6] == ["git", "ref"]):
            head = 6 if word == "ref" else 5
            tail = "/".join(parts[head:])
            plain = word == "contents" and tail == "results/baseline.json"
            return path if plain else "/".join([*parts[:head], quote(tail, safe="%")])
    return path


def _unnamed(operation: dict[str, Any], query: dict[str, str], body: bytes) -> list[str]:
    named = {each["name"] for each in map(resolve, operation.get("parameters", [])) if each["in"] == "query"}
    found = [f"the query parameter {name} is unknown to GitHub" for name in query if name not in named]
    if not body:
        return found
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    fields = _fields(schema)
    given = json.loads(body)
    if fields and isinstance(given, dict):
        found += [f"the field {name} is unknown to GitHub" for name in given if name not in fields]
    return found


def _fields(schema: dict[str, Any]) -> set[str]:
    schema = resolve(schema)
    inner = [each for word in ("oneOf", "anyOf", "allOf") for each in schema.get(word, [])]
    return set(schema.get("properties", {})).union(*map(_fields, inner))


def _is_error(answer: bytes) -> bool:
    try:
        return isinstance(json.loads(answer)["message"], str)
    except (ValueError, TypeError, KeyError):
        return False


def _words(problem: BaseException) -> str:
    """The innermost reasons: openapi-core wraps them."""
    inner = getattr(problem, "__cause__", None) or problem
    reasons = [f"{'/'.join(map(str, each.absolute_path))}: {each.message[:200]}" for each in getattr(inner, "schema_errors", [])]
    return "; ".join(reasons[:3]) or f"{problem}: {inner}"
