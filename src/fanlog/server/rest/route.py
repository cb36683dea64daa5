"""Routes: an HTTP request as it was read, and the tree that leads from a path to its route.

A path is followed segment by segment, as it came, and decoded only then: a slash in a name is a
character of the name, and refused as such. No place in the tree has both a word and a variable
below it, so that there is one way through it at most.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from fanlog.errors import InvalidArgument, MethodNotAllowed, RouteNotFound
from fanlog.model import names
from fanlog.model.json_value import Json
from fanlog.server.calls import Call, Unary
from fanlog.server.rest.facts import Facts
from fanlog.server.rest.json_schema import JsonSchema


@dataclass(slots=True, kw_only=True)
class Asked:
    """One HTTP request, read."""

    #: The part of the path that stands for each `{field=pattern}`, by field.
    variables: dict[str, str]
    query: list[tuple[str, str]]
    #: JSON values; an empty object when there is no body, and for routes that have a handler.
    body: Json
    #: The project of names that are given without one.
    project: str
    #: The body as it came; only for routes that have a handler.
    content: bytes = b""
    #: Looks up the facts that answers of our own forms have beyond the verb's answer.
    facts: Facts | None = None
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    #: The verb, if it is another than the route's; for `Route.read` to say.
    verb: str | None = None
    #: Metadata of the call, from headers of the same names; `Route.read` may add to it.
    metadata: list[tuple[str, str]] = field(default_factory=list)
    #: Fields that the request gave under other names; used as `Route.renames`, and before those.
    renames: list[tuple[str, str]] = field(default_factory=list)
    #: Trailing metadata of the verb, for `Route.write` to show.
    said: tuple[tuple[str, str], ...] = ()
    #: About the answer: enums as numbers, and with line breaks.
    has_integer_enums: bool = False
    is_pretty: bool = False


#: Makes the verb's request, serialised. Raises InvalidArgument.
ReadRequest = Callable[[Asked], bytes]
#: Makes JSON values of the verb's serialised answer; None for an empty body.
WriteAnswer = Callable[[bytes, Asked], Json]
#: Answers by itself, instead of a verb, with an HTTP code and JSON values.
Handle = Callable[[Asked, Mapping[str, Unary], Call], Awaitable[tuple[int, Json]]]


def _read_nothing(_: Asked) -> bytes:
    return b""


def _write_nothing(_: bytes, __: Asked) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An HTTP method on a path, and the verb that serves it."""

    http: str
    #: Such as `/v1/{topic=projects/*/topics/*}:publish`.
    path: str
    #: Such as `Publisher.Publish`.
    method: str
    read: ReadRequest = _read_nothing
    write: WriteAnswer = _write_nothing
    #: HTTP code when all is well.
    status: int = 200
    #: JSON Schema of the body; None for none.
    takes: JsonSchema | None = None
    #: JSON Schema of the answer; None for none.
    gives: JsonSchema | None = None
    #: JSON Schema of the query parameters.
    parameters: Mapping[str, JsonSchema] = field(default_factory=dict)
    #: Answers instead of `read`, the verb and `write`.
    handle: Handle | None = None
    #: JSON Schema of the body by media type, where it is another than `application/json`.
    bodies: Mapping[str, JsonSchema] = field(default_factory=dict)
    #: HTTP codes of the answer besides `status`, with their meaning.
    also: Mapping[int, str] = field(default_factory=dict)
    #: Whether the verb may wait long: then it ends when its caller goes away.
    waits: bool = False
    #: Names of fields in the verb's refusals, each with the field's name in this form.
    renames: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _PathNode:
    words: dict[str, _PathNode] = field(default_factory=dict)
    variable: _PathNode | None = None
    #: By custom verb, then HTTP method: the route, and which segments make which variable.
    ends: dict[str, dict[str, Route]] = field(default_factory=dict)


_VARIABLE = re.compile(r"\{([^=}]+)=([^}]+)\}")


class Router:
    """The routes as a tree."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _PathNode()
        self._spans: dict[str, dict[str, tuple[int, int]]] = {}
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        segments, verb, spans = parse_template(route.path)
        node = self._root
        for segment in segments:
            if segment == "*":
                assert not node.words, route.path
                node.variable = node = node.variable or _PathNode()
            else:
                assert node.variable is None, route.path
                node = node.words.setdefault(segment, _PathNode())
        methods = node.ends.setdefault(verb, {})
        assert route.http not in methods, route
        methods[route.http] = route
        self._spans[route.path] = spans

    def find(self, http: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """The route of a request, and its variables.

        Raises:
            RouteNotFound: There is nothing at the path.
            MethodNotAllowed: There is, for other HTTP methods.
            InvalidArgument: The path is not UTF-8.
        """
        segments = [_decoded(segment) for segment in raw_path.split(b"/")[1:]]
        last, colon, verb = segments[-1].partition(":")
        if colon:
            segments[-1] = last
        node = self._root
        for segment in segments:
            below = node.words.get(segment) or (node.variable if segment else None)
            if below is None:
                raise _not_found(raw_path)
            node = below
        methods = node.ends.get(colon + verb)
        if methods is None:
            raise _not_found(raw_path)
        route = methods.get(http)
        if route is None:
            allowed = ", ".join(sorted(methods))
            raise MethodNotAllowed(
                f"{_shown(raw_path)} takes {allowed}, not {names.shown(http)}", allowed
            )
        spans = self._spans[route.path]
        return route, {of: "/".join(segments[i:j]) for of, (i, j) in spans.items()}


def parse_template(path: str) -> tuple[list[str], str, dict[str, tuple[int, int]]]:
    """Segments with `*` for variables, the custom verb with its colon, and where variables lie."""
    spans: dict[str, tuple[int, int]] = {}

    def plain(found: re.Match[str]) -> str:
        start = path[: found.start()].count("/") - 1
        spans[found[1]] = (start, start + found[2].count("/") + 1)
        return found[2]

    # Only the first variable of a path may have slashes, so counting before it is enough.
    flat, colon, verb = _VARIABLE.sub(plain, path).partition(":")
    return flat.split("/")[1:], colon + verb, spans


def _decoded(segment: bytes) -> str:
    try:
        text = segment.decode("ascii")
        return unquote(text, errors="strict") if "%" in text else text
    except UnicodeDecodeError as error:
        raise InvalidArgument("the path is not UTF-8 with percent signs") from error


def _not_found(raw_path: bytes) -> RouteNotFound:
    return RouteNotFound(f"nothing is served at {_shown(raw_path)}; /openapi.json has what is")


def _shown(raw_path: bytes) -> str:
    return names.shown(raw_path.decode("ascii", "backslashreplace"))
