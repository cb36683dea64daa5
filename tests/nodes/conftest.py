"""Clusters in this process: nodes with real ports, over a partition in memory.

The session is short, so that a node that is dropped is missed soon.
"""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google.pubsub_v1 as gapic
import grpc
import pytest

from fanlog.config import Config
from fanlog.log.replicated.api import ReplicaClock
from fanlog.log.replicated.partition import (
    Fetched,
    Partition,
    PartitionBounds,
    PartitionUnavailable,
    Produced,
    Uncertain,
)
from fanlog.log.replicated.replicated import MachineClock
from fanlog.server.clustered import NodeServer, running_node
from fanlog.testing.kafka_partition import KafkaTopic, MemoryPartition
from fanlog.v1 import cluster_pb2 as pb

#: Longest anything may take on a busy machine; nothing waits this long when all is well.
PATIENCE_S = 30.0
SESSION_S = 1.2
#: How long a record waits for Kafka.
DELIVERY_S = 8.0
TOPIC = "projects/shop/topics/orders"
SUBSCRIPTION = "projects/shop/subscriptions/packing"


class CutPartition(MemoryPartition):
    """A node's own way to the partition, which the test may cut.

    As Kafka's client does, it waits with a record for a while until there is a way again.
    """

    def __init__(self, topic: KafkaTopic, is_cut: Callable[[], bool]) -> None:
        super().__init__(topic)
        self._is_cut = is_cut
        self._given_up = threading.Event()

    def produce(self, value: bytes) -> Produced | Uncertain:
        until_s = time.monotonic() + DELIVERY_S
        while time.monotonic() < until_s:
            if not self._is_cut():
                found = super().produce(value)
                if isinstance(found, Produced):
                    return found
            if self._given_up.wait(0.02):
                break
        return Uncertain("it was not delivered in time")

    def reset_producer(self) -> None:
        self._given_up.clear()

    def fetch(self, offset: int, *, max_bytes: int, wait_s: float) -> list[Fetched]:
        self._check()
        found = super().fetch(offset, max_bytes=max_bytes, wait_s=wait_s)
        # What came while it was cut did not come.
        self._check()
        return found

    def bounds(self, *, wait_s: float) -> PartitionBounds:
        self._check()
        return super().bounds(wait_s=wait_s)

    def _check(self) -> None:
        if self._is_cut():
            raise PartitionUnavailable("the test has cut it off")

    def close(self) -> None:
        self._given_up.set()
        super().close()


@dataclass
class MemoryTopic:
    """The `ShardTopic` of one node of a test."""

    topic: KafkaTopic
    name: str = "shop.shards"
    promise: str = "in memory"
    problem: str = ""
    is_cut: bool = False

    def prepare(self) -> None:
        pass

    def open(self) -> Partition:
        return CutPartition(self.topic, lambda: self.is_cut)

    def look(self) -> None:
        pass


