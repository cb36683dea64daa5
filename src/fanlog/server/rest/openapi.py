"""The OpenAPI document of the HTTP port, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fanlog.model.json_value import Json, JsonObject
from fanlog.server.rest.json_schema import STRING, JsonSchema, array, components, record
from fanlog.server.rest.route import Route, parse_template

#: Names of the variables that follow a collection in a path.
_SINGULARS = {
    "messages": "message",
    "revisions": "revision",
    "projects": "project",
    "topics": "topic",
    "subscriptions": "subscription",
    "snapshots": "snapshot",
    "jobs": "job",
    "schedules": "schedule",
    "alerts": "alert",
    "accounts": "account",
    "schemas": "schema",
}
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")

ERROR: JsonSchema = record(
    {
        "error": record(
            {
                "code": {"type": "integer"},
                "message": STRING,
                "status": STRING,
                "details": array({"type": "object"}),
            },
            "code",
            "message",
            "status",
            "details",
        )
    },
    "error",
)
_ERRORS = {
    400: "A value is malformed or out of range, or the resource's state does not allow this.",
    404: "What is named does not exist.",
    409: "It exists already.",
    413: "The body, or the publish request in it, is too large.",
    415: "The body is not JSON in UTF-8.",
    429: "Backpressure; come again after `Retry-After` seconds.",
    501: "A field that this version does not honour; the message names it.",
    503: "The server is draining or recovering; come again after `Retry-After` seconds.",
}
_OF_BODIES = frozenset({413, 415})
_RETRIED = frozenset({429, 503})
_PAGES = {
    "/healthz": ("The process is alive", "text/plain", (200,)),
    "/readyz": (
        "It serves, or does not yet or any more; what is wrong with it",
        "text/plain",
        (200, 503),
    ),
    "/metrics": ("Metrics for Prometheus", "text/plain", (200,)),
    "/openapi.json": ("This document", "application/json", (200,)),
    "/docs": ("This document, to be read", "text/html", (200,)),
}


def document(forms: Mapping[str, Iterable[Route]], version: str) -> JsonObject:
    """Describe every route; `forms` has them by the heading they stand under."""
    paths: dict[str, dict[str, Json]] = {}
    for form, routes in forms.items():
        for route in routes:
            path, variables = _path(route.path)
            paths.setdefault(path, {})[route.http.lower()] = _operation(
                route, path, variables, form
            )
    for path, page in _PAGES.items():
        paths[path] = {"get": _page(path, *page)}
    responses = {f"Error{code}": _error(code) for code in _ERRORS}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fanlog",
            "version": version,
            "description": "Durable publish/subscribe. Every form is the same service: what is "
            "published through one is delivered through any other, gRPC included.",
        },
        "tags": [{"name": form} for form in forms],
        "paths": paths,
        "components": {
            "schemas": {**components(paths), "Error": ERROR},
            "responses": responses,
        },
    }


def _path(template: str) -> tuple[str, list[str]]:
    """A path as OpenAPI writes it, and the names of its variables."""
    segments, verb, _ = parse_template(template)
    variables: list[str] = []
    shown: list[str] = []
    for before, segment in zip(["", *segments], segments, strict=False):
        if segment == "*":
            variables.append(_SINGULARS[before])
            segment = f"{{{_SINGULARS[before]}}}"
        shown.append(segment)
    return "/" + "/".join(shown) + verb, variables


def _operation(route: Route, path: str, variables: list[str], form: str) -> JsonObject:
    parameters: list[JsonObject] = [
        {"name": name, "in": "path", "required": True, "schema": STRING | {"minLength": 1}}
        for name in variables
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in route.parameters.items()
    ]
    found: JsonObject = {
        "operationId": "-".join([route.http.lower(), *re.findall(r"\w+", path.replace("}:", "_"))]),
        "summary": _summary(route.method),
        "tags": [form],
        "parameters": parameters,
        "responses": _responses(route),
    }
    if route.takes is not None:
        found["requestBody"] = {
            "required": bool(route.takes.get("required")),
            "content": {
                media_type: {"schema": schema}
                for media_type, schema in (
                    route.bodies or {"application/json": route.takes}
                ).items()
            },
        }
    return found


def _summary(method: str) -> str:
    service, _, verb = method.partition(".")
    words = " ".join(word.lower() for word in _WORDS.split(verb))
    if service == "Position":
        words += " position"
    return words.capitalize()


def _responses(route: Route) -> JsonObject:
    done: JsonObject = {"description": "Done"}
    if route.gives is not None:
        done["content"] = {"application/json": {"schema": route.gives}}
    found: JsonObject = {str(route.status): done}
    for other, meaning in route.also.items():
        found[str(other)] = done | {"description": meaning}
    for code in _ERRORS:
        if route.takes is not None or code not in _OF_BODIES:
            found[str(code)] = {"$ref": f"#/components/responses/Error{code}"}
    return found


def _error(code: int) -> JsonObject:
    schema = {"$ref": "#/components/schemas/Error"}
    found: JsonObject = {
        "description": _ERRORS[code],
        "content": {"application/json": {"schema": schema}},
    }
    if code in _RETRIED:
        found["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return found


def _page(path: str, summary: str, media_type: str, codes: tuple[int, ...]) -> JsonObject:
    content = {media_type: {"schema": {} if media_type == "application/json" else STRING}}
    return {
        "operationId": f"get-{path[1:].replace('.', '-')}",
        "summary": summary,
        "tags": ["The server itself"],
        "responses": {str(code): {"description": summary, "content": content} for code in codes},
    }
