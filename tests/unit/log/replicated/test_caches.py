"""Caches that cannot be believed: each is begun again, or is kept and the node does nothing."""

from __future__ import annotations

import shutil

import lmdb
import pytest

from fanlog.errors import ConfigError
from fanlog.log import folder
from fanlog.log.api import Bounds, Log
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.replicated import follower
from fanlog.log.replicated.follower import FAILURES_MAX
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.log.replicated.story import StoryBroken
from fanlog.testing.author import ONE, Author
from fanlog.testing.damage import damage_meta
from fanlog.testing.kafka_partition import KafkaTopic
from replica_nodes import ReplicaNodes, messages_in, read_all


def everything(log: Log) -> tuple[object, ...]:
    return log.identity, log.last_sequence, log.partitions(), list(log.state())


@pytest.fixture
def owner(nodes: ReplicaNodes) -> ReplicatedLog:
    log = nodes.owner("north")
    for number in range(5):
        Author(log).publish(ONE, b"%d" % number)
    return log


@pytest.fixture
def south(nodes: ReplicaNodes, owner: ReplicatedLog) -> ReplicatedLog:
    """A node that has read all, and stopped."""
    log = nodes.make("south")
    read_all(log)
    log.close()
    return log


def check_begun_again(log: ReplicatedLog, owner: ReplicatedLog, *, started_over: int) -> None:
    read_all(log)
    assert everything(log) == everything(owner)
    assert log.standing.started_over == started_over


def test_a_good_cache_is_gone_on_with(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog
):
    again = nodes.make("south")
    assert again.bounds(ONE) == Bounds(0, 5)
    check_begun_again(again, owner, started_over=0)


@pytest.mark.parametrize("boot_id", ["another boot", ""])
def test_a_cache_of_another_boot_is_discarded(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog, boot_id: str
):
    again = nodes.make("south", boot_id=boot_id)
    assert messages_in(again) == 0
    check_begun_again(again, owner, started_over=0)


def test_a_cache_with_an_unreadable_label_is_discarded(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog
):
    for content in (b"", b"[]", b'{"version": 1}'):
        (nodes.cache_dir("south") / "cache.json").write_bytes(content)
        again = nodes.make("south")
        assert messages_in(again) == 0
        check_begun_again(again, owner, started_over=0)
        again.close()


def test_a_torn_cache_is_discarded(nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog):
    data = nodes.cache_dir("south") / "log"
    for key in (b"last", b"replica", b"marks"):
        damage_meta(data, key)
        again = nodes.make("south")
        assert messages_in(again) == 0
        check_begun_again(again, owner, started_over=0)
        again.close()
    with open(data / "data.mdb", "r+b") as file:
        file.truncate(20_000)
    check_begun_again(nodes.make("south"), owner, started_over=0)


def test_a_cache_that_was_begun_and_not_made_is_discarded(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog
):
    shutil.rmtree(nodes.cache_dir("south") / "log")
    check_begun_again(nodes.make("south"), owner, started_over=0)


def test_a_cache_ahead_of_the_partition_is_discarded(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog, topic: KafkaTopic
):
    """A leader that was not in sync lost records that were applied here."""
    topic.cut(3)
    again = nodes.make("south")
    read_all(again)
    assert again.bounds(ONE) == Bounds(0, 2)
    assert again.standing.started_over == 1


def test_a_cache_beside_the_partition_is_discarded(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog, topic: KafkaTopic
):
    """As before, and others went on from there."""
    topic.cut(3)
    east = nodes.owner("east")
    for number in range(8):
        Author(east).publish(ONE, b"e%d" % number)
    check_begun_again(nodes.make("south"), east, started_over=1)


def test_a_node_that_reads_on_beside_the_partition_begins_again(
    nodes: ReplicaNodes, owner: ReplicatedLog, topic: KafkaTopic
):
    south = nodes.make("south")
    read_all(south)
    topic.cut(3)
    east = nodes.owner("east")
    for number in range(8):
        Author(east).publish(ONE, b"e%d" % number)
    south.start_following()
    deadline = 10_000
    while south.standing.applied_offset < east.standing.applied_offset and deadline:
        deadline -= 1
        assert south.standing.role == "following", south.standing.sentence
        south._follower._stopping.wait(0.002)  # type: ignore[union-attr]
    south.stop_following()
    check_begun_again(south, east, started_over=1)


@pytest.mark.parametrize(
    ("error", "started_over"), [(lmdb.CorruptedError("torn"), 1), (lmdb.MapFullError("full"), 0)]
)
def test_a_cache_that_fails_again_and_again_is_made_anew(
    nodes: ReplicaNodes,
    owner: ReplicatedLog,
    south: ReplicatedLog,
    monkeypatch: pytest.MonkeyPatch,
    error: lmdb.Error,
    started_over: int,
):
    again, failures, write_last = nodes.make("south"), FAILURES_MAX, folder.write_last
    Author(owner).publish(ONE, b"more")
    end = owner.standing.applied_offset

    def fail(*values: object) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise error
        write_last(*values)  # type: ignore[arg-type]

    monkeypatch.setattr(folder, "write_last", fail)
    monkeypatch.setattr(follower, "CACHE_PAUSE_S", 0.001)
    again.start_following()
    thread = again._follower._thread  # type: ignore[union-attr]
    for _ in range(5_000):
        if again.standing.applied_offset == end:
            break
        thread.join(0.002)
    again.stop_following()
    assert again.standing.sentence == ""
    check_begun_again(again, owner, started_over=started_over)


def test_a_topic_that_was_made_anew_is_not_followed(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog
):
    """The cache may be all that is left: it is kept, and the sentence says what to do."""
    anew = KafkaTopic("here")
    for _ in range(2):
        again = nodes.make("south", topic=anew)
        with pytest.raises(StoryBroken, match="remove the cache"):
            again._follow()
        assert not again.take_over()
        assert again.bounds(ONE) == Bounds(0, 5)
        again.close()
        # First it is empty, then it has another log.
        other = nodes.make("other", topic=anew)
        assert other.take_over()
        other.close()


def test_the_cache_of_another_cluster_is_refused(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog
):
    again = nodes.make("south", topic=KafkaTopic("there"))
    with pytest.raises(StoryBroken, match="the cache of the cluster 'here'"):
        again._follow()
    assert not again.take_over()
    assert again.bounds(ONE) == Bounds(0, 5)


def test_the_log_of_a_single_server_is_never_touched(nodes: ReplicaNodes):
    log = EmbeddedLog(nodes.cache_dir("south"))
    Author(log).publish(ONE, b"a")
    log.close()
    with pytest.raises(ConfigError, match="single server"):
        nodes.make("south")
    log = EmbeddedLog(nodes.cache_dir("south"))
    assert log.bounds(ONE) == Bounds(0, 1)
    log.close()


def test_a_log_without_a_label_is_never_touched(
    nodes: ReplicaNodes, owner: ReplicatedLog, south: ReplicatedLog
):
    (nodes.cache_dir("south") / "cache.json").unlink()
    with pytest.raises(ConfigError, match="has a log"):
        nodes.make("south")
