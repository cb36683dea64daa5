"""Nodes of a cluster that are killed and paused, and Kafka under them, with official clients.

After each fault: every publish that was answered is in the partition once, messages come in the
order of their keys, nothing comes back whose acknowledgement was confirmed under exactly-once, and
at any offset one node owns.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from bench.kafka import Kafka
from google.api_core.exceptions import GoogleAPICallError

from crash.world import topic_name
from kafka.answers import Answers
from kafka.changes import leader_of
from kafka.epochs import kill_in_epoch, make_rows
from kafka.serving import SESSION_S, NodeProcess, until
from kafka.shifted import SECONDS_VARIABLE
from kafka.troubled import FLOW, Troubled, publisher_of, troubled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TESTS = Path(__file__).resolve().parent.parent
#: An owner that stands still, in every run and at night.
PAUSES_S = [
    2 * SESSION_S,
    pytest.param(10.0, marks=pytest.mark.nightly),
]
#: Kafka without a quorum, in every run and at night.
SHORT_S, LONG_S = 5.0, 60.0


@pytest.fixture(scope="module")
def running(three_nodes: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    """One cluster, which all tests of this file hurt in turn."""
    folder: Path = tmp_path_factory.mktemp("nodes")
    with troubled(three_nodes, f"c{uuid.uuid4().hex[:12]}", folder) as found:
        yield found


def test_the_owner_is_killed(three: Kafka, running: Troubled):
    nodes = running.nodes
    owner = nodes.owner()
    running.spare(owner)
    running.goes_on()
    nodes[owner].end(signal.SIGKILL)
    assert nodes.owner(but=owner) != owner
    running.goes_on()
    nodes[owner].start()
    nodes.await_standbys(2)
    running.check()


@pytest.mark.parametrize("seconds", PAUSES_S)
def test_the_owner_is_paused_and_resumed(three: Kafka, running: Troubled, seconds: float):
    """Two nodes believe that they own: the one that was paused has publishes to answer."""
    nodes = running.nodes
    owner = nodes.owner()
    running.spare(owner)
    running.goes_on()
    told = Answers(running)
    with publisher_of(nodes[owner].endpoint) as client:
        # The connection is there before the pause.
        told.publish(client, b"before")
        nodes[owner].pause()
        paused_s = time.monotonic()
        publishing = [
            threading.Thread(target=told.publish, args=(client, b"%d" % number))
            for number in range(10)
        ]
        for thread in publishing:
            thread.start()
        next_owner = nodes.owner(but=owner)
        running.goes_on()
        time.sleep(max(0.0, paused_s + seconds - time.monotonic()))
        nodes[owner].resume()
        for thread in publishing:
            thread.join()
        told.publish(client, b"after")
    nodes.await_standbys(2)
    running.check()
    # The others were refused, or sent on to the next owner: what was answered is there.
    assert {b"before", b"after"} <= set(told.answered)
    assert len(told.answered) + len(told.refused) == 12
    # The one that was paused noticed, and is a standby of the other.
    assert nodes.owner() == next_owner


@pytest.mark.nightly
def test_the_leader_of_kafka_is_killed(three: Kafka, running: Troubled):
    running.goes_on()
    leader = three.node(leader_of(three, running.options))
    leader.kill()
    running.goes_on()
    three.heal()
    running.goes_on()
    running.check()


@pytest.mark.nightly
def test_all_of_kafka_is_killed_and_started_again(three: Kafka, running: Troubled):
    running.goes_on()
    for node in three.nodes:
        node.kill()
    three.heal()
    running.goes_on()
    running.check()


@pytest.mark.parametrize(
    "seconds",
    [
        SHORT_S,
        pytest.param(LONG_S, marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
    ],
)
def test_kafka_has_no_quorum(three: Kafka, running: Troubled, seconds: float):
    """No publish is answered meanwhile; nobody takes over, and all goes on."""
    nodes = running.nodes
    owner = nodes.owner()
    running.goes_on()
    for node in three.nodes[:2]:
        node.pause()
    # What had been acknowledged may still be answered.
    time.sleep(1.0)
    before = running.load.history.published_count(FLOW)
    began_s = time.monotonic()
    with publisher_of(nodes[owner].endpoint) as client, pytest.raises(GoogleAPICallError):
        client.publish(
            topic=topic_name(FLOW), messages=[{"data": b"?"}], retry=None, timeout=SESSION_S
        )
    time.sleep(max(0.0, began_s + seconds - time.monotonic()))
    assert running.load.history.published_count(FLOW) == before
    three.heal()
    running.goes_on()
    nodes.await_standbys(2)
    running.check()


@pytest.mark.nightly
def test_the_disk_of_the_owner_is_full(three: Kafka, running: Troubled, small_disk: Path):
    """Kafka has acknowledged the commit, and the cache cannot take it: another node answers."""
    nodes, cache_dir = running.nodes, small_disk / "cache"
    running.spare("full")
    with nodes.guest("full", data_dir=cache_dir, flags=["--disk-reserve-bytes", "0"]) as full:
        nodes.make_owner("full")
        running.goes_on()
        hog = small_disk / "hog"
        fill(hog)
        nodes.owner(but="full")
        running.goes_on()
        running.check()
        until(lambda: "there is no room on the disk" in full.log_tail(), "its disk is not full")
        hog.unlink()
        # It follows again, and may own.
        nodes.make_owner("full")
        running.goes_on()
        assert full.end(signal.SIGTERM) == 0
    assert "full" in running.check().committers


def fill(hog: Path) -> None:
    """Take all the room that there is."""
    with hog.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
        os.fsync(file.fileno())


@pytest.mark.nightly
def test_nodes_whose_clock_is_an_hour_off_do_not_own(three: Kafka, running: Troubled):
    """They say so, and follow; told to own, and with no owner, they leave it to the others."""
    nodes = running.nodes
    right = set(nodes.by_name)
    owner = nodes.owner()
    running.spare(owner)
    with (
        nodes.guest("ahead", **shifted(3_600)) as ahead,
        nodes.guest("behind", **shifted(-3_600)) as behind,
    ):
        for node in (ahead, behind):
            until(partial(says_its_clock_is_off, node), "it says nothing", node.log_tail)
        nodes.await_standbys(4)
        until(partial(knows_its_trouble, nodes[owner], "ahead"), "the owner does not know it")
        with pytest.raises(grpc.RpcError, match="'ahead' cannot own the log"):
            nodes[owner].move("ahead")
        running.goes_on()
        owner = nodes.owner()
        assert owner in right
        running.lead_to(next(name for name in right if name != owner))
        nodes[owner].end(signal.SIGKILL)
        assert nodes.owner(but=owner) in right
        running.goes_on()
        for node in (ahead, behind):
            assert node.end(signal.SIGTERM) == 0
    nodes[owner].start()
    nodes.await_standbys(2)
    assert not running.check().committers & {"ahead", "behind"}


def knows_its_trouble(owner: NodeProcess, name: str) -> bool:
    with suppress(grpc.RpcError):
        return any(one.name == name and one.trouble for one in owner.describe().nodes)
    return False


def says_its_clock_is_off(node: NodeProcess) -> bool:
    with suppress(OSError):
        return "the clock of this node is 3" in node.readiness()
    return False


def shifted(seconds: int) -> dict[str, Any]:
    return {
        "launcher": [sys.executable, "-m", "kafka.shifted"],
        "environ": {SECONDS_VARIABLE: f"{seconds:+d}", "PYTHONPATH": str(TESTS)},
    }


@pytest.mark.nightly
def test_caches_are_deleted_and_torn(three: Kafka, running: Troubled):
    """Nodes that begin again are as good as any: each owns afterwards."""
    nodes = running.nodes
    owner = nodes.owner()
    first, second = (nodes[name] for name in nodes.by_name if name != owner)
    running.lead_to(owner)
    for node in (first, second):
        node.end(signal.SIGKILL)
    shutil.rmtree(first.data_dir)
    with open(second.data_dir / "log" / "data.mdb", "r+b") as file:
        file.truncate(20_000)
    for node in (first, second):
        node.launch()
    for node in (first, second):
        node.wait()
    nodes.await_standbys(2)
    for node in (first, second):
        nodes.make_owner(node.name)
        running.goes_on()
    assert "action=cache_discarded" in second.log_text()
    assert {first.name, second.name} <= running.check().committers


def test_the_owner_is_killed_in_the_middle_of_a_large_epoch(three: Kafka, running: Troubled):
    """Of the sink: more than one commit; every row is there once, whoever goes on with it."""
    make_rows(running)
    # On a machine that is busy with other things the epoch may be over before the kill.
    assert any(kill_in_epoch(running, epoch) for epoch in range(5))
    running.nodes.await_standbys(2)
    running.check()


def test_in_the_end_everything_was_delivered(three: Kafka, running: Troubled):
    """To the subscription with exactly-once, too, whose leases outlive their owners."""
    running.goes_on()
    tally = running.end()
    assert running.load.history.acked_count("once") > 0
    assert tally.commits > 0
    for node in running.nodes.by_name.values():
        assert "Traceback" not in node.log_tail()
        until(lambda node=node: node.describe().owner != "", "nobody owns")
