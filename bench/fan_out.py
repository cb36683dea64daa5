"""Fan-out: one message to very many subscriptions."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.api import message_ids, publish_request, pull_request
from bench.meter import Meter
from bench.servers import Server
from bench.session import Patience, Sample, Session

WORKERS = 8
SIZE_BYTES = 100


def measure(server: Server, count: int) -> Sample:
    """Make `count` subscriptions, publish one message, pull and acknowledge it on each."""
    with Session(server) as session:
        api = session.api
        topic = session.topic()
        with Meter(server) as creating:
            names = api.in_parallel(WORKERS, session.subscription, [topic] * count)
        request = publish_request(topic, count=1, size_bytes=SIZE_BYTES)
        with Meter(server) as publishing:
            answer = api.publish(request)

        def fetch(name: str) -> list[str]:
            wanted = pull_request(name, max_messages=1)
            patience = Patience(1)
            while not (messages := api.pull(wanted)):
                patience.check(0)
                time.sleep(0.01)
            api.acknowledge(name, [message.ack_id for message in messages])
            return [message.message.message_id for message in messages]

        with Meter(server) as fetching:
            received = api.in_parallel(WORKERS, fetch, names)
        published = message_ids([answer])
        wrong = sum(ids != published for ids in received)
        left = left_over(session, names)
        problems = {"subscriptions got something else": wrong, "messages left over": left}
        return Sample(
            figures={
                "create": creating.cost.seconds,
                "publish": publishing.cost.seconds * 1e3,
                "fetch": fetching.cost.seconds,
            },
            messages=count,
            cost=fetching.cost,
            problems=tuple(f"{number:,} {what}" for what, number in problems.items() if number),
        )


def left_over(session: Session, names: Sequence[str]) -> int:
    """How many messages every hundredth subscription still has."""

    def left(name: str) -> int:
        return len(session.api.pull(pull_request(name, max_messages=1)))

    return sum(session.api.in_parallel(WORKERS, left, names[::100]))
