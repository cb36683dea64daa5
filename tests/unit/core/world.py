"""A share and the little world around it: a log of keyed messages, and the store of its records.

For the unit, property and trace tests of the core. It does what the broker does and nothing more:
applies every decision at once, keeps the records as bytes by key, reads the batches a plan asks
for, and can restart from what it kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pyroaring import BitMap64

from fanlog.core import records as codec
from fanlog.core.assignment import Assignment
from fanlog.core.flow import Credit
from fanlog.core.records import LeaseHeld
from fanlog.core.redelivery import NACKED, Nack
from fanlog.core.share import DeadLetter, Decision, Share, State
from fanlog.core.share.depending import Depending
from fanlog.model.dependencies import Causes
from fanlog.model.resources import (
    DeadLetterPolicy,
    Ordering,
    PartitionId,
    RetryPolicy,
    Subscription,
    SubscriptionId,
    TopicId,
)
from unit.core.transitions import Transitions, WatchedShare

PARTITION = PartitionId(7)
SIZE = 10
RETRY = RetryPolicy(minimum_backoff_s=4.0, maximum_backoff_s=60.0)

#: What an ack id names: generation and offset.
Id = tuple[int, int]


def subscription(
    ordering: Ordering = "none",
    *,
    exactly_once: bool = False,
    retry: RetryPolicy | None = None,
    labels: Mapping[str, str] | None = None,
    attempts: int | None = None,
    slots: int = 0,
) -> Subscription:
    labels = {"fanlog-ordering": "strict"} if ordering == "strict" else dict(labels or {})
    if slots:
        labels |= {"fanlog-assignment": "sticky", "fanlog-slots": str(slots)}
    return Subscription(
        id=SubscriptionId(3),
        name="projects/p/subscriptions/s",
        topic="projects/p/topics/t",
        topic_id=TopicId(1),
        partitions=(PARTITION,),
        enable_message_ordering=ordering != "none",
        labels=labels,
        enable_exactly_once=exactly_once,
        retry=retry,
        dead_letter=None if attempts is None else dead_letter(attempts),
    )


def dead_letter(attempts: int) -> DeadLetterPolicy:
    return DeadLetterPolicy(
        dead_letter_topic="projects/p/topics/dead", max_delivery_attempts=attempts
    )


@dataclass(frozen=True)
class View:
    """The slots of one batch."""

    base_offset: int
    starts: tuple[int, ...]
    key_hashes: tuple[int, ...] | None

    @property
    def end_offset(self) -> int:
        return self.base_offset + len(self.starts) - 1


def view(base: int, keys: Sequence[int] = (0,), sizes: Sequence[int] | None = None) -> View:
    starts = (0, *accumulate(sizes or [SIZE] * len(keys)))
    return View(base, starts, tuple(keys) if any(keys) else None)


class Exhausted:
    """Offsets without attempts left, for a backlog alone."""

    def __init__(self, *offsets: int) -> None:
        self.offsets = set(offsets)

    @property
    def may_exist(self) -> bool:
        return bool(self.offsets)

    def __contains__(self, offset: int) -> bool:
        return offset in self.offsets


def independent() -> Depending:
    """No message depends on another, for a backlog alone."""
    return Depending(Share(subscription(), PARTITION))


@dataclass
class World:
    settings: Subscription
    #: Records by key, as the log would hold them.
    store: dict[bytes, bytes] = field(default_factory=dict)
    batches: list[View] = field(default_factory=list)
    #: Dead letters decided and neither forwarded nor given back.
    letters: list[DeadLetter] = field(default_factory=list)
    #: Batches that cannot be read.
    damaged: set[int] = field(default_factory=set)
    generation: int = 0
    log_start: int = 0
    #: Messages whose time-to-live is over.
    lapsed: BitMap64 | None = None
    #: Messages that messages depend on.
    causes: Causes | None = None
    #: When messages are leased.
    now: float = 0.0
    #: Whether messages may stand behind later ones.
    has_places: bool = False
    #: Holds every verb to the table of states.
    transitions: Transitions = field(default_factory=Transitions)
    #: Who has which key slots, of a subscription that has them.
    assignment: Assignment | None = None

    def __post_init__(self) -> None:
        self.share = WatchedShare(self.settings, PARTITION)
        self.decided(self.share.create())
        self.assign()

    def assign(self) -> None:
        if self.share.slots is not None and self.assignment is not None:
            self.share.slots.join(self.assignment)

    @property
    def end(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    @property
    def unacked(self) -> list[int]:
        return [offset for offset in range(self.end) if offset not in self.share.cursor]

    @property
    def held(self) -> set[int]:
        """Offsets under leases that would survive a restart."""
        records = [codec.decode(key, value) for key, value in self.store.items()]
        return {o for r in records if isinstance(r, LeaseHeld) for o in r.offsets or ()}

    def publish(self, *keys: int, sizes: Sequence[int] | None = None) -> range:
        """One batch of messages with these keys, 0 for none."""
        self.batches.append(view(self.end, keys, sizes))
        return range(self.batches[-1].base_offset, self.end)

    def decided(self, decision: Decision) -> Decision:
        for record in decision.records:
            self.share.apply(record)
            value = record.value()
            if value is None:
                self.store.pop(record.key(), None)
            else:
                self.store[record.key()] = value
        self.letters += decision.dead_letters
        self.transitions.look(self.share, self.end)
        return decision

    def state_of(self, offset: int) -> State:
        by_state = self.share.offsets_by_state(self.end)
        return next(state for state, offsets in by_state.items() if offset in offsets)

    def next_generation(self) -> int:
        self.generation += 1
        return self.generation

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[View]:
        assert list(ranges) == sorted(ranges) or self.has_places
        found = []
        for batch in self.batches:
            if batch.end_offset > self.log_start and any(
                batch.base_offset < stop and start < batch.end_offset for start, stop in ranges
            ):
                if batch.base_offset in self.damaged:
                    self.share.skip(batch.base_offset, batch.end_offset)
                else:
                    found.append(batch)
        return found

    def lease(
        self,
        consumer: Credit | None = None,
        max_messages: int = 100,
        *,
        max_bytes: int = 1_000_000,
        deadline_s: float = 10.0,
    ) -> list[Id]:
        """What one answer hands out, in the order it would be sent."""
        consumer = consumer or Credit()
        for _ in range(1_000):
            budget = consumer.budget(max_messages, max_bytes)
            ranges = self.share.plan(consumer, self.end, budget.messages)
            if not ranges:
                return []
            decision = self.decided(
                self.share.lease(
                    consumer,
                    self.end,
                    self.read(ranges),
                    budget,
                    generation=self.next_generation(),
                    deadline_s=deadline_s,
                    now=self.now,
                    lapsed=self.lapsed,
                    causes=self.causes,
                )
            )
            if decision.grant is not None:
                grant = decision.grant
                ids = [(grant.generation, o) for r in grant.runs for o in range(r.start, r.end)]
                assert len(ids) == grant.count
                return ids
            if not decision.has_progressed:
                return []
        raise AssertionError("the share says it progresses and never hands out anything")

    def offsets(self, consumer: Credit | None = None, max_messages: int = 100) -> list[int]:
        """What one answer hands out, for good."""
        return [offset for _, offset in self.lease(consumer, max_messages, deadline_s=1e9)]

    def ack(self, now: float, ids: Iterable[Id], *, partial: bool = False) -> Decision:
        return self.decided(
            self.share.acknowledge(now, by_generation(ids), partial=partial, end=self.end)
        )

    def modify(
        self,
        now: float,
        ids: Iterable[Id],
        seconds: float,
        *,
        jitter: float = 0.0,
        partial: bool = False,
        nack: Nack = NACKED,
    ) -> Decision:
        return self.decided(
            self.share.modify_ack_deadline(
                now, by_generation(ids), seconds, jitter=jitter, partial=partial, nack=nack
            )
        )

    def claim(self, now: float, ids: Iterable[Id]) -> Decision:
        return self.decided(self.share.claim(now, by_generation(ids)))

    def nack(
        self, now: float, ids: Iterable[Id], *, partial: bool = False, nack: Nack = NACKED
    ) -> Decision:
        return self.modify(now, ids, 0.0, partial=partial, nack=nack)

    def expire(self, now: float) -> Decision:
        return self.decided(self.share.expire(now, jitter=0.0))

    def restart(self, *, scan: bool = True) -> None:
        """Lose everything but the records, as bytes."""
        self.letters = []
        self.share = WatchedShare(self.settings, PARTITION)
        for key, value in sorted(self.store.items(), reverse=True):
            record = codec.decode(key, value)
            assert (record.key(), record.value()) == (key, value)
            self.share.apply(record)  # type: ignore[arg-type]
        self.share.start()
        self.assign()
        self.transitions.look(self.share, self.end)
        if scan:
            self.place_restored()

    def place_restored(self) -> None:
        while self.share.unplaced:
            end = self.share.unplaced_end
            before = self.share.next_offset, len(self.share.to_scan(end))
            self.share.scan(end, self.read(self.share.to_scan(end)))
            # With key slots it goes back once: when all leases have their slots.
            after = self.share.next_offset, len(self.share.to_scan(end))
            assert after != before or not self.share.unplaced

    def configure(self, settings: Subscription) -> Decision:
        decision = self.decided(self.share.configure(settings))
        self.settings = settings
        return decision


def by_generation(ids: Iterable[Id]) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = {}
    for generation, offset in ids:
        grouped.setdefault(generation, []).append(offset)
    return grouped


def states(world: World) -> str:
    """One letter a message: Backlog, Outstanding, Delayed, Forwarding, Acked."""
    stats = world.share.stats(world.end)
    counts = {
        "O": stats.outstanding,
        "D": stats.delayed,
        "F": stats.forwarding,
        "A": world.end - stats.backlog,
    }
    counts["B"] = world.end - sum(counts.values())
    return "".join(letter * counts[letter] for letter in "BODFA")


def fail(world: World, how: str) -> None:
    """Have everything delivered, and nacked or left to expire."""
    ids = world.lease(deadline_s=10.0)
    if how == "nacked":
        world.nack(10.0, ids)
    else:
        assert world.share.next_deadline() == 10.0
        world.expire(10.0)
