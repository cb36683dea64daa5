"""Publish workloads: as much as goes in, and how long one message takes."""

from __future__ import annotations

import time

from bench.api import BATCH_MESSAGES, message_ids, publish_request
from bench.meter import Meter, percentile
from bench.servers import Server
from bench.session import Sample, Session

IN_FLIGHT = 8
SINGLE_BYTES = 1024


def measure_batches(server: Server, count: int, *, size_bytes: int) -> Sample:
    """Full requests, eight in flight, to a topic with one subscription."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        batch = min(BATCH_MESSAGES, count)
        request = publish_request(topic, count=batch, size_bytes=size_bytes)
        requests = [request] * (count // batch)
        with Meter(server) as meter:
            answers = session.api.in_parallel(IN_FLIGHT, session.api.publish, requests)
        published = message_ids(answers)
        received = session.pull_all(subscription, len(requests) * batch)
        return Sample(
            figures={"rate": len(published) / meter.cost.seconds},
            messages=len(published),
            cost=meter.cost,
            problems=session.problems(subscription, published, received),
        )


def measure_single(server: Server, count: int) -> Sample:
    """One message a request, and the next request only after the answer."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        request = publish_request(topic, count=1, size_bytes=SINGLE_BYTES)
        publish = session.api.publish
        taken_ms: list[float] = []
        answers: list[bytes] = []
        with Meter(server) as meter:
            for _ in range(count):
                began = time.perf_counter()
                answer = publish(request)
                taken_ms.append((time.perf_counter() - began) * 1e3)
                answers.append(answer)
        published = message_ids(answers)
        received = session.pull_all(subscription, count)
        return Sample(
            figures={"p50": percentile(taken_ms, 50), "p99": percentile(taken_ms, 99)},
            messages=count,
            cost=meter.cost,
            problems=session.problems(subscription, published, received),
        )
