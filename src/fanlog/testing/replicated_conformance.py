"""The rules of a replicated log, as a suite: those of every engine, and those of its life cycle.

Subclass `ReplicatedConformance` in a test module, and say how to open a partition:

    class TestMyPartition(ReplicatedConformance):
        def opener(self, place: Path) -> Callable[[], Partition]:
            topic = ...  # a new one for each place
            return lambda: MyPartition(topic)
"""

from __future__ import annotations

import shutil
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fanlog import limits
from fanlog.errors import CommitTooLarge, DataFolderInUse, Fenced
from fanlog.log.api import Bounds, Commit, Log, Trim
from fanlog.log.replicated.api import NO_TERM, Member
from fanlog.log.replicated.partition import Partition
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.model.resources import Offset, PartitionId
from fanlog.testing.author import ONE, START_NS, TWO, Author, make_body
from fanlog.testing.conformance import LogConformance
from fanlog.testing.damage import damage_batch

#: How long a node that follows may take for what it has to read.
_PATIENCE_S = 30.0


class Nodes:
    """Nodes of one cluster, by name; each has a cache of its own."""

    def __init__(self, place: Path, opener: Callable[[], Partition]) -> None:
        self._place = place
        self._opener = opener
        self._open: dict[str, ReplicatedLog] = {}
        #: How often each node was told that something changed.
        self.changes: dict[str, int] = {}

    def make(self, name: str) -> ReplicatedLog:
        """A node that does nothing yet; its cache is the one that a node of that name left."""
        self.changes.setdefault(name, 0)
        log = ReplicatedLog(
            self.cache_dir(name),
            self._opener,
            name.encode(),
            on_change=lambda: self._count(name),
            boot_id="the tests' boot",
        )
        self._open[name] = log
        return log

    def cache_dir(self, name: str) -> Path:
        return self._place / name

    def follower(self, name: str) -> ReplicatedLog:
        log = self.make(name)
        log.start_following()
        return log

    def owner(self, name: str) -> ReplicatedLog:
        log = self.make(name)
        assert log.take_over(), log.standing.sentence
        return log

    def close(self) -> None:
        for log in self._open.values():
            log.close()

    def _count(self, name: str) -> None:
        self.changes[name] += 1


def catch_up(follower: Log, owner: Log) -> None:
    """Wait until a node that follows has applied what the owner has."""
    assert isinstance(follower, ReplicatedLog)
    assert isinstance(owner, ReplicatedLog)
    end = owner.standing.applied_offset
    wait_until(lambda: follower.standing.applied_offset >= end, lambda: follower.standing)


