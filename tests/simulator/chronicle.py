"""What happened in a world, written down where it happened.

Three kinds of witness write here. The server side: when a verb began, and when and how it ended;
what was delivered to whom. The disk: what each commit appended and which resources it made, changed
or removed, so that what is unknown to a client after a crash is not unknown to a checker. And the
world itself: crashes, failed commits, batches that rot. Clients do not: a promise is made when the
answer leaves the server, whether or not it arrives.

Every entry has a number of its own (`at`), the virtual time, and the broker's lease *generation* of
that moment. A delivery is handed out some time after its lease was decided (its commit comes
between); sorted by generation, entries stand in the order in which things were decided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from fanlog.core.publishers import count_of
from fanlog.core.records import (
    CursorHead,
    NumbersRecord,
    SnapshotRecord,
    SubscriptionRecord,
    TopicRecord,
)
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import Offset, PartitionId, SubscriptionId

#: `ok`: answered. `refused`: answered with an error that speaks of the request. `failed`: answered
#: with one that says that nothing was done. `cut`: nobody knows. `running`: it never ended.
Outcome = Literal["running", "ok", "refused", "failed", "cut"]

#: After everything.
NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class AckRef:
    """What an ack id says: a message of a subscription, and the lease it was handed out under."""

    subscription: SubscriptionId
    partition: PartitionId
    generation: int
    offset: Offset
    ack_id: str


@dataclass(frozen=True, slots=True)
class Settle:
    """An acknowledgement (`seconds` is None), a nack (0) or another deadline."""

    refs: Sequence[AckRef]
    seconds: int | None
    #: Of a nack: whether it is a failure.
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class SeekTo:
    time_ns: int | None = None
    snapshot: str = ""


@dataclass(eq=False, slots=True)
class Op:
    """One verb as the server ran it."""

    verb: str
    #: The resource it speaks of.
    name: str
    detail: Any = None
    life: int = 0
    #: Who called; each pull is a consumer of its own, a stream is one for its life.
    consumer: int = 0
    begun_at: int = NEVER
    begun_s: float = 0.0
    begun_generation: int = 0
    ended_at: int = NEVER
    ended_s: float = float("inf")
    ended_generation: int = NEVER
    outcome: Outcome = "running"
    #: What was answered: an error's code, or something that depends on the verb.
    answer: Any = None
    #: The least that the machine's clock said when it began and when it ended.
    wall_ns: int = 0
    #: If it was cut: ends of the partitions just then, with what waited for the disk.
    assigned: Mapping[PartitionId, Offset] = field(default_factory=dict)

    @property
    def may_have_happened(self) -> bool:
        """Whether it may have had an effect that lasts."""
        return self.outcome in ("ok", "cut", "running")

    @property
    def may_have_shown(self) -> bool:
        """Whether it may have had an effect for a while: what fails at its commit had one."""
        return self.outcome != "refused"

    def may_pass(self, message: Message) -> bool:
        """Whether a seek or a detachment may have closed a message that waited for the disk."""
        time_ns = self.detail.time_ns if isinstance(self.detail, SeekTo) else None
        # A time ahead may be over before the message is published, and passes it all the same.
        return time_ns is None or time_ns > min(message.publish_ns, self.wall_ns)


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it stands in the log."""

    at: int
    #: Of the commit it came with.
    sequence: int
    partition: PartitionId
    #: The topic's id.
    topic: str
    offset: Offset
    publish_ns: int
    key: str
    data: bytes
    attributes: Mapping[str, str]
    #: The stored bytes: one `messages` field of a PublishRequest.
    field: bytes
    #: Base offset of the batch it stands in.
    base: Offset
    #: Message id, subscription and topic of the original, if this is a dead letter.
    source_id: str = ""
    source: str = ""
    source_topic: str = ""
    #: Id of the subscription it is for alone; 0 when it is for all.
    addressee: int = 0


@dataclass(frozen=True, slots=True)
class Delivered:
    """Messages left the server for a consumer, all of one lease."""

    at: int
    time_s: float
    generation: int
    #: When the lease was decided.
    decided_s: float
    #: The deadline it was given lies between these.
    deadline_lo_s: float
    deadline_hi_s: float
    subscription: SubscriptionId
    partition: PartitionId
    consumer: int
    #: Most messages the consumer may hold; 0 is no limit.
    credit: int
    offsets: Sequence[Offset]
    attempts: Sequence[int]
    is_drain: bool


