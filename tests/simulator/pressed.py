"""What is on the disk of subscriptions with backlog policies, held against their policies.

Nobody else moves them (`simulator.pressers`), so after each commit it is known how long the backlog
is, what has left it, and whether each message that left was counted. The disk is read here in
another way than the broker does it, from the records of each commit.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from fanlog.core import records as codec
from fanlog.core.records import CursorChunk, CursorHead, DropRecord, LeaseHeld
from fanlog.log.api import Commit
from fanlog.model.attributes import PRIORITY
from simulator.chronicle import Message

if TYPE_CHECKING:
    from simulator.world import World

_LEASE_KEY = struct.Struct(">QIQI")

#: No pattern of a world matches these names, and no admin knows them.
PREFIX = "pressed"
WAYS = ("drop-oldest", "drop-newest", "drop-random", "drop-by-priority", "sample", "push-back")
DROPPING = WAYS[:-1]
#: Of the first one in some worlds, in the place of what it drew.
OVERFLOW = "dead-letter"
HIGH, LOW = 0.8, 0.5


@dataclass(eq=False)
class Pressed:
    """One such subscription, as the disk has it."""

    way: str
    limit: int
    is_ordered: bool
    is_exact: bool
    partition: int = -1
    id: int = -1
    published: int = 0
    floor: int = 0
    chunks: dict[int, BitMap64] = field(default_factory=dict)
    dropped: int = 0
    #: Leases under exactly-once, by generation and part.
    held: dict[tuple[int, int], BitMap64] = field(default_factory=dict)
    #: Whether it has to be low before it is published to again.
    is_high: bool = False
    life: int = 0
    fence: int = 0
    #: Offsets by their priority.
    ranked: dict[int, BitMap64] = field(default_factory=dict)
    #: The partition of its dead letters; and the data of what may become one, by offset.
    letters: int = -1
    data: dict[int, bytes] = field(default_factory=dict)

    @property
    def acked(self) -> BitMap64:
        return BitMap64(range(self.floor)).union(*self.chunks.values())

    @property
    def open(self) -> BitMap64:
        return BitMap64(range(self.published)) - self.acked

    @property
    def leased(self) -> BitMap64:
        """Under exactly-once."""
        return BitMap64().union(*self.held.values())

    def seen(self, world: World) -> BitMap64:
        """Messages that somebody has or had."""
        seen = BitMap64(world.handed_out.get((self.id, self.partition), ()))
        share = None
        if world.life is not None:
            share = world.life.broker.hard.share(self.id, self.partition)  # type: ignore[arg-type]
        # Leased, and not sent yet.
        return seen if share is None else seen | share.leased


class PressedDisk:
    """What commits say of all such subscriptions of a world."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}: pressed")
        self.made: list[Pressed] = []
        self.overflows = random.Random(f"{seed}: overflows").random() < 0.2

    def drawn(self) -> Pressed:
        """One more, as chance has it."""
        rng = self.rng
        one = Pressed(
            rng.choice(WAYS), rng.choice((1, 3, 10, 25)), rng.random() < 0.5, rng.random() < 0.6
        )
        if self.overflows and not self.made:
            one.way = OVERFLOW
        self.made.append(one)
        return one

    def committed(self, world: World, commit: Commit, messages: Sequence[Message]) -> Iterator[str]:
        """Take a commit; the sentences of what it broke.

        When the world drains, others move these subscriptions, and give them filters.
        """
        for one in self.made:
            if one.partition >= 0 and not world.is_draining:
                own = [message for message in messages if message.partition == one.partition]
                letters = [m.data for m in messages if m.partition == one.letters]
                yield from self._committed(world, one, commit, own, letters)

    def _committed(
        self,
        world: World,
        one: Pressed,
        commit: Commit,
        messages: Sequence[Message],
        letters: Sequence[bytes],
    ) -> Iterator[str]:
        before, counted, appended = one.acked, one.dropped, len(messages)
        fence = one.fence
        one.published += appended
        for message in messages:
            priority = int(message.attributes.get(PRIORITY, 0))
            one.ranked.setdefault(priority, BitMap64()).add(message.offset)
            if one.letters >= 0:
                one.data[message.offset] = message.data
        note(one, commit)
        if one.fence != fence:
            # Somebody has moved it.
            return
        left = one.acked - before
        seen = one.seen(world)
        where = f"{PREFIX} {one.way} of {one.limit}"
        unseen = left - seen
        if len(unseen) > one.dropped - counted:
            yield f"{where}: {len(unseen)} left unseen, {one.dropped - counted} were counted"
        if one.dropped - counted > len(left):
            yield f"{where}: {one.dropped - counted} were counted, and {len(left)} left"
        leased = one.leased & one.acked
        if leased:
            yield f"{where}: {leased.min()} is gone, and leased"
        free = one.open - seen
        if one.way in DROPPING and appended and len(free) > one.limit:
            yield f"{where}: {len(free)} messages that nobody has after a publish"
        if one.way == "drop-oldest" and unseen and free and free.min() < unseen.max():
            yield f"{where}: {unseen.max()} left, and {free.min()} stayed"
        if one.way == "drop-newest" and unseen and free and unseen.min() < free.min():
            yield f"{where}: {unseen.min()} left, and {free.min()} stayed"
        if one.way == "drop-by-priority" and unseen and len(messages) <= 1:
            lowest = min((p for p, some in one.ranked.items() if some & free), default=9)
            highest = max(p for p, some in one.ranked.items() if some & unseen)
            if lowest < highest:
                yield f"{where}: one of priority {highest} left, and one of {lowest} stayed"
        others = len(left) - (one.dropped - counted)
        is_short = len(one.open) + others < one.limit
        if one.way in DROPPING[:-1] and one.dropped > counted and is_short:
            yield f"{where}: {one.dropped - counted} were dropped, down to {len(one.open)}"
        if one.way == OVERFLOW:
            if len(letters) != one.dropped - counted:
                yield f"{where}: {len(letters)} letters, {one.dropped - counted} were counted"
            for offset in unseen:
                if one.data[offset] not in letters:
                    yield f"{where}: {offset} left unseen, without a letter"
        if one.way == "push-back":
            yield from self._pushed_back(world, one, appended, where)

    def _pushed_back(self, world: World, one: Pressed, appended: int, where: str) -> Iterator[str]:
        if one.dropped:
            yield f"{where}: {one.dropped} were dropped"
        count = len(one.open)
        if one.life != world.lives:
            # What lies between the marks is not high after a restart.
            one.life, one.is_high = world.lives, count - appended > HIGH * one.limit
        if appended and one.is_high and count - appended > LOW * one.limit:
            yield f"{where}: a publish was taken at {count - appended}"
        one.is_high = count > HIGH * one.limit or (one.is_high and count > LOW * one.limit)

    def said(
        self, subscription: int, offset: int, rate: str | None, seen: Container[int]
    ) -> Iterator[str]:
        """Messages of a sample, and no others, say how large a part of all it is.

        It has those whose lot is small; one that was delivered before stays in any.
        """
        one = next((one for one in self.made if one.id == subscription), None)
        if one is None or one.way != "sample":
            if rate is not None:
                yield f"a message of subscription {subscription} says the rate {rate}"
        elif rate is None or (offset not in seen and _lot(one.partition, offset) >= float(rate)):
            yield f"{offset} of subscription {subscription} says the rate {rate}"


