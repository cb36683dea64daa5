"""CloudEvents come in: `POST /v1/events`, and `/v1/projects/{project}/events`.

Each event is a publish of its own, so that one that is refused keeps no other out; those that come
together are committed together all the same. Where the server is told so, the first event of a type
makes its topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from fanlog import limits
from fanlog.config import Config
from fanlog.errors import (
    AlreadyExists,
    FanlogError,
    InvalidArgument,
    TooLarge,
    TopicNotFound,
    UnsupportedMediaType,
)
from fanlog.model import names
from fanlog.model.json_value import Json, JsonObject
from fanlog.server.calls import Call, Unary
from fanlog.server.gate import Gate
from fanlog.server.rest import errors, json_weight
from fanlog.server.rest.json_schema import STRING, JsonSchema, array, record
from fanlog.server.rest.route import Asked, Route
from fanlog.wire import cloud_events, types
from fanlog.wire.cloud_events import CloudEvent

_EVENT: JsonSchema = {
    "type": "object",
    "description": "A CloudEvent 1.0; extensions are members like any other.",
    "properties": {
        "specversion": {"const": "1.0"},
        "id": STRING | {"minLength": 1},
        "source": STRING | {"minLength": 1},
        "type": STRING | {"minLength": 1},
        "time": STRING | {"format": "date-time"},
        "data_base64": STRING,
    },
    "required": ["specversion", "id", "source", "type"],
}
_REJECTED = record(
    {"index": {"type": "integer"}, "id": STRING, "source": STRING, "error": {"type": "object"}},
    "index",
    "error",
)
_ACCEPTED = record(
    {
        "message_ids": array({"type": ["string", "null"]}),
        "rejected": array(_REJECTED),
    },
    "message_ids",
    "rejected",
)
#: Not every event of a batch was published: the answer says which, and why.
PARTLY = 207


def routes() -> list[Route]:
    return [_route("/v1/events"), _route("/v1/{project=projects/*}/events")]


def event_verbs(
    verbs: Mapping[str, Unary], config: Config, gate: Gate | None = None
) -> dict[str, Unary]:
    """`Events.Publish`: a publish that makes the topic, where that is allowed.

    `Events.Begin` finds out who calls, once for all events of a request: each of a thousand would
    count as a failure of its own.
    """

    async def begin(_: bytes, call: Call) -> bytes:
        if gate is not None:
            await gate.identify(call, "google.pubsub.v1.Publisher.Publish")
        return b""

    async def publish(raw: bytes, call: Call) -> bytes:
        try:
            return await verbs["Publisher.Publish"](raw, call)
        except TopicNotFound as missing:
            topic = types.PublishRequest.FromString(raw).topic
            project = names.parse_topic(topic).project
            if not config.makes_event_topics(project):
                raise TopicNotFound(
                    f"{missing.message}, and an event makes none in project {project!r} "
                    "(event_topics); create it first"
                ) from missing
        # Another one may have come at the same time, and made it.
        with suppress(AlreadyExists):
            await verbs["Publisher.CreateTopic"](types.Topic(name=topic).SerializeToString(), call)
        return await verbs["Publisher.Publish"](raw, call)

    return {"Events.Begin": begin, "Events.Publish": publish}


def _route(path: str) -> Route:
    return Route(
        http="POST",
        path=path,
        method="Events.Publish",
        handle=_publish,
        takes=_EVENT,
        gives=_ACCEPTED,
        also={
            PARTLY: "Not every event of the batch was published; `rejected` says which, and why."
        },
        bodies={cloud_events.STRUCTURED: _EVENT, cloud_events.BATCH: array(_EVENT, minItems=1)},
    )


async def _publish(asked: Asked, verbs: Mapping[str, Unary], call: Call) -> tuple[int, Json]:
    await verbs["Events.Begin"](b"", call)
    project = asked.variables.get("project")
    if project is not None:
        asked.project = names.parse_project(project)
    if asked.query:
        raise InvalidArgument(f"{names.shown(asked.query[0][0])}: no such parameter here")
    events = _read(asked)
    publish = verbs["Events.Publish"]
    answers = await asyncio.gather(*(_one(event, asked.project, publish, call) for event in events))
    rejected = [
        _rejection(index, read, answer)
        for index, (read, answer) in enumerate(zip(_shown(asked), answers, strict=False))
        if isinstance(answer, FanlogError)
    ]
    if len(answers) == 1 and isinstance(answers[0], FanlogError):
        raise answers[0]
    message_ids = [None if isinstance(answer, FanlogError) else answer for answer in answers]
    return PARTLY if rejected else 200, {"message_ids": message_ids, "rejected": rejected}


async def _one(
    read: Callable[[], CloudEvent], project: str, publish: Unary, call: Call
) -> str | FanlogError:
    """Publish an event; its message id, or why not."""
    try:
        request = read().publish_request(project)
        raw = await publish(request.SerializeToString(), call)
    except FanlogError as error:
        return error
    return str(types.PublishResponse.FromString(raw).message_ids[0])


def _read(asked: Asked) -> list[Callable[[], CloudEvent]]:
    """The events of a request, each to be read, or refused, by itself."""
    match cloud_events.media_type_of(asked.headers):
        case cloud_events.BATCH:
            batch = json_weight.loads(asked.content)
            if not isinstance(batch, list) or not batch:
                raise InvalidArgument("the body: a batch is an array of at least one event")
            if len(batch) > limits.PUBLISH_MESSAGES_MAX:
                raise TooLarge(
                    f"the batch has {len(batch)} events; "
                    f"at most {limits.PUBLISH_MESSAGES_MAX} are allowed"
                )
            asked.body = batch
            return [partial(cloud_events.read_structured, event) for event in batch]
        case cloud_events.STRUCTURED:
            event = json_weight.loads(asked.content)
            return [partial(cloud_events.read_structured, event)]
        case other:
            if b"ce-specversion" not in asked.headers:
                raise UnsupportedMediaType(
                    f"content-type: {other or 'none'} without ce- headers is no CloudEvent; send "
                    f"{cloud_events.STRUCTURED}, {cloud_events.BATCH}, or ce- headers"
                )
            return [partial(cloud_events.read_binary, asked.headers, asked.content)]


def _shown(asked: Asked) -> Sequence[Json]:
    """The events as they came, for the answer to name them."""
    return asked.body if isinstance(asked.body, list) else [{}]


def _rejection(index: int, event: Json, error: FanlogError) -> JsonObject:
    named = event if isinstance(event, dict) else {}
    found = {name: named[name] for name in ("id", "source") if isinstance(named.get(name), str)}
    return {"index": index, **found, **errors.described(error)[1]}
