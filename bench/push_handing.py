"""One message to very many push subscriptions: from the publish to the last request that is sent.

In this process, with a transport that sends nothing: leasing and packing are measured.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from pathlib import Path

import uvloop

from bench.servers import Server
from bench.session import Sample
from fanlog import limits
from fanlog.broker.assembly import BrokerSettings, build_broker
from fanlog.broker.clock import SystemClock
from fanlog.broker.committer import ThreadCommitter
from fanlog.log.embedded import EmbeddedLog
from fanlog.model.resources import PushConfig
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.push.rules.guard import Guard
from fanlog.push.rules.outcome import Outcome, of_status
from fanlog.push.rules.packing import Request, pack_web
from fanlog.push.senders.endpoint_check import EndpointCheck
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.senders.tokens import Tokens
from fanlog.push.service import PushService
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body

ROUNDS = 3
_TOPIC = "projects/bench/topics/push"


class _Transport:
    """Takes requests and answers them all when the last one is there."""

    messages_max = 1
    bytes_max = limits.PUSH_BYTES_MAX
    pack = staticmethod(pack_web)

    def __init__(self, count: int) -> None:
        self._count = count
        self.all_came = asyncio.Event()
        self.came = 0

    async def close(self) -> None:
        pass

    async def send(self, request: Request) -> Outcome:
        self.came += 1
        if self.came % self._count == 0:
            self.all_came.set()
        await self.all_came.wait()
        return of_status(204, None, 0.0)


def measure(_: Server, count: int) -> Sample:
    """Time from the publish to the last of `count` requests."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = uvloop.run(_measure(count, Path(folder)))
    return Sample(figures={"handed": seconds}, messages=count)


async def _measure(count: int, folder: Path) -> float:
    clock = SystemClock()
    store = EmbeddedLog(folder)
    resolver = HostResolver(Guard(), clock.now)
    broker = build_broker(
        store,
        ThreadCommitter(store),
        clock,
        compose=compose,
        candidates=candidates,
        jitter=lambda: 0.0,
        settings=BrokerSettings(disk_reserve_bytes=0),
        check_endpoint=EndpointCheck(resolver),
    )
    transport = _Transport(count)
    # As many connections as it takes: only the handing over is of interest.
    senders = PushService(
        broker, clock, resolver, Tokens(broker.secrets, clock), connections=count, web=transport
    )
    await broker.start()
    senders.start("http://bench")
    await broker.topics.create(TopicSpec(name=_TOPIC))
    for number in range(count):
        await broker.subscriptions.create(
            SubscriptionSpec(
                name=f"projects/bench/subscriptions/push-{number}",
                topic=_TOPIC,
                push=PushConfig(endpoint=f"http://8.8.{number >> 8 & 255}.{number & 255}/hook"),
            )
        )
    # As the server does: what is there stays, and is not looked at again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    best = float("inf")
    for _ in range(ROUNDS):
        transport.all_came.clear()
        began = time.perf_counter()
        await broker.publish(_TOPIC, build_body([(b"x" * 100, {}, "")]))
        await transport.all_came.wait()
        best = min(best, time.perf_counter() - began)
        await asyncio.sleep(0.5)
    await senders.stop(5)
    await broker.stop()
    store.close()
    return best
