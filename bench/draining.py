"""Drain workloads: how fast a backlog is delivered and acknowledged."""

from __future__ import annotations

import contextlib
import queue
from typing import Any

from bench.api import BATCH_MESSAGES
from bench.meter import Meter
from bench.servers import Server
from bench.session import Patience, Sample, Session
from bench.stream import Stream

SIZE_BYTES = 1024
_POLL_S = 0.05


def measure_pull(server: Server, count: int) -> Sample:
    """Pull of 1,000, Acknowledge of the same, and again, from one thread."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        published = session.fill(topic, count, SIZE_BYTES)
        with Meter(server) as meter:
            received = session.pull_all(subscription, len(published))
        return Sample(
            figures={"rate": len(received) / meter.cost.seconds},
            messages=len(received),
            cost=meter.cost,
            problems=session.problems(subscription, published, received),
        )


def measure_stream(server: Server, count: int) -> Sample:
    """One StreamingPull; the clock stops when the last acknowledgement is confirmed."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        published = session.fill(topic, count, SIZE_BYTES)
        drain = _StreamDrain(session, subscription, len(published))
        with Meter(server) as meter:
            received = drain.run()
        return Sample(
            figures={"rate": len(received) / meter.cost.seconds},
            messages=len(received),
            cost=meter.cost,
            problems=session.problems(subscription, published, received),
        )


class _StreamDrain:
    """A reader thread takes messages off the stream; this thread acknowledges them.

    Acknowledgements go by unary calls, because those are confirmed, in batches of up to 1,000.
    """

    def __init__(self, session: Session, subscription: str, count: int) -> None:
        self._api = session.api
        self._subscription = subscription
        self._count = count
        self._received: list[str] = []
        self._ack_ids: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def run(self) -> list[str]:
        acknowledged = 0
        patience = Patience(self._count)
        with Stream(self._api, self._subscription, self._take) as stream:
            while acknowledged < self._count:
                stream.raise_if_ended()
                patience.check(acknowledged)
                waiting = self._waiting()
                for first in range(0, len(waiting), BATCH_MESSAGES):
                    chunk = waiting[first : first + BATCH_MESSAGES]
                    self._api.acknowledge(self._subscription, chunk)
                acknowledged += len(waiting)
        return self._received

    def _take(self, messages: Any) -> None:
        self._ack_ids.put([message.ack_id for message in messages])
        self._received.extend([message.message.message_id for message in messages])

    def _waiting(self) -> list[str]:
        """Ack ids of the answers that came since the last call; waits a little for the first."""
        ack_ids: list[str] = []
        with contextlib.suppress(queue.Empty):
            ack_ids += self._ack_ids.get(timeout=_POLL_S)
            while len(ack_ids) < BATCH_MESSAGES:
                ack_ids += self._ack_ids.get_nowait()
        return ack_ids
