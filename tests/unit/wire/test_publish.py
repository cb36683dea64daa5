"""Publish requests: what is stored, what is refused, and with which sentence."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fanlog import limits
from fanlog.errors import InvalidArgument, TooLarge
from fanlog.log.batch import Body
from fanlog.model.ids import message_id
from fanlog.wire import types
from fanlog.wire.encode import field, message_field, varint, varint_size
from fanlog.wire.publish import (
    build_body,
    key_hash,
    parse_publish,
    publish_response,
)

TOPIC = "projects/p/topics/orders"
HEAD = field(b"\x0a", TOPIC.encode())


def request(*messages: dict[str, Any], topic: str = TOPIC) -> bytes:
    made = types.PublishRequest(topic=topic)
    for message in messages:
        made.messages.add(**message)
    raw: bytes = made.SerializeToString()
    return raw


def stored(body: Body) -> list[Any]:
    """The body's messages, each cut out at its slot and parsed by protobuf."""
    found = []
    for begin, end in zip(body.starts[:-1], body.starts[1:], strict=True):
        parsed = types.PublishRequest.FromString(body.content[begin:end])
        assert len(parsed.messages) == 1
        found.append(parsed.messages[0])
    return found


def refusal(raw: bytes) -> str:
    with pytest.raises(InvalidArgument) as caught:
        parse_publish(raw)
    return caught.value.message


@pytest.mark.parametrize("size", [1, 2, 125, 126, 127, 128, 129, 16_379, 16_380, 16_384, 70_000])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_data_of_one_size(size: int, count: int) -> None:
    raw = request(*[{"data": bytes([65 + index]) * size} for index in range(count)])
    publish = parse_publish(raw)
    assert publish.topic == TOPIC
    assert HEAD + publish.body.content == raw
    assert publish.body.count == count
    assert publish.body.key_hashes is None
    assert [message.data[:1] for message in stored(publish.body)] == [
        bytes([65 + index]) for index in range(count)
    ]


def test_data_of_varying_size() -> None:
    sizes = [1, 300, 2, 127, 128, 126, 5_000, 300, 20_000, 125, 129, 131]
    raw = request(*[{"data": b"x" * size} for size in sizes])
    # Twice: header sizes are learnt the first time.
    for _ in range(2):
        body = parse_publish(raw).body
        assert HEAD + body.content == raw
        assert [len(message.data) for message in stored(body)] == sizes


def test_payload_that_looks_like_headers() -> None:
    trick = message_field(b"x", {}, "") * 3
    raw = request({"data": trick}, {"data": trick}, {"data": b"y" * len(trick)})
    assert [message.data for message in stored(parse_publish(raw).body)] == [
        trick,
        trick,
        b"y" * len(trick),
    ]


def test_canonical_bytes_are_kept() -> None:
    raw = request(
        {"data": b"a", "attributes": {"k": "v", "long": "x" * 1_024, "ключ": "значение"}},
        {"attributes": {"only": "attributes"}, "ordering_key": "key"},
        {"data": b"b" * 1_000, "ordering_key": "ключ"},
        {"data": b"c"},
    )
    body = parse_publish(raw).body
    assert HEAD + body.content == raw
    assert body.key_hashes == [0, key_hash("key"), key_hash("ключ"), 0]
    assert stored(body) == list(types.PublishRequest.FromString(raw).messages)


CANONICAL = message_field(b"data", {"k": "v"}, "key")
DATA = b"\x0a\x04data"
ATTRIBUTE = b"\x12\x06\x0a\x01k\x12\x01v"
KEY = b"\x2a\x03key"


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param(DATA + ATTRIBUTE + KEY + b"\x1a\x01x", id="message id"),
        pytest.param(DATA + ATTRIBUTE + KEY + b"\x22\x02\x10\x07", id="publish time, nanos only"),
        pytest.param(DATA + ATTRIBUTE + KEY + b"\x22\x00", id="publish time, empty"),
        pytest.param(DATA + ATTRIBUTE + KEY + b"\x98\x06\x01", id="unknown number"),
        pytest.param(DATA + ATTRIBUTE + KEY + b"\x9a\x06\x01x", id="unknown bytes"),
        pytest.param(b"\x0a\x01x" + DATA + ATTRIBUTE + KEY, id="data twice"),
        pytest.param(DATA + ATTRIBUTE + b"\x2a\x01x" + KEY, id="ordering key twice"),
        pytest.param(DATA + b"\x12\x06\x0a\x01k\x12\x01x" + ATTRIBUTE + KEY, id="key twice"),
        pytest.param(b"\x0a\x84\x00data" + ATTRIBUTE + KEY, id="long varint"),
        pytest.param(DATA + ATTRIBUTE + KEY + b"\x1a\x00", id="explicit default"),
        pytest.param(
            DATA + b"\x12\x09\x0a\x01x\x0a\x01k\x12\x01v" + KEY, id="map entry's key twice"
        ),
    ],
)
def test_what_is_not_canonical_is_written_again(inner: bytes) -> None:
    raw = HEAD + field(b"\x12", inner)
    assert parse_publish(raw).body.content == CANONICAL


