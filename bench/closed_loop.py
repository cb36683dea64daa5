"""Single publishes with a fixed number of them in flight, from two processes.

Each process has one connection, and sends the next request when an answer came. The client is
either the official one for Python (C-core), which takes more processor time than the server does,
or the lean one, with which the server and its disk are the limit.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from bench.api import Api, message_ids, publish_request
from bench.helpers import helping
from bench.lean import OK, Lean
from bench.meter import Cost, Meter, percentile
from bench.servers import Server
from bench.session import Sample, Session

PROCESSES = 2
IN_FLIGHT = 64
SIZE_BYTES = 100
CONNECT_S = 30


@dataclass(slots=True)
class Loaded:
    """The outcome of a load, of one process or of all."""

    answers: list[bytes] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    failed: int = 0
    began: float = 0.0
    ended: float = 0.0


#: `count` requests, so many in flight; begins after it called its first argument.
Publish = Callable[[Callable[[], None], str, bytes, int, int, Path | None, str], Loaded]


def measure(server: Server, count: int, *, publish: Publish) -> Sample:
    """`count` messages of 100 B, one a request, 64 in flight in all."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        loaded, cost = load(server, topic, count, publish)
        published = message_ids(loaded.answers)
        received = session.pull_all(subscription, len(published))
        failed = (f"{loaded.failed:,} publishes failed",) if loaded.failed else ()
        return Sample(
            figures={
                "rate": len(published) / (loaded.ended - loaded.began),
                "p50": percentile(loaded.latencies_ms, 50),
                "p99": percentile(loaded.latencies_ms, 99),
                "cpu": cpu_us(cost, len(published)),
            },
            messages=len(published),
            cost=cost,
            problems=(*failed, *session.problems(subscription, published, received)),
        )


def load(
    server: Server, topic: str, count: int, publish: Publish, processes: int = PROCESSES
) -> tuple[Loaded, Cost]:
    """Publish from so many processes."""
    request = publish_request(topic, count=1, size_bytes=SIZE_BYTES)
    each = max(1, count // processes)
    known = (server.authority, server.token)
    arguments = (server.endpoint, request, each, IN_FLIGHT // processes, *known)
    with helping(publish, [arguments] * processes) as helpers, Meter(server) as meter:
        helpers.begin()
        parts: list[Loaded] = helpers.results()
    whole = Loaded(
        answers=[answer for part in parts for answer in part.answers],
        latencies_ms=[latency for part in parts for latency in part.latencies_ms],
        failed=sum(part.failed for part in parts),
        began=min(part.began for part in parts),
        ended=max(part.ended for part in parts),
    )
    return whole, meter.cost.with_helpers(helpers.cpu_s)


def publish_lean(
    ready: Callable[[], None],
    endpoint: str,
    request: bytes,
    count: int,
    in_flight: int,
    authority: Path | None,
    token: str,
) -> Loaded:
    """The work of one process, with the lean client."""
    connection = Lean(endpoint, _context(authority) if authority else None, token)
    ready()
    clock = time.monotonic
    sent_at: dict[int, float] = {}
    loaded = Loaded(began=clock())
    free, left = in_flight, count
    now = loaded.began
    while len(loaded.latencies_ms) < count:
        for _ in range(min(free, left)):
            sent_at[connection.call("Publisher/Publish", request)] = now
            left -= 1
        connection.flush()
        messages, ends = connection.receive()
        now = clock()
        loaded.answers.extend([message for _, message in messages])
        for stream, status in ends:
            loaded.latencies_ms.append((now - sent_at.pop(stream)) * 1e3)
            loaded.failed += status != OK
        free = len(ends)
    loaded.ended = now
    connection.close()
    return loaded


def publish_official(
    ready: Callable[[], None],
    endpoint: str,
    request: bytes,
    count: int,
    in_flight: int,
    authority: Path | None,
    token: str,
) -> Loaded:
    """The work of one process, with the official client's own stack."""
    clock = time.monotonic
    turns = threading.Semaphore(in_flight)
    loaded = Loaded()

    def send() -> None:
        sent = clock()

        def take(call: Any) -> None:
            loaded.latencies_ms.append((clock() - sent) * 1e3)
            try:
                loaded.answers.append(call.result())
            except grpc.RpcError:
                loaded.failed += 1
            turns.release()

        api.publish_nowait(request).add_done_callback(take)

    with Api(endpoint, authority, token) as api:
        api.list_topics(timeout_s=CONNECT_S)
        ready()
        loaded.began = clock()
        for _ in range(count):
            turns.acquire()
            send()
        for _ in range(in_flight):
            turns.acquire()
        loaded.ended = clock()
    return loaded


def cpu_us(cost: Cost, requests: int) -> float | None:
    """The server's processor time a request; None where it is not known."""
    if cost.server_cpu_s is None or not requests:
        return None
    return cost.server_cpu_s / requests * 1e6


def _context(authority: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["h2"])
    return context
