"""CloudEvents in each mode, and the REST of schemas and policies, on a broker in memory."""

from __future__ import annotations

from typing import Any

from fanlog.config import Config
from fanlog.server.http_api import rest_app
from fuzz.bounds import Target
from fuzz.draw import Draw
from fuzz.targets.rest import CALLS_MAX, METHODS, request
from fuzz.world import SNAPSHOT, SUBSCRIPTIONS, TOPIC, World

EVENTS = ("/v1/events", "/v1/projects/test/events")
MEDIA_TYPES = (
    b"application/cloudevents+json",
    b"application/cloudevents-batch+json",
    b"application/json",
    b"application/cloudevents+json; charset=utf-8",
    b"text/plain",
)
#: Headers of binary mode that a story may set; each has a value drawn.
HEADERS = (b"id", b"source", b"type", b"specversion", b"time", b"subject", b"fanlogdedupid", b"x")

SCHEMA = "projects/test/schemas/shape"
#: Where requests about schemas, policies and the other forms go; anything else is drawn.
PATHS = tuple(
    f"/v1/{path}"
    for path in (
        "projects/test/schemas",
        "projects/test/schemas:validate",
        "projects/test/schemas:validateMessage",
        SCHEMA,
        f"{SCHEMA}:commit",
        f"{SCHEMA}:rollback",
        f"{SCHEMA}:deleteRevision",
        f"{SCHEMA}:listRevisions",
        f"{TOPIC}:publish",
        TOPIC,
        f"{TOPIC}:getIamPolicy",
        f"{TOPIC}:setIamPolicy",
        f"{TOPIC}:testIamPermissions",
        f"{SUBSCRIPTIONS['plain']}:setIamPolicy",
        f"{SNAPSHOT}:setIamPolicy",
        f"{SCHEMA}:setIamPolicy",
        "topics/orders:publish",
        "subscriptions",
        "subscriptions/failing:pull",
        "subscriptions/failing:nack",
        f"{SUBSCRIPTIONS['plain']}/acknowledge",
        f"{SUBSCRIPTIONS['plain']}/modifyAckDeadline",
    )
)


def _app(world: World) -> Any:
    return rest_app(world.broker, Config(memory=True, project="test"))


def events(data: bytes) -> None:
    """Events in any mode: published or refused with a sentence, and a refusal changes nothing."""

    async def story(world: World) -> None:
        app, draw = _app(world), Draw(data)
        for _ in range(CALLS_MAX):
            if draw.is_empty:
                return
            path = draw.pick(EVENTS).encode()
            headers = [(b"content-type", draw.pick(MEDIA_TYPES))]
            if draw.flag():
                # What is set is said in one byte, a bit for each.
                wanted = draw.number()
                headers += [
                    (b"ce-" + name, draw.chunk())
                    for bit, name in enumerate(HEADERS)
                    if wanted >> bit & 1
                ]
            await request(world, app, "POST", path, b"", draw.chunk(), headers)

    World.run(story)


def rest_resources(data: bytes) -> None:
    """As `rest`, of schemas, policies, and what the other forms have of their own."""

    async def story(world: World) -> None:
        app, draw = _app(world), Draw(data)
        for _ in range(CALLS_MAX):
            if draw.is_empty:
                return
            method = draw.pick(METHODS)
            place = draw.below(len(PATHS) + 1)
            path = PATHS[place].encode() if place < len(PATHS) else b"/v1/" + draw.chunk()
            query, body = draw.chunk(), draw.chunk()
            await request(world, app, method, path, query, body)

    World.run(story)


TARGETS = (
    Target(name="events", run=events, memory_max=4 * 1024 * 1024),
    Target(name="rest_resources", run=rest_resources, memory_max=8 * 1024 * 1024),
)
