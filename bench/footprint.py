"""Footprint: memory with and without a backlog, and the time a start takes."""

from __future__ import annotations

import time

from bench.api import pull_request
from bench.meter import Meter, anonymous_mib
from bench.servers import Server
from bench.session import Sample, Session

SIZE_BYTES = 1024
IN_FLIGHT = 8
#: Time for a server to finish what it put off until after its answers.
SETTLE_S = 2


def measure_memory(server: Server, count: int) -> Sample:
    """Anonymous memory of a server just started, and with a backlog that nobody pulls."""
    time.sleep(SETTLE_S)
    idle = anonymous_mib(server)
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        with Meter(server) as meter:
            published = session.fill(topic, count, SIZE_BYTES, IN_FLIGHT)
        time.sleep(SETTLE_S)
        full = anonymous_mib(server)
        return Sample(
            figures={"idle": idle, "full": full},
            messages=len(published),
            cost=meter.cost,
            problems=_missing(session, subscription, published, count),
            notes=() if idle else ("anonymous memory is read from /proc of a process we know",),
        )


def measure_start(server: Server, count: int) -> Sample:
    """Seconds from starting the process to its first answer: empty, then with a full log."""
    server.stop()
    empty = server.start()
    if not server.is_durable:
        return Sample(figures={"empty": empty, "full": None})
    with Session(server) as session:
        topic = session.topic()
        subscription = session.subscription(topic)
        published = session.fill(topic, count, SIZE_BYTES, IN_FLIGHT)
    server.stop()
    full = server.start()
    with Session(server) as session:
        problems = _missing(session, subscription, published, count)
    return Sample(figures={"empty": empty, "full": full}, problems=problems)


def _missing(
    session: Session, subscription: str, published: list[str], count: int
) -> tuple[str, ...]:
    """A look at the backlog's front: to read all of it would say no more about memory or starts."""
    distinct = set(published)
    front = {message.message.message_id for message in session.api.pull(pull_request(subscription))}
    problems = {
        f"of {count:,} messages were accepted": len(distinct) if len(distinct) < count else 0,
        "pulled messages that nobody published": len(front - distinct),
    }
    empty = () if front else ("the backlog gave no message",)
    return (*(f"{number:,} {what}" for what, number in problems.items() if number), *empty)
