"""Nodes that are cut off: from Kafka, from each other, from both, and from nobody else.

Kafka and each node have a network namespace of their own. Clients reach every node all the time.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from bench.kafka import Kafka

from fanlog.v1 import cluster_pb2 as pb
from kafka.answers import Answers
from kafka.conftest import running as running_kafka
from kafka.networks import Network
from kafka.serving import SESSION_S, until
from kafka.troubled import Troubled, publisher_of, troubled

#: Longer than two nodes can believe that they own.
UNANSWERED_S = 3 * SESSION_S
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def kafka_away(network: Network) -> Iterator[Kafka]:
    """One node of Kafka, on a machine of its own."""
    host = network.add("kafka")
    with running_kafka(host=host, launcher=network.launcher("kafka")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def cluster_away(
    network: Network, kafka_away: Kafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Troubled]:
    folder = tmp_path_factory.mktemp("network")
    with troubled(kafka_away, f"c{uuid.uuid4().hex[:12]}", folder, network) as found:
        yield found


@pytest.fixture
def running(network: Network, cluster_away: Troubled) -> Iterator[Troubled]:
    yield cluster_away
    network.mend()


def test_an_owner_is_cut_off_from_kafka_and_not_from_clients(network: Network, running: Troubled):
    """It answers nothing by itself any more; its callers reach the next owner through it."""
    nodes = running.nodes
    owner = nodes.owner()
    running.lead_to(owner)
    running.goes_on()
    network.cut(owner, "kafka")
    next_owner = nodes.owner(but=owner)
    # The clients are still at the one that is cut off.
    running.goes_on()
    tally = running.check()
    assert next_owner in tally.owners.values()
    network.mend()
    nodes.await_standbys(2)
    running.goes_on()
    running.check()


def test_an_owner_is_cut_off_from_its_standbys(network: Network, running: Troubled):
    """It renews in Kafka, so it goes on owning; those that cannot reach it answer UNAVAILABLE."""
    nodes = running.nodes
    owner = nodes.owner()
    running.lead_to(owner)
    running.goes_on()
    term = nodes[owner].describe().term
    others = [name for name in nodes.by_name if name != owner]
    for name in others:
        network.cut(owner, name)
    until(lambda: not standbys_of(running, owner), "the owner still hears its standbys")
    told = Answers(running)
    with publisher_of(nodes[others[0]].endpoint) as client:
        told.publish(client, b"by way of one that does not reach the owner", timeout_s=UNANSWERED_S)
    assert not told.answered
    running.goes_on()
    assert nodes[owner].describe().term == term
    # They have the log from Kafka all the time: one of them takes over at once.
    running.check()
    network.mend()
    nodes.await_standbys(2)
    assert nodes.owner() == owner
    running.check()


@pytest.mark.nightly
def test_an_owner_is_cut_off_from_everything_but_its_clients(network: Network, running: Troubled):
    """Two nodes believe that they own: the old one answers nobody, be it a pull."""
    nodes = running.nodes
    owner = nodes.owner()
    running.spare(owner)
    running.goes_on()
    told = Answers(running)
    with publisher_of(nodes[owner].endpoint) as client:
        told.publish(client, b"before")
        for other in [*nodes.by_name, "kafka"]:
            if other != owner:
                network.cut(owner, other)
        publishing = [
            threading.Thread(
                target=told.publish,
                args=(client, b"%d" % number),
                kwargs={"timeout_s": UNANSWERED_S},
            )
            for number in range(5)
        ]
        for thread in publishing:
            thread.start()
        nodes.owner(but=owner)
        running.goes_on()
        for thread in publishing:
            thread.join()
        assert told.answered == [b"before"]
        running.check()
        network.mend()
        nodes.await_standbys(2)
        told.publish(client, b"after")
    assert told.answered == [b"before", b"after"]
    running.check()


def test_a_standby_is_cut_off_from_kafka(network: Network, running: Troubled):
    """It deposes nobody, and callers reach the owner through it."""
    nodes = running.nodes
    owner = nodes.owner()
    term = nodes[owner].describe().term
    standby = running.spare(owner).name
    network.cut(standby, "kafka")
    time.sleep(2 * SESSION_S)
    running.goes_on()
    network.mend()
    nodes.await_standbys(2)
    assert nodes[owner].describe().term == term
    running.check()


def test_in_the_end_everything_was_delivered(running: Troubled):
    running.goes_on()
    running.end()
    for node in running.nodes.by_name.values():
        assert "Traceback" not in node.log_tail()


def standbys_of(running: Troubled, owner: str) -> list[str]:
    said = running.nodes[owner].describe()
    return [one.name for one in said.nodes if one.role == pb.ClusterNode.STANDBY]
