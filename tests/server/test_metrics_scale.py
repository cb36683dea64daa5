"""A scrape of very many topics and subscriptions, and the bound of those with own metrics."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fanlog.broker.clock import ManualClock
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.wire.publish import build_body
from server.conftest import RunningServer

#: Processor time between two turns of the loop. Not time that passes: the machine is shared.
STALL_S = 0.020


async def make(server: RunningServer, first: int, end: int) -> None:
    """Topics with numbers, each with a subscription."""
    broker = server.broker
    for start in range(first, end, 500):
        some = range(start, min(start + 500, end))
        topics = [TopicSpec(name=f"projects/test/topics/t{n:05}") for n in some]
        await asyncio.gather(*map(broker.topics.create, topics))
        specs = [
            SubscriptionSpec(
                name=f"projects/test/subscriptions/s{n:05}", topic=f"projects/test/topics/t{n:05}"
            )
            for n in some
        ]
        await asyncio.gather(*map(broker.subscriptions.create, specs))


async def publish(server: RunningServer, counts: dict[int, int]) -> None:
    """So many messages to topics, by their number."""
    await asyncio.gather(
        *[
            server.broker.publish(
                f"projects/test/topics/t{n:05}", build_body([(b"x", {}, "")] * count)
            )
            for n, count in counts.items()
        ]
    )


def values(text: str, name: str, label: str) -> dict[str, float]:
    """The values of a metric by one of its labels."""
    return {
        sample.labels[label]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


@pytest.fixture
def collected_seldom() -> Iterator[None]:
    """The garbage collector looks at what is new alone, and seldom, as in a server."""
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.slow
@pytest.mark.usefixtures("collected_seldom")
def test_a_scrape_of_ten_thousand_does_not_stop_the_loop(start_server):
    # The broker does nothing else meanwhile: its clock stands still.
    server = start_server(memory=True, clock=ManualClock(), metrics_resources_max=10_000)
    server.run(make(server, 0, 10_000))
    server.run(publish(server, {n: 1 + (n == 42) for n in range(10_000)}))
    gc.collect()
    gc.freeze()
    longest, is_over = 0.0, False

    async def turn() -> None:
        nonlocal longest
        while not is_over:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    turning = asyncio.run_coroutine_threadsafe(turn(), server._loop._loop)
    text = server.metrics()
    is_over = True
    turning.result(30)
    assert longest < STALL_S
    backlogs = values(text, "fanlog_backlog_messages", "subscription")
    published = values(text, "fanlog_topic_published_total", "topic")
    assert len(backlogs) == len(published) == 10_000
    assert published["projects/test/topics/t00042"] == 2
    assert sum(backlogs.values()) == sum(published.values()) == 10_001
    assert values(text, "fanlog_metrics_cut", "kind") == {"topic": 0, "subscription": 0}


def kept(server: RunningServer) -> tuple[list[str], list[str]]:
    """The topics and subscriptions with metrics of their own, by their last part."""
    text = server.metrics()
    topics = values(text, "fanlog_topic_published_total", "topic")
    subscriptions = values(text, "fanlog_deliveries_total", "subscription")
    waiting = values(text, "fanlog_backlog_messages", "subscription")
    assert set(waiting) == set(subscriptions)
    return (
        sorted(name.rpartition("/")[2] for name in topics),
        sorted(name.rpartition("/")[2] for name in subscriptions),
    )


def test_above_the_bound_the_most_active_are_kept(start_server, caplog):
    caplog.set_level(logging.INFO, logger="fanlog.metrics")
    server = start_server(memory=True, clock=ManualClock(), metrics_resources_max=3)
    server.run(make(server, 0, 3))
    assert kept(server) == (["t00000", "t00001", "t00002"], ["s00000", "s00001", "s00002"])
    assert not caplog.records

    server.run(make(server, 3, 9))
    server.run(publish(server, {2: 5, 4: 3, 7: 4}))
    assert kept(server) == (["t00002", "t00004", "t00007"], ["s00002", "s00004", "s00007"])
    assert values(server.metrics(), "fanlog_metrics_cut", "kind") == {"topic": 6, "subscription": 6}
    told = [record.getMessage() for record in caplog.records]
    assert [line.split(";")[0] for line in told] == [
        "action=metrics_cut kind=topic left_out=6 kept=3",
        "action=metrics_cut kind=subscription left_out=6 kept=3",
    ]

    # A choice is good for a while, and then goes only for much more.
    server.run(publish(server, {5: 100}))
    assert kept(server)[0] == ["t00002", "t00004", "t00007"]
    server.advance(61)
    assert kept(server) == (["t00002", "t00005", "t00007"], ["s00002", "s00005", "s00007"])
    assert len(caplog.records) == 2

    for number in range(3, 9):
        server.publisher.delete_topic(topic=f"projects/test/topics/t{number:05}")
        name = f"projects/test/subscriptions/s{number:05}"
        server.subscriber.delete_subscription(subscription=name)
    assert kept(server) == (["t00000", "t00001", "t00002"], ["s00000", "s00001", "s00002"])
    assert [record.getMessage().split(";")[0] for record in caplog.records[2:]] == [
        "action=metrics_whole kind=topic",
        "action=metrics_whole kind=subscription",
    ]


def test_a_bound_of_none_leaves_the_metrics_of_the_broker(start_server):
    server = start_server(memory=True, metrics_resources_max=0)
    topic, _ = server.topic_and_subscription()
    server.publish(topic, b"x")
    assert kept(server) == ([], [])
    assert server.metric("fanlog_published_total") == 1
    assert server.metric("fanlog_topics") == 1
