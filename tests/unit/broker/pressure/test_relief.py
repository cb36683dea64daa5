"""What backlogs with limits let go of: with a publish, by their age, and never what is leased."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from fanlog.broker.assembly import build_broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.core.drops import Drops
from fanlog.core.records import DropRecord
from fanlog.core.share import relief
from fanlog.errors import BacklogFull, InvalidArgument
from fanlog.log.memory import MemoryLog
from fanlog.model.outcomes import CrossingOutcome, Outcomes
from fanlog.model.resources import DeadLetterPolicy, PartitionId, PushConfig, SubscriptionId
from fanlog.model.specs import SnapshotSpec, SubscriptionSpec, TopicSpec
from fanlog.model.updates import SubscriptionUpdate
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose

TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"
WAYS = ["drop-oldest", "drop-newest", "drop-random", "drop-by-priority", "sample"]


class World:
    def __init__(self) -> None:
        self.log = MemoryLog()
        self.clock = ManualClock(1_780_000_000.0)
        self.start_again()

    def start_again(self) -> None:
        self.broker = build_broker(
            self.log,
            InlineCommitter(self.log),
            self.clock,
            compose=compose,
            candidates=candidates,
            contents=contents,
            jitter=lambda: 0.0,
            check_endpoint=_allow,
        )

    async def subscribe(self, way: str, messages: int = 10, **more: object) -> None:
        labels = {"fanlog-backlog-policy": way, "fanlog-backlog-messages": str(messages)}
        labels |= more.pop("labels", {})  # type: ignore[arg-type]
        spec = SubscriptionSpec(name=NAME, topic=TOPIC, labels=labels, **more)  # type: ignore[arg-type]
        await self.broker.topics.create(TopicSpec(name=TOPIC))
        await self.broker.subscriptions.create(spec)

    async def publish(self, first: int, end: int, key: str = "", **attributes: str) -> None:
        named = {name.replace("_", "-"): value for name, value in attributes.items()}
        for number in range(first, end):
            body = contents.body(str(number).encode(), named, key)
            await self.broker.publish(TOPIC, body)

    async def pull(self, most: int = 1000) -> list[tuple[int, str]]:
        """Numbers and ack ids of what comes."""
        found: list[tuple[int, str]] = []
        while True:
            subscription, deliveries = await self.broker.pull(NAME, max_messages=most, wait_s=0.0)
            for one in deliveries:
                prefix = self.broker.ack_id_prefix(subscription, one)
                for batch, first, end in one.runs:
                    numbers = [int(data) for data, _, _ in contents.stored(batch, first, end)]
                    ids = [f"{prefix}{batch.base_offset + i:012x}" for i in range(first, end)]
                    found += zip(numbers, ids, strict=True)
            if not deliveries or len(found) >= most:
                return found

    async def numbers(self, most: int = 1000) -> list[int]:
        return [number for number, _ in await self.pull(most)]

    @property
    def drops(self) -> Drops:
        [drops] = self.broker.hard.drops.values()
        return drops


async def _allow(_: PushConfig) -> str:
    return ""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.broker.start()
    yield world
    await world.broker.stop()


async def test_drop_oldest_has_the_last_ones(world: World):
    await world.subscribe("drop-oldest")
    await world.publish(0, 25)
    assert await world.numbers() == list(range(15, 25))
    assert world.drops.counts == {"limit": 15}


async def test_drop_newest_has_the_first_ones(world: World):
    await world.subscribe("drop-newest")
    await world.publish(0, 25)
    assert await world.numbers() == list(range(10))
    assert world.drops.counts == {"limit": 15}


async def test_drop_random_has_any_and_the_same_again():
    found = []
    for _ in range(2):
        world = World()
        await world.broker.start()
        await world.subscribe("drop-random")
        await world.publish(0, 200)
        found.append(await world.numbers())
        await world.broker.stop()
    assert len(found[0]) == 10
    assert found[0] == found[1]
    assert found[0] not in (list(range(10)), list(range(190, 200)))


async def test_drop_by_priority_has_the_urgent_ones(world: World):
    await world.subscribe("drop-by-priority", 6)
    await world.publish(0, 3, fanlog_priority="9")
    await world.publish(3, 6, fanlog_priority="2")
    await world.publish(6, 10)
    assert sorted(await world.numbers()) == [0, 1, 2, 3, 4, 5]
    assert world.drops.counts == {"limit": 4}


async def test_drop_by_priority_lets_go_of_the_oldest_of_the_lowest(world: World):
    await world.subscribe("drop-by-priority", 4)
    await world.publish(0, 4, fanlog_priority="1")
    await world.publish(4, 6, fanlog_priority="3")
    assert sorted(await world.numbers()) == [2, 3, 4, 5]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("key", ["", "k"])
async def test_what_is_leased_stays(world: World, way: str, exactly_once: bool, key: str):
    await world.subscribe(way, enable_exactly_once=exactly_once, enable_message_ordering=bool(key))
    await world.publish(0, 5, key)
    leased = await world.pull(3)
    await world.publish(5, 60, key)
    assert world.broker.hard.share(*_key(world)).backlog_count(60) <= 10
    # Under exactly-once these would be refused if they were gone.
    await world.broker.acknowledge(NAME, [ack_id for _, ack_id in leased])
    rest = await world.numbers()
    assert rest == sorted(rest), "gaps, and no swaps"
    assert not set(rest) & {number for number, _ in leased}
    assert 0 < len(rest) <= 10


def _key(world: World) -> tuple[SubscriptionId, PartitionId]:
    subscription = world.broker.hard.catalog.subscription(NAME)
    return subscription.id, subscription.partitions[0]


@pytest.mark.parametrize("way", WAYS)
async def test_what_fails_comes_back_in_order_behind_what_was_dropped(world: World, way: str):
    await world.subscribe(way, enable_message_ordering=True)
    await world.publish(0, 10, "k")
    leased = await world.pull(4)
    await world.publish(10, 30, "k")
    await world.broker.modify_ack_deadline(NAME, [ack_id for _, ack_id in leased], 0)
    await world.publish(30, 60, "k")
    rest = await world.numbers()
    assert rest == sorted(rest)
    assert len(rest) <= 10


async def test_everything_is_leased_and_the_publish_is_taken_all_the_same(world: World):
    await world.subscribe("drop-oldest", 3)
    await world.publish(0, 3)
    assert len(await world.pull()) == 3
    await world.publish(3, 6)
    assert await world.numbers() == []
    assert world.drops.total == 3


@pytest.mark.parametrize("way", WAYS)
async def test_a_drop_is_in_the_commit_of_its_cause(world: World, way: str):
    await world.subscribe(way, 5)
    sequences = []
    await world.publish(0, 5)
    for number in range(5, 12):
        before = world.log.last_sequence
        await world.publish(number, number + 1)
        sequences.append(world.log.last_sequence - before)
        # A process that ends here has exactly as many.
        world_after = World()
        world_after.log = world.log
        world_after.start_again()
        await world_after.broker.ledger.start()
        share = world_after.broker.hard.share(*_key(world_after))
        assert share.backlog_count(number + 1) <= 5
        world_after.broker.ledger.close()
        # It counted its start.
        world.start_again()
        await world.broker.start()
    assert set(sequences) == {1}


async def test_what_is_too_old_goes(world: World):
    labels = {"fanlog-backlog-age": "60"}
    await world.subscribe("drop-newest", 1000, labels=labels)
    await world.publish(0, 4)
    world.clock.advance(50)
    await world.publish(4, 7)
    world.clock.advance(20)
    await world.broker.relief.look()
    assert await world.numbers() == [4, 5, 6]
    assert world.drops.counts == {"age": 4}


async def test_limits_by_bytes(world: World):
    labels = {"fanlog-backlog-bytes": "2000"}
    await world.subscribe("drop-oldest", 10_000, labels=labels)
    await world.publish(0, 100)
    for number in range(20):
        await world.broker.publish(TOPIC, contents.body(b"x" * 400, {"n": str(number)}, ""))
    for _ in range(3):
        await world.broker.relief.look()
    state = await world.broker.backlogs.weigh(world.broker.hard.catalog.subscription(NAME))
    assert 1_000 < state.size_bytes <= 2_000


async def test_a_filter_judges_before_anything_is_dropped(world: World):
    await world.subscribe("drop-oldest", 3, filter='attributes.kind = "a"')
    for number in range(20):
        await world.publish(number, number + 1, kind="a" if number % 4 == 0 else "b")
    await world.broker.relief.look()
    assert await world.numbers() == [8, 12, 16]


async def test_a_seek_into_what_was_dropped_brings_back_as_much_as_there_is_room_for(world: World):
    await world.subscribe("drop-oldest", 5, retain_acked=True)
    start_s = world.clock.now()
    world.clock.advance(1)
    await world.publish(0, 20)
    await world.broker.seeks.to_time(NAME, int(start_s * 1e9))
    await world.broker.relief.look()
    assert await world.numbers() == list(range(15, 20))


async def test_a_snapshot_and_a_seek_say_what_was_dropped(world: World):
    await world.subscribe("drop-oldest", 5, retain_acked=True)
    await world.publish(0, 12)
    name = "projects/p/snapshots/before"
    await world.broker.snapshots.create(SnapshotSpec(name=name, subscription=NAME))
    await world.publish(12, 15)
    snapshot = await world.broker.snapshots.get(name)
    assert world.broker.snapshots.dropped(snapshot) == {"limit": 7}
    back = await world.broker.seeks.to_snapshot(NAME, name)
    assert "3 of them at most had been dropped by the backlog policy" in back.hint
    again = await world.broker.reopening.reopen_window(NAME, 0, None)
    assert (again.reopened, again.dropped) == (7, 7)
    await world.broker.snapshots.delete(name)
    assert len(world.broker.hard.drops) == 1


async def test_a_crossing_is_an_outcome(world: World):
    world.broker.metrics.crossings = []
    await world.subscribe("keep", 10)
    await world.publish(0, 9)
    [crossing] = world.broker.metrics.crossings
    told = Outcomes(minute=datetime(2026, 11, 16, tzinfo=UTC), crossings=[crossing])
    [message] = told.to_messages()
    assert Outcomes.from_message(message).crossings == [
        CrossingOutcome(
            subscription=NAME, mark="high", fill=0.9, time_s=world.clock.wall_ns() / 1e9
        )
    ]


async def test_marks_are_told_once_each_way(world: World):
    told = []
    await world.subscribe("keep", 10)
    world.broker.relief.on_cross.listen(lambda crossed: told.append(crossed.crossing))
    await world.publish(0, 8)
    assert told == []
    await world.publish(8, 9)
    for _ in range(3):
        # Around the high mark, up and down.
        [(_, one), *_] = await world.pull(1)
        await world.broker.acknowledge(NAME, [one])
        await world.broker.relief.look()
        await world.publish(9, 10)
    assert told == ["high"]
    await world.broker.acknowledge(NAME, [one for _, one in await world.pull(4)])
    await world.broker.relief.look()
    assert told == ["high", "low"]


async def test_a_policy_that_goes_frees_the_backlog(world: World):
    await world.subscribe("drop-oldest", 5)
    await world.broker.subscriptions.update(SubscriptionUpdate(name=NAME, changes={"labels": {}}))
    await world.publish(0, 20)
    assert len(await world.numbers()) == 20
    assert world.broker.ledger.relief is None


async def test_a_policy_that_comes_takes_what_is_there(world: World):
    await world.broker.topics.create(TopicSpec(name=TOPIC))
    await world.broker.subscriptions.create(SubscriptionSpec(name=NAME, topic=TOPIC))
    await world.publish(0, 20)
    labels = {"fanlog-backlog-policy": "drop-oldest", "fanlog-backlog-messages": "4"}
    await world.broker.subscriptions.update(
        SubscriptionUpdate(name=NAME, changes={"labels": labels})
    )
    await world.broker.relief.look()
    assert await world.numbers() == [16, 17, 18, 19]


async def test_a_group_shares_its_limits(world: World):
    labels = {
        "fanlog-backlog-policy": "drop-oldest",
        "fanlog-backlog-messages": "10",
        "fanlog-backlog-group": "shop",
    }
    await world.broker.topics.create(TopicSpec(name=TOPIC))
    names = [f"projects/p/subscriptions/sub{number}" for number in range(2)]
    for name in names:
        await world.broker.subscriptions.create(
            SubscriptionSpec(name=name, topic=TOPIC, labels=labels)
        )
    await world.publish(0, 30)
    hard = world.broker.hard
    counts = [
        share.backlog_count(30)
        for name in names
        for share in hard.shares_of(hard.catalog.subscription(name))
    ]
    assert sum(counts) == 10
    assert min(counts) >= 4


async def test_a_deleted_subscription_leaves_nothing(world: World):
    await world.subscribe("drop-oldest", 5)
    await world.publish(0, 20)
    await world.broker.subscriptions.delete(NAME)
    assert world.broker.hard.drops == {}
    assert not [key for key, _ in world.log.state() if key[:1] == DropRecord.KIND]
    assert world.broker.ledger.relief is None


# Overflow.

LETTERS = "projects/p/topics/letters"


async def test_overflow_goes_to_the_dead_letter_topic_with_its_drop(world: World):
    await world.broker.topics.create(TopicSpec(name=LETTERS))
    policy = DeadLetterPolicy(dead_letter_topic=LETTERS)
    await world.subscribe("dead-letter", 5, dead_letter=policy)
    await world.broker.subscriptions.create(
        SubscriptionSpec(name="projects/p/subscriptions/letters", topic=LETTERS)
    )
    await world.publish(0, 5)
    leased = await world.pull(2)
    await world.publish(5, 12)
    await world.broker.relief.look()
    assert [number for number, _ in leased] == [0, 1]
    assert await world.numbers() == [9, 10, 11]
    assert world.broker.hard.drops[_key(world)].counts == {"dead-letter": 7}
    letters = await world.broker.pull("projects/p/subscriptions/letters", max_messages=99, wait_s=0)
    found = [
        (int(data), said["fanlog-dead-letter-reason"])
        for one in letters[1]
        for batch, first, end in one.runs
        for data, said, _ in contents.stored(batch, first, end)
    ]
    assert [number for number, _ in found] == list(range(2, 9))
    assert {reason for _, reason in found} == {"the backlog was full"}


async def test_without_the_topic_of_dead_letters_nothing_goes(world: World):
    await world.broker.topics.create(TopicSpec(name=LETTERS))
    policy = DeadLetterPolicy(dead_letter_topic=LETTERS)
    await world.subscribe("dead-letter", 5, dead_letter=policy)
    await world.broker.topics.delete(LETTERS)
    await world.publish(0, 12)
    await world.broker.relief.look()
    assert await world.numbers() == list(range(12))


# Samples.


async def test_a_sample_is_of_the_same_messages_and_says_how_small_it_is(world: World):
    await world.subscribe("sample", 50)
    await world.publish(0, 2000)
    some = await world.numbers()
    assert 20 < len(some) <= 50
    assert world.drops.levels, "what was sampled is hard state"
    assert world.drops.counts == {"sample": 2000 - len(some)}


async def test_messages_of_a_sample_say_their_rate(world: World):
    await world.subscribe("sample", 50)
    await world.publish(0, 10)
    await world.publish(10, 400)
    _, deliveries = await world.broker.pull(NAME, max_messages=1000, wait_s=0)
    levels = dict(world.drops.levels)
    for one in deliveries:
        for batch, first, end in one.runs:
            for index in range(first, end):
                offset = batch.base_offset + index
                rate = float(batch.attributes["fanlog-sample-rate"])
                level = world.drops.level_at(offset)
                assert rate == 2.0**-level
                assert relief.mixed(one.partition, offset) < rate * 2**64
    assert len(levels) > 1


async def test_a_summary_says_what_the_sample_left_out(world: World):
    await world.subscribe("sample", 20, labels={"fanlog-backlog-summaries": "60"})
    other = "projects/p/subscriptions/other"
    await world.broker.subscriptions.create(SubscriptionSpec(name=other, topic=TOPIC))
    await world.publish(0, 400)
    left_out = world.drops.total
    world.clock.advance(61)
    await world.broker.relief.look()
    found = []
    for name in (NAME, other):
        _, deliveries = await world.broker.pull(name, max_messages=1000, wait_s=0)
        for one in deliveries:
            for batch, first, end in one.runs:
                for data, said, _ in contents.stored(batch, first, end):
                    if "fanlog-sample-summary" in said:
                        found.append((name, json.loads(data), said))
    [(name, data, said)] = found
    assert name == NAME
    assert data["left_out"] == left_out == int(said["fanlog-sample-summary"])
    # The first summary had no room itself: one message left for it.
    await world.broker.purges.to_now(NAME)
    world.clock.advance(61)
    await world.broker.relief.look()
    world.clock.advance(61)
    ends = world.broker.ledger.ends()
    await world.broker.relief.look()
    assert world.broker.ledger.ends() == ends, "nothing was left out since"


async def test_what_was_delivered_once_stays_in_the_sample(world: World):
    await world.subscribe("sample", 20)
    await world.publish(0, 20)
    leased = await world.pull(8)
    await world.broker.modify_ack_deadline(NAME, [ack_id for _, ack_id in leased], 0)
    await world.publish(20, 400)
    assert {number for number, _ in leased} <= set(await world.numbers())


async def test_critical_forwards_that_would_wait_for_each_other_are_refused(world: World):
    other = "projects/p/topics/other"
    for name in (TOPIC, other):
        await world.broker.topics.create(TopicSpec(name=name))
    labels = {"fanlog-backlog-policy": "push-back", "fanlog-backlog-messages": "9", **CRITICAL}

    def forward(source: str, target: str) -> SubscriptionSpec:
        name = f"projects/p/subscriptions/{source.rpartition('/')[2]}-on"
        push = PushConfig(endpoint=f"topic:{target}")
        return SubscriptionSpec(name=name, topic=source, push=push, labels=labels)

    await world.broker.subscriptions.create(forward(TOPIC, other))
    with pytest.raises(InvalidArgument, match="makes a loop"):
        await world.broker.subscriptions.create(forward(other, TOPIC))


async def test_a_sample_grows_again_when_its_readers_keep_up(world: World):
    await world.subscribe("sample", 50)
    await world.publish(0, 500)
    bound = world.broker.relief.bounds.find(_key(world)[0])
    assert bound is not None
    assert bound.level > 0
    for _ in range(20):
        pulled = await world.pull()
        if pulled:
            await world.broker.acknowledge(NAME, [one for _, one in pulled])
        world.clock.advance(11)
        await world.broker.relief.look()
    assert bound.level == 0
    await world.publish(500, 520)
    assert await world.numbers() == list(range(500, 520))


# Push-back.

CRITICAL = {"fanlog-backlog-critical": "true"}


async def test_push_back_refuses_from_the_high_mark_to_the_low_one(world: World):
    await world.subscribe("push-back", 10, labels=CRITICAL)
    await world.publish(0, 9)
    with pytest.raises(BacklogFull) as refused:
        await world.publish(9, 10)
    assert refused.value.retry_after_s > 0
    assert "'projects/p/subscriptions/billing'" in refused.value.message
    pulled = await world.pull()
    await world.broker.acknowledge(NAME, [one for _, one in pulled[:3]])
    with pytest.raises(BacklogFull):
        await world.publish(9, 10)
    await world.broker.acknowledge(NAME, [one for _, one in pulled[3:4]])
    await world.publish(9, 10)
    assert world.broker.metrics.of(_key(world)[0]).pushed_back == 2


async def test_one_that_is_detached_pushes_back_no_more(world: World):
    await world.subscribe("push-back", 10, labels=CRITICAL)
    await world.publish(0, 9)
    await world.broker.subscriptions.detach(NAME)
    await world.publish(9, 40)
    assert world.broker.ledger.relief is None


async def test_after_a_restart_the_first_publish_is_refused_as_before(world: World):
    await world.subscribe("push-back", 10, labels=CRITICAL)
    await world.publish(0, 9)
    await world.broker.stop()
    world.start_again()
    await world.broker.start()
    with pytest.raises(BacklogFull):
        await world.publish(9, 10)


async def test_one_that_is_not_critical_drops_instead(world: World):
    labels = {"fanlog-backlog-fallback": "drop-oldest"}
    await world.subscribe("push-back", 5, labels=labels)
    await world.publish(0, 20)
    assert await world.numbers() == list(range(15, 20))


async def test_a_publish_waits_for_room_and_then_is_refused(world: World):
    await world.subscribe("push-back", 10, labels={**CRITICAL, "fanlog-backlog-block": "5"})
    await world.publish(0, 9)
    waiting = asyncio.create_task(world.publish(9, 10))
    await turns()
    assert not waiting.done()
    pulled = await world.pull()
    await world.broker.acknowledge(NAME, [one for _, one in pulled[:4]])
    world.clock.advance(0.2)
    await asyncio.wait_for(waiting, 5)
    await world.publish(10, 13)
    late = asyncio.create_task(world.publish(13, 14))
    await turns()
    for _ in range(60):
        world.clock.advance(0.1)
        await turns(3)
    with pytest.raises(BacklogFull):
        await asyncio.wait_for(late, 5)


async def test_a_forward_pushes_back_while_its_target_does(world: World):
    source = "projects/p/topics/source"
    await world.subscribe("push-back", 10, labels=CRITICAL)
    await world.broker.topics.create(TopicSpec(name=source))
    await world.broker.subscriptions.create(
        SubscriptionSpec(
            name="projects/p/subscriptions/forward",
            topic=source,
            push=PushConfig(endpoint=f"topic:{TOPIC}"),
            labels={
                "fanlog-backlog-policy": "push-back",
                "fanlog-backlog-messages": "1000",
                **CRITICAL,
            },
        )
    )
    await world.broker.publish(source, contents.body(b"x", {}, ""))
    await world.publish(0, 9)
    with pytest.raises(BacklogFull):
        await world.broker.publish(source, contents.body(b"x", {}, ""))


async def test_a_pattern_pushes_back_on_all_its_topics(world: World):
    for name in ("a.one", "a.two", "b.one"):
        await world.broker.topics.create(TopicSpec(name=f"projects/p/topics/{name}"))
    labels = {"fanlog-backlog-policy": "push-back", "fanlog-backlog-messages": "10", **CRITICAL}
    await world.broker.subscriptions.create(
        SubscriptionSpec(name=NAME, topic="projects/p/topics/a.*", labels=labels)
    )
    body = contents.body(b"x", {}, "")
    for _ in range(9):
        await world.broker.publish("projects/p/topics/a.one", body)
    await world.broker.topics.create(TopicSpec(name="projects/p/topics/a.three"))
    for name in ("a.one", "a.two", "a.three"):
        with pytest.raises(BacklogFull):
            await world.broker.publish(f"projects/p/topics/{name}", body)
    await world.broker.publish("projects/p/topics/b.one", body)


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