def test_field_order_inside_a_message_is_free() -> None:
    raw = HEAD + field(b"\x12", KEY + ATTRIBUTE + DATA)
    body = parse_publish(raw).body
    assert HEAD + body.content == raw
    assert body.key_hashes == [key_hash("key")]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(CANONICAL + HEAD, id="topic last"),
        pytest.param(HEAD + CANONICAL + b"\x9a\x06\x01x", id="unknown after"),
        pytest.param(HEAD + b"\x9a\x06\x01x" + CANONICAL, id="unknown between"),
        pytest.param(field(b"\x0a", b"other") + HEAD + CANONICAL, id="topic twice"),
        pytest.param(b"\x0a\x98\x80\x00" + TOPIC.encode() + CANONICAL, id="long topic length"),
    ],
)
def test_a_request_that_is_not_canonical_is_written_again(raw: bytes) -> None:
    publish = parse_publish(raw)
    assert publish.topic == TOPIC
    assert publish.body.content == CANONICAL
    assert list(publish.body.starts) == [0, len(CANONICAL)]


def test_nothing_hides_where_an_empty_value_is_left_out() -> None:
    """Two entries without their empty values save the four bytes that a message id needs."""
    inner = b"\x12\x03\x0a\x01a" + b"\x12\x03\x0a\x01b" + b"\x1a\x02id"
    expected = message_field(b"", {"a": "", "b": ""}, "")
    assert len(field(b"\x12", inner)) == len(expected)
    (message,) = stored(parse_publish(HEAD + field(b"\x12", inner)).body)
    assert message.message_id == ""
    assert dict(message.attributes) == {"a": "", "b": ""}


def test_an_attribute_is_never_dropped_with_what_is_unknown_in_it() -> None:
    inner = DATA + b"\x12\x08\x0a\x01k\x12\x01v\x18\x01"
    assert refusal(HEAD + CANONICAL + field(b"\x12", inner)) == (
        "messages[1].attributes: an attribute has more than a key and a value"
    )


def test_limits_are_inclusive() -> None:
    parse_publish(request(*[{"data": b"x"}] * limits.PUBLISH_MESSAGES_MAX))


@pytest.mark.parametrize("size", [8, 126, 127, 128, 16_380, 16_381, 16_382, 2_097_149])
@pytest.mark.parametrize("others", [[], [{"data": b"x"}], [{"data": b"x", "ordering_key": "k"}]])
def test_one_message_of_as_many_bytes_as_it_may_have(size, others):
    large = {"data": b"x" * size}
    exact = types.PubsubMessage(**large).ByteSize()
    raw = request(*others, large)
    assert parse_publish(raw, exact).body.count == 1 + len(others)
    sentence = f"messages[{len(others)}]: the message has {exact} bytes; at most {exact - 1} are"
    with pytest.raises(TooLarge, match=re.escape(f"{sentence} allowed (message_bytes_max)")):
        parse_publish(raw, exact - 1)


def test_more_messages_than_a_request_may_have_are_too_many():
    with pytest.raises(TooLarge):
        parse_publish(request(*[{"data": b"x"}] * (limits.PUBLISH_MESSAGES_MAX + 1)))
    parse_publish(
        request(
            {
                "attributes": {
                    **{f"k{index}": "" for index in range(limits.ATTRIBUTES_MAX - 2)},
                    "ä" * 128: "é" * 512,
                    "googclient_trace": "x" * 1_024,
                },
                "ordering_key": "ö" * 512,
            }
        )
    )
    overhead = len(request({"data": b"x" * 9_000_000})) - 9_000_000
    data = b"x" * (limits.PUBLISH_BYTES_MAX - overhead)
    assert parse_publish(request({"data": data})).body.count == 1
    assert refusal(request({"data": data + b"x"})) == (
        "the publish request has 10000001 bytes; at most 10000000 are allowed"
    )


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "messages: the publish request has 0; 1 to 1000 are allowed"),
        ([{"data": b"x"}] * 1_001, "messages: the publish request has 1001; 1 to 1000 are allowed"),
        (
            [{"data": b"x" * (index % 7 + 1)} for index in range(1_001)],
            "messages: the publish request has 1001; 1 to 1000 are allowed",
        ),
        (
            [{"data": b"x"}, {}],
            "messages[1]: a message needs data or at least one attribute; it has neither",
        ),
        (
            [{"ordering_key": "k"}],
            "messages[0]: a message needs data or at least one attribute; it has neither",
        ),
        (
            [{"data": b"x", "attributes": {f"k{index}": "v" for index in range(101)}}],
            "messages[0].attributes: 101 attributes; at most 100 are allowed",
        ),
        (
            [{"data": b"x"}, {"attributes": {"": "v"}}],
            "messages[1].attributes: an attribute key is empty; 1 byte is the least",
        ),
        (
            [{"attributes": {"ä" * 129: "v"}}],
            (
                f"messages[0].attributes: the key '{'ä' * 120}'… (129 characters) has 258 bytes; "
                "at most 256 are allowed"
            ),
        ),
        (
            [{"attributes": {"k": "é" * 513}}],
            "messages[0].attributes: the value of 'k' has 1026 bytes; at most 1024 are allowed",
        ),
        (
            [{"attributes": {"goog-x": "v"}}],
            (
                "messages[0].attributes: the key 'goog-x' begins with 'goog', which is reserved "
                "(only 'googclient_' may follow it)"
            ),
        ),
        (
            [{"attributes": {"googclient_x": "v" * 1_025}}],
            (
                "messages[0].attributes: the value of 'googclient_x' has 1025 bytes; "
                "at most 1024 are allowed"
            ),
        ),
        (
            [{"data": b"x", "ordering_key": "ö" * 513}],
            (
                f"messages[0].ordering_key: '{'ö' * 120}'… (513 characters) has 1026 bytes; "
                "at most 1024 are allowed"
            ),
        ),
    ],
)
def test_refusals(messages: list[dict[str, Any]], sentence: str) -> None:
    assert refusal(request(*messages)) == sentence


