"""What a `ReplicatedLog` makes of acknowledgements, clocks and caches that fail."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import lmdb
import pytest

from fanlog.errors import CommitFailed, Fenced, OutcomeUnknown
from fanlog.log import folder
from fanlog.log.api import Bounds
from fanlog.log.replicated.bodies import Renewal
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.facts import StoryFacts
from fanlog.log.replicated.partition import PartitionUnavailable
from fanlog.log.replicated.story import Story
from fanlog.testing.author import ONE, Author
from fanlog.testing.kafka_partition import KafkaTopic, ProduceFault
from replica_nodes import ReplicaNodes, read_all

NOTHING = Renewal(members=())
LOST = (ProduceFault.LOST, ProduceFault.LATE)
THERE = [fault for fault in ProduceFault if fault not in LOST]


@pytest.mark.parametrize("fault", THERE)
def test_a_commit_that_is_there_is_answered(
    nodes: ReplicaNodes, topic: KafkaTopic, fault: ProduceFault
):
    log = nodes.owner("north")
    topic.script(fault)
    Author(log).publish(ONE, b"a")
    Author(log).publish(ONE, b"b")
    topic.arrive()
    Author(log).publish(ONE, b"c")
    assert log.standing.role == "owning"
    other = nodes.make("south")
    read_all(other)
    assert other.bounds(ONE) == log.bounds(ONE) == Bounds(0, 3)


@pytest.mark.parametrize("fault", LOST)
def test_a_commit_that_may_come_is_answered_so_and_the_node_steps_down(
    nodes: ReplicaNodes, topic: KafkaTopic, fault: ProduceFault
):
    log = nodes.owner("north")
    topic.script(fault)
    with pytest.raises(OutcomeUnknown):
        Author(log).publish(ONE, b"a")
    assert log.standing.role == "following"
    assert log.bounds(ONE) == Bounds(0, 0)
    topic.arrive()
    read_all(log)
    end = 1 if fault is ProduceFault.LATE else 0
    assert log.bounds(ONE) == Bounds(0, end)
    # It may take over again, and goes on behind what came.
    assert log.take_over()
    Author(log).publish(ONE, b"b")
    assert log.bounds(ONE) == Bounds(0, end + 1)


def test_records_of_somebody_else_stop_no_node(nodes: ReplicaNodes, topic: KafkaTopic):
    log, other = nodes.owner("north"), nodes.make("south")
    Author(log).publish(ONE, b"a")
    for value in (
        b"",
        b"from a console",
        Story("there", log._replica.story.facts).encode(NOTHING)[0],
    ):
        topic.put(value)
        read_all(other)
        Author(log).publish(ONE, b"b")
    assert log.standing.role == "owning"
    read_all(other)
    assert other.bounds(ONE) == log.bounds(ONE) == Bounds(0, 4)
    assert other.standing.sentence == ""
    for one in (log, other):
        assert one.standing.stray_records == 3
        assert "another cluster" in one.standing.stray_sentence
    topic.put(b"and one behind the last")
    assert other.take_over()
    Author(other).publish(ONE, b"c")
    assert other.bounds(ONE) == Bounds(0, 5)


def test_a_renewal_that_may_come_ends_the_term(nodes: ReplicaNodes, topic: KafkaTopic):
    log = nodes.owner("north")
    topic.script(ProduceFault.LOST)
    log.renew(())
    assert log.standing.role == "following"
    with pytest.raises(Fenced):
        Author(log).publish(ONE, b"a")


def test_without_a_leader_nothing_is_answered_and_all_resumes(
    nodes: ReplicaNodes, topic: KafkaTopic
):
    log = nodes.owner("north")
    Author(log).publish(ONE, b"a")
    topic.set_down(True)
    with pytest.raises(OutcomeUnknown):
        Author(log).publish(ONE, b"b")
    assert not log.take_over()
    assert "cannot be taken over" in log.standing.sentence
    topic.set_down(False)
    assert log.take_over()
    Author(log).publish(ONE, b"b")
    assert log.bounds(ONE) == Bounds(0, 2)


def test_a_take_over_that_comes_late_is_no_owner(nodes: ReplicaNodes, topic: KafkaTopic):
    north, south = nodes.owner("north"), nodes.make("south")
    topic.script(ProduceFault.LATE)
    assert not south.take_over()
    Author(north).publish(ONE, b"a")
    topic.arrive()
    with pytest.raises(Fenced):
        Author(north).publish(ONE, b"x")
    read_all(south)
    assert (south.standing.owner, south.standing.role) == (b"south", "following")
    with pytest.raises(Fenced):
        Author(south).publish(ONE, b"x")
    assert north.take_over()
    Author(north).publish(ONE, b"b")
    assert north.bounds(ONE) == Bounds(0, 2)


def test_a_term_that_ends_behind_a_commit_answers_it(nodes: ReplicaNodes, topic: KafkaTopic):
    """The acknowledgement is lost, and a rival's take-over lies behind the commit."""
    north, south = nodes.owner("north"), nodes.make("south")
    read_all(south)
    partition = north._replica.partition

    def produce(value: bytes) -> object:
        topic.script(ProduceFault.ACK_LOST)
        answer = topic.produce(value)
        assert south.take_over()
        return answer

    partition.produce = produce  # type: ignore[method-assign, assignment]
    Author(north).publish(ONE, b"a")
    assert north.standing.role == "following"
    assert north.bounds(ONE) == south.bounds(ONE) == Bounds(0, 1)


