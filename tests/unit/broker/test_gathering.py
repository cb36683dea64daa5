"""Which publishes wait for a second one, and for how long."""

from __future__ import annotations

import asyncio

from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import Done, run_commit
from fanlog.broker.gathering import Crowd
from fanlog.broker.metrics import Metrics
from fanlog.broker.transaction import Ledger
from fanlog.broker.writer import WAIT_S
from fanlog.core.records import Activity
from fanlog.log.api import Commit
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import PartitionId, SubscriptionId, TopicId
from fanlog.wire.publish import build_body

TOPIC, PARTITION = TopicId(1), PartitionId(1)
MANY = 200


class HeldCommitter:
    """Commits when it is told to."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._running: tuple[Commit, Done] | None = None
        #: Messages of each commit that was started.
        self.sizes: list[int] = []
        self.started = asyncio.Event()

    def start(self, commit: Commit, done: Done) -> None:
        self._running = commit, done
        self.started.set()
        self.sizes.append(sum(len(append.bodies) for append in commit.appends))

    def finish(self) -> None:
        assert self._running is not None
        commit, done = self._running
        self._running = None
        done(run_commit(self._log, commit))

    def close(self) -> None:
        pass


class World:
    def __init__(self) -> None:
        log = MemoryLog()
        self.clock = ManualClock()
        self.committer = HeldCommitter(log)
        self.ledger = Ledger(log, self.committer, self.clock, Metrics(), disk_reserve_bytes=0)

    @property
    def sizes(self) -> list[int]:
        return self.committer.sizes

    async def publish(self) -> asyncio.Future[None]:
        transaction = self.ledger.begin()
        transaction.append(TOPIC, PARTITION, build_body([(b"x", {}, "")]))
        committed = transaction.commit()
        await asyncio.sleep(0)
        return committed

    async def be_busy(self) -> None:
        """Publish three at a time until the writer knows that they come close together.

        One in three waits, which leaves patience for the next.
        """
        for _ in range(MANY):
            for _ in range(3):
                await self.publish()
            while self.ledger.pending() is not None:
                await asyncio.sleep(0)
                self.committer.finish()
        self.sizes.clear()


def test_a_caller_that_waits_for_its_answers_meets_nobody():
    crowd = Crowd()
    for _ in range(MANY):
        crowd.come(0)
    assert not crowd.try_wait(1)


def test_one_of_a_crowd_waits_and_two_do_not():
    crowd = Crowd()
    for number in range(MANY):
        crowd.come(number % 2)
    assert not crowd.try_wait(2)
    assert crowd.try_wait(1)


def test_in_a_large_crowd_a_few_wait_for_more():
    crowd = Crowd()
    for _ in range(MANY):
        crowd.come(50)
    assert not crowd.is_enough(10)
    assert crowd.is_enough(20)
    assert not crowd.try_wait(20)
    assert crowd.try_wait(10)


def test_a_crowd_is_forgotten():
    crowd = Crowd()
    for _ in range(MANY):
        crowd.come(50)
    for _ in range(MANY):
        crowd.come(0)
    assert not crowd.try_wait(1)


def test_less_than_half_of_a_crowd_is_kept_waiting():
    crowd = Crowd()
    for _ in range(MANY):
        crowd.come(1)
    waited = 0
    for _ in range(MANY):
        crowd.come(1)
        waited += crowd.try_wait(1)
    assert MANY * 0.4 < waited < MANY * 0.5


async def test_without_a_crowd_a_publish_starts_at_once():
    world = World()
    await world.publish()
    assert world.sizes == [1]


async def test_in_a_crowd_a_publish_waits_for_the_second_one():
    world = World()
    await world.be_busy()
    await world.publish()
    assert world.sizes == []
    await world.publish()
    assert world.sizes == [2]


async def test_in_a_crowd_a_publish_does_not_wait_for_long():
    world = World()
    await world.be_busy()
    world.committer.started.clear()
    committed = await world.publish()
    assert world.sizes == []
    await world.committer.started.wait()
    assert world.sizes == [1]
    world.committer.finish()
    assert committed.done()


async def test_records_that_others_wait_for_start_a_commit_in_a_crowd_too():
    world = World()
    await world.be_busy()
    await world.publish()
    world.ledger.commit([Activity(SubscriptionId(9), 1.0)])
    await asyncio.sleep(0)
    assert world.sizes == [1]


async def test_records_that_can_wait_start_no_commit_of_their_own_behind_another():
    world = World()
    await world.publish()
    world.ledger.commit([Activity(SubscriptionId(9), 1.0)], can_wait=True)
    world.committer.finish()
    await asyncio.sleep(0)
    assert world.sizes == [1]
    await world.publish()
    assert world.sizes == [1, 1]
    world.committer.finish()
    assert world.ledger.pending() is None, "they went along"


async def test_records_that_can_wait_do_not_wait_for_ever():
    world = World()
    world.ledger.commit([Activity(SubscriptionId(9), 1.0)], can_wait=True)
    assert world.sizes == []
    world.clock.advance(WAIT_S)
    assert world.sizes == [0]
