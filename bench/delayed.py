"""Delayed messages: what a million that wait cost the others, and how late they come."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

from bench.api import BATCH_MESSAGES, PublishRequest, PubsubMessage, message_ids, pull_request
from bench.meter import Meter, anonymous_mib, percentile
from bench.servers import Server
from bench.session import Patience, Sample, Session

SIZE_BYTES = 100
IN_FLIGHT = 8
#: Ordinary messages, published and drained before and while the others wait.
ORDINARY = 200_000
#: The others are due at any time between these, in seconds: none while this runs.
WAITS_S = (7_200, 80_000)
#: Messages whose lateness is measured: so many in each step, and how long after their publish.
DUE_STEPS, DUE_MESSAGES, DUE_S, STEP_S = 50, 20, 5.0, 0.1


def measure(server: Server, count: int) -> Sample:
    """Publish and drain without and with `count` delayed messages on the same topic."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        ordinary = min(ORDINARY, count)
        alone = _ordinary(session, server, topic, subscription, ordinary)
        idle_mib = anonymous_mib(server)
        with Meter(server) as meter:
            delayed = _delay(session, topic, count)
        full_mib = anonymous_mib(server)
        beside = _ordinary(session, server, topic, subscription, ordinary)
        late_ms = _lateness(session, topic, subscription)
        early = sum(one < 0 for one in late_ms)
        problems = [f"{early} messages came before their time"] if early else []
        if len(set(delayed)) != count:
            problems.append(f"of {count:,} delayed messages {len(set(delayed)):,} were accepted")
        ratios = [
            None if before is None or after is None else after / before
            for before, after in zip(alone, beside, strict=True)
        ]
        return Sample(
            figures={
                "publish": ratios[0],
                "drain": ratios[1],
                "memory": None if idle_mib is None or full_mib is None else full_mib - idle_mib,
                "p99": percentile(late_ms, 99),
            },
            messages=count,
            cost=meter.cost,
            problems=tuple(problems),
        )


def _ordinary(
    session: Session, server: Server, topic: str, subscription: str, count: int
) -> tuple[float | None, float | None]:
    """The server's CPU seconds to publish some messages, and to have them drained."""
    with Meter(server) as publishing:
        published = session.fill(topic, count, SIZE_BYTES, IN_FLIGHT)
    with Meter(server) as draining:
        session.pull_all(subscription, len(published))
    return publishing.cost.server_cpu_s, draining.cost.server_cpu_s


def _delay(session: Session, topic: str, count: int) -> list[str]:
    rng = random.Random(1)

    def request() -> bytes:
        waits = (rng.uniform(*WAITS_S) for _ in range(min(BATCH_MESSAGES, count)))
        messages = [
            PubsubMessage(data=bytes(SIZE_BYTES), attributes={"fanlog-delay": f"{wait:.3f}"})
            for wait in waits
        ]
        return bytes(PublishRequest(topic=topic, messages=messages).SerializeToString())

    found: list[str] = []
    while len(found) < count:
        requests = [request() for _ in range(min(IN_FLIGHT, -(-(count - len(found)) // 1_000)))]
        found += message_ids(session.api.in_parallel(IN_FLIGHT, session.api.publish, requests))
    return found


def _lateness(session: Session, topic: str, subscription: str) -> list[float]:
    """How many milliseconds after their time messages came to a consumer that waits for them."""
    begin = datetime.now(UTC) + timedelta(seconds=DUE_S)
    for step in range(DUE_STEPS):
        due = begin + timedelta(seconds=step * STEP_S)
        text = due.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message = PubsubMessage(data=text.encode(), attributes={"fanlog-deliver-at": text})
        request = PublishRequest(topic=topic, messages=[message] * DUE_MESSAGES)
        session.api.publish(request.SerializeToString())
    late_ms: list[float] = []
    patience = Patience(DUE_STEPS * DUE_MESSAGES)
    while len(late_ms) < DUE_STEPS * DUE_MESSAGES:
        patience.check(len(late_ms))
        received = session.api.pull(pull_request(subscription))
        now = time.time()
        for one in received:
            due_s = datetime.fromisoformat(one.message.data.decode()).timestamp()
            late_ms.append((now - due_s) * 1e3)
        if received:
            session.api.acknowledge(subscription, [one.ack_id for one in received])
        else:
            time.sleep(0.001)
    return late_ms
