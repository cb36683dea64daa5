"""Acknowledgements let requests that wait for a connection go first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from fanlog.push.senders import acknowledger
from fanlog.push.senders.acknowledger import Acknowledger
from fanlog.push.senders.connection_limiter import ConnectionLimiter


@dataclass(frozen=True)
class Named:
    id: int
    name: str = "a"


@dataclass
class Broker:
    settled: list[list[str]] = field(default_factory=list)

    async def settle_some(self, subscription: Named, ack_ids: list[str], deadline_s: None) -> None:
        self.settled.append(ack_ids)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_acknowledgements_of_one_turn_go_together():
    broker, limiter = Broker(), ConnectionLimiter(1, 1)
    acknowledging = Acknowledger(broker, limiter.calm)
    for ack_id in "ab":
        acknowledging.acknowledge(Named(1), ack_id)
    await turns()
    assert broker.settled == [["a", "b"]]


async def test_requests_that_wait_go_first():
    broker, limiter = Broker(), ConnectionLimiter(1, 1)
    acknowledging = Acknowledger(broker, limiter.calm)
    assert limiter.enter_nowait("host")
    waiting = asyncio.create_task(limiter.enter("host"))
    await turns()
    acknowledging.acknowledge(Named(1), "a")
    await turns()
    assert broker.settled == []
    limiter.leave("host")
    await waiting
    await turns()
    assert broker.settled == [["a"]]


async def test_a_request_that_no_longer_waits_holds_nothing_up():
    broker, limiter = Broker(), ConnectionLimiter(1, 1)
    acknowledging = Acknowledger(broker, limiter.calm)
    assert limiter.enter_nowait("host")
    waiting = asyncio.create_task(limiter.enter("host"))
    await turns()
    acknowledging.acknowledge(Named(1), "a")
    waiting.cancel()
    await turns()
    assert broker.settled == [["a"]]


async def test_acknowledgements_wait_no_longer_than_they_may(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(acknowledger, "LATE_S", 0.0)
    broker = Broker()
    acknowledging = Acknowledger(broker, asyncio.Event())
    acknowledging.acknowledge(Named(1), "a")
    async with asyncio.timeout(5):
        await asyncio.gather(*acknowledging.under_way)
    assert broker.settled == [["a"]]
