"""Calls as bytes: the gRPC surface without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fanlog.broker.broker import Broker
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import Offset, PartitionId
from fanlog.server import delivery_api, publisher_api
from fanlog.server.calls import EVERYBODY
from fanlog.wire import types


class _Context:
    """As much of a gRPC context as the verbs look at."""

    def __init__(self, remaining_s: float) -> None:
        self._remaining_s = remaining_s
        self.caller = EVERYBODY

    def time_remaining(self) -> float:
        return self._remaining_s

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Hints are for people."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()


async def publish(
    broker: Broker, name: str, messages: Sequence[tuple[bytes, Mapping[str, str], str]]
) -> tuple[PartitionId, Offset]:
    partition, offsets = await publish_once(broker, name, messages)
    assert offsets == [offsets[0] + index for index in range(len(messages))]
    return partition, offsets[0]


async def publish_once(
    broker: Broker, name: str, messages: Sequence[tuple[bytes, Mapping[str, str], str]]
) -> tuple[PartitionId, list[Offset]]:
    request = types.PublishRequest(
        topic=name,
        messages=[
            types.PubsubMessage(data=data, attributes=attributes, ordering_key=key)
            for data, attributes, key in messages
        ],
    )
    answer = await publisher_api.publish(broker, request.SerializeToString(), _context())
    ids = [parse_message_id(text) for text in types.PublishResponse.FromString(answer).message_ids]
    partition = ids[0][0]
    assert all(one[0] == partition for one in ids)
    return PartitionId(partition), [offset for _, offset in ids]


async def settle(broker: Broker, name: str, ack_ids: Sequence[str], seconds: int | None) -> None:
    if seconds is None:
        request = types.AcknowledgeRequest(subscription=name, ack_ids=ack_ids)
        await delivery_api.acknowledge(broker, request.SerializeToString(), _context())
    else:
        change = types.ModifyAckDeadlineRequest(
            subscription=name, ack_ids=ack_ids, ack_deadline_seconds=seconds
        )
        await delivery_api.modify_ack_deadline(broker, change.SerializeToString(), _context())


async def pull(broker: Broker, name: str, max_messages: int, wait_s: float) -> Any:
    """The received messages, as protobuf."""
    request = types.PullRequest(
        subscription=name, max_messages=max_messages, return_immediately=wait_s == 0.0
    )
    answer = await delivery_api.pull(broker, request.SerializeToString(), _context(wait_s))
    return types.PullResponse.FromString(answer).received_messages


def _context(remaining_s: float = 60.0) -> Any:
    return _Context(remaining_s)
