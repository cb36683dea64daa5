"""What push holds in memory is bounded over all subscriptions."""

from __future__ import annotations

import asyncio

from fanlog import limits
from fanlog.push.senders.memory_limiter import MemoryLimiter
from server.receiver import receiving


async def test_first_come_first_served():
    memory = MemoryLimiter(100)
    await memory.reserve(80)
    memory.hold(30, 80)
    large = asyncio.create_task(memory.reserve(80))
    small = asyncio.create_task(memory.reserve(10))
    await asyncio.sleep(0)
    assert not large.done()
    assert not small.done()
    memory.give(30)
    await large
    await small
    memory.hold(0, 80)
    memory.hold(0, 10)
    assert memory.held == 0
    await memory.reserve(100)


async def test_who_no_longer_waits_takes_nothing():
    memory = MemoryLimiter(100)
    await memory.reserve(100)
    gone, there = (asyncio.create_task(memory.reserve(60)) for _ in range(2))
    await asyncio.sleep(0)
    # Cancelled while it waits, and cancelled when it has it but does not know yet.
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    memory.hold(0, 100)
    there.cancel()
    await asyncio.gather(there, return_exceptions=True)
    await memory.reserve(100)


async def test_who_was_turned_away_is_told():
    memory, told = MemoryLimiter(100), []
    await memory.reserve(100)
    memory.hold(60, 100)
    assert memory.is_scarce
    memory.tell(lambda: told.append(1))
    memory.give(5)
    assert told == []
    memory.give(5)
    assert not memory.is_scarce
    assert told == [1]
    memory.give(50)
    assert told == [1]


def test_slow_endpoints_hold_no_more_than_they_may(start_server, monkeypatch):
    message, total = 1_000_000, 40_000_000
    monkeypatch.setattr(limits, "PUSH_BYTES_TOTAL_MAX", total)
    with receiving() as receiver:
        receiver.answer = lambda got: (receiver.hang() if got.path == "/slow" else None) or 204
        server = start_server("memory")
        memory = server.senders.memory
        topic = server.topic()
        for _ in range(20):
            server.subscription(topic, push_config={"push_endpoint": receiver.url("/slow")})
        for _ in range(12):
            server.publish(topic, bytes(message))
        server.await_that(lambda: memory.held >= total // 2)
        # Somebody else still gets through.
        other, live = server.topic_and_subscription(
            push_config={"push_endpoint": receiver.url("/live")}
        )
        for _ in range(5):
            server.publish(other, bytes(message))
        server.await_drained(live)
        assert total // 2 <= memory.held <= total
