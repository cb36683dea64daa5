"""Filtering against a log that changes under it, and against its own memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fanlog import limits
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.events import Event
from fanlog.broker.metrics import Metrics
from fanlog.core.flow import Credit
from fanlog.core.hard_state import HardState
from fanlog.core.share import Share
from fanlog.log.api import Damaged, Trim
from fanlog.log.batch import Batch
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import FilterChange, PartitionId, Subscription
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.testing.conformance import Author
from fanlog.wire.candidates import candidates
from fanlog.wire.publish import build_body

RED, BLUE = 'c = "red"', 'c = "blue"'


class HeldLog(MemoryLog):
    """Reads wait while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.reads = 0

    async def read(
        self, partition: PartitionId, offset: int, *, max_bytes: int
    ) -> list[Batch | Damaged]:
        self.reads += 1
        await self.gate.wait()
        return await super().read(partition, offset, max_bytes=max_bytes)


class UnstoredLedger:
    """A ledger as far as filtering reads one; its records are not stored."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.hard = HardState()
        self.on_load: Event[HardState] = Event()

    def end(self, partition: PartitionId) -> int:
        return self._log.bounds(partition).end


class World:
    """One topic and its subscriptions."""

    def __init__(self) -> None:
        self.log = HeldLog()
        ledger: Any = UnstoredLedger(self.log)
        self.hard = ledger.hard
        self.filtering = Filtering(ledger, self.log, Metrics(), candidates)
        topic, made = self.hard.catalog.create_topic(TopicSpec(name="projects/p/topics/topic"), 0.0)
        self.hard.apply_all(made)
        [self.partition] = topic.partitions

    def subscribe(self, text: str, name: str = "red") -> Share:
        spec = SubscriptionSpec(
            name=f"projects/p/subscriptions/{name}", topic="projects/p/topics/topic", filter=text
        )
        subscription, made = self.hard.catalog.create_subscription(spec, 0.0)
        self.hard.apply_all(made)
        [share] = self.hard.shares_of(subscription)
        share.start()
        self.filtering.change(subscription)
        return share

    def change(self, share: Share, changed: Subscription) -> None:
        self.hard.apply_all(self.hard.catalog.put_subscription(changed))
        self.hard.apply_all(share.configure(changed).records)
        self.filtering.change(changed)

    def publish(self, *colours: str) -> None:
        body = build_body([(b"", {"c": colour}, "") for colour in colours])
        Author(self.log).commit({self.partition: [body]})

    def trim(self, before: int) -> None:
        Author(self.log).commit(trims=[Trim(partition=self.partition, before=before)])

    @property
    def end(self) -> int:
        return self.log.bounds(self.partition).end

    def open(self, share: Share) -> list[int]:
        """What may be handed out of what was judged."""
        ranges = share.plan(Credit(), self.end, 100_000)
        return [offset for start, stop in ranges for offset in range(start, stop)]


@pytest.fixture
def world() -> World:
    return World()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_share_is_told_what_it_may_have(world: World):
    share = world.subscribe(RED)
    world.publish("red", "blue", "red")
    assert await world.filtering.judge(share, world.end) == 2
    assert share.routed_to == 3
    assert world.open(share) == [0, 2]
    assert share.stats(world.end).backlog == 2


async def test_what_is_left_after_much_was_trimmed_is_not_passed_over(world: World):
    """A salvaged log may begin anywhere above what was judged last."""
    share = world.subscribe(RED)
    world.publish(*["red"] * 2_000)
    world.publish("red", "blue")
    world.trim(2_000)
    await world.filtering.judge_all(share, world.end)
    assert world.open(share)[-1:] == [2_000]
    assert share.stats(world.end).backlog == 1


async def test_a_share_that_retention_moves_while_the_log_is_read(world: World):
    share = world.subscribe(RED)
    world.publish(*["red"] * 2_000)
    world.publish("red", "blue", "red")
    world.log.gate.clear()
    routing = asyncio.create_task(world.filtering.judge(share, world.end))
    await turns()
    world.hard.apply_all(share.advance(2_000).records)
    world.trim(2_000)
    world.log.gate.set()
    assert await routing == 0, "asked again, by whoever asked"
    await world.filtering.judge_all(share, world.end)
    assert world.open(share) == [2_000, 2_002]


async def test_a_partition_that_is_dropped_while_the_log_is_read(world: World):
    share = world.subscribe(RED)
    world.publish("red")
    end = world.end
    Author(world.log).commit(trims=[Trim(partition=world.partition, before=end, dropped=True)])
    await world.filtering.judge_all(share, end)
    assert share.routed_to == end


async def test_a_filter_that_is_changed_while_the_log_is_read(world: World):
    share = world.subscribe(RED)
    world.publish("red", "blue")
    world.log.gate.clear()
    routing = asyncio.create_task(world.filtering.judge(share, world.end))
    await turns()
    change = FilterChange(filter=RED, before_sequence=world.log.last_sequence + 1)
    world.change(share, replace(share.settings, filter=BLUE, filter_changes=(change,)))
    world.log.gate.set()
    assert await routing == 0
    assert share.routed_to == 0
    world.publish("red", "blue")
    await world.filtering.judge_all(share, world.end)
    assert world.open(share) == [0, 3]


async def test_two_who_ask_at_once_are_told_the_same(world: World):
    shares = [world.subscribe(RED), world.subscribe(RED, "again"), world.subscribe(BLUE, "blue")]
    world.publish("red", "blue", "red")
    world.log.gate.clear()
    asked = [asyncio.create_task(world.filtering.judge(share, world.end)) for share in shares]
    await turns()
    world.log.gate.set()
    assert await asyncio.gather(*asked) == [2, 2, 1]
    assert [world.open(share) for share in shares] == [[0, 2], [0, 2], [1]]


async def test_memory_is_bounded_and_what_was_forgotten_is_judged_again(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "ROUTES_COST_MAX", 1_000)
    first, second = world.subscribe(RED), world.subscribe(RED, "again")
    for _ in range(10):
        world.publish(*["red", "blue"] * 500)
    await world.filtering.judge_all(first, world.end)
    assert world.filtering.cost <= 1_000 or world.filtering.segments == 1
    await world.filtering.judge_all(second, world.end)
    assert world.open(first) == world.open(second) == list(range(0, 10_000, 2))


async def test_those_behind_are_judged_together(world: World):
    """One read for all of them, not one each."""
    shares = [world.subscribe(f'c = "{n}"', f"sub-{n}") for n in range(20)]
    world.publish(*[str(n) for n in range(20)])
    assert await world.filtering.catch_up(shares, steps=100) == 80
    assert world.log.reads == 1
    assert [world.open(share) for share in shares] == [[n] for n in range(20)]


async def test_catching_up_stops_when_it_was_enough(world: World):
    shares = [world.subscribe(RED), world.subscribe(BLUE, "blue")]
    world.publish(*["red", "blue"] * 2_000)
    assert await world.filtering.catch_up(shares, steps=3) == 0
    assert 0 < min(share.routed_to for share in shares) < world.end


async def test_who_is_gone_leaves_nothing_behind(world: World):
    share = world.subscribe(RED)
    world.publish("red")
    await world.filtering.judge_all(share, world.end)
    assert world.filtering.segments == 1
    world.filtering.leave(share)
    assert (world.filtering.segments, world.filtering.cost) == (0, 0)


class Woken:
    """A feed as far as filtering knows one."""

    def __init__(self) -> None:
        self.partitions: list[PartitionId] = []

    def wake(self, partition: PartitionId) -> None:
        self.partitions.append(partition)


async def committed(world: World, feeds: Sequence[Woken]) -> list[int]:
    """How often each feed was woken by what is new."""
    world.filtering.wake_on(world.partition)
    await turns(20)
    woken = [len(feed.partitions) for feed in feeds]
    for feed in feeds:
        feed.partitions.clear()
    return woken


async def test_only_those_who_want_it_are_woken(world: World):
    shares = [world.subscribe(RED), world.subscribe(BLUE, "blue")]
    feeds = [Woken(), Woken()]
    for feed, share in zip(feeds, shares, strict=True):
        world.filtering.watch(feed, share)  # type: ignore[arg-type]
    world.publish("red")
    assert await committed(world, feeds) == [1, 0]
    world.publish("blue", "red")
    assert await committed(world, feeds) == [1, 1]
    world.publish("green")
    assert await committed(world, feeds) == [0, 0]
    world.filtering.unwatch(feeds[0], world.partition)  # type: ignore[arg-type]
    world.publish("red", "blue")
    assert await committed(world, feeds) == [0, 1]


async def test_who_watches_from_now_on_is_not_woken_for_the_past(world: World):
    world.publish("red")
    share, feed = world.subscribe(RED), Woken()
    world.filtering.watch(feed, share)  # type: ignore[arg-type]
    assert await committed(world, [feed]) == [0]
    world.publish("red")
    assert await committed(world, [feed]) == [1]