def test_a_term_that_ends_while_it_is_handed_over_hands_over_nothing_of_the_next(
    nodes: ReplicaNodes, topic: KafkaTopic
):
    """The checkpoint before the hand-over happened, and a rival's take-over lies behind it."""
    north, south = nodes.owner("north"), nodes.make("south")
    read_all(south)
    partition = north._replica.partition
    produced: list[bytes] = []

    def produce(value: bytes) -> object:
        produced.append(value)
        topic.script(ProduceFault.ACK_LOST)
        answer = topic.produce(value)
        assert len(produced) > 1 or south.take_over()
        return answer

    partition.produce = produce  # type: ignore[method-assign, assignment]
    assert not north.hand_over("east")
    assert len(produced) == 1
    Author(south).publish(ONE, b"a")
    assert south.standing.successor is None
    assert south.bounds(ONE) == Bounds(0, 1)


def test_a_term_that_ends_behind_a_checkpoint_writes_no_snapshot_in_the_next(
    nodes: ReplicaNodes, topic: KafkaTopic
):
    pace = UpkeepPace(checkpoint_bytes=1)
    north, south = nodes.owner("north", pace=pace), nodes.make("south")
    read_all(south)
    partition = north._replica.partition
    produced: list[bytes] = []

    def produce(value: bytes) -> object:
        produced.append(value)
        topic.script(ProduceFault.ACK_LOST)
        answer = topic.produce(value)
        assert len(produced) > 1 or south.take_over()
        return answer

    partition.produce = produce  # type: ignore[method-assign, assignment]
    north.prepare()
    assert north.standing.role == "following"
    assert len(produced) == 1


def test_a_take_over_that_fails_hears_the_node_that_was_faster(
    nodes: ReplicaNodes, topic: KafkaTopic
):
    """Else it would be deposed for the silence of the owner before it."""
    south = nodes.make("south")
    read_all(south)
    north = nodes.owner("north")
    heard_s = south.standing.heard_s
    topic.script(ProduceFault.LOST)
    assert not south.take_over()
    assert south.standing.term == north.standing.term
    assert south.standing.heard_s > heard_s


# Clocks.


@pytest.mark.parametrize("ahead_s", [3_600.0, -3_600.0, 6.0, -6.0])
def test_a_node_whose_clock_is_off_does_not_serve(nodes: ReplicaNodes, ahead_s: float):
    log = nodes.make("north")
    nodes.clocks["north"].ahead_s = ahead_s
    assert not log.take_over()
    assert "clock" in log.standing.sentence
    assert log.standing.role == "following"
    assert log.standing.clock_ahead_s == pytest.approx(ahead_s, abs=1)
    # It leaves the log to any other that finds it silent, and not at once: the owner before may
    # answer still.
    assert log.standing.successor is None
    with pytest.raises(Fenced):
        Author(log).publish(ONE, b"a")
    assert nodes.owner("south").standing.role == "owning"


def test_a_clock_that_is_off_by_little_serves(nodes: ReplicaNodes):
    log = nodes.make("north")
    nodes.clocks["north"].ahead_s = 4.5
    assert log.take_over()


