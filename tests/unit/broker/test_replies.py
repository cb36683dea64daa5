"""Nothing is answered, and nothing is delivered, before all that it saw is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fanlog import limits
from fanlog.broker.assembly import build_broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import Done, run_commit
from fanlog.core.flow import Credit
from fanlog.core.hard_state import HardState
from fanlog.errors import SubscriptionNotFound
from fanlog.log.api import Commit
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import DeadLetterPolicy, RetryPolicy
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.model.updates import SubscriptionUpdate
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body

TOPIC, LETTERS = "projects/p/topics/orders", "projects/p/topics/letters"
NAME = "projects/p/subscriptions/billing"


class HeldCommitter:
    """Commits at once, or when it is let go."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.is_held = False
        self._waiting: list[tuple[Commit, Done]] = []

    def start(self, commit: Commit, done: Done) -> None:
        self._waiting.append((commit, done))
        if not self.is_held:
            asyncio.get_running_loop().call_soon(self.let_go)

    def let_go(self) -> None:
        self.is_held = False
        for commit, done in [self._waiting.pop(0) for _ in self._waiting]:
            done(run_commit(self._log, commit))

    def close(self) -> None:
        self.let_go()


class World:
    def __init__(self) -> None:
        self.log = MemoryLog()
        self.committer = HeldCommitter(self.log)
        self.clock = ManualClock()
        self.start_again()

    def start_again(self) -> None:
        self.broker = build_broker(
            self.log,
            self.committer,
            self.clock,
            compose=compose,
            candidates=candidates,
            jitter=lambda: 0.0,
        )

    async def subscribe(self, **settings: object) -> None:
        await self.broker.topics.create(TopicSpec(name=TOPIC))
        await self.broker.topics.create(TopicSpec(name=LETTERS))
        spec = SubscriptionSpec(name=NAME, topic=TOPIC, **settings)  # type: ignore[arg-type]
        await self.broker.subscriptions.create(spec)

    async def publish(self, *keys: str) -> None:
        await self.broker.publish(TOPIC, build_body([(b"x", {}, key) for key in keys]))

    async def pull(self) -> list[str]:
        """Ack ids of what is there."""
        subscription, deliveries = await self.broker.pull(NAME, max_messages=10, wait_s=0.0)
        return [
            f"{self.broker.ack_id_prefix(subscription, delivery)}{batch.base_offset + index:012x}"
            for delivery in deliveries
            for batch, first, end in delivery.runs
            for index in range(first, end)
        ]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.broker.start()
    yield world
    world.committer.let_go()
    await world.broker.stop()


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_an_ack_of_what_is_being_acknowledged_waits_for_that_commit(world: World):
    await world.subscribe()
    await world.publish("")
    (ack_id,) = await world.pull()
    world.committer.is_held = True
    first = asyncio.create_task(world.broker.acknowledge(NAME, [ack_id]))
    await turns()
    second = asyncio.create_task(world.broker.acknowledge(NAME, [ack_id]))
    await turns()
    assert not first.done()
    assert not second.done(), "were the process killed now, the message would come back"
    world.committer.let_go()
    await asyncio.gather(first, second)


async def test_a_deleted_subscription_confirms_no_acks(world: World):
    """Also while its deletion is under way: that may fail yet."""
    await world.subscribe(enable_exactly_once=True)
    await world.publish("")
    (ack_id,) = await world.pull()
    subscription = world.broker.hard.catalog.subscription(NAME)
    world.committer.is_held = True
    deletion = asyncio.create_task(world.broker.subscriptions.delete(NAME))
    await turns()
    with pytest.raises(SubscriptionNotFound):
        await world.broker.settle_some(subscription, [ack_id], None)
    world.committer.let_go()
    await deletion


async def test_what_follows_a_dead_letter_waits_for_its_commit(world: World):
    policy = DeadLetterPolicy(dead_letter_topic=LETTERS, max_delivery_attempts=1)
    await world.subscribe(
        enable_message_ordering=True, labels={"fanlog-ordering": "strict"}, dead_letter=policy
    )
    await world.publish("a", "a")
    (first,) = await world.pull()
    world.committer.is_held = True
    nack = asyncio.create_task(world.broker.modify_ack_deadline(NAME, [first], 0))
    await turns()
    pull = asyncio.create_task(world.pull())
    await turns()
    assert not pull.done(), "were the process killed now, the first would come after the second"
    for _ in range(5):
        world.committer.let_go()
        await turns()
    await nack
    (second,) = await pull
    assert second.endswith("1")


async def test_a_seek_takes_back_letters_that_wait(world: World):
    policy = DeadLetterPolicy(dead_letter_topic=LETTERS, max_delivery_attempts=1)
    await world.subscribe(dead_letter=policy, retain_acked=True)
    await world.publish("", "")
    first, second = await world.pull()
    world.committer.is_held = True
    work = [asyncio.create_task(world.broker.modify_ack_deadline(NAME, [first], 0))]
    await turns()
    work += [asyncio.create_task(world.broker.modify_ack_deadline(NAME, [second], 0))]
    await turns()
    work += [asyncio.create_task(world.broker.seeks.to_time(NAME, 0))]
    for _ in range(5):
        await turns()
        world.committer.let_go()
    await asyncio.gather(*work)
    letters = world.broker.hard.catalog.topic(LETTERS).partitions[0]
    assert world.log.bounds(letters).end == 1, "the second waited, and was reopened meanwhile"
    assert len(await world.pull()) == 2


