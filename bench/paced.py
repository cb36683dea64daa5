"""End to end at a rate that the official client would not leave the server a core for.

One process publishes on one connection and receives on another, both with the lean client, and
sends each message at its time whatever became of those before it.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.api import (
    PublishRequest,
    PubsubMessage,
    StreamingPullRequest,
    StreamingPullResponse,
    message_ids,
)
from bench.end_to_end import LATE_S, SETTLE_S, SIZE_BYTES, cpu_ms
from bench.helpers import helping
from bench.lean import OK, Lean
from bench.meter import Meter, percentile
from bench.servers import Server
from bench.session import Patience, Sample, Session, Stalled
from bench.stream import OUTSTANDING_MESSAGES

_STAMP_BYTES = 8
_WAIT_S = 0.1


@dataclass(slots=True)
class Delivered:
    """All that the process saw."""

    answers: list[bytes] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    late: int = 0
    failed: int = 0
    #: Messages that had not come when the last one was sent.
    backlog: int = 0
    #: From the first message sent to the last one sent, and to the last one received.
    sending_s: float = 0.0
    seconds: float = 0.0


def measure(server: Server, count: int, *, rate_per_s: int) -> Sample:
    """`count` messages at a steady rate, one a request, acknowledged on the stream."""
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        arguments = (server.endpoint, topic, subscription, count, rate_per_s)
        with helping(deliver, [arguments]) as helpers, Meter(server) as meter:
            helpers.begin()
            (delivered,) = helpers.results()
        # Nothing confirms acknowledgements on a stream: give the last of them a moment.
        time.sleep(SETTLE_S)
        published = message_ids(delivered.answers)
        failed = (f"{delivered.failed:,} publishes failed",) if delivered.failed else ()
        cost = meter.cost.with_helpers(helpers.cpu_s)
        return Sample(
            figures={
                "held": count / delivered.seconds,
                "p50": percentile(delivered.latencies_ms, 50),
                "p99": percentile(delivered.latencies_ms, 99),
                "cpu": cpu_ms(cost, len(published)),
            },
            messages=len(published),
            cost=cost,
            problems=(*failed, *session.problems(subscription, published, delivered.received)),
            notes=_notes(delivered, count),
        )


def _notes(delivered: Delivered, count: int) -> tuple[str, ...]:
    sent = (
        f"sent at {count / delivered.sending_s:,.0f}/s" if delivered.sending_s else "sent at once"
    )
    late = f"{delivered.late:,} of {count:,} requests left late"
    return (f"{sent}, {late}, {delivered.backlog:,} messages to come when the last was sent",)


def deliver(
    ready: Callable[[], None],
    endpoint: str,
    topic: str,
    subscription: str,
    count: int,
    rate_per_s: int,
) -> Delivered:
    """The work of the process."""
    publisher, subscriber = Lean(endpoint), Lean(endpoint)
    loop = _Loop(publisher, subscriber, topic, subscription)
    ready()
    loop.run(count, rate_per_s)
    publisher.close()
    subscriber.close()
    return loop.delivered


class _Loop:
    """Sends what is due, and takes what came."""

    def __init__(self, publisher: Lean, subscriber: Lean, topic: str, subscription: str) -> None:
        self.delivered = Delivered()
        self._publisher, self._subscriber = publisher, subscriber
        self._topic = topic
        self._padding = bytes(SIZE_BYTES - _STAMP_BYTES)
        self._answered = 0
        self._stream = subscriber.open("Subscriber/StreamingPull")
        first = StreamingPullRequest(
            subscription=subscription,
            stream_ack_deadline_seconds=600,
            client_id="bench",
            max_outstanding_messages=OUTSTANDING_MESSAGES,
        )
        subscriber.send(self._stream, first.SerializeToString())
        subscriber.flush()

    def run(self, count: int, rate_per_s: int) -> None:
        delivered, patience = self.delivered, Patience(count)
        began = now = time.monotonic()
        sent = 0
        while self._answered < count or len(delivered.received) < count - delivered.failed:
            patience.check(len(delivered.received))
            due = min(count, int((now - began) * rate_per_s) + 1)
            for index in range(sent, due):
                delivered.late += now - began - index / rate_per_s > LATE_S
                self._send()
            if due > sent:
                self._publisher.flush()
                sent = due
                if sent == count:
                    delivered.sending_s = time.monotonic() - began
                    delivered.backlog = sent - len(delivered.received)
            ahead_s = began + sent / rate_per_s - time.monotonic() if sent < count else _WAIT_S
            ready, _, _ = select.select(
                [self._publisher, self._subscriber], [], [], max(0, ahead_s)
            )
            if self._publisher in ready:
                self._take_answers()
            if self._subscriber in ready:
                self._take_messages()
            now = time.monotonic()
        delivered.seconds = now - began

    def _send(self) -> None:
        stamp = time.monotonic_ns().to_bytes(_STAMP_BYTES, "big")
        message = PubsubMessage(data=stamp + self._padding)
        request = PublishRequest(topic=self._topic, messages=[message])
        self._publisher.call("Publisher/Publish", request.SerializeToString())

    def _take_answers(self) -> None:
        messages, ends = self._publisher.receive()
        self.delivered.answers.extend([message for _, message in messages])
        self.delivered.failed += sum(status != OK for _, status in ends)
        self._answered += len(ends)

    def _take_messages(self) -> None:
        answers, ends = self._subscriber.receive()
        now = time.monotonic_ns()
        ack_ids = []
        for _, answer in answers:
            for received in StreamingPullResponse.FromString(answer).received_messages:
                message = received.message
                sent = int.from_bytes(message.data[:_STAMP_BYTES], "big")
                self.delivered.latencies_ms.append((now - sent) / 1e6)
                self.delivered.received.append(message.message_id)
                ack_ids.append(received.ack_id)
        if ends:
            raise Stalled(f"the stream ended with status {ends[0][1]}")
        for first in range(0, len(ack_ids), 50):
            request = StreamingPullRequest(ack_ids=ack_ids[first : first + 50])
            self._subscriber.send(self._stream, request.SerializeToString())
        self._subscriber.flush()