@pytest.mark.parametrize("topic", ["", "orders", "projects/p/topics/1x"])
@pytest.mark.parametrize("message", [{"data": b"x"}, {"attributes": {"k": "v"}}])
def test_a_bad_topic_is_named(topic: str, message: dict[str, Any]) -> None:
    assert refusal(request(message, topic=topic)).startswith("topic: ")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(HEAD + b"\x12\x7f\x0a\x01x", id="cut short"),
        pytest.param(HEAD + b"\x12", id="no length"),
        pytest.param(HEAD + b"\x12\x03", id="no message"),
        pytest.param(HEAD + b"\x12\x03\x0a\x05x", id="data past its message"),
        pytest.param(HEAD + b"\x12" + b"\xff" * 11, id="endless varint"),
        pytest.param(HEAD + message_field(b"x", {}, "")[:-1], id="last byte missing"),
        pytest.param(b"\x0a\x03a\xffb" + CANONICAL, id="topic not UTF-8"),
        pytest.param(HEAD + field(b"\x12", DATA + b"\x2a\x01\xff"), id="ordering key not UTF-8"),
        pytest.param(
            HEAD + field(b"\x12", b"\x12\x06\x0a\x01\xff\x12\x01v"), id="attribute not UTF-8"
        ),
        pytest.param(b"\x00", id="tag zero"),
        pytest.param(HEAD + b"\x17", id="wire type seven"),
    ],
)
def test_malformed(raw: bytes) -> None:
    assert refusal(raw).startswith("the request is not a valid PublishRequest: malformed")


def test_build_body() -> None:
    body = build_body([(b"a", {}, ""), (b"", {"k": "v"}, "key"), (b"x" * 500, {"a": "ä"}, "key")])
    found = [(m.data, dict(m.attributes), m.ordering_key) for m in stored(body)]
    assert found == [
        (b"a", {}, ""),
        (b"", {"k": "v"}, "key"),
        (b"x" * 500, {"a": "ä"}, "key"),
    ]
    assert body.key_hashes == [0, key_hash("key"), key_hash("key")]
    assert build_body([(b"a", {}, "")]).key_hashes is None
    assert build_body([]).count == 0


def test_key_hash_is_stable() -> None:
    """It is stored in the log, so it can never change."""
    assert key_hash("") == 0
    assert key_hash("key") == 0xF54CA9C3ADCC7CCE
    assert 0 < key_hash("k") < 2**64


@pytest.mark.parametrize(
    ("partition", "base_offset", "count"),
    [(1, 0, 1), (7, 0, 1_000), (12, 999, 2), (123, 998, 3), (9, 10**12 - 5, 5), (1, 1_500, 2_600)],
)
def test_publish_response(partition: int, base_offset: int, count: int) -> None:
    answer = types.PublishResponse.FromString(publish_response(partition, base_offset, count))
    offsets = range(base_offset, base_offset + count)
    assert list(answer.message_ids) == [message_id(partition, offset) for offset in offsets]
    assert answer.SerializeToString() == publish_response(partition, base_offset, count)


@pytest.mark.parametrize(
    "value", [0, 1, 127, 128, 255, 300, 16_383, 16_384, 2**21 - 1, 2**21, 2**31, 2**63]
)
def test_varint(value: int) -> None:
    encoded = varint(value)
    assert len(encoded) == varint_size(value)
    assert sum((byte & 0x7F) << 7 * index for index, byte in enumerate(encoded)) == value
    assert all(byte & 0x80 for byte in encoded[:-1])
    assert not encoded[-1] & 0x80
