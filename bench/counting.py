"""What counting costs: nanoseconds of each call that counts, and of a message's whole path.

    python -m bench.counting

The calls are those on the path of a message. The path is a broker in memory, without a transport:
publish, lease and acknowledge, by requests of one message and of a hundred.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from fanlog.broker.assembly import build_broker
from fanlog.broker.broker import Broker
from fanlog.broker.clock import SystemClock
from fanlog.broker.committer import InlineCommitter
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.metrics import Metrics
from fanlog.core.share import Decision
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import PartitionId, SubscriptionId
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body

ROUNDS, CALLS = 7, 20_000


def ns_of(call: Callable[[], object]) -> float:
    """The best of some rounds, in nanoseconds a call."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, time.perf_counter() - began)
    return best / CALLS * 1e9


def count_alone() -> None:
    metrics = Metrics()
    partition, subscription = PartitionId(1), SubscriptionId(2)
    body = build_body([(b"x" * 100, {}, "")] * 10)
    now = time.time()
    delivery = Delivery(partition, 1, (), 10, {}, 0, 1_000)
    decision = Decision(count=10)
    ended = (now, 10, now) if hasattr(metrics, "ack_seconds") else (now, 10)
    decision.ended.append(ended)  # type: ignore[arg-type]
    for name, call in (
        ("a commit", lambda: metrics.count_commit(1_000, 10, 0.002)),
        ("a partition of a commit", lambda: metrics.count_append(partition, 10, [body])),
        (
            "an answer with messages",
            lambda: metrics.count_deliveries(subscription, [delivery], now),
        ),
        ("a request that acks", lambda: metrics.count_acks(subscription, decision, now)),
    ):
        print(f"{name:28} {ns_of(call):8.0f} ns")


async def path(broker: Broker, size: int) -> float:
    """Seconds of the fastest hundred rounds of publish, pull and acknowledge."""
    body = build_body([(b"x" * 100, {}, "")] * size)
    best = float("inf")
    for _ in range(60):
        began = time.perf_counter()
        for _ in range(100):
            await broker.publish("projects/p/topics/topic", body)
            found, deliveries = await broker.pull(
                "projects/p/subscriptions/sub", max_messages=size, wait_s=0
            )
            ids = [
                broker.ack_id_prefix(found, one) + f"{batch.base_offset + index:012x}"
                for one in deliveries
                for batch, first, end in one.runs
                for index in range(first, end)
            ]
            await broker.acknowledge("projects/p/subscriptions/sub", ids)
        best = min(best, time.perf_counter() - began)
    return best / 100


async def count_on_the_path() -> None:
    store, clock = MemoryLog(), SystemClock()
    broker = build_broker(
        store,
        InlineCommitter(store),
        clock,
        compose=compose,
        candidates=candidates,
        jitter=lambda: 0.5,
    )
    await broker.start()
    await broker.topics.create(TopicSpec(name="projects/p/topics/topic"))
    spec = SubscriptionSpec(name="projects/p/subscriptions/sub", topic="projects/p/topics/topic")
    await broker.subscriptions.create(spec)
    for size in (1, 100):
        print(f"publish, pull, ack of {size:3} {await path(broker, size) * 1e6:12.1f} us")
    await broker.stop()


if __name__ == "__main__":
    count_alone()
    asyncio.run(count_on_the_path())
