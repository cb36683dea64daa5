"""Every unary verb and every REST route under a budget: of steps, and of memory.

A request is a head, a part so many times over, and a tail: a few bytes of input make a large
request, as they would in the hands of somebody who looks for what multiplies. A step is a call of a
function, in Python or of a library; the budget grows with the request, slowly. An input that needs
more stalls the loop that all callers share, and is a finding; so is an answer that blames us.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType
from typing import Any, NoReturn

import grpc
import orjson

from fanlog.config import Config
from fanlog.server.http_api import rest_app, rest_routes
from fanlog.server.rest.route import Route
from fanlog.server.services import SERVICES
from fanlog.transport.statuses import Status
from fanlog.wire.encode import field
from fuzz.bounds import Target
from fuzz.draw import Draw
from fuzz.world import CODES, Aborted, Context, World

#: Of one request: so many for any, and so many for each of its bytes. Most take a thousand.
STEPS_MAX = 60_000
STEPS_PER_BYTE = 2
#: A request is cut here. Larger parts of some are read in a thread, for which no time passes here.
REQUEST_BYTES_MAX = 512 * 1024
INLINE_BYTES_MAX = 60 * 1024
THREADED = frozenset({"Reopen"})
CALLS_MAX = 4

#: Answers of a broker that is at fault.
FAULTS = frozenset({grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS})
_VARIABLE = re.compile(r"\{([^=}]+)=([^}]+)\}")


class Stalled(BaseException):
    """A request took too many steps. Not an Exception: nobody's `except` may swallow it."""


class Caller(Context):
    """A caller that takes any answer but a fault."""

    def end(self, status: Status, cause: Exception) -> NoReturn:
        self.status = CODES[status.code]
        assert self.status not in FAULTS, f"{self.status.name}: {status.message}"
        assert status.message
        raise Aborted(status.message)

    def set_trailing_metadata(self, _: Any) -> None:
        pass


@contextmanager
def budget(size: int) -> Iterator[None]:
    """Let whatever happens within take so many steps as a request of `size` bytes may."""
    allowed = STEPS_MAX + STEPS_PER_BYTE * size
    left = allowed

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        if event in ("call", "c_call"):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise Stalled(f"more than {allowed} steps for a request of {size} bytes")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


@cache
def verbs() -> tuple[tuple[str, str], ...]:
    """Service and name of every unary verb; a seed names one by its place here."""
    found = [(service.name, method.name) for service in SERVICES for method in service.methods]
    return tuple(sorted(found))


@cache
def routes() -> tuple[Route, ...]:
    """Every route under `/v1`; a seed names one by its place here."""
    found = [route for form in rest_routes().values() for route in form]
    return tuple(sorted(found, key=lambda route: (route.path, route.http)))


def multiplied(draw: Draw, most: int) -> bytes:
    """A head, a part so many times, in a field of its own or not, and a tail."""
    head, part, tail = draw.chunk(), draw.chunk(), draw.chunk()
    count = draw.number(2)
    tags = draw.chunk()[:4]
    room = max(0, most - len(head) - len(tail) - 8 * len(tags))
    body = part * min(count, room // max(1, len(part)))
    # From the inside out: each is a message within the next.
    for tag in tags:
        body = field(bytes((tag & 0x7F,)), body)
    return (head + body + tail)[:most]


def every_verb(data: bytes) -> None:
    """Any bytes to any verb, as large as they multiply to."""
    known = verbs()

    async def story(world: World) -> None:
        draw = Draw(data)
        for _ in range(CALLS_MAX):
            if draw.is_empty:
                return
            service, method = known[draw.below(len(known))]
            most = INLINE_BYTES_MAX if method in THREADED else REQUEST_BYTES_MAX
            raw = multiplied(draw, most)
            unary, caller = world.methods[f"/{service}/{method}"].unary, Caller()
            assert unary is not None
            with budget(len(raw)), suppress(Aborted):
                await world.finish(caller.serve(unary(raw, caller)))

    World.run(story)


def every_route(data: bytes) -> None:
    """Any body, query and names to any route, as large as they multiply to."""

    async def story(world: World) -> None:
        draw = Draw(data)
        app = rest_app(world.broker, Config(memory=True))
        for _ in range(CALLS_MAX):
            if draw.is_empty:
                return
            route = routes()[draw.below(len(routes()))]
            path = _VARIABLE.sub(lambda found, draw=draw: _filled(draw, found[2]), route.path)
            query = draw.chunk()
            body = multiplied(draw, REQUEST_BYTES_MAX)
            media = draw.pick(MEDIA_TYPES)
            await _ask(world, app, route.http, path.encode(), query, body, media)

    World.run(story)


MEDIA_TYPES = (
    b"application/json",
    b"application/cloudevents+json",
    b"application/cloudevents-batch+json",
    b"text/plain",
)


def _filled(draw: Draw, template: str) -> str:
    """A path's variable: `projects/*/topics/*` with names that exist, or any."""
    names = {"projects": "test", "topics": "orders", "subscriptions": "plain"}
    before = ""
    made = []
    for part in template.split("/"):
        if part != "*":
            made.append(part)
        elif draw.flag():
            made.append(draw.chunk().hex() or "%")
        else:
            made.append(names.get(before, "monday"))
        before = part
    return "/".join(made)


async def _ask(
    world: World, app: Any, method: str, path: bytes, query: bytes, body: bytes, media: bytes
) -> None:
    sent: list[Any] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        sent.append(event)

    scope = {
        "type": "http",
        "method": method,
        "raw_path": path,
        "query_string": query,
        "headers": [(b"content-type", media)],
    }
    with budget(len(body)):
        await world.finish(app(scope, receive, send))
    if not sent:
        # The caller did not wait for an answer that was not there yet.
        return
    start, content = sent
    assert start["status"] != 500, content
    if start["status"] >= 400 and content["body"]:
        assert orjson.loads(content["body"])["error"]["message"]


TARGETS = (
    Target(name="every_verb", run=every_verb, memory_max=32 * 1024 * 1024, seconds_max=8.0),
    Target(name="every_route", run=every_route, memory_max=32 * 1024 * 1024, seconds_max=8.0),
)
