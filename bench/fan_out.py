"""Fan-out: one message to very many subscriptions."""

from __future__ import annotations

import time

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
        left_over = sum(api.in_parallel(WORKERS, lambda name: _left(session, name), names[::100]))
        problems = {"subscriptions got something else": wrong, "messages left over": left_over}
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


def _left(session: Session, subscription: str) -> int:
    return len(session.api.pull(pull_request(subscription, max_messages=1)))
