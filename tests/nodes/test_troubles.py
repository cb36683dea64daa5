"""Owners that cannot reach Kafka, that are deposed, and that find out late."""

from __future__ import annotations

import asyncio

import google.pubsub_v1 as gapic
import grpc
import pytest

from nodes.conftest import SESSION_S, Cluster


async def end_of(stream) -> grpc.aio.AioRpcError:
    """The error that a stream ends with; messages before that are passed over."""
    try:
        while True:
            await next_messages(stream)
    except grpc.aio.AioRpcError as error:
        return error


async def next_messages(stream) -> list[bytes]:
    """The data of the next answer that has messages."""
    while True:
        answer = gapic.StreamingPullResponse.deserialize(await stream.read())
        if answer.received_messages:
            return [one.message.data for one in answer.received_messages]


async def test_another_node_takes_over_from_one_that_is_gone(cluster: Cluster):
    one, two, three = await cluster.start_all("a", "b", "c")
    await one.make()
    ids = await two.publish(b"before")
    one.cut()
    ids += await three.publish(b"after")
    owner = await cluster.owned()
    assert owner is not one
    assert len(set(ids)) == 2
    assert [each.message.data for each in await two.pull()] == [b"before", b"after"]


async def test_callers_of_an_owner_that_is_cut_off_reach_the_next_one(cluster: Cluster):
    """It cannot read who owns now; the others tell it."""
    one, two = await cluster.start_all("a", "b")
    await one.make()
    one.cut()
    await cluster.until(lambda: two.is_owner)
    await one.publish(b"by way of the one that was cut off")
    assert not one.is_owner
    one.mend()
    await cluster.until(lambda: one.server.node.standing.term == two.server.node.standing.term)
    [found] = await one.pull()
    assert found.message.data == b"by way of the one that was cut off"


async def test_silence_of_kafka_deposes_nobody(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    await one.make()
    term = one.server.node.standing.term
    cluster.kafka.set_down(True)
    await asyncio.sleep(3 * SESSION_S)
    assert not one.server.node.is_sure
    cluster.kafka.set_down(False)
    await two.publish(b"later")
    assert one.is_owner
    assert one.server.node.standing.term == term
    assert one.server.node.late_renewals


async def test_an_owner_that_cannot_renew_lets_calls_wait(cluster: Cluster):
    [one] = await cluster.start_all("a")
    await one.make()
    await one.publish(b"one")
    cluster.kafka.set_down(True)
    await cluster.until(lambda: not one.server.node.is_sure)
    pulling = asyncio.create_task(one.pull())
    topics = asyncio.create_task(
        one.call(
            "Publisher/ListTopics",
            gapic.ListTopicsRequest(project="projects/shop"),
            gapic.ListTopicsResponse,
        )
    )
    done, _ = await asyncio.wait((pulling, topics), timeout=SESSION_S / 2)
    assert not done
    cluster.kafka.set_down(False)
    assert [each.message.data for each in await pulling] == [b"one"]
    assert len((await topics).topics) == 1
    assert one.server.node.held >= 2


async def test_calls_wait_for_a_bounded_time(cluster: Cluster):
    [one] = await cluster.start_all("a")
    await one.make()
    cluster.kafka.set_down(True)
    await cluster.until(lambda: not one.server.node.is_sure)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await one.pull()
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "could not reach" in caught.value.details()
    cluster.kafka.set_down(False)


async def test_streams_stay_silent_and_go_on(cluster: Cluster):
    [one] = await cluster.start_all("a")
    await one.make()
    stream = one.stream()
    await one.publish(b"one")
    assert await next_messages(stream) == [b"one"]
    cluster.kafka.set_down(True)
    await cluster.until(lambda: not one.server.node.is_sure)
    reading = asyncio.create_task(next_messages(stream))
    publishing = asyncio.create_task(one.publish(b"two"))
    done, _ = await asyncio.wait((reading,), timeout=SESSION_S / 2)
    assert not done
    cluster.kafka.set_down(False)
    await publishing
    assert await reading == [b"two"]
    stream.cancel()


async def test_streams_end_when_the_owner_changes(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    await one.make()
    await one.publish(b"one")
    here, there = one.stream(max_outstanding_messages=1), two.stream(max_outstanding_messages=1)
    await one.move("b")
    for stream in (here, there):
        assert (await end_of(stream)).code() == grpc.StatusCode.UNAVAILABLE
    await cluster.until(lambda: two.is_owner)
    again = one.stream()
    assert await next_messages(again) == [b"one"]
    again.cancel()


async def test_a_deposed_owner_delivers_nothing(cluster: Cluster):
    """Another node owns, and this one has a stream, a message to deliver, and does not know."""
    one, two = await cluster.start_all("a", "b")
    await one.make()
    stream = one.stream()
    shard = one.server.shard
    assert shard is not None
    await cluster.until(lambda: shard.shard.broker.metrics.streams == 1)
    one.cut()
    await cluster.until(lambda: two.is_owner)
    await two.publish(b"of the next owner")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await next_messages(stream)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert [each.message.data for each in await two.pull()] == [b"of the next owner"]


async def test_two_nodes_of_one_name_are_told(cluster: Cluster):
    one = await cluster.start("a")
    await cluster.until(lambda: one.is_owner)
    twin = await cluster.start("twin", node="a")
    # By the log the owner has its name, and so it never announces itself.
    assert not twin.is_owner
    await cluster.until(lambda: "name" in twin.server.node.trouble)
