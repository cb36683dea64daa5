"""The ASGI application of REST: read the request, call the verb, write the answer.

It shares its loop with gRPC and does nothing that blocks. Starlette's request and response objects
are left out: on this path they would cost as much as the work itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from urllib.parse import parse_qsl

import orjson
from starlette.types import Receive, Scope, Send

from fanlog import limits
from fanlog.errors import FanlogError, Internal, InvalidArgument, TooLarge, UnsupportedMediaType
from fanlog.model import attributes
from fanlog.model.json_value import Json
from fanlog.model.spans import TRACEPARENT
from fanlog.server.calls import EVERYBODY, Caller, Certificate, Unary
from fanlog.server.http_callers import (
    address_of,
    authorization_of,
    certificate_of,
    connection_of,
)
from fanlog.server.rest import errors, json_weight
from fanlog.server.rest.facts import Facts
from fanlog.server.rest.route import Asked, Route, Router
from fanlog.server.services import LARGE
from fanlog.transport.lifetime import Lifetime

#: Headers that begin so are metadata of the call, as gRPC has it: ours, and the context of a trace.
_OWN = (attributes.PREFIX.encode(), TRACEPARENT.encode())

log = logging.getLogger("fanlog.rest")

#: Stands for the code of a request whose caller left before it was answered.
_LEFT = 499
_JSON = (b"content-type", b"application/json")
_PARAMETERS_MAX = 100
_LENGTH_DIGITS_MAX = 20
#: Of methods that carry neither messages nor ack ids; as JSON their requests are a little larger.
JSON_BYTES_MAX = limits.REQUEST_BYTES_MAX * 4 // 3
_WITH_BODY = ("POST", "PUT", "PATCH")
#: A larger body is read in a thread: 10 MB of base64 take a tenth of a second, this a fiftieth.
_LARGE_BYTES = 2 * 1024 * 1024
#: A caller's own patience in seconds, as Google's clients say it.
_TIMEOUT_HEADER = b"x-server-timeout"


#: Methods whose requests may be large, that of CloudEvents among them.
_LARGE = LARGE | {"Events.Publish"}


class Gone(Exception):
    """The caller went away before its request was read or answered."""


class RestCall:
    """The call of a verb over REST; see `calls.Call`."""

    __slots__ = ("_asked", "_scope", "caller", "ended", "metadata", "timeout_s")

    def __init__(self, asked: Asked, timeout_s: float | None, scope: Scope) -> None:
        self._asked = asked
        self._scope = scope
        self.caller: Caller = EVERYBODY
        self.timeout_s = timeout_s
        self.metadata: tuple[tuple[str, str], ...] = ()
        #: The error that ends the call, where its verb may wait.
        self.ended: asyncio.Future[Exception] | None = None

    def end_with(self, error: Exception) -> None:
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(error)

    @property
    def authorization(self) -> str:
        return authorization_of(self._scope["headers"])

    @property
    def address(self) -> str:
        return address_of(self._scope)

    @property
    def certificate(self) -> Certificate | None:
        return certificate_of(self._scope)

    @property
    def connection(self) -> Lifetime | None:
        return connection_of(self._scope)

    def time_remaining(self) -> float | None:
        return self.timeout_s

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return self._asked.metadata

    def set_trailing_metadata(
        self, trailing_metadata: Iterable[tuple[str, str | bytes]], /
    ) -> None:
        # Only text can be a header; verbs have no other metadata.
        self.metadata = tuple((k, v) for k, v in trailing_metadata if isinstance(v, str))


class RestApp:
    """All routes under `/v1`, each in front of its verb."""

    def __init__(
        self,
        router: Router,
        verbs: Mapping[str, Unary],
        *,
        project: str,
        bytes_max: int,
        facts: Facts | None,
        answered: Counter[tuple[str, int]],
    ) -> None:
        """`answered` counts requests, by method and code."""
        self._router = router
        self._verbs = verbs
        self._project = project
        self._bytes_max = bytes_max
        self._facts = facts
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = ""
        try:
            route, variables = self._router.find(scope["method"], scope["raw_path"])
            method = route.method
            code, headers, body = await self._answer(route, variables, scope, receive)
        except Gone:
            self._answered[method, _LEFT] += 1
            return
        except Exception as error:
            code, headers, body = failed(error)
        self._answered[method, code] += 1
        if body or code != 204:
            headers = [_JSON, (b"content-length", b"%d" % len(body)), *headers]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, route: Route, variables: dict[str, str], scope: Scope, receive: Receive
    ) -> tuple[int, errors.Headers, bytes]:
        headers = dict(scope["headers"])
        content = await self._read_body(headers, receive, self._bound_of(route))
        asked = Asked(
            variables=variables,
            query=_query(scope["query_string"]),
            body={},
            project=self._project,
            facts=self._facts,
            headers=headers,
            metadata=_metadata(scope["headers"]),
        )
        call = RestCall(asked, _timeout_s(headers), scope)
        if route.handle is not None:
            asked.content = content
            code, found = await route.handle(asked, self._verbs, call)
            return code, [], orjson.dumps(found)
        try:
            if len(content) <= _LARGE_BYTES:
                request = _read(route, asked, content)
            else:
                request = await asyncio.to_thread(_read, route, asked, content)
            work = self._verbs[asked.verb or route.method](request, call)
            raw = await (_while_there(work, receive, call) if route.waits else work)
        except FanlogError as error:
            error.message = _renamed(error.message, (*asked.renames, *route.renames))
            raise
        asked.said = call.metadata
        said = [(key.encode(), _header_value(value)) for key, value in call.metadata]
        if route.status == 204:
            return 204, said, b""
        options = orjson.OPT_INDENT_2 if asked.is_pretty else 0
        return route.status, said, orjson.dumps(route.write(raw, asked), option=options)

    def _bound_of(self, route: Route) -> int:
        """The most bytes of a body: the server's bound, or a lower one for small requests."""
        return self._bytes_max if route.method in _LARGE else min(self._bytes_max, JSON_BYTES_MAX)

    async def _read_body(
        self, headers: Mapping[bytes, bytes], receive: Receive, most: int
    ) -> bytes:
        length = headers.get(b"content-length", b"0")
        # More digits than any number of bytes has: `int` would fail on very many.
        if length.isdigit() and (len(length) > _LENGTH_DIGITS_MAX or int(length) > most):
            raise self._too_large(most)
        parts: list[bytes] = []
        size = 0
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Gone
            part = event.get("body", b"")
            size += len(part)
            if size > most:
                raise self._too_large(most)
            parts.append(part)
            if not event.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def _too_large(self, most: int) -> TooLarge:
        takes = "this server takes (http_max_bytes)"
        which = takes if most == self._bytes_max else "this method takes"
        return TooLarge(f"the body has more than {most} bytes, the most {which}")


