"""Framing: what official clients read is what was published, and nothing a sender slipped in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fanlog.log.batch import Batch, Body
from fanlog.model.ids import message_id
from fanlog.model.resources import PartitionId
from fanlog.wire import types
from fanlog.wire.encode import field, message_field
from fanlog.wire.frame import frame_overhead, frame_received
from fanlog.wire.publish import build_body, parse_publish

PREFIX = b"1a.7-"
TIME_NS = 1_790_000_000_123_456_789


def batch_of(
    body: Body,
    *,
    base_offset: int = 0,
    partition: int = 3,
    time_ns: int = TIME_NS,
    attributes: Mapping[str, str] | None = None,
) -> Batch:
    return Batch(
        topic=1,
        partition=PartitionId(partition),
        base_offset=base_offset,
        sequence=1,
        publish_time_ns=time_ns,
        starts=body.starts,
        key_hashes=body.key_hashes,
        attributes=attributes or {},
        content=body.content,
    )


def received(raw: bytes) -> list[Any]:
    pulled = types.PullResponse.FromString(raw)
    streamed = types.StreamingPullResponse.FromString(raw)
    assert list(pulled.received_messages) == list(streamed.received_messages)
    return list(pulled.received_messages)


def data_batch(*sizes: int, base_offset: int = 0) -> Batch:
    return batch_of(build_body([(b"x" * size, {}, "") for size in sizes]), base_offset=base_offset)


def test_one_message_whole() -> None:
    batch = batch_of(build_body([(b"hello", {"k": "v"}, "key")]), base_offset=0xABC, partition=12)
    (found,) = received(frame_received(batch, range(1), PREFIX))
    assert found == types.ReceivedMessage(
        ack_id="1a.7-000000000abc",
        message=types.PubsubMessage(
            data=b"hello",
            attributes={"k": "v"},
            message_id="12000000002748",
            publish_time={"seconds": 1_790_000_000, "nanos": 123_456_789},
            ordering_key="key",
        ),
    )


SIZES = [1, 50, 80, 100, 120, 125, 126, 127, 128, 129, 1_000, 16_300, 16_380, 16_384, 2_100_000]


@pytest.mark.parametrize("size", SIZES)
def test_every_length_of_length(size: int) -> None:
    batch = data_batch(size, size, base_offset=4_095)
    frames = frame_received(batch, range(2), PREFIX)
    found = received(frames)
    assert [message.message.data for message in found] == [b"x" * size] * 2
    assert [message.ack_id for message in found] == ["1a.7-000000000fff", "1a.7-000000001000"]
    # Canonical: exactly what protobuf itself would write, but for the order inside a message.
    assert len(frames) == len(types.PullResponse(received_messages=found).SerializeToString())
    assert len(frames) <= batch.starts[-1] + 2 * frame_overhead(batch, PREFIX)


def test_over_the_edges_of_thousands_and_blocks() -> None:
    batch = data_batch(*[10] * 6_000, base_offset=3_998)
    found = received(frame_received(batch, range(6_000), PREFIX))
    for offset, message in enumerate(found, start=3_998):
        assert message.ack_id == f"1a.7-{offset:012x}"
        assert message.message.message_id == message_id(3, offset)


def test_part_of_a_batch() -> None:
    batch = data_batch(1, 2, 3, 4, 5, base_offset=10)
    assert [len(m.message.data) for m in received(frame_received(batch, range(1, 4), PREFIX))] == [
        2,
        3,
        4,
    ]
    picked = received(frame_received(batch, [4, 0, 2], PREFIX))
    assert [(len(m.message.data), m.ack_id[-1]) for m in picked] == [(5, "e"), (1, "a"), (3, "c")]
    assert frame_received(batch, range(0), PREFIX) == b""
    assert frame_received(batch, [], PREFIX) == b""
    backwards = frame_received(batch, range(4, -1, -1), PREFIX)
    assert [len(m.message.data) for m in received(backwards)] == [5, 4, 3, 2, 1]


def test_delivery_attempts() -> None:
    batch = data_batch(10, 20, 30, 40, base_offset=100)
    frames = frame_received(batch, range(4), PREFIX, attempt=1, attempts={101: 5, 103: 300})
    assert [m.delivery_attempt for m in received(frames)] == [1, 5, 1, 300]
    frames = frame_received(batch, range(4), PREFIX, attempt=2)
    assert [m.delivery_attempt for m in received(frames)] == [2, 2, 2, 2]
    frames = frame_received(batch, range(4), PREFIX, attempts={102: 2})
    assert [m.delivery_attempt for m in received(frames)] == [0, 0, 2, 0]


def test_attributes_of_the_batch_are_added_and_win() -> None:
    body = build_body([(b"a", {"k": "own", "x": "y"}, ""), (b"b", {}, "")])
    batch = batch_of(body, attributes={"k": "batch", "ключ": "значение"})
    found = received(frame_received(batch, range(2), PREFIX))
    assert dict(found[0].message.attributes) == {"k": "batch", "x": "y", "ключ": "значение"}
    assert dict(found[1].message.attributes) == {"k": "batch", "ключ": "значение"}


@pytest.mark.parametrize("time_ns", [0, 999_999_999, 1_000_000_000, TIME_NS])
@pytest.mark.parametrize(
    "smuggled",
    [
        pytest.param(b"\x1a\x05fake!", id="message id"),
        pytest.param(b"\x22\x02\x10\x07", id="publish time, nanos only"),
        pytest.param(b"\x22\x02\x08\x07", id="publish time, seconds only"),
        pytest.param(b"\x22\x02\x08\x07" * 2, id="publish time twice"),
    ],
)
def test_nothing_is_smuggled_in(smuggled: bytes, time_ns: int) -> None:
    """Even if such bytes were stored as they came, what is appended would win."""
    inner = b"\x0a\x01x" + smuggled
    raw = field(b"\x0a", b"projects/p/topics/abc") + field(b"\x12", inner)
    unwashed = Body(content=field(b"\x12", inner), starts=[0, len(inner) + 2])
    for body in (parse_publish(raw).body, unwashed):
        (found,) = received(frame_received(batch_of(body, time_ns=time_ns), [0], PREFIX))
        assert found.message.message_id == message_id(3, 0)
        assert found.message.publish_time.ToNanoseconds() == time_ns
        assert found.message.data == b"x"


def test_publish_time_is_written_out_even_when_zero() -> None:
    batch = batch_of(build_body([(b"x", {}, "")]), time_ns=0)
    assert b"\x22\x04\x08\x00\x10\x00" in frame_received(batch, range(1), PREFIX)


def test_the_publishers_bytes_go_out_as_they_came() -> None:
    stored = message_field(b"data", {"b": "2", "a": "1"}, "key")
    batch = batch_of(Body(content=stored, starts=[0, len(stored)]))
    assert stored[2:] in frame_received(batch, range(1), PREFIX)


@pytest.mark.parametrize(
    "sizes",
    [
        [100] * 1_500,
        [100] * 700 + [101] * 700,
        [99, 101] * 300,
        [1_000, 1_030] * 3,
        [1_100] * 3,
    ],
)
def test_neighbours_are_framed_as_each_by_itself(sizes: list[int]) -> None:
    batch = data_batch(*sizes, base_offset=3_950)
    together = frame_received(batch, range(len(sizes)), PREFIX, attempt=1)
    each = [frame_received(batch, [index], PREFIX, attempt=1) for index in range(len(sizes))]
    assert together == b"".join(each)
