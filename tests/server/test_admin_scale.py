"""A million unacknowledged messages, ten thousand topics, ten thousand subscriptions on one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.pubsub_v1 import types

from fanlog.model.specs import SubscriptionSpec, TopicSpec
from server.conftest import RunningServer, StartServer

MESSAGES = 1_000_000
MANY = 10_000
#: Resources that are made side by side: they share their commits.
STEP = 500


async def make_topics(server: RunningServer, names: list[str]) -> None:
    broker = server.broker
    for first in range(0, len(names), STEP):
        await asyncio.gather(
            *(broker.topics.create(TopicSpec(name=n)) for n in names[first : first + STEP])
        )


async def make_subscriptions(server: RunningServer, topic: str, names: list[str]) -> None:
    broker = server.broker
    for first in range(0, len(names), STEP):
        specs = [SubscriptionSpec(name=n, topic=topic) for n in names[first : first + STEP]]
        await asyncio.gather(*(broker.subscriptions.create(spec) for spec in specs))


def backlog(server: RunningServer, subscription: str) -> Any:
    found = server.broker.hard.catalog.subscription(subscription)
    return server.run(server.broker.backlogs.measure(found))


@pytest.mark.slow
def test_a_million_unacknowledged_messages(start_server: StartServer):
    server = start_server()
    topic, subscription = server.topic_and_subscription(ack_deadline_seconds=600)
    other = server.subscription(topic)
    request = types.PublishRequest(topic=topic, messages=[{"data": b"x" * 100}] * 1_000)
    publish, raw = server.raw("Publisher/Publish"), types.PublishRequest.serialize(request)
    for _ in range(MESSAGES // 1_000):
        publish(raw)
    assert backlog(server, subscription).messages == MESSAGES

    # Some from the front, and every third of what comes then.
    for _ in range(50):
        server.ack(subscription, server.pull(subscription))
    assert backlog(server, subscription).messages == MESSAGES - 50_000
    for _ in range(20):
        server.ack(subscription, server.pull(subscription)[::3])
    state = backlog(server, subscription)
    acked = 50_000 + 20 * 334
    assert state.messages == MESSAGES - acked
    assert state.outstanding == 20 * 666
    assert backlog(server, other).messages == MESSAGES

    server.restart()
    assert backlog(server, subscription).messages == MESSAGES - acked
    assert backlog(server, other).messages == MESSAGES
    first = server.pull(subscription, max_messages=1)
    assert first[0].message.message_id.endswith("000050001")


@pytest.mark.slow
def test_ten_thousand_topics(start_server: StartServer):
    server = start_server()
    names = [f"projects/many/topics/topic-{number:05d}" for number in range(MANY)]
    server.run(make_topics(server, names))

    def listed() -> list[str]:
        request = {"project": "projects/many", "page_size": 1_000}
        return [topic.name for topic in server.publisher.list_topics(request=request)]

    assert listed() == names
    subscription = server.subscription(names[7_777])
    server.publish(names[7_777], b"here")
    server.publish(names[7_776], b"not here")
    assert [m.message.data for m in server.pull(subscription)] == [b"here"]
    server.sweep()
    server.restart()
    assert listed() == names
    assert [m.message.data for m in server.pull(subscription)] == [b"here"]


@pytest.mark.slow
def test_ten_thousand_subscriptions_on_a_topic(start_server: StartServer):
    server = start_server(metrics_resources_max=MANY)
    topic = server.topic()
    names = [f"projects/many/subscriptions/sub-{number:05d}" for number in range(MANY)]
    server.run(make_subscriptions(server, topic, names))

    request = {"topic": topic, "page_size": 1_000}
    assert list(server.publisher.list_topic_subscriptions(request=request)) == names
    listed = server.subscriber.list_subscriptions(
        request={"project": "projects/many", "page_size": 1_000}
    )
    assert [subscription.name for subscription in listed] == names

    server.publish(topic, b"to all")
    for name in names[::500]:
        received = server.pull(name)
        assert [m.message.data for m in received] == [b"to all"]
        server.ack(name, received)
    server.sweep()
    lines = server.metrics().splitlines()
    behind = [line for line in lines if line.startswith("fanlog_backlog_messages{")]
    assert len(behind) == MANY
    assert sum(line.endswith(" 1.0") for line in behind) == MANY - MANY // 500

    server.restart()
    assert server.pull(names[0]) == []
    assert len(server.pull(names[1])) == 1
    server.publisher.delete_topic(topic=topic)
    shown = server.subscriber.get_subscription(subscription=names[-1])
    assert shown.topic == "_deleted-topic_"
    assert len(server.pull(names[-1])) == 1
