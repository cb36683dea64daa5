"""Messages of bodies and batches read, and bodies made with attributes added to each message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fanlog.log.batch import Batch, Body
from fanlog.model.attributes import DEDUP_ID
from fanlog.wire import types
from fanlog.wire.encode import message_field
from fanlog.wire.publish import build_body, parse_publish
from fanlog.wire.topic_order import keyed

__all__ = [
    "attributed",
    "body",
    "dedup_ids",
    "keyed",
    "payloads",
    "stored",
    "written",
]

#: The name of a topic takes no part in the check of messages.
_ANY_TOPIC = "projects/any/topics/any"


def payloads(body: Body, first: int, end: int) -> list[bytes]:
    """The data of the messages from index `first` to before `end`."""
    content = body.content[body.starts[first] : body.starts[end]]
    # The content of a body is a run of `messages` fields of a PublishRequest.
    return [message.data for message in types.PublishRequest.FromString(content).messages]


def dedup_ids(body: Body) -> list[str] | None:
    """The dedup id of each message, empty for none; None when no message has one."""
    # Looked for in the bytes first: hardly a message has one.
    if DEDUP_ID.encode() not in body.content:
        return None
    messages = types.PublishRequest.FromString(body.content).messages
    found = [message.attributes.get(DEDUP_ID, "") for message in messages]
    return found if any(found) else None


def stored(batch: Batch, first: int, end: int) -> list[tuple[bytes, Mapping[str, str], str]]:
    """Data, own attributes and ordering key of the messages at some indexes of a batch."""
    content = batch.content[batch.starts[first] : batch.starts[end]]
    messages = types.PublishRequest.FromString(content).messages
    return [(one.data, dict(one.attributes), one.ordering_key) for one in messages]


def written(data: bytes, attributes: Mapping[str, str], ordering_key: str) -> bytes:
    """Such a message as it stands in the content of a batch."""
    return message_field(data, attributes, ordering_key)


def body(data: bytes, attributes: Mapping[str, str], ordering_key: str) -> Body:
    """A body of such a message, checked as a caller's is; raises InvalidArgument."""
    message = types.PubsubMessage(data=data, attributes=attributes, ordering_key=ordering_key)
    request = types.PublishRequest(topic=_ANY_TOPIC, messages=[message])
    return parse_publish(request.SerializeToString()).body


def attributed(body: Body, added: Sequence[Mapping[str, str]]) -> Body:
    """A body of the same messages, each with attributes of its own added."""
    messages = types.PublishRequest.FromString(body.content).messages
    return build_body(
        (message.data, {**message.attributes, **body.attributes, **more}, message.ordering_key)
        for message, more in zip(messages, added, strict=True)
    )
