"""The cost of exactly-once delivery: the same backlog drained with it and without it."""

from __future__ import annotations

import statistics

from bench.api import BATCH_MESSAGES, pull_request
from bench.meter import Meter
from bench.servers import Server
from bench.session import Patience, Sample, Session

SIZE_BYTES = 1024
#: Whether a round has exactly-once delivery: neither is always first.
ROUNDS = (False, True, True, False) * 2
#: A round of single messages has so many times fewer of them.
SINGLE_DIVISOR = 100


def measure(server: Server, count: int) -> Sample:
    """Drain by Pull and Acknowledge, in turns with exactly-once delivery and without.

    The figures are the time with it over the time without it, medians of the rounds: for pulls of
    1,000 messages, and for pulls of one message, where each pays for a commit of its own.
    """
    problems: list[str] = []
    notes: list[str] = []
    figures: dict[str, float | None] = {}
    a_round = count // len(ROUNDS)
    sizes = {"batch": (BATCH_MESSAGES, a_round), "single": (1, max(a_round // SINGLE_DIVISOR, 1))}
    with Session(server) as session, Meter(server) as meter:
        for key, (at_once, messages) in sizes.items():
            spent_s: dict[bool, list[float]] = {False: [], True: []}
            for is_once in ROUNDS:
                seconds, wrong = _round(session, messages, at_once, is_once=is_once)
                spent_s[is_once].append(seconds)
                problems += wrong
            without_s, with_s = (statistics.median(spent_s[is_once]) for is_once in (False, True))
            figures[key] = with_s / without_s
            notes.append(
                f"pulls of {at_once:,}: {messages / without_s:,.0f} messages a second at least "
                f"once, {messages / with_s:,.0f} exactly once"
            )
    return Sample(
        figures=figures,
        messages=sum(messages for _, messages in sizes.values()) * len(ROUNDS),
        cost=meter.cost,
        problems=tuple(problems),
        notes=tuple(notes),
    )


def _round(
    session: Session, count: int, at_once: int, *, is_once: bool
) -> tuple[float, tuple[str, ...]]:
    topic = session.topic()
    subscription = session.subscription(topic, is_once=is_once)
    published = session.fill(topic, count, SIZE_BYTES)
    request = pull_request(subscription, max_messages=at_once)
    received: list[str] = []
    patience = Patience(len(published))
    with Meter(session.server) as meter:
        while len(received) < len(published):
            patience.check(len(received))
            messages = session.api.pull(request)
            session.api.acknowledge(subscription, [message.ack_id for message in messages])
            received += [message.message.message_id for message in messages]
    return meter.cost.seconds, session.problems(subscription, published, received)