@dataclass
class ClusterNode:
    """A node of the test's cluster, and a client of it."""

    name: str
    server: NodeServer
    topic: MemoryTopic
    channel: grpc.aio.Channel
    _stack: AsyncExitStack = field(repr=False)

    @property
    def is_owner(self) -> bool:
        return self.server.node.part == "owner"

    async def call(self, method: str, request: Any, answer: Any, timeout_s: float = 20.0) -> Any:
        """Call by bytes or by messages of proto-plus; waits for a node that is busy."""
        service = "google.pubsub.v1." if not method.startswith("fanlog") else ""
        verb = self.channel.unary_unary(f"/{service}{method}")
        kind = type(request)
        raw = kind.serialize(request) if hasattr(kind, "serialize") else request.SerializeToString()
        found = await verb(raw, timeout=timeout_s, wait_for_ready=True)
        return (
            answer.deserialize(found)
            if hasattr(answer, "deserialize")
            else answer.FromString(found)
        )

    async def make(self, **settings: Any) -> None:
        """Make the topic and the subscription of the tests."""
        await self.call("Publisher/CreateTopic", gapic.Topic(name=TOPIC), gapic.Topic)
        wanted = gapic.Subscription(
            name=SUBSCRIPTION, topic=TOPIC, ack_deadline_seconds=60, **settings
        )
        await self.call("Subscriber/CreateSubscription", wanted, gapic.Subscription)

    async def publish(self, *data: bytes) -> list[str]:
        """Publish, again and again while the cluster has no owner; the message ids."""
        request = gapic.PublishRequest(
            topic=TOPIC, messages=[gapic.PubsubMessage(data=one) for one in data]
        )
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    answer = await self.call("Publisher/Publish", request, gapic.PublishResponse)
                except grpc.aio.AioRpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE:
                        raise
                else:
                    return list(answer.message_ids)

    async def pull(self, most: int = 100) -> list[Any]:
        request = gapic.PullRequest(
            subscription=SUBSCRIPTION, max_messages=most, return_immediately=True
        )
        answer = await self.call("Subscriber/Pull", request, gapic.PullResponse)
        return list(answer.received_messages)

    async def acknowledge(self, *messages: Any) -> None:
        from google.protobuf.empty_pb2 import Empty

        request = gapic.AcknowledgeRequest(
            subscription=SUBSCRIPTION, ack_ids=[one.ack_id for one in messages]
        )
        await self.call("Subscriber/Acknowledge", request, Empty)

    def cut(self) -> None:
        """Take Kafka away from this node alone; clients and other nodes reach it as before."""
        self.topic.is_cut = True

    def mend(self) -> None:
        self.topic.is_cut = False

    async def http(self, path: str, token: str = "") -> tuple[int, str]:
        """The status and the text of a page."""

        def get() -> tuple[int, str]:
            request = urllib.request.Request(f"http://{self.server.http_endpoint}{path}")
            if token:
                request.add_header("authorization", f"Bearer {token}")
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as refusal:
                with refusal:
                    return refusal.code, refusal.read().decode()

        return await asyncio.to_thread(get)

    async def describe(self) -> pb.ClusterState:
        method = "fanlog.v1.Cluster/DescribeCluster"
        return await self.call(method, pb.DescribeClusterRequest(), pb.ClusterState)

    async def move(self, name: str = "") -> pb.MoveClusterResponse:
        request = pb.MoveClusterRequest(node=name)
        return await self.call("fanlog.v1.Cluster/MoveCluster", request, pb.MoveClusterResponse)

    def stream(self, **fields: Any) -> Any:
        """A StreamingPull of the subscription; its requests come from one that never ends."""
        first = gapic.StreamingPullRequest(
            subscription=SUBSCRIPTION, stream_ack_deadline_seconds=30, **fields
        )

        async def requests() -> AsyncIterator[bytes]:
            yield gapic.StreamingPullRequest.serialize(first)
            await asyncio.Event().wait()

        verb = self.channel.stream_stream("/google.pubsub.v1.Subscriber/StreamingPull")
        return verb(requests())

    async def stop(self) -> None:
        """As SIGTERM does: the log is handed over first."""
        await self._stack.aclose()


class Cluster:
    """The nodes of a test, by name."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.kafka = KafkaTopic("shop")
        self.nodes: dict[str, ClusterNode] = {}

    async def start(
        self, name: str, *, clock: ReplicaClock | None = None, **settings: Any
    ) -> ClusterNode:
        config = Config(
            **{
                "kafka": ("127.0.0.1:9",),
                "cluster": "shop",
                "node": name,
                "data_dir": self._folder / name,
                "port": 0,
                "http_port": None,
                "link_port": 0,
                "session": SESSION_S,
                "drain_s": 0.5,
            }
            | settings
        )
        topic = MemoryTopic(self.kafka)
        stack = AsyncExitStack()
        server = await stack.enter_async_context(
            running_node(config, topic=topic, clock=clock or MachineClock())
        )
        channel = grpc.aio.insecure_channel(
            server.endpoint, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        stack.push_async_callback(channel.close)
        self._stack.push_async_callback(stack.aclose)
        # Before it stops: with Kafka away that takes longer.
        self._stack.callback(setattr, topic, "is_cut", False)
        node = self.nodes[name] = ClusterNode(name, server, topic, channel, stack)
        return node

    async def start_all(self, *names: str, **settings: Any) -> list[ClusterNode]:
        """Start nodes, one after the other: the first owns; the others are known to it."""
        found = []
        for name in names:
            found.append(await self.start(name, **settings))
            await self.until(lambda: self.owner is not None)
        await self.until(lambda: self.has_standbys(len(names) - 1))
        return found

    def has_standbys(self, count: int) -> bool:
        owner = self.owner
        if owner is None:
            return False
        node = owner.server.node
        return len([one for one in node.standbys.present(self.now()) if one.is_whole]) == count

    def now(self) -> float:
        return MachineClock().boottime_s()

    @property
    def owner(self) -> ClusterNode | None:
        return next((one for one in self.nodes.values() if one.is_owner), None)

    async def owned(self) -> ClusterNode:
        """The owner, once there is one."""
        await self.until(lambda: self.owner is not None)
        assert self.owner is not None
        return self.owner

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                await asyncio.sleep(0.005)


Start = Callable[..., Awaitable[ClusterNode]]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        yield Cluster(tmp_path, stack)