def note(one: Pressed, commit: Commit) -> None:
    """Take the records of a commit that are about one subscription."""
    for key, value in commit.state.items():
        if key[:1] in (CursorHead.KIND, CursorChunk.KIND, DropRecord.KIND):
            _apply(one, key, value)
        elif key[:1] == LeaseHeld.KIND:
            _hold(one, key, value)


def _apply(one: Pressed, key: bytes, value: bytes | None) -> None:
    if value is None:
        return
    place = one.id, one.partition
    match codec.decode(key, value):
        case CursorHead(owner, partition, floor, fence) if (owner, partition) == place:
            assert floor is not None
            one.floor, one.fence = floor, fence
        case CursorChunk(owner, partition, chunk, bits) if (owner, partition) == place:
            assert bits is not None
            one.chunks[chunk] = bits
        case DropRecord(owner, partition, drops) if (owner, partition) == place:
            assert drops is not None
            one.dropped = drops.total
        case _:
            pass


def _hold(one: Pressed, key: bytes, value: bytes | None) -> None:
    owner, partition, generation, part = _LEASE_KEY.unpack(key[1:])
    if (owner, partition) != (one.id, one.partition):
        return
    one.held.pop((generation, part), None)
    if value is not None:
        lease = codec.decode(key, value)
        assert isinstance(lease, LeaseHeld)
        assert lease.offsets is not None
        one.held[generation, part] = lease.offsets


def _lot(partition: int, offset: int) -> float:
    """The lot of a message, from 0 to 1, by the finaliser of SplitMix64."""
    lot = partition * 0x9E3779B97F4A7C15 + offset + 0x632BE59BD9B4E019
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        lot %= 2**64
        lot = (lot ^ (lot >> shift)) * factor
    return lot % 2**64 / 2**64


def is_pressed(name: str) -> bool:
    """Whether a topic or a subscription is judged here, or in `simulator.limited`, alone."""
    return name.rpartition("/")[2].startswith((f"{PREFIX}-", "limited-"))
