"""What messages that ask for nothing cost the server: to be compared with an earlier Fanlog."""

from __future__ import annotations

import time
from typing import Any

from bench import closed_loop
from bench.api import message_ids
from bench.fan_out_lean import Fetch
from bench.lean import Lean
from bench.meter import Cost, Meter
from bench.servers import Server
from bench.session import Patience, Sample, Session
from bench.stream import Stream

SIZE_BYTES = 100
IN_FLIGHT = 64
_POLL_S = 0.05


def measure_batches(server: Server, count: int) -> Sample:
    """Publish messages, pull and acknowledge them, and stream them; seconds of CPU a million.

    Many of them: the system counts processor time in hundredths of a second.
    """
    with Session(server) as session:
        topic = session.topic()
        pulled, streamed = session.subscription(topic), session.subscription(topic)
        with Meter(server) as all_of_it:
            with Meter(server) as publishing:
                published = session.fill(topic, count, SIZE_BYTES)
            with Meter(server) as draining:
                received = session.pull_all(pulled, len(published))
            with Meter(server) as streaming:
                came = _stream_all(session, streamed, len(published))
        return Sample(
            figures={
                "publish": _per_million(publishing.cost, len(published)),
                "drain": _per_million(draining.cost, len(received)),
                "stream": _per_million(streaming.cost, len(came)),
            },
            messages=count,
            cost=all_of_it.cost,
            problems=(
                *session.problems(pulled, published, received),
                *session.problems(streamed, published, came),
            ),
        )


def measure_single(server: Server, count: int) -> Sample:
    """The same one message a request, 64 in flight, with the lean client."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        loaded, publishing = closed_loop.load(server, topic, count, closed_loop.publish_lean)
        published = message_ids(loaded.answers)
        fetch = Fetch([subscription] * len(published))
        connection = Lean(server.endpoint, token=server.token)
        with Meter(server) as fetching:
            connection.chains(fetch.pulls, IN_FLIGHT, fetch.after)
        connection.close()
        received = [message_id for ids in fetch.received for message_id in ids]
        failed = (f"{loaded.failed:,} publishes failed",) if loaded.failed else ()
        return Sample(
            figures={
                "publish": closed_loop.cpu_us(publishing, len(published)),
                "fetch": closed_loop.cpu_us(fetching.cost, len(received)),
            },
            messages=count,
            cost=fetching.cost,
            problems=(*failed, *session.problems(subscription, published, received)),
        )


def _stream_all(session: Session, subscription: str, count: int) -> list[str]:
    """Take messages off a stream and acknowledge them on it; the ids of those that came."""
    received: list[str] = []
    patience = Patience(count)

    def take(messages: Any) -> None:
        stream.acknowledge([message.ack_id for message in messages])
        received.extend([message.message.message_id for message in messages])

    with Stream(session.api, subscription, take) as stream:
        while len(received) < count:
            stream.raise_if_ended()
            patience.check(len(received))
            time.sleep(_POLL_S)
    return received


def _per_million(cost: Cost, messages: int) -> float | None:
    if cost.server_cpu_s is None or not messages:
        return None
    return cost.server_cpu_s / messages * 1e6
