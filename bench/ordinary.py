"""What messages that ask for nothing cost the server: to be compared with an earlier Fanlog."""

from __future__ import annotations

from bench.meter import Cost, Meter
from bench.servers import Server
from bench.session import Sample, Session

SIZE_BYTES = 100


def measure(server: Server, count: int) -> Sample:
    """Publish messages, and then pull and acknowledge them; seconds of CPU a million of each.

    Many of them: the system counts processor time in hundredths of a second.
    """
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        with Meter(server) as both:
            with Meter(server) as publishing:
                published = session.fill(topic, count, SIZE_BYTES)
            with Meter(server) as draining:
                received = session.pull_all(subscription, len(published))
        return Sample(
            figures={
                "publish": _per_million(publishing.cost, len(published)),
                "drain": _per_million(draining.cost, len(received)),
            },
            messages=count,
            cost=both.cost,
            problems=session.problems(subscription, published, received),
        )


def _per_million(cost: Cost, messages: int) -> float | None:
    if cost.server_cpu_s is None or not messages:
        return None
    return cost.server_cpu_s / messages * 1e6
