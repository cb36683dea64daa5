"""Publishing and delivering, held against protobuf's own view of the same bytes."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from fanlog.errors import InvalidArgument, Unimplemented
from fanlog.log.batch import Batch
from fanlog.model.ids import message_id, parse_message_id
from fanlog.model.resources import PartitionId
from fanlog.wire import types
from fanlog.wire.encode import field
from fanlog.wire.fields import parse
from fanlog.wire.frame import frame_overhead, frame_received
from fanlog.wire.publish import key_hash, parse_publish

TOPIC = "projects/p/topics/orders"
HEAD = field(b"\x0a", TOPIC.encode())

# One character of each length in UTF-8, and some that are odd.
characters = st.sampled_from("abgo-_0 \x00\x7f\n\u00e9\u0434\u65e5\U0001f389")
text = st.text(characters, max_size=40)
keys = st.text(characters, min_size=1, max_size=40).filter(lambda key: not key.startswith("goog"))
sizes = st.integers(0, 40) | st.sampled_from([124, 125, 126, 127, 128, 129, 130, 131, 300, 16_384])
data = st.binary(max_size=20) | sizes.map(lambda size: b"d" * size)
message = st.fixed_dictionaries(
    {},
    optional={
        "data": data,
        "attributes": st.dictionaries(keys, text, max_size=4),
        "ordering_key": text,
        "message_id": text,
        "publish_time": st.fixed_dictionaries(
            {}, optional={"seconds": st.integers(0, 2**33), "nanos": st.integers(0, 10**9 - 1)}
        ),
    },
).filter(lambda made: made.get("data") or made.get("attributes"))
plain = st.fixed_dictionaries({"data": sizes.filter(bool).map(lambda size: b"d" * size)})
messages = st.lists(plain, min_size=1, max_size=12) | st.lists(message, min_size=1, max_size=6)


def request_of(made: list[dict[str, Any]]) -> Any:
    request = types.PublishRequest(topic=TOPIC)
    for one in made:
        request.messages.add(**one)
    return request


def kept(one: Any) -> tuple[bytes, dict[str, str], str]:
    return one.data, dict(one.attributes), one.ordering_key


@given(messages)
def test_a_body_is_what_protobuf_reads(made: list[dict[str, Any]]) -> None:
    request = request_of(made)
    raw = request.SerializeToString()
    publish = parse_publish(raw)
    assert publish.topic == TOPIC
    body = publish.body
    found = []
    for begin, end in zip(body.starts[:-1], body.starts[1:], strict=True):
        (one,) = types.PublishRequest.FromString(body.content[begin:end]).messages
        assert not one.message_id
        assert not one.HasField("publish_time")
        found.append(kept(one))
    assert found == [kept(one) for one in request.messages]
    assert (body.starts[0], body.starts[-1]) == (0, len(body.content))
    hashes = [key_hash(one.ordering_key) for one in request.messages]
    assert body.key_hashes == (hashes if any(hashes) else None)
    is_senders_own = not any("message_id" in one or "publish_time" in one for one in made)
    if is_senders_own and all(all(one.get("attributes", {}).values()) for one in made):
        assert HEAD + body.content == raw


@given(
    messages,
    st.integers(0, 10**12 - 100),
    st.integers(1, 10**6),
    st.integers(0, 2**62),
    st.integers(0, 200),
    st.dictionaries(keys, text, max_size=2),
    st.data(),
)
def test_what_is_delivered_is_what_was_published(
    made: list[dict[str, Any]],
    base_offset: int,
    partition: int,
    time_ns: int,
    attempt: int,
    attributes: dict[str, str],
    draw: st.DataObject,
) -> None:
    request = request_of(made)
    body = parse_publish(request.SerializeToString()).body
    batch = Batch(
        topic=1,
        partition=PartitionId(partition),
        base_offset=base_offset,
        sequence=1,
        publish_time_ns=time_ns,
        starts=body.starts,
        key_hashes=body.key_hashes,
        attributes=attributes,
        content=body.content,
    )
    all_of_it = range(len(made))
    indexes = draw.draw(st.just(all_of_it) | st.lists(st.sampled_from(all_of_it), max_size=8))
    attempts = draw.draw(st.dictionaries(st.integers(base_offset, base_offset + 5), st.just(7)))
    frames = frame_received(batch, indexes, b"abc.", attempt=attempt, attempts=attempts)
    found = types.PullResponse.FromString(frames).received_messages
    assert len(found) == len(indexes)
    stored_size = 0
    for index, received in zip(indexes, found, strict=True):
        offset = base_offset + index
        published = request.messages[index]
        assert received.ack_id == f"abc.{offset:012x}"
        assert received.delivery_attempt == attempts.get(offset, attempt)
        assert received.message.data == published.data
        assert dict(received.message.attributes) == {**dict(published.attributes), **attributes}
        assert received.message.ordering_key == published.ordering_key
        assert parse_message_id(received.message.message_id) == (partition, offset)
        assert received.message.message_id == message_id(partition, offset)
        assert received.message.publish_time.seconds == time_ns // 10**9
        assert received.message.publish_time.nanos == time_ns % 10**9
        stored_size += body.starts[index + 1] - body.starts[index]
    assert len(frames) <= stored_size + len(indexes) * frame_overhead(batch, b"abc.")


@given(st.binary(max_size=200))
@example(HEAD)
@example(HEAD + b"\x12\x03\x0a\x01")
@example(HEAD + b"\x12\x80\x80\x80\x80\x80\x00")
def test_random_bytes_are_refused_politely(raw: bytes) -> None:
    for given_bytes in (raw, HEAD + raw, HEAD + field(b"\x12", raw)):
        try:
            body = parse_publish(given_bytes).body
        except InvalidArgument:
            continue
        expected = types.PublishRequest.FromString(given_bytes).messages
        found = types.PublishRequest.FromString(body.content).messages
        assert [kept(one) for one in found] == [kept(one) for one in expected]


@given(messages, st.data())
def test_damaged_requests_are_refused_or_read_as_protobuf_reads_them(
    made: list[dict[str, Any]], draw: st.DataObject
) -> None:
    raw = bytearray(request_of(made).SerializeToString())
    for _ in range(draw.draw(st.integers(1, 3))):
        position = draw.draw(st.integers(len(HEAD), len(raw) - 1))
        raw[position] = draw.draw(st.integers(0, 255))
    damaged = bytes(raw)
    try:
        body = parse_publish(damaged).body
    except InvalidArgument:
        return
    expected = types.PublishRequest.FromString(damaged).messages
    found = types.PublishRequest.FromString(body.content).messages
    assert [kept(one) for one in found] == [kept(one) for one in expected]
    assert not any(one.message_id or one.HasField("publish_time") for one in found)


@given(st.binary(max_size=100))
def test_other_requests_are_refused_politely(raw: bytes) -> None:
    for message_class in (types.Topic, types.UpdateSubscriptionRequest, types.StreamingPullRequest):
        with contextlib.suppress(InvalidArgument, Unimplemented):
            parse(message_class, raw)
