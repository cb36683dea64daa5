"""What filters cost those who have none: a topic without filters, with many filters beside it."""

from __future__ import annotations

import statistics

from bench.filters import subscribe
from bench.meter import Meter
from bench.servers import Server
from bench.session import Sample, Session

SUBSCRIPTIONS = 1_000
SIZE_BYTES = 1024
#: Whether there are filters, round by round: neither state is always first, or always early.
ROUNDS = (False, True, True, False) * 3


def measure(server: Server, count: int) -> Sample:
    """Publish to a topic and drain it, while another has filtered subscriptions, and has none.

    The figure is the server's processor time with them over that without, of the cheaper half of
    the rounds each: what else happens on the machine, or is trimmed just then, only adds to one.
    """
    problems: list[str] = []
    spent_s: dict[bool, list[float]] = {False: [], True: []}
    with Session(server) as session:
        other = session.topic()
        filtered: list[str] = []
        with Meter(server) as meter:
            for is_beside in ROUNDS:
                if is_beside and not filtered:
                    filtered = subscribe(session, other, SUBSCRIPTIONS)
                elif filtered and not is_beside:
                    session.delete_subscriptions(filtered)
                    filtered = []
                cpu_s, wrong = _round(session, count // len(ROUNDS))
                spent_s[is_beside].append(cpu_s)
                problems += wrong
    without_s, with_s = (_cheaper_half(spent_s[is_beside]) for is_beside in (False, True))
    rounds = ", ".join(
        f"{name} {' '.join(f'{seconds:.2f}' for seconds in spent_s[is_beside])}"
        for name, is_beside in (("without", False), ("with", True))
    )
    return Sample(
        figures={"ratio": with_s / without_s if without_s else None},
        messages=count // len(ROUNDS) * len(ROUNDS),
        cost=meter.cost,
        problems=tuple(problems),
        notes=(f"the server's CPU seconds a round: {rounds}",),
    )


def _cheaper_half(spent_s: list[float]) -> float:
    return statistics.mean(sorted(spent_s)[: len(spent_s) // 2])


def _round(session: Session, count: int) -> tuple[float, tuple[str, ...]]:
    topic = session.topic()
    subscription = session.subscription(topic)
    with Meter(session.server) as meter:
        published = session.fill(topic, count, SIZE_BYTES)
        received = session.pull_all(subscription, len(published))
    return meter.cost.server_cpu_s or 0.0, session.problems(subscription, published, received)