@pytest.mark.parametrize(("ahead_s", "count"), [(-3600.0, 1), (0.0, 1), (3600.0, 0)])
async def test_a_seek_passes_what_waits_for_the_disk_only_if_its_time_is_ahead(
    world: World, ahead_s: float, count: int
):
    await world.subscribe()
    time_ns = int((world.clock.now() + ahead_s) * 1e9)
    world.committer.is_held = True
    publish = asyncio.create_task(world.publish(""))
    await turns()
    seek = asyncio.create_task(world.broker.seeks.to_time(NAME, time_ns))
    await turns()
    world.committer.let_go()
    await asyncio.gather(publish, seek)
    assert len(await world.pull()) == count, "published now, and so not before an hour ago"


async def test_a_letter_that_cannot_be_read_holds_up_nothing(world: World):
    policy = DeadLetterPolicy(dead_letter_topic=LETTERS, max_delivery_attempts=1)
    await world.subscribe(enable_message_ordering=True, dead_letter=policy)
    await world.publish("a")
    (first,) = await world.pull()
    await world.publish("a")
    partition = world.broker.hard.catalog.topic(TOPIC).partitions[0]
    damaged = world.log._partitions[partition].values
    damaged[0] = damaged[0][:-1] + bytes([damaged[0][-1] ^ 1])
    await world.broker.modify_ack_deadline(NAME, [first], 0)
    await turns()
    world.clock.advance(limits.DEAD_LETTER_RETRY_S)
    (second,) = await world.pull()
    assert second.endswith("1")


async def test_failures_counted_before_a_dead_letter_policy_survive_with_it(world: World):
    await world.subscribe(retry=RetryPolicy(minimum_backoff_s=0.0, maximum_backoff_s=0.0))
    await world.publish("")
    await world.broker.modify_ack_deadline(NAME, await world.pull(), 0)
    policy = DeadLetterPolicy(dead_letter_topic=LETTERS, max_delivery_attempts=5)
    update = SubscriptionUpdate(name=NAME, changes={"dead_letter": policy})
    await world.broker.subscriptions.update(update)
    (live,) = world.broker.hard.shares()
    (recovered,) = HardState.load(world.log.state()).shares()
    assert (live.attempts_of(0), recovered.attempts_of(0)) == (1, 1)


@pytest.mark.parametrize("is_ordered", [False, True])
async def test_what_lies_behind_a_damaged_batch_is_found_by_small_pulls(world, is_ordered):
    await world.subscribe(enable_message_ordering=is_ordered)
    await world.publish("a", "a", "a")
    await world.publish("a")
    partition = world.broker.hard.catalog.topic(TOPIC).partitions[0]
    damaged = world.log._partitions[partition].values
    damaged[0] = damaged[0][:-1] + bytes([damaged[0][-1] ^ 1])
    _, (delivery,) = await world.broker.pull(NAME, max_messages=1, wait_s=0.0)
    assert delivery.runs[0][0].base_offset == 3


async def test_a_filter_knows_the_topic_of_a_message_also_when_that_is_deleted(world: World):
    await world.subscribe(filter='topic = "orders"')
    await world.publish("", "")
    await world.broker.topics.delete(TOPIC)
    await world.broker.stop()
    world.start_again()
    await world.broker.start()
    assert len(await world.pull()) == 2


async def test_room_given_back_in_one_topic_is_room_for_another(world: World):
    await world.subscribe()
    spec = SubscriptionSpec(name=f"{NAME}-all", topic="projects/p/topics/#")
    await world.broker.subscriptions.create(spec)
    for topic in (TOPIC, LETTERS):
        await world.broker.publish(topic, build_body([(b"x", {}, "")]))
    subscription, feed = world.broker.attach(spec.name)
    stream = Credit(max_messages=1)
    (first,) = await feed.take(stream, max_messages=10, max_bytes=1000, deadline_s=10.0)
    version = feed.version
    prefix = world.broker.ack_id_prefix(subscription, first)
    await world.broker.acknowledge(spec.name, [f"{prefix}{0:012x}"])
    assert feed.version > version
    (second,) = await feed.take(stream, max_messages=10, max_bytes=1000, deadline_s=10.0)
    assert second.partition != first.partition


async def test_what_a_filter_left_out_stays_so_when_that_filter_is_forgotten(world: World):
    await world.subscribe(filter="attributes:k")
    await world.publish("", "")
    (share,) = world.broker.hard.shares()
    await world.broker.filtering.judge_all(share, world.broker.ledger.end(share.partition))
    update = SubscriptionUpdate(name=NAME, changes={"filter": "NOT attributes:k"})
    await world.broker.subscriptions.update(update)
    await world.broker.subscriptions.forget_filters(share.settings.id)
    assert not share.settings.filter_changes
    # As after a crash: nothing was swept, and nothing stopped in peace.
    world.start_again()
    await world.broker.start()
    assert await world.pull() == []


async def test_a_detached_pattern_keeps_no_deleted_topic(world: World):
    await world.subscribe()
    spec = SubscriptionSpec(name=f"{NAME}-all", topic="projects/p/topics/#")
    subscription = await world.broker.subscriptions.create(spec)
    await world.broker.subscriptions.detach(spec.name)
    await world.publish("", "")
    await world.broker.topics.delete(TOPIC)
    await world.broker.sweep()
    (share,) = world.broker.hard.shares_of(subscription)
    assert world.broker.hard.catalog.topic_name_of(share.partition) == LETTERS
