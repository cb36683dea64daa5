"""Seek for any surface: the target of a request, and metadata where an answer has no fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from fanlog import limits
from fanlog.broker.verbs.seek_answers import SeekAnswer
from fanlog.errors import InvalidArgument
from fanlog.model import attributes, names
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import Offset, PartitionId
from fanlog.server.remarks import Remarks
from fanlog.v1 import replay_pb2
from fanlog.wire import fields, types

#: Positions that are words: before all messages that are kept, and behind all of them.
EARLIEST, NOW = "earliest", "now"

#: Metadata of the answer to Google's Seek, which is empty; headers over REST.
REOPENED = attributes.REOPENED
REOPENED_FROM = attributes.REOPENED_FROM
ACKNOWLEDGED = attributes.ACKNOWLEDGED


Answer = TypeVar("Answer", covariant=True)


class Seeking(Protocol[Answer]):
    """The verbs of seeks: those that move, or those that estimate."""

    async def to_time(self, name: str, time_ns: int) -> Answer: ...
    async def to_end(self, name: str) -> Answer: ...
    async def to_position(self, name: str, position: Mapping[PartitionId, Offset]) -> Answer: ...
    async def to_snapshot(self, name: str, snapshot_name: str) -> Answer: ...


async def seek(
    seeks: Seeking[Answer], request: types.SeekRequest | replay_pb2.SeekSubscriptionRequest
) -> Answer:
    """Do a SeekRequest, Google's or ours, or estimate it.

    Raises:
        InvalidArgument: No target, or one that is none of the subscription's.
    """
    name = str(names.parse_subscription(request.subscription))
    match request.WhichOneof("target"):
        case "time":
            return await seeks.to_time(name, fields.time_ns_of(request.time, "time"))
        case "snapshot":
            return await seeks.to_snapshot(name, str(names.parse_snapshot(request.snapshot)))
        case "position" | "message_id":
            assert isinstance(request, replay_pb2.SeekSubscriptionRequest)
            return await _seek_to_messages(seeks, name, request)
    targets = ", ".join(field.name for field in request.DESCRIPTOR.oneofs_by_name["target"].fields)
    raise InvalidArgument(f"target: seek needs one of {targets}")


async def _seek_to_messages(
    seeks: Seeking[Answer], name: str, request: replay_pb2.SeekSubscriptionRequest
) -> Answer:
    if request.WhichOneof("target") == "message_id":
        if "," in request.message_id:
            raise InvalidArgument(
                f"message_id: {names.shown(request.message_id)} must be the id of one message"
            )
        return await seeks.to_position(name, parse_position(request.message_id))
    if request.position == EARLIEST:
        return await seeks.to_time(name, 0)
    if request.position == NOW:
        return await seeks.to_end(name)
    return await seeks.to_position(name, parse_position(request.position))


def parse_position(text: str) -> dict[PartitionId, Offset]:
    """Read a position that is message ids.

    Raises:
        InvalidArgument: It is none, has two places in one partition, or more than a pattern reads.
    """
    if (count := text.count(",") + 1) > limits.POSITION_IDS_MAX:
        raise InvalidArgument(
            f"position: {count} ids; at most {limits.POSITION_IDS_MAX} are allowed, one a topic"
        )
    found: dict[PartitionId, Offset] = {}
    for one in text.split(","):
        partition, offset = parse_message_id(one)
        if partition in found:
            raise InvalidArgument(f"position: {names.shown(text)} has two places in one topic")
        found[PartitionId(partition)] = Offset(offset)
    return found


def describe(moved: SeekAnswer) -> Remarks:
    """The result of a seek as metadata; its hint goes with other hints."""
    found = [(REOPENED, str(moved.reopened)), (ACKNOWLEDGED, str(moved.acknowledged))]
    if moved.reopened_from_ns is not None:
        time = Timestamp()
        time.FromNanoseconds(moved.reopened_from_ns)
        found.append((REOPENED_FROM, time.ToJsonString()))
    return tuple(found)
