"""Requests of very many parts: how much of them is looked at, before they are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from google.protobuf.struct_pb2 import Struct

from fanlog import limits
from fanlog.errors import InvalidArgument, TooLarge, Unimplemented
from fanlog.server.rest import json_in, json_weight
from fanlog.server.rest.publishing import publish_request
from fanlog.v1 import jobs_pb2
from fanlog.wire import cloud_events, fields, parts, push, types
from fanlog.wire.encode import field
from fanlog.wire.jobs import values_of
from fanlog.wire.paging import Page, number_after, parse_page, token
from fanlog.wire.publish import parse_publish
from fanlog.wire.resources import topic_spec
from fanlog.wire.stage import parse_rows, split_request

TOPIC = b"projects/p/topics/orders"
HEAD = field(b"\x0a", TOPIC)
ATTRIBUTES = b"".join(field(b"\x12", field(b"\x0a", b"%05x" % number)) for number in range(200_000))
UNKNOWN = b"\x78\x01"


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many fields were walked over, in all."""
    counted = [0]
    walk = parts.fields_of

    def counting(*arguments: Any) -> Iterator[tuple[int, int, int]]:
        for one in walk(*arguments):
            counted[0] += 1
            yield one

    monkeypatch.setattr(parts, "fields_of", counting)
    return counted


