"""The filters on one partition: each stretch judged once, by all of them, and never wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from pyroaring import BitMap64

from fanlog.broker.delivery import partition_filters as module
from fanlog.broker.delivery.partition_filters import PartitionFilters, Segment, texts_of
from fanlog.log.api import Damaged
from fanlog.log.batch import Batch
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import FilterChange, PartitionId, Subscription, SubscriptionId
from fanlog.testing.conformance import ALL_BYTES, Author
from fanlog.wire.candidates import candidates
from fanlog.wire.publish import build_body

PARTITION = PartitionId(4)
RED, BLUE, ANY = 'c = "red"', 'c = "blue"', "attributes:c"


def subscription(text: str, *changes: tuple[str, int], number: int = 1) -> Subscription:
    return Subscription(
        id=SubscriptionId(number),
        name=f"projects/p/subscriptions/s{number}",
        topic="projects/p/topics/t",
        topic_id=None,
        partitions=(PARTITION,),
        filter=text,
        filter_changes=tuple(FilterChange(filter=f, before_sequence=s) for f, s in changes),
    )


class World:
    """A log of coloured messages, one batch for each call of `publish`."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.filters = PartitionFilters("t", candidates, self._read)
        #: Offsets that reading began at.
        self.reads: list[int] = []
        #: From here on the log is read; what is before was trimmed.
        self.start = 0
        self.damaged: set[int] = set()

    async def _read(self, offset: int) -> Sequence[Batch | Damaged]:
        self.reads.append(offset)
        found = await self.log.read(PARTITION, max(offset, self.start), max_bytes=ALL_BYTES)
        return [
            Damaged(
                partition=PARTITION,
                base_offset=item.base_offset,
                count=item.count,
                reason="flipped",
            )
            if item.base_offset in self.damaged
            else item
            for item in found
        ]

    def publish(self, *colours: str) -> int:
        """The sequence of the commit."""
        body = build_body([(b"", {"c": colour}, "") for colour in colours])
        return Author(self.log).commit({PARTITION: [body]})

    @property
    def end(self) -> int:
        return self.log.bounds(PARTITION).end

    async def wanted(self, subscription: Subscription, start: int = 0) -> list[int]:
        """What a subscription wants of everything from `start` on."""
        found = BitMap64()
        while start < self.end:
            segment = await self.filters.segment_at(start, self.end)
            assert segment is not None
            assert segment.end > start, "no progress"
            found |= await self.filters.offsets_wanted(segment, subscription, start, segment.end)
            start = segment.end
        return list(found)


@pytest.fixture
def world() -> World:
    return World()


async def test_each_filter_gets_its_own(world: World):
    world.publish("red", "blue", "red", "green")
    red, blue = subscription(RED), subscription(BLUE, number=2)
    for one in (red, blue):
        world.filters.subscribe(one)
    assert await world.wanted(red) == [0, 2]
    assert await world.wanted(blue) == [1]
    assert world.reads == [0], "the second one took what was judged for the first"


async def test_a_filter_that_comes_later_is_judged_alone_and_once(world: World):
    world.publish("red", "blue", "red")
    red, late = subscription(RED), subscription(ANY, number=2)
    world.filters.subscribe(red)
    await world.wanted(red)
    world.filters.subscribe(late)
    assert await world.wanted(late) == [0, 1, 2]
    assert await world.wanted(late) == [0, 1, 2]
    assert world.reads == [0, 0]


async def test_a_segment_grows_while_the_filters_are_the_same(world: World):
    red = subscription(RED)
    world.filters.subscribe(red)
    for _ in range(5):
        world.publish("red", "blue")
        await world.wanted(red)
    assert list(world.filters.segments) == [0]
    world.filters.subscribe(subscription(BLUE, number=2))
    world.publish("red")
    assert await world.wanted(red) == [0, 2, 4, 6, 8, 10]
    assert list(world.filters.segments) == [0, 10]


async def test_a_filter_that_goes_and_comes_again_misses_nothing(world: World):
    """The segment grew without it."""
    red, other = subscription(RED), subscription(ANY, number=2)
    for one in (red, other):
        world.filters.subscribe(one)
    world.publish("red")
    assert await world.wanted(red) == [0]
    world.filters.unsubscribe(red.id)
    world.publish("red")
    await world.wanted(other)
    world.filters.subscribe(red)
    assert await world.wanted(red) == [0, 1]


async def test_a_filter_nobody_has_any_more_is_not_remembered_as_judged(world: World):
    """Somebody may ask for it who has just changed; the segment grows on without it."""
    red, other = subscription(RED), subscription(ANY, number=2)
    world.filters.subscribe(other)
    world.publish("red")
    assert await world.wanted(red) == [0]
    world.publish("red", "red")
    await world.wanted(other)
    world.filters.subscribe(red)
    assert await world.wanted(red) == [0, 1, 2]


