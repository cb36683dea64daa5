"""HTTP requests through the REST application, on a broker in memory: see `fuzz.world`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from fanlog.config import Config
from fanlog.server.http_api import rest_app
from fuzz.bounds import Target
from fuzz.draw import Draw
from fuzz.targets.server import everything
from fuzz.world import SNAPSHOT, SUBSCRIPTIONS, TOPIC, World

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
#: Where a story's requests go; anything else is drawn.
PATHS = tuple(
    f"/v1/{path}"
    for path in (
        f"{TOPIC}:publish",
        f"{SUBSCRIPTIONS['plain']}:pull",
        f"{SUBSCRIPTIONS['once']}:acknowledge",
        f"{SUBSCRIPTIONS['ordered']}:modifyAckDeadline",
        f"{SUBSCRIPTIONS['plain']}:seek",
        f"{SUBSCRIPTIONS['plain']}:detach",
        f"{SUBSCRIPTIONS['plain']}:modifyPushConfig",
        TOPIC,
        SUBSCRIPTIONS["failing"],
        SNAPSHOT,
        "projects/test/topics",
        "projects/test/subscriptions",
        "projects/test/snapshots",
        f"{TOPIC}/subscriptions",
        "projects/test/topics/new",
        "projects/test/subscriptions/new",
        "projects/test/snapshots/new",
        "topics",
        "topics/orders",
        "topics/orders:publish",
        "subscriptions",
        "subscriptions/failing",
        "subscriptions/plain:pull",
        "subscriptions/plain:ack",
        "subscriptions/plain:nack",
        "subscriptions/plain:seek",
        "snapshots",
        f"{TOPIC}/publish",
        f"{SUBSCRIPTIONS['plain']}/pull",
        f"{SUBSCRIPTIONS['plain']}/seek",
        f"{SUBSCRIPTIONS['plain']}/snapshot",
    )
)
CALLS_MAX = 8
JSON = ((b"content-type", b"application/json"),)
#: What a broker that is well may answer.
CODES = frozenset({200, 201, 204, 207, 400, 404, 405, 409, 413, 415, 429, 501})


def rest(data: bytes) -> None:
    """Any HTTP requests in a row: JSON comes back, never a 500, and a refusal changes nothing."""

    async def story(world: World) -> None:
        app = rest_app(world.broker, Config(memory=True, project="test"))
        draw = Draw(data)
        for _ in range(CALLS_MAX):
            if draw.is_empty:
                return
            method = draw.pick(METHODS)
            place = draw.below(len(PATHS) + 1)
            path = PATHS[place].encode() if place < len(PATHS) else b"/" + draw.chunk()
            query, body = draw.chunk(), draw.chunk()
            await request(world, app, method, path, query, body)

    World.run(story)


async def request(
    world: World,
    app: Any,
    method: str,
    path: bytes,
    query: bytes,
    body: bytes,
    headers: Sequence[tuple[bytes, bytes]] = JSON,
) -> None:
    """One request; what comes back is JSON and known, and a refusal changes nothing."""
    await world.settle()
    before = everything(world)
    world.has_waited = False
    sent: list[Any] = []
    requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if requests:
            return requests.pop()
        # The caller stays as long as it takes.
        return await asyncio.get_running_loop().create_future()

    async def send(event: Any) -> None:
        sent.append(event)

    scope = {
        "type": "http",
        "method": method,
        "raw_path": path,
        "query_string": query,
        "headers": list(headers),
    }
    await world.finish(app(scope, receive, send))
    start, content = sent
    assert start["status"] in CODES, content
    answer = orjson.loads(content["body"]) if content["body"] else {}
    if start["status"] >= 400:
        assert answer["error"]["code"] == start["status"]
        assert answer["error"]["message"]
        if not world.has_waited:
            assert everything(world) == before, f"{method} {path!r} was refused and changed things"


TARGETS = (Target(name="rest", run=rest, memory_max=4 * 1024 * 1024),)
