"""What the people of a world are like: how many, how fast, how careful. Drawn from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from fanlog.limits import TOPIC_RETENTION_S
from simulator import faults
from simulator.faults import Odds
from simulator.keeping import PLENTY_BYTES

#: Part of the worlds that have a lake, and of those in which some publish through the sink.
LAKES = 0.2
SINKS = 0.25
#: Part of the worlds in which messages ask for something.
TERMS = 0.3
#: Part of the worlds that have schedules.
SCHEDULES = 0.15
#: Part of the worlds that have alerts, from this one on: in those before, planted bugs are found
#: that need just what happens there.
ALERTS = 0.15
ALERTS_FIRST = 1_000
#: Part of the worlds whose server has a default retention, as servers have unless told otherwise.
DEFAULTS = 0.5
#: Part of the worlds in which some want each message at most once, from topics with an order.
SINGLES = 0.15
#: Part of the worlds in which some number their messages.
SEQUENCERS = 0.2
PRESSERS = 0.2
LIMITERS = 0.2
#: Part of the worlds in which nacks say more than "again".
NACK_KINDS = 0.2
#: Share of worlds in which somebody looks.
INSPECTORS = 0.2
#: Part of the worlds in which streams have key slots.
STICKY = 0.2
#: Part of the worlds in which subscriptions have a window.
WINDOWS = 0.2
#: Part of the worlds in which messages are tenants'.
TENANTS = 0.2


def temper_of(seed: int) -> Temper:
    """The temper of a world that is not lived."""
    return drawn(seed, random.Random(seed))[1]


def drawn(seed: int, rng: random.Random) -> tuple[Odds, Temper]:
    """What a world is like: the first that is drawn of its seed."""
    odds = faults.drawn(rng)
    others = random.Random(f"{seed}: surfaces"), random.Random(f"{seed}: replays")
    temper = Temper.drawn(rng, *others).with_lake(random.Random(f"{seed}: lake"))
    temper = temper.with_sinks(random.Random(f"{seed}: sinks"))
    temper = temper.with_schedules(random.Random(f"{seed}: schedules"))
    if seed >= ALERTS_FIRST:
        temper = temper.with_alerts(random.Random(f"{seed}: alerts"))
    temper = temper.with_default(random.Random(f"{seed}: default retention"))
    temper = temper.with_singles(random.Random(f"{seed}: at most once"))
    temper = temper.with_sequencers(random.Random(f"{seed}: sequences"))
    temper = temper.with_nack_kinds(random.Random(f"{seed}: nack kinds"))
    temper = temper.with_terms(random.Random(f"{seed}: terms"))
    if temper.terms:
        # What is early is judged by the time of day, and so by a clock that nobody sets.
        odds = replace(odds, clock_step=0.0)
    temper = temper.with_inspectors(random.Random(f"{seed}: inspectors"))
    temper = temper.with_key_slots(random.Random(f"{seed}: key slots"))
    temper = temper.with_windows(random.Random(f"{seed}: windows"))
    temper = temper.with_tenants(random.Random(f"{seed}: tenants"))
    temper = temper.with_pressers(random.Random(f"{seed}: pressers"))
    temper = temper.with_limiters(random.Random(f"{seed}: limiters"))
    if temper.lake:
        # An archive stops at a batch that it cannot read, and says so.
        odds = replace(odds, batch_damaged=0.0)
    return odds, temper


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
    #: Chance that a subscription pushes; of those, that it forwards to a topic; and, per step of an
    #: admin, that where one pushes to is changed.
    pushes: float
    forwards: float
    push_changes: float
    #: Chance that a publish has dedup ids.
    dedups: float
    #: Chance that a topic has a schema; per step of an admin, that something is done to schemas.
    schemas: float
    schema_changes: float
    #: Chance, per step of an admin, that a policy is read and set.
    policies: float
    #: Chance, per step of an admin, that messages are reopened, or dead letters redriven.
    reopens: float
    #: Bounds of ordering and of answers are made small.
    small_limits: bool
    #: Requests and answers travel for a while, and so overtake each other.
    is_laggy: bool
    #: There is a lake, and so many archive.
    lake: bool = False
    archivers: int = 0
    hot_retention_s: float = 0.0
    #: Chance that an archiver ends in the middle, waits, or says what is not so.
    archiver_slips: float = 0.0
    #: Chance that the lake is away or another one for a while.
    lake_troubles: float = 0.0
    #: Chance, per step of an admin, that a topic is kept out of the archive, or no longer.
    kept_out: float = 0.0
    #: So many publish through the sink.
    sinks: int = 0
    #: Whether consumers nack with a delay, and without counting.
    nack_kinds: bool = False
    #: So many have a topic with an order, and want each of its messages at most once.
    singles: int = 0
    #: So many have a topic, and number what they publish to it.
    sequencers: int = 0
    #: So many look at messages, and purge them.
    inspectors: int = 0
    #: So many have a topic, and a subscription with a backlog policy on it.
    pressers: int = 0
    limiters: int = 0
    #: So many make and change schedules.
    schedulers: int = 0
    #: So many make and delete alerts.
    alerters: int = 0
    #: How long topics keep messages that do not say, and how much of that is kept; 0 for not.
    topic_retention_s: float = 0.0
    topic_retention_bytes: int = 0
    #: Chance that a message asks to be delivered later, before others, or not for long.
    terms: float = 0.0
    #: Chance that the streams of a subscription have key slots.
    sticky: float = 0.0
    #: Chance that a subscription has a window of what is outstanding.
    windows: float = 0.0
    #: Chance that a subscription that may serves tenants in turn.
    tenants: float = 0.0

    @property
    def archivers_race(self) -> bool:
        return self.archivers > 1

    @classmethod
    def drawn(cls, rng: random.Random, other: random.Random, third: random.Random) -> Temper:
        """Draw; `other` and `third` are for what came later: worlds without stay what they were."""

        def maybe(most: float, often: float = 0.5) -> float:
            return rng.random() * most if rng.random() < often else 0.0

        patterns = rng.choice((0.0, 0.0, 0.3, 1.0))
        filters = rng.choice((0.0, 0.0, 0.5, 1.0))
        is_plain = other.random() < 0.4

        def some(*choices: float) -> float:
            drawn = other.choice(choices)
            return 0.0 if is_plain else drawn

        pushes, schemas = some(0.0, 0.5, 1.0), some(0.0, 0.5, 1.0)
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
            pushes=pushes,
            forwards=some(0.0, 0.3, 1.0) if pushes else 0.0,
            push_changes=some(0.0, 0.1, 0.3) if pushes else 0.0,
            dedups=some(0.0, 0.0, 0.5, 1.0),
            schemas=schemas,
            schema_changes=some(0.1, 0.3) if schemas else 0.0,
            policies=some(0.0, 0.0, 0.2),
            reopens=third.choice((0.0, 0.0, 0.3, 1.0)),
            small_limits=rng.random() < 0.4,
            is_laggy=rng.random() < 0.4,
        )

    def with_terms(self, rng: random.Random) -> Temper:
        """The same people, of whom in some worlds publishers ask for something."""
        if rng.random() >= TERMS:
            return self
        return replace(self, terms=rng.choice((0.1, 0.4, 0.8)))

    def with_lake(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds a lake."""
        if rng.random() >= LAKES:
            return self
        return replace(
            self,
            lake=True,
            archivers=rng.choice((1, 1, 2)),
            hot_retention_s=self.pace_s * rng.choice((0.0, 2.0, 10.0, 40.0)),
            archiver_slips=rng.choice((0.0, 0.1, 0.3)),
            lake_troubles=rng.choice((0.0, 0.1, 0.4)),
            kept_out=rng.choice((0.0, 0.0, 0.1)),
            # What is cold is fetched again by whoever asks for it.
            admins=max(1, self.admins),
            reopens=self.reopens or rng.choice((0.0, 0.3)),
        )

    def with_sinks(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds such as publish through the sink.

        Not where there are schemas: staged rows conform to what was accepted when they were staged.
        """
        if rng.random() >= SINKS or self.schemas:
            return self
        return replace(self, sinks=rng.choice((1, 1, 2)))

    def with_inspectors(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds somebody who looks at what they do, and purges."""
        return replace(self, inspectors=1) if rng.random() < INSPECTORS else self

    def with_schedules(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds schedules.

        Not where there are schemas: what a schedule publishes conforms to none of them.
        """
        if rng.random() >= SCHEDULES or self.schemas:
            return self
        return replace(self, schedulers=1)

    def with_alerts(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds alerts."""
        return replace(self, alerters=1) if rng.random() < ALERTS else self

    def with_default(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds a server with a default retention."""
        if rng.random() >= DEFAULTS:
            return self
        return replace(
            self,
            topic_retention_s=rng.choice((self.pace_s * 5, self.pace_s * 50, TOPIC_RETENTION_S)),
            topic_retention_bytes=rng.choice((300, 3_000, PLENTY_BYTES, PLENTY_BYTES)),
        )

    def with_singles(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds such as want messages at most once."""
        return replace(self, singles=rng.choice((1, 2))) if rng.random() < SINGLES else self

    def with_sequencers(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds such as number their messages."""
        return replace(self, sequencers=rng.choice((1, 2))) if rng.random() < SEQUENCERS else self

    def with_pressers(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds such as publish more than they read."""
        return replace(self, pressers=rng.choice((1, 3))) if rng.random() < PRESSERS else self

    def with_limiters(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds such as do so within limits of other kinds."""
        return replace(self, limiters=rng.choice((1, 2))) if rng.random() < LIMITERS else self

    def with_nack_kinds(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds such as nack in other ways, too."""
        return replace(self, nack_kinds=True) if rng.random() < NACK_KINDS else self

    def with_key_slots(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds streams that have key slots.

        Not where messages are pushed: what is pushed has no streams.
        """
        if rng.random() >= STICKY or self.pushes:
            return self
        streams = max(self.streams, rng.choice((2, 3, 4)))
        return replace(self, streams=streams, sticky=rng.choice((0.5, 1.0)))

    def with_windows(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds subscriptions with a window."""
        if rng.random() >= WINDOWS:
            return self
        return replace(self, windows=rng.choice((0.5, 1.0)))

    def with_tenants(self, rng: random.Random) -> Temper:
        """The same people, and in some worlds messages that are tenants'."""
        if rng.random() >= TENANTS:
            return self
        return replace(self, tenants=1.0)