def test_a_node_that_stood_still_at_its_take_over_reads_the_clock_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Deadlines are written in the time that it finds: it must not be seconds behind."""
    passed_s = 0.0
    topic = KafkaTopic(wall_ns=lambda: time.time_ns() + int(passed_s * 1e9))
    nodes = ReplicaNodes(tmp_path, topic)
    log = nodes.make("north")
    drive = log._replica.drive

    def slowly(running: Any) -> Any:
        nonlocal passed_s
        answer = drive(running)
        if not passed_s:
            passed_s = nodes.clocks["north"].ahead_s = 10.0
        return answer

    monkeypatch.setattr(log._replica, "drive", slowly)
    assert log.take_over()
    assert log.standing.clock_ahead_s == pytest.approx(0, abs=2)
    nodes.close()


def test_a_node_that_follows_learns_how_far_its_clock_is_off(nodes: ReplicaNodes):
    north, south = nodes.owner("north"), nodes.make("south")
    nodes.clocks["south"].ahead_s = 60.0
    read_all(south)
    # Old records say nothing about the clock.
    assert south.standing.clock_ahead_s is None
    north.renew(())
    south._follow()
    assert south.standing.clock_ahead_s == pytest.approx(60, abs=2)


def test_a_clock_that_is_off_is_known_though_records_never_cease(nodes: ReplicaNodes):
    north, south = nodes.owner("north"), nodes.make("south")
    clock = nodes.clocks["south"]
    clock.ahead_s = 60.0
    south._follow()
    assert south.standing.clock_ahead_s is None
    north.renew(())
    south._follow()
    assert south.standing.clock_ahead_s == pytest.approx(60, abs=2)
    # The end is asked for again now and then; if it is not told, following goes on.
    clock.ahead_s, clock.passed_s = 30.0, 10.0
    north.renew(())
    nodes.topic.refuse(1)
    with pytest.raises(PartitionUnavailable):
        south._follow()
    south._follow()
    assert south.standing.applied_offset == north.standing.applied_offset
    assert south.standing.clock_ahead_s == pytest.approx(60, abs=2)


def test_records_that_are_read_behind_a_pause_say_nothing_about_the_clock(nodes: ReplicaNodes):
    """Of this node, or of Kafka: they are as old as the pause was long."""
    north, south = nodes.owner("north"), nodes.make("south")
    read_all(south)
    north.renew(())
    south._follow()
    south._follow()
    north.renew(())
    nodes.clocks["south"].passed_s = 44.0
    south._follow()
    assert south.standing.clock_ahead_s == pytest.approx(0, abs=2)


# The cache fails.


def test_a_cache_that_fails_behind_an_acknowledgement_ends_the_term(
    nodes: ReplicaNodes, monkeypatch: pytest.MonkeyPatch
):
    log = nodes.owner("north")
    Author(log).publish(ONE, b"a")
    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_last", _fail)
        with pytest.raises(OutcomeUnknown, match="steps down"):
            Author(log).publish(ONE, b"b")
        assert log.standing.role == "following"
        assert log.bounds(ONE) == Bounds(0, 1)
        # It does not begin a term that it cannot serve.
        end = len(nodes.topic.records())
        assert not log.take_over()
        assert len(nodes.topic.records()) == end
    read_all(log)
    assert log.bounds(ONE) == Bounds(0, 2)
    assert log.take_over()


def _fail(*_: object) -> None:
    raise lmdb.MapFullError("the test says so")


# The story breaks.


def test_a_broken_story_is_never_read_on(nodes: ReplicaNodes, topic: KafkaTopic):
    log = nodes.owner("north")
    Author(log).publish(ONE, b"a")
    topic.put(b"\xfaFLE, and no more")
    with pytest.raises(CommitFailed):
        Author(log).publish(ONE, b"b")
    assert log.standing.role == "following"
    for node in (log, nodes.make("south")):
        node.start_following()
        node._follower._thread.join()  # type: ignore[union-attr]
        assert node.standing.role == "failed"
        assert "the record at offset 2" in node.standing.sentence
        assert not node.take_over()
        assert node.bounds(ONE) == Bounds(0, 1)


def test_records_of_another_cluster_are_passed_over(nodes: ReplicaNodes, topic: KafkaTopic):
    log = nodes.owner("north")
    foreign, _ = Story("there", StoryFacts(term=0, next_offset=1)).encode(Renewal(members=()))
    topic.put(foreign)
    Author(log).publish(ONE, b"a")
    other = nodes.make("south")
    read_all(other)
    assert other.bounds(ONE) == log.bounds(ONE) == Bounds(0, 1)


def test_the_cache_says_what_it_is(nodes: ReplicaNodes):
    log = nodes.owner("north")
    said = json.loads(Path(nodes.cache_dir("north") / "cache.json").read_bytes())
    assert said == {
        "version": 1,
        "cluster": "here",
        "identity": log.identity.hex(),
        "boot_id": "boot",
    }
