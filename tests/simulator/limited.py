"""What is on the disk of backlogs that are limited otherwise than by their own messages.

By bytes, by age, together with others (a group), and at the end of a forward. Nobody else moves
them (`simulator.limiters`); the disk is read as `simulator.pressed` reads it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from pyroaring import BitMap64

from fanlog.log.api import Commit
from fanlog.model.attributes import SOURCE_ID
from fanlog.model.ids import parse_message_id
from simulator.chronicle import Message
from simulator.pressed import DROPPING, HIGH, LOW, Pressed, note

if TYPE_CHECKING:
    from simulator.world import World

PREFIX = "limited"
Kind = Literal["bytes", "age", "group", "forward"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Those that drop; a sample has no group.
WAYS = DROPPING[:-1]

#: Bytes of the data of each message, and of the limit for each message that has room: a message on
#: the disk has a few more than its data.
DATA_BYTES, ROOM_BYTES = 400, 440
#: Lives begin, looks come and commits are written within so many seconds, mostly.
AGE_SLACK_S = 30.0


@dataclass(eq=False)
class Limited:
    """Subscriptions with one limit, as the disk has them."""

    kind: Kind
    way: str
    limit: int
    readers: list[Pressed]
    #: When each message of a partition was seen on the disk.
    arrived: dict[int, list[float]] = field(default_factory=dict)
    life: int = 0
    life_s: float = 0.0

    @property
    def where(self) -> str:
        return f"{PREFIX} {self.kind} {self.way} of {self.limit}"


@dataclass(frozen=True)
class _Change:
    """What a commit did to one reader."""

    reader: Pressed
    left: BitMap64
    unseen: BitMap64
    free: BitMap64
    counted: int
    messages: Sequence[Message]


class LimitedDisk:
    """What commits say of all such subscriptions of a world."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}: limited")
        self.made: list[Limited] = []

    def drawn(self, *, has_steps: bool) -> Limited:
        """One more, as chance has it; no ages where somebody sets the clock."""
        rng = self.rng
        kind = rng.choice([kind for kind in KINDS if kind != "age" or not has_steps])
        way, limit = rng.choice(WAYS), rng.choice((3, 10, 25))
        if kind == "age":
            way, limit = rng.choice(("drop-oldest", "drop-newest")), rng.choice((5, 40))
        if kind == "forward":
            way = "push-back"
        readers = [
            Pressed(way, limit, is_ordered=False, is_exact=rng.random() < 0.6)
            for _ in range(2 if kind in ("group", "forward") else 1)
        ]
        one = Limited(kind, way, limit, readers)
        self.made.append(one)
        return one

    def committed(self, world: World, commit: Commit, messages: Sequence[Message]) -> Iterator[str]:
        """Take a commit; the sentences of what it broke.

        When the world drains, others move these subscriptions.
        """
        for one in self.made:
            if world.is_draining or any(reader.partition < 0 for reader in one.readers):
                continue
            before = [len(reader.open) for reader in one.readers]
            changes = [_change(world, reader, commit, messages) for reader in one.readers]
            if any(change is None for change in changes):
                continue
            done = [change for change in changes if change is not None]
            yield from self._judged(world, one, before, done)

    def _judged(
        self, world: World, one: Limited, before: Sequence[int], changes: Sequence[_Change]
    ) -> Iterator[str]:
        if one.kind == "forward":
            yield from _forwarded(world, one, before, changes)
            return
        for change in changes:
            yield from _counted(one, change)
        appended = sum(len(change.messages) for change in changes)
        free = sum(len(change.free) for change in changes)
        held = sum(len(change.reader.open) for change in changes)
        dropped = sum(change.counted for change in changes)
        others = sum(len(change.left) - change.counted for change in changes)
        if one.kind == "group":
            if appended and free > one.limit:
                yield f"{one.where}: {free} messages that nobody has after a publish"
            if dropped and held + others < one.limit:
                yield f"{one.where}: {dropped} were dropped, down to {held}"
        elif one.kind == "bytes":
            most = one.limit * ROOM_BYTES
            if appended and free * DATA_BYTES > most:
                yield f"{one.where}: {free} messages that nobody has after a publish"
            if dropped and (held + others + 1) * 2 * ROOM_BYTES < most:
                yield f"{one.where}: {dropped} were dropped, down to {held}"
        else:
            yield from _aged(world, one, changes[0])


def _change(
    world: World, reader: Pressed, commit: Commit, messages: Sequence[Message]
) -> _Change | None:
    """What a commit did; None where somebody has moved the subscription."""
    before, counted, fence = reader.acked, reader.dropped, reader.fence
    own = [message for message in messages if message.partition == reader.partition]
    reader.published += len(own)
    note(reader, commit)
    if reader.fence != fence:
        return None
    left, seen = reader.acked - before, reader.seen(world)
    return _Change(reader, left, left - seen, reader.open - seen, reader.dropped - counted, own)


def _counted(one: Limited, change: _Change) -> Iterator[str]:
    """What leaves unseen is counted, and is not leased."""
    if len(change.unseen) > change.counted:
        yield f"{one.where}: {len(change.unseen)} left unseen, {change.counted} were counted"
    if change.counted > len(change.left):
        yield f"{one.where}: {change.counted} were counted, and {len(change.left)} left"
    if leased := change.reader.leased & change.reader.acked:
        yield f"{one.where}: {leased.min()} is gone, and leased"


def _aged(world: World, one: Limited, change: _Change) -> Iterator[str]:
    """What is too old goes within a while, and nothing before its time."""
    arrived = one.arrived.setdefault(change.reader.partition, [])
    arrived += [world.now] * len(change.messages)
    # Nothing is looked at while the process stands still.
    awake = world.lives + world.faults.get("freeze", 0)
    if one.life != awake:
        one.life, one.life_s = awake, world.now
    young = [o for o in change.unseen if arrived[o] > world.now - one.limit + AGE_SLACK_S / 10]
    if young:
        yield f"{one.where}: {young[0]} left {world.now - arrived[young[0]]:.1f} s after it came"
    since_s = max(one.life_s, arrived[change.free.min()]) if change.free else world.now
    if world.now - since_s > one.limit + AGE_SLACK_S:
        yield f"{one.where}: {change.free.min()} is there after {world.now - since_s:.1f} s"


def _forwarded(
    world: World, one: Limited, before: Sequence[int], changes: Sequence[_Change]
) -> Iterator[str]:
    """Nobody publishes to the source while its target pushes back; copies are what is acked."""
    source, target = changes
    reader, count = target.reader, before[1]
    if one.life != world.lives:
        # What lies between the marks is not high after a restart.
        one.life, reader.is_high = world.lives, count > HIGH * one.limit
    is_pushing = reader.is_high and count > LOW * one.limit
    for change, name in ((source, "source"), (target, "target")):
        if change.messages and is_pushing:
            yield f"{one.where}: a publish to the {name} was taken at {count}"
    if reader.dropped:
        yield f"{one.where}: {reader.dropped} were dropped"
    copied = BitMap64(
        parse_message_id(message.attributes[SOURCE_ID])[1]
        for message in target.messages
        if SOURCE_ID in message.attributes
    )
    if copied != source.left:
        yield f"{one.where}: {list(copied)} were copied, and {list(source.left)} left"
    now = len(reader.open)
    reader.is_high = now > HIGH * one.limit or (reader.is_high and now > LOW * one.limit)
