"""What callers send: publish requests, and the small texts in other requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from fanlog import limits
from fanlog.core.ack_ids import PREFIX_LENGTH, AckIds
from fanlog.errors import InvalidArgument, OutOfRange, Unimplemented
from fanlog.log.batch import Batch
from fanlog.model import names
from fanlog.model.ids import message_id, parse_message_id
from fanlog.model.resources import (
    DeadLetterPolicy,
    PartitionId,
    RetryPolicy,
    Snapshot,
    SnapshotId,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)
from fanlog.wire import fields as wire_fields
from fanlog.wire import paging, resources, types
from fanlog.wire.encode import field
from fanlog.wire.forward import compose
from fanlog.wire.frame import frame_overhead, frame_received
from fanlog.wire.publish import (
    key_hash,
    parse_publish,
    publish_response,
)
from fuzz.bounds import Target, refusal
from fuzz.draw import Draw

TOPIC = "projects/p/topics/orders"
SUBSCRIPTION = "projects/p/subscriptions/billing"
SNAPSHOT = "projects/p/snapshots/monday"
HEAD = field(b"\x0a", TOPIC.encode())
SECRET = b"a secret of ours"


def publish(data: bytes) -> None:
    """Refused with InvalidArgument, or a body that protobuf reads as the same messages."""
    draw = Draw(data)
    mode, rest = draw.below(3), draw.rest()
    raw = (rest, HEAD + rest, HEAD + field(b"\x12", rest))[mode]
    try:
        found = parse_publish(raw)
    except (InvalidArgument, Unimplemented) as error:
        refusal(error)
        return
    request = types.PublishRequest.FromString(raw)
    body = found.body
    assert found.topic == request.topic
    assert str(names.parse_topic(found.topic)) == found.topic
    assert 0 < body.count <= limits.PUBLISH_MESSAGES_MAX
    assert (body.starts[0], body.starts[-1]) == (0, len(body.content))
    stored = []
    for begin, end in zip(body.starts[:-1], body.starts[1:], strict=True):
        (message,) = types.PublishRequest.FromString(body.content[begin:end]).messages
        wire_fields.refuse_unknown(message)
        assert not message.message_id
        assert not message.HasField("publish_time")
        stored.append(_kept(message))
    assert stored == [_kept(message) for message in request.messages]
    hashes = [key_hash(message.ordering_key) for message in request.messages]
    assert list(body.key_hashes or [0] * body.count) == hashes
    _check_frames(_batch(body, base_offset=998), range(body.count), 0, {}, request.messages)


def frames(data: bytes) -> None:
    """Any messages of any batch, framed: protobuf reads back what the batch says."""
    draw = Draw(data)
    base_offset = draw.below(10**12 - 1_000, 6)
    partition, time_ns = 1 + draw.number(4), draw.number(8)
    attempt, attributes = draw.below(120), {}
    for _ in range(draw.below(3)):
        attributes[draw.text()] = draw.text()
    indexes = [draw.number() for _ in range(draw.below(6))]
    attempts = {base_offset + draw.below(4): draw.below(120) for _ in range(draw.below(3))}
    try:
        published = parse_publish(HEAD + draw.rest())
    except InvalidArgument:
        return
    body = published.body
    batch = _batch(
        body,
        base_offset=base_offset,
        partition=partition,
        publish_time_ns=time_ns,
        attributes=attributes,
    )
    chosen = [index % body.count for index in indexes] if indexes else range(body.count)
    messages = types.PublishRequest.FromString(body.content).messages
    _check_frames(batch, chosen, attempt, attempts, messages)
    letters = compose([(batch, index, {"why": "x"}) for index in chosen])
    copies = types.PublishRequest.FromString(letters.content).messages
    for index, copied in zip(chosen, copies, strict=True):
        expected = {**messages[index].attributes, **attributes, "why": "x"}
        assert _kept(copied) == (messages[index].data, expected, messages[index].ordering_key)
    answer = types.PublishResponse.FromString(publish_response(partition, base_offset, body.count))
    assert list(answer.message_ids) == [
        message_id(partition, base_offset + index) for index in range(body.count)
    ]


def _kept(message: Any) -> tuple[bytes, dict[str, str], str]:
    return message.data, dict(message.attributes), message.ordering_key


def _batch(
    body: Any,
    *,
    base_offset: int,
    partition: int = 7,
    publish_time_ns: int = 1_700_000_000_123_456_789,
    attributes: dict[str, str] | None = None,
) -> Batch:
    return Batch(
        topic=1,
        partition=PartitionId(partition),
        base_offset=base_offset,
        sequence=1,
        publish_time_ns=publish_time_ns,
        starts=body.starts,
        key_hashes=body.key_hashes,
        attributes=attributes or {},
        content=body.content,
    )


def _check_frames(
    batch: Batch, indexes: Any, attempt: int, attempts: dict[int, int], messages: Any
) -> None:
    framed = frame_received(batch, indexes, b"prefix.", attempt=attempt, attempts=attempts)
    found = types.PullResponse.FromString(framed).received_messages
    assert len(found) == len(indexes)
    stored_bytes = 0
    for index, received in zip(indexes, found, strict=True):
        offset = batch.base_offset + index
        message = received.message
        assert received.ack_id == f"prefix.{offset:012x}"
        assert received.delivery_attempt == attempts.get(offset, attempt)
        assert message.data == messages[index].data
        assert dict(message.attributes) == {**messages[index].attributes, **batch.attributes}
        assert message.ordering_key == messages[index].ordering_key
        assert parse_message_id(message.message_id) == (batch.partition, offset)
        time = message.publish_time
        assert time.seconds * 10**9 + time.nanos == batch.publish_time_ns
        stored_bytes += batch.starts[index + 1] - batch.starts[index]
    assert len(framed) <= stored_bytes + len(indexes) * frame_overhead(batch, b"prefix.")


def ack_ids(data: bytes) -> None:
    """Every id is sorted into one heap, and those that are ours say what they said."""
    ids, draw = AckIds(lambda _: SECRET), Draw(data)
    subscription = draw.number(2)
    texts = []
    while not draw.is_empty:
        match draw.below(3):
            case 0:
                texts.append(draw.text())
            case 1:
                # Ours in front; the offset, which no tag covers, is anything.
                texts.append(ids.prefix(draw.number(2), draw.number(4), draw.number(8)))
                texts[-1] += draw.text()
            case _:
                prefix = ids.prefix(draw.number(2), draw.number(4), draw.number(8))
                texts.append(f"{prefix}{draw.number(6):012x}")
    parsed = ids.parse(subscription, texts)
    read = [
        f"{ids.prefix(subscription, partition, generation)}{offset:012x}"
        for partition, by_generation in parsed.offsets.items()
        for generation, offsets in by_generation.items()
        for offset in offsets
    ]
    assert sorted([*read, *parsed.foreign, *parsed.malformed]) == sorted(texts)
    assert all(
        text[:PREFIX_LENGTH] != ids.prefix(subscription, 1, 1) or len(text) != 52
        for text in parsed.foreign
    )


def a_message_id(data: bytes) -> None:
    """Refused with InvalidArgument, or the one way to write that id."""
    text = data.decode("utf-8", "replace")
    try:
        partition, offset = parse_message_id(text)
    except InvalidArgument as error:
        refusal(error)
        return
    assert message_id(partition, offset) == text


def page_token(data: bytes) -> None:
    """Refused with InvalidArgument, or a place in this very list."""
    draw = Draw(data)
    size = draw.number(4) - 2**31
    scope, mode, text = draw.text(), draw.below(2), draw.rest().decode("utf-8", "replace")
    token = text
    if mode and text:
        first = paging.Page(scope=scope, size=1)
        _, token = first.cut([text, "later"], str)
    try:
        page = paging.parse_page(scope, size, token)
    except InvalidArgument as error:
        refusal(error)
        return
    assert 0 < page.size <= limits.PAGE_SIZE_MAX
    assert bool(page.after) == bool(token)
    shown, again = page.cut([page.after or "x"] * (page.size + 1), str)
    assert len(shown) == page.size
    if page.after:
        assert paging.parse_page(scope, size, again).after == page.after


def resource_names(data: bytes) -> None:
    """Refused with InvalidArgument, or written as it was read."""
    text = data.decode("utf-8", "replace")
    parsers: list[Callable[[str], object]] = [
        names.parse_topic,
        names.parse_subscription,
        names.parse_snapshot,
    ]
    for parse in parsers:
        try:
            found = parse(text)
        except InvalidArgument as error:
            refusal(error)
        else:
            assert str(found) == text
            assert names.project_of(text) == found.project  # type: ignore[attr-defined]
    try:
        project = names.parse_project(text)
    except InvalidArgument as error:
        refusal(error)
    else:
        assert names.project_name(project) == text
    try:
        letters = names.dead_letter_topic_of(text)
    except InvalidArgument as error:
        refusal(error)
    else:
        names.parse_topic(letters)


_TOPIC = Topic(id=TopicId(1), name=TOPIC, partitions=(PartitionId(2),), labels={"a": "b"})
_SNAPSHOT = Snapshot(
    id=SnapshotId(4),
    name=SNAPSHOT,
    topic=TOPIC,
    topic_id=TopicId(1),
    partitions=(PartitionId(2),),
    expire_s=1e9,
)
_SUBSCRIPTION = Subscription(
    id=SubscriptionId(3),
    name=SUBSCRIPTION,
    topic=TOPIC,
    topic_id=TopicId(1),
    partitions=(PartitionId(2),),
    labels={"fanlog-start": "earliest"},
    dead_letter=DeadLetterPolicy(dead_letter_topic="projects/p/topics/letters"),
    retry=RetryPolicy(),
)
#: Request, how it is read, what it may change, and what shows the result.
_UPDATES: list[tuple[Any, Callable[[Any], Any], Any, Callable[[Any], Any], str]] = [
    (types.UpdateTopicRequest, resources.topic_update, _TOPIC, resources.topic_pb, "topic"),
    (
        types.UpdateSubscriptionRequest,
        resources.subscription_update,
        _SUBSCRIPTION,
        lambda changed: resources.subscription_pb(changed, _TOPIC),
        "subscription",
    ),
    (
        types.UpdateSnapshotRequest,
        resources.snapshot_update,
        _SNAPSHOT,
        resources.snapshot_pb,
        "snapshot",
    ),
]
#: Model's field to the field of the API that changes it, where they differ.
_SPELLED = {
    "ack_deadline_s": "ack_deadline_seconds",
    "retain_acked": "retain_acked_messages",
    "message_retention_s": "message_retention_duration",
    "enable_exactly_once": "enable_exactly_once_delivery",
    "expiration_ttl_s": "expiration_policy",
    "dead_letter": "dead_letter_policy",
    "retry": "retry_policy",
    "expire_s": "expire_time",
}


def update_mask(data: bytes) -> None:
    """Only what the mask names is changed; what is shown afterwards, sent back, changes nothing."""
    draw = Draw(data)
    message_class, read, before, show, part = draw.pick(_UPDATES)
    paths = draw.text()
    try:
        request = wire_fields.parse(message_class, draw.rest())
        if not request.HasField(part) or not getattr(request, part).name:
            getattr(request, part).name = before.name
        request.update_mask.paths.extend(paths.split(",") if paths else [])
        changed = read(request).apply_to(before)
    except (InvalidArgument, Unimplemented, OutOfRange) as error:
        refusal(error)
        return
    named = {path.partition(".")[0] for path in request.update_mask.paths}
    for one in fields(before):
        if getattr(changed, one.name) != getattr(before, one.name):
            assert _SPELLED.get(one.name, one.name) in named, one.name
    again = message_class(update_mask=request.update_mask)
    getattr(again, part).CopyFrom(show(changed))
    assert show(read(again).apply_to(changed)) == show(changed)


TARGETS = (
    Target(name="publish", run=publish),
    Target(name="frames", run=frames),
    Target(name="ack_ids", run=ack_ids),
    Target(name="message_id", run=a_message_id, size_max=8_192),
    Target(name="page_token", run=page_token),
    Target(name="names", run=resource_names),
    Target(name="update_mask", run=update_mask),
)
