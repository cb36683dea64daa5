"""Fan-out by the lean client: the same calls as `fan_out.py`, as many in flight, one connection.

Threads of the official client take nearly half a millisecond of processor time for a Pull and an
Acknowledge; here the server is the limit.
"""

from __future__ import annotations

from bench.api import (
    AcknowledgeRequest,
    PullResponse,
    Subscription,
    message_ids,
    publish_request,
    pull_request,
)
from bench.fan_out import SIZE_BYTES, WORKERS, left_over
from bench.lean import Call, Lean
from bench.meter import Meter
from bench.servers import Server
from bench.session import Patience, Sample, Session

PULL, ACKNOWLEDGE = "Subscriber/Pull", "Subscriber/Acknowledge"


def measure(server: Server, count: int) -> Sample:
    """Make `count` subscriptions, publish one message, pull and acknowledge it on each."""
    with Session(server) as session:
        topic = session.topic()
        names = [session.subscription_name() for _ in range(count)]
        connection = Lean(server.endpoint)
        with Meter(server) as creating:
            connection.chains(_creations(names, topic), WORKERS, lambda *_: None)
        request = publish_request(topic, count=1, size_bytes=SIZE_BYTES)
        published = message_ids([session.api.publish(request)])
        fetch = Fetch(names)
        with Meter(server) as fetching:
            connection.chains(fetch.pulls, WORKERS, fetch.after)
        connection.close()
        problems = {
            "subscriptions got something else": sum(ids != published for ids in fetch.received),
            "messages left over": left_over(session, names),
        }
        return Sample(
            figures={"create": creating.cost.seconds, "fetch": fetching.cost.seconds},
            messages=count,
            cost=fetching.cost,
            problems=tuple(f"{number:,} {what}" for what, number in problems.items() if number),
        )


def _creations(names: list[str], topic: str) -> list[Call]:
    requests = [Subscription(name=name, topic=topic, ack_deadline_seconds=600) for name in names]
    return [("Subscriber/CreateSubscription", each.SerializeToString()) for each in requests]


class Fetch:
    """A Pull on each subscription, again while it brings nothing, then an Acknowledge."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._patience = Patience(len(names))
        self._done = 0
        self.pulls: list[Call] = [(PULL, pull_request(name, max_messages=1)) for name in names]
        self.received: list[list[str]] = [[] for _ in names]

    def after(self, key: int, answer: bytes) -> Call | None:
        if self.received[key]:
            self._done += 1
            return None
        messages = PullResponse.FromString(answer).received_messages
        if not messages:
            self._patience.check(self._done)
            return self.pulls[key]
        self.received[key] = [message.message.message_id for message in messages]
        request = AcknowledgeRequest(
            subscription=self._names[key], ack_ids=[message.ack_id for message in messages]
        )
        return ACKNOWLEDGE, request.SerializeToString()
