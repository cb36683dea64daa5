"""Filters through the server: many subscriptions on one topic, each with a value of its own.

Message `i` has the attribute `k = "vN"` with N = `i` modulo the number of subscriptions, of which
each wants one such value. A run is right when each got exactly its own messages, once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from bench.api import PublishRequest, PubsubMessage, message_ids, pull_request
from bench.meter import Meter
from bench.servers import Server
from bench.session import Patience, Sample, Session

WORKERS = 8
#: Messages in one Publish request, and for each subscription.
BATCH = 100
MESSAGES_EACH = 100
SIZE_BYTES = 100


def measure(server: Server, count: int) -> Sample:
    """Publish everything, then pull on each subscription until it has its messages, all acked."""
    with Session(server) as session:
        api, topic = session.api, session.topic()
        with Meter(server) as creating:
            names = subscribe(session, topic, max(1, count // MESSAGES_EACH))
        requests = publish_requests(topic, count, len(names))
        inbox = Inbox(count, len(names))

        def fetch(number: int) -> None:
            request, patience = pull_request(names[number]), Patience(inbox.wanted(number))
            while inbox.lacks(number):
                patience.check(len(inbox.received[number]))
                if messages := api.pull(request):
                    inbox.put(number, messages)
                    api.acknowledge(names[number], [message.ack_id for message in messages])
                else:
                    time.sleep(0.005)

        with Meter(server) as whole:
            with Meter(server) as publishing:
                answers = api.in_parallel(WORKERS, api.publish, requests)
            api.in_parallel(WORKERS, fetch, range(len(names)))
        return Sample(
            figures={
                "rate": count / whole.cost.seconds,
                "publish": count / publishing.cost.seconds,
                "create": creating.cost.seconds,
            },
            messages=count,
            cost=whole.cost,
            problems=inbox.problems(session, names, message_ids(answers)),
        )


def subscribe(session: Session, topic: str, count: int) -> list[str]:
    """Make so many subscriptions, each of which wants its own value; their names."""

    def make(number: int) -> str:
        return session.subscription(topic, wanted=f'attributes.k = "v{number}"')

    return session.api.in_parallel(WORKERS, make, range(count))


def publish_requests(topic: str, count: int, values: int) -> list[bytes]:
    """Requests, serialised, of messages that go through the values in turn."""
    chance = random.Random(1)
    messages = [
        PubsubMessage(data=chance.randbytes(SIZE_BYTES), attributes={"k": f"v{number % values}"})
        for number in range(count)
    ]
    return [
        PublishRequest(topic=topic, messages=messages[first : first + BATCH]).SerializeToString()
        for first in range(0, count, BATCH)
    ]


class Inbox:
    """What each subscription got. Each is written by one thread at a time."""

    def __init__(self, count: int, subscriptions: int) -> None:
        self.count = count
        #: Message ids by subscription.
        self.received: list[list[str]] = [[] for _ in range(subscriptions)]
        self._foreign = [0] * subscriptions

    def wanted(self, number: int) -> int:
        return len(range(number, self.count, len(self.received)))

    def lacks(self, number: int) -> bool:
        return len(self.received[number]) < self.wanted(number)

    def put(self, number: int, messages: Sequence[Any]) -> None:
        value = f"v{number}"
        for each in messages:
            self.received[number].append(each.message.message_id)
            self._foreign[number] += each.message.attributes["k"] != value

    def problems(
        self, session: Session, names: Sequence[str], published: Sequence[str]
    ) -> tuple[str, ...]:
        """What is wrong when these were published in this order, and nothing should be left."""
        wrong = sum(
            sorted(ids) != sorted(published[number :: len(names)])
            for number, ids in enumerate(self.received)
        )
        left = session.api.in_parallel(
            WORKERS, lambda name: len(session.api.pull(pull_request(name))), names
        )
        counts = {
            "subscriptions got other messages than their own, or one twice": wrong,
            "messages whose attribute the filter does not match": sum(self._foreign),
            "messages left over": sum(left),
        }
        return tuple(f"{number:,} {what}" for what, number in counts.items() if number)
