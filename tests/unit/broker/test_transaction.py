"""The one road to state: what a transaction applies and appends, and what a failure undoes."""

from __future__ import annotations

import asyncio

import pytest

from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import Done, run_commit
from fanlog.broker.events import Appended
from fanlog.broker.metrics import Metrics
from fanlog.broker.seal_key_file import new_seal_key, seal_keys
from fanlog.broker.transaction import Ledger
from fanlog.core.records import Activity, Secret, SecretRecord
from fanlog.core.seal_keys import NO_KEYS, SealKeys
from fanlog.errors import CommitFailed, ConfigError, FanlogError, Fenced, OutcomeUnknown
from fanlog.log.api import Commit, Trim
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import PartitionId, SubscriptionId, TopicId
from fanlog.wire.publish import build_body

TOPIC, ONE, TWO = TopicId(1), PartitionId(1), PartitionId(2)
READER = SubscriptionId(9)


class FailingCommitter:
    """Commits one turn later, or fails to."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.commits: list[Commit] = []
        self.fails = False
        self.error: FanlogError = CommitFailed("planted")

    def start(self, commit: Commit, done: Done) -> None:
        self.commits.append(commit)
        error = self.error if self.fails else run_commit(self._log, commit)
        asyncio.get_running_loop().call_soon(done, error)

    def close(self) -> None:
        pass


class World:
    def __init__(self, log: MemoryLog | None = None, keys: SealKeys = NO_KEYS) -> None:
        self.log = log or MemoryLog()
        self.committer = FailingCommitter(self.log)
        self.ledger = Ledger(
            *(self.log, self.committer, ManualClock(), Metrics()),
            disk_reserve_bytes=0,
            seal_keys=keys,
        )


def body(count: int = 1):
    return build_body([(b"x", {}, "")] * count)


def activity(last_s: float) -> Activity:
    return Activity(READER, last_s)


async def test_records_are_applied_at_once_and_durable_when_the_future_is_done():
    world = World()
    transaction = world.ledger.begin()
    transaction.apply([activity(1.0)])
    transaction.apply([activity(2.0)])
    assert world.ledger.hard.activity == {READER: 2.0}
    assert not list(world.log.state())
    await transaction.commit()
    world.ledger.load()
    assert world.ledger.hard.activity == {READER: 2.0}


async def test_appends_of_one_transaction_follow_each_other():
    world = World()
    first = world.ledger.begin()
    bases = [first.append(TOPIC, p, body(n)) for p, n in [(ONE, 2), (TWO, 1), (ONE, 3)]]
    assert bases == [0, 0, 2]
    assert (first.end(ONE), world.ledger.assigned_end(ONE)) == (5, 0)
    committed = first.commit()
    # The next one goes on behind what is submitted, committed or not.
    second = world.ledger.begin()
    assert second.append(TOPIC, ONE, body()) == 5
    assert (world.ledger.assigned_end(ONE), world.ledger.end(ONE)) == (5, 0)
    await second.commit()
    assert committed.done()
    assert (world.ledger.end(ONE), world.ledger.end(TWO)) == (6, 1)
    assert [commit.sequence for commit in world.committer.commits] == [1], "one commit for both"


async def test_all_of_a_transaction_is_one_commit():
    world = World()
    transaction = world.ledger.begin()
    transaction.append(TOPIC, ONE, body(3))
    await transaction.commit()
    transaction = world.ledger.begin()
    transaction.apply([activity(1.0)])
    transaction.append(TOPIC, TWO, body())
    transaction.trim([Trim(partition=ONE, before=2)])
    committed = transaction.commit()
    assert world.ledger.start_of(ONE) == 2, "a trim counts as soon as it is submitted"
    await committed
    [_, commit] = world.committer.commits
    assert [append.partition for append in commit.appends] == [TWO]
    assert list(commit.state) == [activity(1.0).key()]
    assert commit.trims == [Trim(partition=ONE, before=2)]


async def test_an_offset_that_somebody_else_took_is_noticed():
    world = World()
    early, late = world.ledger.begin(), world.ledger.begin()
    assert early.append(TOPIC, ONE, body()) == late.append(TOPIC, ONE, body()) == 0
    await early.commit()
    with pytest.raises(AssertionError):
        late.commit()


async def test_a_failed_commit_loads_hard_state_again():
    world = World()
    await world.ledger.commit([activity(1.0)])
    loads: list[float] = []
    world.ledger.on_load.listen(lambda hard: loads.append(hard.activity[READER]))
    world.committer.fails = True
    failing = world.ledger.commit([activity(2.0)])
    await asyncio.sleep(0)  # The commit is started.
    later = world.ledger.begin()
    later.apply([activity(3.0)])
    later.append(TOPIC, ONE, body())
    following = later.commit()
    assert world.ledger.hard.activity == {READER: 3.0}
    stale = world.ledger.begin()
    for future in (failing, following):
        with pytest.raises(CommitFailed):
            await future
    assert world.ledger.hard.activity == {READER: 1.0}
    assert world.ledger.assigned_end(ONE) == 0
    assert loads == [1.0], "listeners see the state that was loaded"
    with pytest.raises(AssertionError, match="loaded again"):
        stale.commit()
    world.committer.fails = False
    await world.ledger.commit([activity(4.0)])


async def test_a_note_is_forgotten_with_the_process():
    world = World()
    world.ledger.note(activity(1.0))
    assert world.ledger.hard.activity == {READER: 1.0}
    assert world.ledger.pending() is None
    world.ledger.load()
    assert world.ledger.hard.activity == {}


async def test_commits_that_can_wait_go_along_with_the_next():
    world = World()
    world.ledger.commit([activity(1.0)], can_wait=True)
    await asyncio.sleep(0)
    assert world.committer.commits == []
    await world.ledger.commit([Activity(SubscriptionId(8), 2.0)])
    assert [len(commit.state) for commit in world.committer.commits] == [2]


async def test_listeners_hear_of_each_partition_once_it_is_durable():
    world = World()
    appended: list[Appended] = []
    committed: list[list[PartitionId]] = []
    world.ledger.on_append.listen(appended.append)
    world.ledger.on_commit.listen(lambda partitions: committed.append(list(partitions)))
    transaction = world.ledger.begin()
    transaction.append(TOPIC, ONE, body(2))
    transaction.append(TOPIC, ONE, body())
    done = transaction.commit()
    assert (appended, committed) == ([], [])
    await done
    assert [(one.partition, one.base, one.end) for one in appended] == [(ONE, 0, 3)]
    assert committed == [[ONE]]


async def test_an_empty_transaction_has_nothing_to_commit():
    world = World()
    assert world.ledger.begin().is_empty
    transaction = world.ledger.begin()
    transaction.append(TOPIC, ONE, body())
    assert not transaction.is_empty
    await world.ledger.sync()
    assert world.committer.commits == []


def own_secret(text: str) -> SecretRecord:
    return SecretRecord("ack-ids", Secret(name="ack-ids", text=text, boot=1))


async def test_secrets_are_sealed_in_the_log_and_open_in_memory():
    plain = World()
    await plain.ledger.start()
    await plain.ledger.commit([own_secret("ab" * 32)])
    assert b"abab" in dict(plain.log.state())[own_secret("").key()]

    # The start that seals counts itself, and seals, in one commit.
    world = World(plain.log, seal_keys([new_seal_key()]))
    await world.ledger.start()
    assert len(world.committer.commits) == 1
    assert b"abab" not in dict(world.log.state())[own_secret("").key()]
    assert world.ledger.hard.identities.secrets["ack-ids"].text == "ab" * 32

    await world.ledger.commit([own_secret("cd" * 32)])
    assert b"cdcd" not in dict(world.log.state())[own_secret("").key()]
    world.committer.fails = True
    with pytest.raises(CommitFailed):
        await world.ledger.commit([own_secret("ef" * 32)])
    # Loaded again from the log, and open.
    assert world.ledger.hard.identities.secrets["ack-ids"].text == "cd" * 32


async def test_a_start_that_fails_to_seal_leaves_them_as_they_were():
    plain = World()
    await plain.ledger.start()
    await plain.ledger.commit([own_secret("ab" * 32)])
    before = dict(plain.log.state())
    world = World(plain.log, seal_keys([new_seal_key()]))
    world.committer.fails = True
    with pytest.raises(CommitFailed):
        await world.ledger.start()
    assert dict(plain.log.state()) == before


async def test_a_wrong_key_commits_nothing():
    first = World(keys=seal_keys([new_seal_key()]))
    await first.ledger.start()
    await first.ledger.commit([own_secret("ab" * 32)])
    for keys in (NO_KEYS, seal_keys([new_seal_key()])):
        world = World(first.log, keys)
        with pytest.raises(ConfigError, match="--seal-key-file"):
            await world.ledger.start()
        assert world.committer.commits == []


@pytest.mark.parametrize("error", [Fenced("another owns"), OutcomeUnknown("nobody can tell")])
async def test_a_log_that_is_lost_takes_nothing_more(error):
    """Hard state is not loaded again: the cache is another term's, and the broker is over."""
    world = World()
    told: list[FanlogError] = []
    world.ledger.on_end.listen(told.append)
    world.ledger.on_load.listen(lambda _: told.append(CommitFailed("loaded")))
    world.committer.fails, world.committer.error = True, error
    first = world.ledger.commit([activity(1.0)])
    with pytest.raises(type(error)):
        await first
    assert told == [error]
    # Nothing reaches the committer any more, and whoever waits is told at once.
    with pytest.raises(type(error)):
        await world.ledger.commit([activity(2.0)])
    transaction = world.ledger.begin()
    transaction.append(TOPIC, ONE, body())
    with pytest.raises(type(error)):
        await transaction.commit()
    assert len(world.committer.commits) == 1
    await world.ledger.drain()