def wait_until(is_so: Callable[[], bool], told: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, told()
        time.sleep(0.002)


class ReplicatedConformance(LogConformance):
    """The suite of a `ReplicatedLog` on some kind of partition."""

    @abstractmethod
    def opener(self, place: Path) -> Callable[[], Partition]:
        """Opens the partition that belongs to `place`: the same one each time it is called."""

    @pytest.fixture
    def nodes(self, tmp_path: Path) -> Iterator[Nodes]:
        nodes = Nodes(tmp_path, self.opener(tmp_path))
        yield nodes
        nodes.close()

    # What the suite of engines asks for.

    def make_log(self, place: Path) -> Log:
        return Nodes(place, self.opener(place)).owner("north")

    def reopen(self, log: Log, place: Path) -> Log:
        log.close()
        return self.make_log(place)

    def damage(self, log: Log, place: Path, partition: PartitionId, base_offset: Offset) -> Log:
        log.close()
        damage_batch(place / "north" / "log", partition, base_offset)
        return self.make_log(place)

    def everything(self, log: Log) -> tuple[object, ...]:
        partitions = log.partitions()
        return (
            log.identity,
            log.last_sequence,
            log.last_publish_time_ns,
            partitions,
            list(log.state()),
            log.positions(0, limit=10_000),
            [self.read(log, partition, 0) for partition in sorted(partitions)],
        )

    # A new cluster.

    def test_a_new_node_owns_nothing(self, nodes: Nodes) -> None:
        log = nodes.make("north")
        standing = log.standing
        assert (standing.role, standing.term, standing.owner) == ("following", NO_TERM, None)
        with pytest.raises(Fenced):
            log.commit(Commit(sequence=1, publish_time_ns=1))
        assert (log.last_sequence, log.identity, log.partitions()) == (0, b"", {})

    def test_the_first_take_over_makes_the_log(self, nodes: Nodes) -> None:
        log = nodes.owner("north")
        standing = log.standing
        assert (standing.role, standing.owner) == ("owning", b"north")
        assert standing.is_whole
        assert standing.applied_offset == standing.term + 1
        assert len(log.identity) == 16
        assert nodes.changes["north"] == 1
        assert log.take_over()

    # Following.

    def test_who_follows_has_the_same(self, nodes: Nodes) -> None:
        owner, follower = nodes.owner("north"), nodes.follower("south")
        author = Author(owner)
        for number in range(50):
            author.commit(
                {ONE: [make_body(b"%d" % number, b"x" * 3_000)], TWO: [make_body(b"y")]},
                state={b"k%d" % (number % 7): b"%d" % number, b"gone": None},
                trims=[Trim(partition=ONE, before=number)] if number % 10 == 9 else [],
            )
        author.collect_garbage()
        catch_up(follower, owner)
        assert self.everything(follower) == self.everything(owner)
        standing = follower.standing
        assert (standing.role, standing.owner) == ("following", b"north")
        assert standing.sequence == owner.last_sequence
        assert standing.fetched_s > float("-inf")
        assert standing.heard_s > float("-inf")

    def test_a_node_that_comes_later_reads_all_of_it(self, nodes: Nodes) -> None:
        owner = nodes.owner("north")
        author = Author(owner)
        for number in range(20):
            author.publish(ONE, b"%d" % number)
        follower = nodes.follower("south")
        catch_up(follower, owner)
        assert self.everything(follower) == self.everything(owner)

    def test_members_are_told(self, nodes: Nodes) -> None:
        owner, follower = nodes.owner("north"), nodes.follower("south")
        members = (Member(b"south", 1), Member(b"east", 0))
        before = owner.standing.renewed_s
        owner.renew(members)
        catch_up(follower, owner)
        assert follower.standing.members == owner.standing.members == members
        assert owner.standing.renewed_s > before
        follower.renew(members)
        assert follower.standing.applied_offset == owner.standing.applied_offset

    # Terms.

    def test_a_take_over_ends_the_term_before(self, nodes: Nodes) -> None:
        north, south = nodes.owner("north"), nodes.follower("south")
        Author(north).publish(ONE, b"a")
        catch_up(south, north)
        assert south.take_over()
        assert self.messages(south, ONE) == [b"a"]
        Author(south).publish(ONE, b"b")
        before = self.everything(north)
        with pytest.raises(Fenced):
            Author(north).publish(ONE, b"lost")
        assert north.standing.role == "following"
        assert north.standing.renewed_s == float("-inf")
        # It stands still, until it is told to follow.
        assert self.everything(north) == before
        with pytest.raises(Fenced):
            Author(north).publish(ONE, b"lost")
        north.start_following()
        catch_up(north, south)
        assert self.everything(north) == self.everything(south)
        assert north.standing.owner == b"south"
        assert self.messages(north, ONE) == [b"a", b"b"]

    def test_a_renewal_finds_that_the_term_is_over(self, nodes: Nodes) -> None:
        north, south = nodes.owner("north"), nodes.owner("south")
        changes = nodes.changes["north"]
        north.renew(())
        assert north.standing.role == "following"
        assert nodes.changes["north"] > changes
        assert south.standing.role == "owning"

    def test_terms_go_round(self, nodes: Nodes) -> None:
        names = ["north", "south", "east"]
        logs = [nodes.follower(name) for name in names]
        for turn in range(9):
            log = logs[turn % 3]
            assert log.take_over(), log.standing.sentence
            Author(log).publish(ONE, b"%d" % turn)
            log.step_down()
            log.start_following()
        for log in logs:
            catch_up(log, logs[2])
            assert self.messages(log, ONE) == [b"%d" % turn for turn in range(9)]

    def test_hand_over_names_the_successor(self, nodes: Nodes) -> None:
        north, south = nodes.owner("north"), nodes.follower("south")
        Author(north).publish(ONE, b"a")
        assert north.hand_over("south")
        assert north.standing.role == "following"
        with pytest.raises(Fenced):
            Author(north).publish(ONE, b"b")
        catch_up(south, north)
        successors = [south.standing.successor]
        assert south.take_over()
        assert [*successors, south.standing.successor] == ["south", None]
        Author(south).publish(ONE, b"b")
        assert self.messages(south, ONE) == [b"a", b"b"]
        assert not north.hand_over("south")

    def test_publish_times_go_on_over_terms(self, nodes: Nodes) -> None:
        north, south = nodes.owner("north"), nodes.make("south")
        Author(north).commit(publish_time_ns=START_NS)
        assert south.take_over()
        assert south.last_publish_time_ns == START_NS

    # Caches.

    def test_a_node_goes_on_from_its_cache(self, nodes: Nodes) -> None:
        owner, follower = nodes.owner("north"), nodes.follower("south")
        author = Author(owner)
        author.publish(ONE, b"a")
        catch_up(follower, owner)
        follower.close()
        author.publish(ONE, b"b")
        follower = nodes.make("south")
        assert follower.standing.sequence == 1
        follower.start_following()
        catch_up(follower, owner)
        assert self.everything(follower) == self.everything(owner)
        assert follower.standing.started_over == 0

    def test_a_cache_that_is_gone_is_made_again(self, nodes: Nodes) -> None:
        owner, follower = nodes.owner("north"), nodes.follower("south")
        Author(owner).publish(ONE, b"a")
        catch_up(follower, owner)
        follower.close()
        shutil.rmtree(nodes.cache_dir("south"))
        follower = nodes.follower("south")
        catch_up(follower, owner)
        assert self.everything(follower) == self.everything(owner)

    def test_a_cache_has_one_holder(self, nodes: Nodes) -> None:
        nodes.make("north")
        with pytest.raises(DataFolderInUse):
            nodes.make("north")

    # Commits.

    def test_a_commit_that_is_too_large_is_refused(self, nodes: Nodes) -> None:
        log = nodes.owner("north")
        author = Author(log)
        end = log.standing.applied_offset
        with pytest.raises(CommitTooLarge):
            author.commit(state={b"k": bytes(limits.REPLICATED_COMMIT_BYTES_MAX)})
        assert (log.standing.role, log.standing.applied_offset) == ("owning", end)
        assert (log.last_sequence, list(log.state())) == (0, [])
        # The largest one that is allowed passes.
        body = make_body(bytes(limits.REPLICATED_COMMIT_BYTES_MAX - 1_000))
        author.commit({ONE: [body]})
        assert log.bounds(ONE) == Bounds(0, 1)

    def test_renewals_and_commits_take_turns(self, nodes: Nodes) -> None:
        log = nodes.owner("north")
        done = threading.Event()

        def renew() -> None:
            while not done.is_set():
                log.renew(())

        renewing = threading.Thread(target=renew)
        renewing.start()
        try:
            author = Author(log)
            for number in range(100):
                author.publish(ONE, b"%d" % number)
        finally:
            done.set()
            renewing.join()
        assert log.standing.role == "owning"
        follower = nodes.follower("south")
        catch_up(follower, log)
        assert self.everything(follower) == self.everything(log)