def nothing_is_made(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have protobuf make nothing: what it would make is what costs."""

    class Unmade:
        DESCRIPTOR = types.PublishRequest.DESCRIPTOR
        FromString = staticmethod(pytest.fail)

    for name in names:
        monkeypatch.setattr(types, name, Unmade)


PUBLISHES = {
    "empty messages": HEAD + b"\x12\x00" * 4_900_000,
    "attributes of one message": HEAD + field(b"\x12", ATTRIBUTES * 4),
    "unknown fields of one message": HEAD + field(b"\x12", UNKNOWN * 4_000_000),
    "unknown fields of each message": HEAD
    + field(b"\x12", field(b"\x0a", b"x") + UNKNOWN * 4_000) * 1_000,
    "topics": HEAD * 100_000 + field(b"\x12", field(b"\x0a", b"x")),
    "groups": HEAD + b"\x1b\x1c" * 200_000,
    "a message that is cut": HEAD + b"\x12\x00" * 900 + b"\x12\xff\xff\xff\x7f" + bytes(300_000),
}


@pytest.mark.parametrize("name", PUBLISHES)
def test_publish_requests(monkeypatch: pytest.MonkeyPatch, walked: list[int], name: str) -> None:
    nothing_is_made(monkeypatch, "PublishRequest")
    raw = PUBLISHES[name]
    assert len(raw) <= limits.PUBLISH_BYTES_MAX
    with pytest.raises(InvalidArgument):
        parse_publish(raw)
    most = limits.PUBLISH_MESSAGES_MAX + limits.ATTRIBUTES_MAX + limits.MESSAGE_OTHER_FIELDS_MAX
    assert walked[0] <= most + 2


def test_the_largest_publish_passes(walked: list[int]) -> None:
    """As many messages, each with as many attributes, as there may be."""
    attributes = b"".join(
        field(b"\x12", field(b"\x0a", b"k%02d" % number) + field(b"\x12", b"v" * 10))
        for number in range(limits.ATTRIBUTES_MAX)
    )
    raw = HEAD + field(b"\x12", attributes) * limits.PUBLISH_MESSAGES_MAX
    assert parse_publish(raw).body.count == limits.PUBLISH_MESSAGES_MAX
    assert walked[0] <= limits.PUBLISH_MESSAGES_MAX * (limits.ATTRIBUTES_MAX + 1) + 1


def test_small_requests_are_not_walked(walked: list[int]) -> None:
    message = field(b"\x12", field(b"\x0a", b"x") + field(b"\x2a", b"key"))
    parse_publish(HEAD + message * 500)
    assert walked[0] == 0


STAGES = {
    "empty rows": HEAD + b"\x12\x00" * 8_000_000,
    "rows": HEAD + field(b"\x12", field(b"\x0a", b"x")) * 2_000_000,
}


@pytest.mark.parametrize("name", STAGES)
def test_staged_rows(walked: list[int], name: str) -> None:
    with pytest.raises(InvalidArgument, match="rows: more than 10000 for one topic"):
        parse_rows(STAGES[name], 0, lambda number, reason: None)
    assert walked[0] <= limits.STAGE_ROWS_MAX + limits.PUBLISH_MESSAGES_MAX + 4


def test_runs_of_staged_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "parse", pytest.fail)
    with pytest.raises(InvalidArgument, match="for more than 1000 topics"):
        split_request(b"\x12\x00" * 8_000_000)
    with pytest.raises(InvalidArgument, match="not a valid StageRequest"):
        split_request(b"\x1a\x00" + b"\x12\x00" * 200_000)


@pytest.mark.parametrize(
    ("service", "method", "raw", "most"),
    [
        ("google.pubsub.v1.Subscriber", "Acknowledge", b"\x12\x00" * 4_000_000, 100_010),
        ("google.pubsub.v1.Subscriber", "ModifyAckDeadline", b"\x22\x00" * 4_000_000, 100_010),
        ("fanlog.v1.Sink", "CommitEpoch", b"\x1a\x00" * 2_000_000, 10_010),
    ],
)
def test_ids_and_stages(
    server, walked: list[int], service: str, method: str, raw: bytes, most: int
) -> None:
    from fanlog.server.services import METHODS

    verb: Callable[..., Any] = METHODS[f"{service.rpartition('.')[2]}.{method}"].bind(server.broker)
    with pytest.raises(InvalidArgument, match=f"at most {most} are allowed"):
        server.run(verb(raw, None))
    assert walked[0] == most + 1


def test_unknown_fields_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "UnknownFieldSet", pytest.fail)
    with pytest.raises(Unimplemented, match="Topic: a field that is not known"):
        fields.parse(types.Topic, UNKNOWN * 100_000)


def test_labels_and_attributes_are_counted_first() -> None:
    topic = types.Topic(name="projects/p/topics/t")
    topic.labels.update({f"k{number}": "v" for number in range(limits.LABELS_MAX + 1)})
    with pytest.raises(InvalidArgument, match="65 labels; at most 64"):
        topic_spec(topic)
    config = types.PushConfig(push_endpoint="http://example.org/")
    config.attributes.update({f"k{number}": "v" for number in range(limits.ATTRIBUTES_MAX + 1)})
    with pytest.raises(InvalidArgument, match="101 attributes; at most 100"):
        push.push_config(config)


# JSON.


@pytest.mark.parametrize("content", [b"[]," * 200_001, b"{}," * 200_001, b"1," * 1_000_001])
def test_heavy_bodies_are_not_read(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(orjson, "loads", pytest.fail)
    with pytest.raises(TooLarge, match="too many values"):
        json_weight.loads(b"[" + content + b"0]")


def test_bodies_that_are_not_heavy_are_read() -> None:
    messages = {"messages": [{"attributes": dict.fromkeys(map(str, range(100)), "v")}] * 1_000}
    assert json_weight.loads(orjson.dumps(messages)) == messages
    assert len(json_weight.loads(b"[" + b"1," * 900_000 + b"1]")) == 900_001


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (types.PublishRequest, {"messages": [{}] * 1_001}),
        (types.PublishRequest, {"messages": [{"attributes": dict.fromkeys("ab" * 60, "v")}]}),
        (types.Topic, {"labels": {f"k{number}": "v" for number in range(65)}}),
        (types.AcknowledgeRequest, {"ackIds": [""] * 100_001}),
    ],
)
def test_entries_are_counted_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch, message: Any, body: Any
) -> None:
    attributes = {f"k{number}": "v" for number in range(101)}
    for one in body.get("messages", []):
        if one:
            one["attributes"] = attributes
    monkeypatch.setattr(json_in, "_single", pytest.fail)
    with pytest.raises(InvalidArgument, match="are allowed"):
        json_in.fill(message(), body)


def test_the_short_road_of_a_publish_is_not_taken_by_too_many() -> None:
    assert publish_request("t", {"messages": [{}] * 1_001}) is None
    many = {f"k{number}": "v" for number in range(101)}
    assert publish_request("t", {"messages": [{"attributes": many}]}) is None


def test_masks_and_events_and_arguments() -> None:
    request = types.UpdateTopicRequest()
    with pytest.raises(InvalidArgument, match="updateMask: 20000 characters"):
        json_in.fill(request, {"updateMask": "A" * 20_000})
    event = {f"a{number}": "v" for number in range(limits.ATTRIBUTES_MAX + 3)}
    with pytest.raises(InvalidArgument, match="103 members"):
        cloud_events.read_structured(event)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_arguments_of_jobs_are_bounded_in_depth_and_are_numbers() -> None:
    request = jobs_pb2.CreateJobRequest()
    with pytest.raises(InvalidArgument, match="nested more than 32 deep"):
        json_in.fill(request, {"arguments": {"x": nested(1_000)}})
    json_in.fill(request, {"arguments": {"x": nested(limits.JOB_NESTING_MAX - 1)}})
    assert values_of(request.arguments, "arguments")
    for strange in ("nan", "inf", "-inf"):
        struct_ = Struct()
        struct_.fields["x"].number_value = float(strange)
        with pytest.raises(InvalidArgument, match="arguments: "):
            values_of(struct_, "arguments")


# Lists.


def page(size: int) -> Page:
    return Page(scope="things", size=size)


def made(entry: bytes) -> Any:
    return types.PubsubMessage(data=entry)


def test_a_page_ends_where_an_answer_is_full() -> None:
    found = [b"%d" % number * 400_000 for number in range(10)]
    shown, next_token = page(100).fill(found, lambda one: one[:1].decode(), made)
    assert 1 < len(shown) < len(found)
    assert sum(one.ByteSize() for one in shown) <= limits.ANSWER_BYTES_MAX
    assert parse_page("things", 0, next_token).after == found[len(shown) - 1][:1].decode()


def test_a_page_has_one_entry_at_least() -> None:
    found = [b"a" * 2 * limits.ANSWER_BYTES_MAX] * 2
    shown, next_token = page(2).fill(found, lambda one: "a", made)
    assert len(shown) == 1
    assert next_token


def test_small_entries_fill_a_page() -> None:
    shown, next_token = page(2).fill([b"a", b"b", b"c"], bytes.decode, made)
    assert (len(shown), parse_page("things", 0, next_token).after) == (2, "b")
    assert page(3).fill([b"a", b"b", b"c"], bytes.decode, made)[1] == ""
    assert page(3).fill([], bytes.decode, made) == ([], "")


@pytest.mark.parametrize(
    "after", ["x", "-1", "9" * 5_000, "\N{SUPERSCRIPT TWO}", "1.5"], ids=range(5)
)
def test_a_made_up_token_is_bad_input(after: str) -> None:
    found = parse_page("revisions of s", 0, token("revisions of s", after))
    with pytest.raises(InvalidArgument, match="page_token: "):
        number_after(found)


def test_a_token_of_ours_goes_on_after_its_number() -> None:
    assert number_after(parse_page("revisions of s", 0, token("revisions of s", "7"))) == 7
    assert number_after(parse_page("revisions of s", 0, "")) is None


# Bitmaps, which the library believes.


@pytest.mark.parametrize("count", [1, 4, 65_536])
def test_bitmaps_that_claim_more_than_they_have(count: int) -> None:
    from fanlog.wire.bitmaps import parse_offsets

    for cookie in (12_347 | (count - 1) << 16, 12_346):
        raw = struct.pack("<QII", 1, 0, cookie) + bytes(64)
        with pytest.raises(InvalidArgument, match="not a 64-bit Roaring bitmap"):
            parse_offsets(raw, "bitmap")
    with pytest.raises(InvalidArgument):
        parse_offsets(struct.pack("<Q", 2**63) + bytes(16), "bitmap")