def failed(error: Exception) -> tuple[int, errors.Headers, bytes]:
    """The answer to a request that failed; an error that is none of the caller's is logged."""
    if not isinstance(error, FanlogError):
        log.error("action=call_failed; the call ends with INTERNAL", exc_info=error)
        error = Internal("an unexpected error; the broker's log says more")
    return errors.answer(error)


def _metadata(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Metadata of the call: the headers that have the names of gRPC's metadata."""
    return [
        (key.decode("latin-1"), value.decode("utf-8", "replace"))
        for key, value in headers
        if key.startswith(_OWN)
    ]


def _read(route: Route, asked: Asked, content: bytes) -> bytes:
    asked.body = _parsed(route, asked.headers, content)
    return route.read(asked)


def _parsed(route: Route, headers: Mapping[bytes, bytes], content: bytes) -> Json:
    if not content:
        # A form that says nothing is a form all the same.
        if route.http in _WITH_BODY and b"content-type" in headers:
            _check_media_type(headers)
        return {}
    if route.takes is None and content.strip() != b"{}":
        raise InvalidArgument(f"the body: {route.http} takes none here; leave it out")
    _check_media_type(headers)
    return json_weight.loads(content)


def _check_media_type(headers: Mapping[bytes, bytes]) -> None:
    # A browser sends other types to any address without asking first; JSON it asks about.
    given = headers.get(b"content-type", b"").decode("latin-1")
    media_type, _, parameters = given.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if media_type.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise UnsupportedMediaType(
            f"content-type: must be application/json in UTF-8, not {given[:80]!r}"
        )
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
    if encoding.lower() != "identity":
        raise UnsupportedMediaType(f"content-encoding: {encoding[:80]!r} is not supported")


def _renamed(message: str, renames: Iterable[tuple[str, str]]) -> str:
    for name, here in renames:
        if message.startswith(name):
            return here + message.removeprefix(name)
    return message


def _query(query_string: bytes) -> list[tuple[str, str]]:
    if not query_string:
        return []
    try:
        return parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_PARAMETERS_MAX,
        )
    except ValueError as error:
        raise InvalidArgument(
            f"the query is not UTF-8, or has more than {_PARAMETERS_MAX} parameters"
        ) from error


def _timeout_s(headers: Mapping[bytes, bytes]) -> float | None:
    text = headers.get(_TIMEOUT_HEADER)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise InvalidArgument(
            f"{_TIMEOUT_HEADER.decode()}: must be seconds, 0 to 3600, not {text[:40]!r}"
        )
    return seconds


async def _while_there(work: Awaitable[bytes], receive: Receive, call: RestCall) -> bytes:
    """Await an answer as long as its caller is there to get it, and may."""
    ended = call.ended = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((task, gone, ended), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise ended.result()
        if not task.done():
            raise Gone
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _header_value(text: str) -> bytes:
    return text.encode("ascii", "backslashreplace").replace(b"\n", b" ").replace(b"\r", b" ")