async def test_changes_take_effect_at_their_commits(world: World):
    world.publish("red", "blue")
    second = world.publish("red", "blue")
    world.publish("red", "blue")
    fourth = world.publish("red", "blue")
    changed = subscription(BLUE, (RED, second), ("", fourth))
    world.filters.subscribe(changed)
    assert await world.wanted(changed) == [0, 2, 3, 4, 5, 7]
    # From the middle of it on, too.
    assert await world.wanted(changed, 3) == [3, 4, 5, 7]
    removed = replace(changed, filter="")
    assert await world.wanted(removed) == [0, 2, 3, 4, 5, 6, 7]


async def test_changes_before_and_after_everything(world: World):
    first = world.publish("red", "blue")
    old = subscription(BLUE, (RED, first))
    new = subscription(BLUE, (RED, first + 1), number=2)
    for one in (old, new):
        world.filters.subscribe(one)
    assert await world.wanted(old) == [1]
    assert await world.wanted(new) == [0]


async def test_what_cannot_be_read_is_for_everybody(world: World):
    """They find out that it is damaged, and go around it."""
    world.publish("red")
    world.publish("red", "red")
    world.publish("blue")
    world.damaged = {1}
    blue = subscription(BLUE)
    world.filters.subscribe(blue)
    assert await world.wanted(blue) == [1, 2, 3]


@pytest.mark.parametrize("missing", [1, 511, 512, 513, 5_000])
async def test_what_was_trimmed_is_nobodys_and_the_rest_is_still_there(world: World, missing: int):
    world.publish(*["red"] * missing)
    world.publish("blue", "red", "blue")
    world.start = missing
    red = subscription(RED)
    world.filters.subscribe(red)
    assert await world.wanted(red) == [missing + 1]


async def test_nothing_is_judged_beyond_what_is_committed(world: World):
    world.publish("red", "red", "red")
    red = subscription(RED)
    world.filters.subscribe(red)
    segment = await world.filters.segment_at(0, 2)
    assert segment is not None
    assert (segment.start, segment.end) == (0, 2)
    assert list(await world.filters.offsets_wanted(segment, red, 0, 2)) == [0, 1]
    assert await world.filters.segment_at(9, 9) is None


async def test_long_logs_are_judged_in_steps_and_cut_into_segments(world: World, monkeypatch):
    monkeypatch.setattr(module, "STEP_OFFSETS", 3)
    monkeypatch.setattr(module, "SEGMENT_OFFSETS", 6)
    world.publish(*["red", "blue"] * 10)
    red = subscription(RED)
    world.filters.subscribe(red)
    assert await world.wanted(red) == list(range(0, 20, 2))
    assert list(world.filters.segments) == [0, 6, 12, 18]
    assert world.reads == list(range(0, 20, 3))
    # What is let go of is judged again, and no further than to its neighbour.
    world.filters.forget(6)
    assert await world.wanted(red) == list(range(0, 20, 2))
    assert sorted(world.filters.segments) == [0, 6, 12, 18]


async def test_who_wants_something_of_a_segment(world: World):
    for number, text in enumerate((RED, BLUE, 'c = "green"'), 1):
        world.filters.subscribe(subscription(text, number=number))
    world.publish("red", "red", "blue")
    segment = await world.filters.segment_at(0, world.end)
    assert segment is not None
    assert set(world.filters.texts_wanting(segment, 0)) == {RED, BLUE}
    assert set(world.filters.texts_wanting(segment, 2)) == {BLUE}
    assert set(world.filters.texts_wanting(segment, 3)) == set()


def test_equal_filters_are_one(world: World):
    for number in (1, 2):
        world.filters.subscribe(subscription(RED, number=number))
    assert world.filters.version == 1
    world.filters.subscribe(subscription(RED, number=2))
    assert world.filters.version == 1
    world.filters.unsubscribe(SubscriptionId(1))
    assert not world.filters.is_idle
    world.filters.unsubscribe(SubscriptionId(2))
    assert world.filters.is_idle
    world.filters.subscribe(subscription("", number=3))
    assert world.filters.is_idle, "no filter is nothing to judge"


def test_the_filters_of_a_subscription():
    assert texts_of(subscription("")) == []
    assert texts_of(subscription(RED)) == [RED]
    assert texts_of(subscription("", (RED, 4), ("", 6))) == ["", RED, ""]


def test_where_a_commit_begins():
    segment = Segment(10, 20, 1, sequences=[(10, 5), (14, 7), (18, 8)])
    expected = {4: 10, 5: 10, 6: 14, 7: 14, 8: 18, 9: 20}
    assert {s: segment.first_since(s) for s in expected} == expected
