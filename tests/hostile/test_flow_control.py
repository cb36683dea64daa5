"""A thousand streams on one channel of a real server, and one that stalls beside the others."""

from __future__ import annotations

import asyncio

import grpc

from fanlog.wire import types
from hostile.victim import MEMORY_MAX, Victim

TOPIC, SUBSCRIPTION = "projects/p/topics/shared", "projects/p/subscriptions/shared"
PULL = "/google.pubsub.v1.Subscriber/StreamingPull"
PATIENCE_S = 60


async def test_a_thousand_streaming_pulls_on_one_channel(victim: Victim) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        grpc.aio.insecure_channel(
            victim.served.endpoint, options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel,
    ):
        publisher = "/google.pubsub.v1.Publisher"
        topic = types.Topic(name=TOPIC).SerializeToString()
        await channel.unary_unary(f"{publisher}/CreateTopic")(topic)
        made = types.Subscription(name=SUBSCRIPTION, topic=TOPIC).SerializeToString()
        await channel.unary_unary("/google.pubsub.v1.Subscriber/CreateSubscription")(made)
        first = types.StreamingPullRequest(
            subscription=SUBSCRIPTION, stream_ack_deadline_seconds=60, max_outstanding_messages=1
        ).SerializeToString()
        before = victim.memory()
        calls = [channel.stream_stream(PULL)() for _ in range(1_000)]
        for call in calls:
            await call.write(first)
        # One message for each: nobody has credit for a second one.
        publish = types.PublishRequest(topic=TOPIC, messages=[{"data": b"x"}] * 1_000)
        publishing = channel.unary_unary(f"{publisher}/Publish")
        await publishing(publish.SerializeToString())
        found = [await call.read() for call in calls]
        ids = {
            one.message.message_id
            for raw in found
            for one in types.StreamingPullResponse.FromString(raw).received_messages
        }
        assert len(ids) == 1_000
        assert victim.memory() - before < MEMORY_MAX
        for call in calls:
            call.cancel()
        # The connection outlives them.
        faults = victim.count("fanlog_connection_faults_total", "ENHANCE_YOUR_CALM")
        await publishing(publish.SerializeToString())
        assert victim.count("fanlog_connection_faults_total", "ENHANCE_YOUR_CALM") == faults
