"""A data folder with something of everything in it, made by the real server, and what it holds."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acceptance.served import Served
from crash.world import Clients, subscription_name, topic_name
from fanlog.core.hard_state import HardState
from fanlog.log.api import Damaged, Log
from fanlog.model.resources import Offset, PartitionId

TOPICS = ("small", "large", "ordered", "gone")
READ_BYTES = 1024 * 1024


@dataclass(slots=True)
class Content:
    """All that a log holds, read back through the engine as the broker reads it."""

    #: Bounds, and the bytes of each batch by its base offset.
    partitions: dict[PartitionId, tuple[Offset, Offset, dict[Offset, bytes]]]
    state: dict[bytes, bytes]
    #: Offsets reported as damaged, first and end, and why.
    damaged: list[tuple[PartitionId, Offset, Offset, str]] = field(default_factory=list)


def read_content(log: Log, *, load: bool = True) -> Content:
    """Read everything; raises what the broker would stop with, if the state is a broker's."""
    content = Content(partitions={}, state=dict(log.state()))
    if load:
        HardState.load(content.state.items())
    asyncio.run(_read_batches(log, content))
    return content


async def _read_batches(log: Log, content: Content) -> None:
    for partition, bounds in log.partitions().items():
        batches: dict[Offset, bytes] = {}
        content.partitions[partition] = (bounds.start, bounds.end, batches)
        position = bounds.start
        while position < bounds.end:
            found = await log.read(partition, position, max_bytes=READ_BYTES)
            assert found, f"partition {partition} offset {position}: nothing, and no damage either"
            for item in found:
                end = item.base_offset + item.count
                if isinstance(item, Damaged):
                    content.damaged.append((partition, item.base_offset, end, item.reason))
                else:
                    batches[item.base_offset] = bytes(item.content)
                position = max(position, end)


def difference(content: Content, expected: Content) -> str:
    """What is neither as it should be nor reported as damaged; empty when there is nothing."""
    for key in content.state.keys() | expected.state.keys():
        if content.state.get(key) != expected.state.get(key):
            return f"state {key.hex()} is not what it was"
    if content.partitions.keys() != expected.partitions.keys():
        return f"partitions {sorted(content.partitions)} of {sorted(expected.partitions)}"
    for partition, (start, end, batches) in expected.partitions.items():
        found = content.partitions[partition]
        if found[:2] != (start, end):
            return f"partition {partition} has the bounds {found[:2]}, not {(start, end)}"
        for base, value in batches.items():
            if base in found[2]:
                if found[2][base] != value:
                    return f"partition {partition} offset {base} has other bytes"
            elif not any(
                partition == place and first <= base < last
                for place, first, last, _ in content.damaged
            ):
                return f"partition {partition} offset {base} is gone, and nobody says so"
        if strangers := found[2].keys() - batches.keys():
            return f"partition {partition} has batches that nobody wrote: {sorted(strangers)}"
    return ""


def make_sample(data_dir: Path, log_path: Path, seed: int, *, rounds: int = 60) -> dict[str, bytes]:
    """Let a server write topics, subscriptions and messages of all sizes; ids and data by topic.

    Some are acknowledged, some leased under exactly-once, some trimmed, so that the file has free
    pages, old versions of records, and trees of more than one level.
    """
    chance = random.Random(seed)
    served = Served(data_dir, log_path)
    served.start()
    clients = Clients(served.endpoint)
    published: dict[str, bytes] = {}
    try:
        for topic in TOPICS:
            clients.publisher.create_topic(name=topic_name(topic))
            for number in range(12):
                clients.subscriber.create_subscription(
                    request={
                        "name": subscription_name(f"{topic}-{number}"),
                        "topic": topic_name(topic),
                        "enable_message_ordering": topic == "ordered",
                        "enable_exactly_once_delivery": number % 2 == 1,
                        "labels": {f"label-{i}": "x" * 60 for i in range(number)},
                    }
                )
        for _ in range(rounds):
            _publish(clients, chance, published)
            _settle(clients, chance)
        clients.publisher.delete_topic(topic=topic_name("gone"))
        clients.channel.close()
        status, _ = served.stop()
        assert status == 0
    finally:
        served.close()
    return published


def _publish(clients: Clients, chance: random.Random, published: dict[str, bytes]) -> None:
    topic = chance.choice(TOPICS)
    count, size_max = (1, 30_000) if topic == "large" else (chance.randrange(1, 8), 300)
    messages = [
        {
            "data": chance.randbytes(chance.randrange(1, size_max)),
            "ordering_key": chance.choice("abc") if topic == "ordered" else "",
        }
        for _ in range(count)
    ]
    if topic == "ordered":
        messages = [message | {"ordering_key": "a"} for message in messages]
    request = {"topic": topic_name(topic), "messages": messages}
    ids = clients.publisher.publish(request=request, retry=None).message_ids
    if topic != "gone":
        data: list[Any] = [message["data"] for message in messages]
        published.update(zip(ids, data, strict=True))


def _settle(clients: Clients, chance: random.Random) -> None:
    # The first one of each topic keeps all of its backlog.
    name = subscription_name(f"{chance.choice(TOPICS)}-{chance.randrange(1, 12)}")
    received = clients.subscriber.pull(
        request={"subscription": name, "max_messages": 50, "return_immediately": True}, retry=None
    ).received_messages
    acked = [one.ack_id for one in received if chance.random() < 0.7]
    # Those of a key in order only; a random part of them would be refused.
    if acked and "ordered" not in name:
        clients.subscriber.acknowledge(subscription=name, ack_ids=acked, retry=None)
