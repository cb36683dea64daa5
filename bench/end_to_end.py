"""End to end: from just before the Publish call to the message in the subscriber's hands.

Publisher and subscriber are two processes, so that neither waits for the other's interpreter. The
send time travels in the message; the monotonic clock is one for the whole machine. Both use the
official client for Python; `paced.py` has the same at a higher rate, with the lean one.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import grpc

from bench.api import Api, PublishRequest, PubsubMessage, message_ids
from bench.meter import Cost, Meter, percentile
from bench.servers import Server
from bench.session import Patience, Sample, Session, Stalled
from bench.stream import Stream

RATE_PER_S = 1_000
SIZE_BYTES = 100
#: A request that leaves this much after its time is late; many of them, and the load was not there.
LATE_S = 0.05
SETTLE_S = 0.2
_STAMP_BYTES = 8
_JOIN_S = 30


def measure(server: Server, count: int) -> Sample:
    """`count` messages at a steady 1,000 a second, one a request, acknowledged on the stream."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        latencies_ms: list[float] = []
        received: list[str] = []

        def on_messages(messages: Any) -> None:
            now = time.monotonic_ns()
            for message in messages:
                sent = int.from_bytes(message.message.data[:_STAMP_BYTES], "big")
                latencies_ms.append((now - sent) / 1e6)
            stream.acknowledge([message.ack_id for message in messages])
            received.extend([message.message.message_id for message in messages])

        with Stream(session.api, subscription, on_messages) as stream:
            with Meter(server) as meter:
                outcome = publish_elsewhere(server.endpoint, topic, count)
                published = message_ids(outcome.answers)
                patience = Patience(len(published))
                while len(received) < len(published):
                    stream.raise_if_ended()
                    patience.check(len(received))
                    time.sleep(0.01)
            # Nothing confirms acknowledgements on a stream: give the last of them a moment.
            time.sleep(SETTLE_S)
        failed = (f"{outcome.failed:,} publishes failed",) if outcome.failed else ()
        late = f"{outcome.late:,} of {count:,} requests left late"
        return Sample(
            figures={
                "p50": percentile(latencies_ms, 50) if latencies_ms else None,
                "p99": percentile(latencies_ms, 99) if latencies_ms else None,
                "cpu": cpu_ms(meter.cost, len(received)),
            },
            messages=len(received),
            cost=meter.cost,
            problems=(*failed, *session.problems(subscription, published, received)),
            notes=(late,) if outcome.late > count // 100 else (),
        )


def cpu_ms(cost: Cost, messages: int) -> float | None:
    """The server's processor time a message; None where it is not known."""
    if cost.server_cpu_s is None or not messages:
        return None
    return cost.server_cpu_s / messages * 1e3


@dataclass(slots=True)
class Outcome:
    """What became of the publishing process's requests."""

    answers: list[bytes] = field(default_factory=list)
    late: int = 0
    failed: int = 0

    def take(self, call: Any) -> None:
        try:
            self.answers.append(call.result())
        except grpc.RpcError:
            self.failed += 1


def publish_elsewhere(endpoint: str, topic: str, count: int) -> Outcome:
    """Publish from another process and wait until it is done."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_publish, args=(endpoint, topic, count, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not mine.poll(count / RATE_PER_S * 2 + _JOIN_S):
            raise Stalled("the publishing process did not finish")
        outcome: Outcome = mine.recv()
        process.join(_JOIN_S)
        return outcome
    except EOFError as error:
        raise Stalled("the publishing process ended early") from error
    finally:
        if process.is_alive():
            process.terminate()
            process.join(_JOIN_S)


def _publish(endpoint: str, topic: str, count: int, report: Connection) -> None:
    # Ctrl-C reaches the whole terminal; the parent ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    padding = bytes(SIZE_BYTES - _STAMP_BYTES)
    calls: deque[Any] = deque()
    outcome = Outcome()
    with Api(endpoint) as api:
        api.list_topics(timeout_s=_JOIN_S)
        began = time.monotonic()
        for index in range(count):
            ahead_s = began + index / RATE_PER_S - time.monotonic()
            if ahead_s > 0:
                time.sleep(ahead_s)
            outcome.late += ahead_s < -LATE_S
            message = PubsubMessage(
                data=time.monotonic_ns().to_bytes(_STAMP_BYTES, "big") + padding
            )
            request = PublishRequest(topic=topic, messages=[message])
            calls.append(api.publish_nowait(request.SerializeToString()))
            while calls and calls[0].done():
                outcome.take(calls.popleft())
        for call in calls:
            outcome.take(call)
    report.send(outcome)
