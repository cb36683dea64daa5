"""What the people of a world are like: how many, how fast, how careful. Drawn from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Temper:
    """Numbers and habits of one world's clients."""

    #: Steps of all actors together.
    steps: int
    #: Seconds an actor thinks between two steps, on average.
    pace_s: float
    topics: int
    subscriptions: int
    publishers: int
    pullers: int
    streams: int
    admins: int
    keys: int
    #: Chance that a subscription is ordered, exactly-once, has a dead letter or a retry policy.
    ordered: float
    exactly_once: float
    dead_letters: float
    retries: float
    short_retention: float
    #: What consumers do with what they hold, relative to each other.
    acks: float
    nacks: float
    extends: float
    forgets: float
    #: Chance that an ack id is sent twice, or late.
    repeats: float
    #: Chance that a consumer sleeps until a lease is about to end, or has just ended.
    lates: float
    #: Chance, per step of an admin, of the verbs that take messages away from subscriptions.
    seeks: float
    deletes: float
    updates: float
    #: Chance that a crash is followed by hours or days of silence.
    long_downs: float
    #: Chance that a subscription has a filter, or is on a pattern of topics.
    filters: float
    patterns: float
    #: Chance, per step of an admin, that a filter is changed.
    filter_changes: float
    #: Bounds of ordering and of answers are made small.
    small_limits: bool
    #: Requests and answers travel for a while, and so overtake each other.
    is_laggy: bool

    @classmethod
    def drawn(cls, rng: random.Random) -> Temper:
        def maybe(most: float, often: float = 0.5) -> float:
            return rng.random() * most if rng.random() < often else 0.0

        patterns = rng.choice((0.0, 0.0, 0.3, 1.0))
        filters = rng.choice((0.0, 0.0, 0.5, 1.0))
        return cls(
            steps=rng.choice((100, 200, 400)),
            pace_s=10.0 ** rng.uniform(-2.0, 2.0),
            topics=rng.choice((1, 1, 2, 3)) + (patterns > 0.0),
            subscriptions=rng.choice((1, 2, 3, 4)),
            publishers=rng.choice((1, 1, 2, 3)),
            pullers=rng.choice((0, 1, 2, 3)),
            streams=rng.choice((0, 1, 1, 2, 3)),
            admins=rng.choice((0, 1, 1, 2, 2)),
            keys=rng.choice((0, 1, 2, 5)),
            ordered=rng.choice((0.0, 0.5, 1.0)),
            exactly_once=rng.choice((0.0, 0.5, 1.0)),
            dead_letters=rng.choice((0.0, 0.0, 0.5, 1.0)),
            retries=rng.choice((0.0, 0.5)),
            short_retention=maybe(0.5, 0.4),
            acks=rng.choice((1.0, 3.0, 10.0)),
            nacks=maybe(2.0, 0.7),
            extends=maybe(1.0),
            forgets=maybe(1.0),
            repeats=maybe(0.3),
            lates=maybe(0.4, 0.5),
            seeks=maybe(0.3),
            deletes=maybe(0.1, 0.4),
            updates=maybe(0.3),
            long_downs=maybe(0.2, 0.3),
            filters=filters,
            patterns=patterns,
            filter_changes=maybe(0.4, 0.7) if filters else 0.0,
            small_limits=rng.random() < 0.4,
            is_laggy=rng.random() < 0.4,
        )
