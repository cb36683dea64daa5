"""A cluster from one node on: publishing through any of them, and owners that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fanlog.v1 import message_pb2, sink_pb2
from nodes.conftest import TOPIC, Cluster, ClusterNode


async def test_one_node_serves_alone(cluster: Cluster):
    node = await cluster.start("a")
    await node.make()
    await node.publish(b"one", b"two")
    assert [one.message.data for one in await node.pull()] == [b"one", b"two"]


async def test_any_node_takes_every_call(cluster: Cluster):
    one, two, three = await cluster.start_all("a", "b", "c")
    assert one.is_owner
    await two.make()
    first = await two.publish(b"by two")
    second = await three.publish(b"by three")
    assert first < second
    found = await three.pull()
    assert [each.message.data for each in found] == [b"by two", b"by three"]
    await two.acknowledge(*found)
    assert await one.pull() == []


async def test_a_node_that_ends_hands_the_log_over(cluster: Cluster):
    one, two, three = await cluster.start_all("a", "b", "c")
    await one.make()
    await one.publish(b"before")
    stopping = asyncio.create_task(one.stop())
    await two.publish(b"meanwhile")
    await stopping
    del cluster.nodes["a"]
    owner = await cluster.owned()
    assert owner.server.node.standing.term > 0
    await three.publish(b"after")
    data = [each.message.data for each in await two.pull()]
    assert data == [b"before", b"meanwhile", b"after"]


async def test_an_epoch_that_was_staged_is_published_once_by_the_next_owner(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    await one.make()
    key = sink_pb2.StageKey(query="q", epoch=1, attempt="1")
    rows = sink_pb2.StagedRows(topic=TOPIC, messages=[message_pb2.Message(data=b"staged")])
    requests = (sink_pb2.StageRequest(key=key), sink_pb2.StageRequest(rows=[rows]))

    async def stage() -> AsyncIterator[bytes]:
        for each in requests:
            yield each.SerializeToString()

    staged = await two.channel.stream_unary("/fanlog.v1.Sink/Stage")(stage(), timeout=20)
    assert sink_pb2.StageResponse.FromString(staged).messages == 1
    await one.move("b")
    await cluster.until(lambda: two.is_owner)

    async def commit(node: ClusterNode) -> sink_pb2.CommitEpochResponse:
        request = sink_pb2.CommitEpochRequest(query="q", epoch=1, stages=[key])
        return await node.call("fanlog.v1.Sink/CommitEpoch", request, sink_pb2.CommitEpochResponse)

    assert not (await commit(one)).repeated_epoch
    assert (await commit(two)).repeated_epoch
    assert [each.message.data for each in await one.pull()] == [b"staged"]