CatalogChange = TopicRecord | SubscriptionRecord | SnapshotRecord


@dataclass(frozen=True, slots=True)
class Committed:
    """The disk took a commit."""

    sequence: int
    messages: Sequence[Message]
    changes: Sequence[CatalogChange]
    #: Cursors that moved, were made, or (without a floor) removed.
    heads: Sequence[CursorHead]
    #: Where the log of each partition with such a cursor begins.
    starts: Mapping[PartitionId, Offset]
    #: When messages with numbers arrived, as the broker notes it: the time-out of gaps begins then.
    arrivals: Mapping[tuple[PartitionId, Offset], float] = field(default_factory=dict)


def arrivals_of(run: NumbersRecord) -> dict[tuple[PartitionId, Offset], float]:
    """When the messages of a run arrived."""
    offsets = range(run.base or 0, (run.base or 0) + count_of(run))
    return {(run.partition, offset): run.arrived_s for offset in offsets}


@dataclass(frozen=True, slots=True)
class Rotten:
    """Offsets of a partition that fail their checksum from now on."""

    partition: PartitionId
    offset_start: Offset
    offset_end: Offset


@dataclass(frozen=True, slots=True)
class Turn:
    """The broker lost its soft state, began or ended."""

    what: Literal["starting", "started", "stopped", "crashed", "commit failed", "frozen", "drain"]
    life: int


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace said where a message stands on a subscription."""

    subscription: SubscriptionId
    partition: PartitionId
    offset: Offset
    state: str


Kind = Literal["begun", "ended", "delivered", "committed", "rotten", "traced", "turn"]


@dataclass(frozen=True, slots=True)
class Entry:
    at: int
    time_s: float
    generation: int
    kind: Kind
    what: Any

    @property
    def order(self) -> tuple[int, bool, int]:
        """Sorts entries by decision: a lease comes first of all that its generation saw."""
        return self.generation, self.kind != "delivered", self.at


@dataclass(slots=True)
class Chronicle:
    """The record of one world; append only."""

    entries: list[Entry] = field(default_factory=list)
    #: How long topics keep messages that do not say; 0 for as long as subscriptions need them.
    topic_retention_s: float = 0.0
    #: How far the owners of a cluster may count the deadline of a lease apart.
    lease_slack_s: float = 0.0
    #: Generation of the last lease decided, in any life.
    generation: int = 0
    #: When each generation was decided.
    decided_s: dict[int, float] = field(default_factory=dict)
    #: All messages that ever stood in the log; the index is the offset.
    log: dict[PartitionId, list[Message]] = field(default_factory=dict)
    #: Full names of all topics there ever were, but those that nobody saw: one that is made and
    #: deleted by the same commit is on the disk only if a pattern reads what was published to it.
    topics: dict[PartitionId, str] = field(default_factory=dict)
    #: Subscriptions on patterns there ever were.
    patterns: set[SubscriptionId] = field(default_factory=set)
    #: How many key slots subscriptions have that have some.
    key_slots: dict[SubscriptionId, int] = field(default_factory=dict)

    @property
    def at(self) -> int:
        """Number of the next entry."""
        return len(self.entries)

    def decided(self, generation: int, now: float) -> None:
        assert generation > self.generation, "a generation of leases is never used twice"
        self.generation = generation
        self.decided_s[generation] = now

    def begin(self, op: Op, now: float) -> None:
        op.begun_at, op.begun_s, op.begun_generation = self.at, now, self.generation
        self._add("begun", op, now)

    def end(self, op: Op, outcome: Outcome, now: float, answer: Any = None) -> None:
        assert op.outcome == "running"
        op.outcome, op.answer = outcome, answer
        op.ended_at, op.ended_s, op.ended_generation = self.at, now, self.generation
        self._add("ended", op, now)

    def deliver(self, delivered: Delivered) -> None:
        assert delivered.at == self.at
        self.entries.append(
            Entry(self.at, delivered.time_s, delivered.generation, "delivered", delivered)
        )

    def commit(self, committed: Committed, now: float) -> None:
        for message in committed.messages:
            messages = self.log.setdefault(message.partition, [])
            assert message.offset == len(messages), "offsets are dense"
            messages.append(message)
        self._add("committed", committed, now)

    def rot(self, rotten: Rotten, now: float) -> None:
        self._add("rotten", rotten, now)

    def trace(self, traced: Traced, now: float) -> None:
        self._add("traced", traced, now)

    def turn(self, turn: Turn, now: float) -> None:
        self._add("turn", turn, now)

    def topic_id(self, partition: PartitionId) -> str:
        return self.topics.get(partition, "").rpartition("/")[2]

    def message(self, partition: PartitionId, offset: Offset) -> Message | None:
        messages = self.log.get(partition, ())
        return messages[offset] if offset < len(messages) else None

    def messages_of(self, topic: str) -> list[Message]:
        """The messages of the topic that had this name last."""
        found = [partition for partition, name in self.topics.items() if name == topic]
        return self.log.get(max(found), []) if found else []

    def in_order(self) -> list[Entry]:
        """All entries in the order in which things were decided."""
        return sorted(self.entries, key=lambda entry: entry.order)

    def lines(self, entries: Iterable[Entry] | None = None) -> Iterator[str]:
        """Each entry as a line of text; the same world gives the same lines, byte by byte."""
        for entry in self.entries if entries is None else entries:
            yield f"{entry.at:6d} {entry.time_s - EPOCH:14.6f} {entry.kind:9s} {_shown(entry)}"

    def digest(self) -> str:
        digest = hashlib.sha256()
        for line in self.lines():
            digest.update(line.encode())
        return digest.hexdigest()

    def _add(self, kind: Kind, what: Any, now: float) -> None:
        self.entries.append(Entry(len(self.entries), now, self.generation, kind, what))


#: Times are shown relative to this.
EPOCH = 1_700_000_000.0


def _shown(entry: Entry) -> str:
    what = entry.what
    match what:
        case Op():
            text = f"{what.verb} {what.name.rpartition('/')[2]} #{what.begun_at}"
            if entry.kind == "begun":
                return f"{text} {_plain(what.detail)}".rstrip()
            answer = "" if what.answer is None else f" {_plain(what.answer)}"
            return f"{text} {what.outcome}{answer}"
        case Delivered():
            return (
                f"subscription {what.subscription} partition {what.partition} generation "
                f"{what.generation:x} consumer {what.consumer} offsets {_plain(what.offsets)} "
                f"until {what.deadline_lo_s - EPOCH:.3f}"
            )
        case Committed():
            appended = [
                f"{m.partition}:{m.offset}{'/' + m.key if m.key else ''}" for m in what.messages
            ]
            changes = [_plain(change) for change in what.changes]
            left = [f"{h.owner} left {h.partition}" for h in what.heads if h.floor is None]
            return f"{what.sequence} {' '.join(appended + changes + left)}".rstrip()
        case _:
            return _plain(what)


def _plain(value: Any) -> str:
    """Short and the same in every process."""
    match value:
        case None:
            return ""
        case Settle(refs=refs, seconds=seconds):
            ids = " ".join(f"{ref.generation:x}:{ref.offset}" for ref in refs)
            return ids if seconds is None else f"{seconds} s {ids}"
        case SubscriptionRecord(id=number, subscription=None):
            return f"subscription {number} removed"
        case SubscriptionRecord(id=number, subscription=subscription) if subscription is not None:
            parts = [
                f"{part.name}={getattr(subscription, part.name)!r}"
                for part in fields(subscription)
                if getattr(subscription, part.name) != part.default and part.name not in _UNSHOWN
            ]
            return f"subscription {number} {' '.join(parts)}"
        case TopicRecord(id=number, topic=topic):
            return f"topic {number} {'removed' if topic is None else topic.name}"
        case SnapshotRecord(id=number, snapshot=snapshot):
            return f"snapshot {number} {'removed' if snapshot is None else snapshot.name}"
        case list() | tuple():
            return " ".join(_plain(item) for item in value)
        case _:
            return str(value)


_UNSHOWN = ("id", "labels", "partitions")


def letters_of(chronicle: Chronicle) -> dict[tuple[int, str], dict[Offset, list[int]]]:
    """When dead letters were committed, by the partition and subscription they came from."""
    found: dict[tuple[int, str], dict[Offset, list[int]]] = {}
    for log in chronicle.log.values():
        for message in log:
            if message.source_id:
                partition, offset = parse_message_id(message.source_id)
                of_source = found.setdefault((partition, message.source), {})
                of_source.setdefault(offset, []).append(message.at)
    return found
