"""A real Kafka for the tests: one of a single node, and one of three whose nodes are hurt.

Each is started once in a session. The tests of a Kafka are in a group of their own, which one
worker runs. A test has topics of its own, made by the name of a cluster of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.kafka import QUICK, Kafka, KafkaMissing

from chaos.proxy import Proxy
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from kafka.changes import PATIENCE_S
from kafka.networks import Network, NetworksMissing, new_network

#: Room for a cache, and for something else that takes the rest of it.
SMALL_DISK_BYTES = 48 * 1024 * 1024

#: Worker groups, by the fixture that a test asks for.
_GROUPS = {
    "three_nodes": "kafka-three",
    "network": "kafka-network",
    "secured": "kafka-secured",
    "kafka": "kafka",
}


# Before xdist reads the groups, also where these tests alone are asked for.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        names = getattr(item, "fixturenames", ())
        for fixture, group in _GROUPS.items():
            if fixture in names:
                item.add_marker(pytest.mark.xdist_group(group))
                break


def missing(what: str) -> None:
    """Skip on a laptop, fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}: tests of Kafka fetch it with Maven, and run it with Java 17 or newer")
    pytest.skip(f"{what}: tests of Kafka fetch it with Maven, and run it with Java 17 or newer")


@contextmanager
def running(**how: Any) -> Iterator[Kafka]:
    """A `Kafka` in a folder of its own, which is gone in the end."""
    folder = Path(tempfile.mkdtemp(prefix="fanlog-kafka-"))
    kafka = Kafka(folder, **how)
    try:
        kafka.start()
        yield kafka
    except KafkaMissing as reason:
        missing(str(reason))
    finally:
        kafka.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """One node that no test hurts. It makes topics by itself, as Kafka does unless told."""
    with running(nodes=1, settings={"auto.create.topics.enable": "true"}) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def three_nodes() -> Iterator[Kafka]:
    with running(nodes=3, settings=QUICK) as kafka:
        yield kafka


@pytest.fixture
def three(three_nodes: Kafka) -> Iterator[Kafka]:
    """Three nodes, of which a test may kill or pause any: they are well again afterwards."""
    yield three_nodes
    three_nodes.heal()


@pytest.fixture
def proxy(kafka: Kafka) -> Iterator[Proxy]:
    """Between the one node and clients of `kafka.proxied_servers`."""
    (node,) = kafka.nodes
    proxy = Proxy(node.endpoint_behind, node.proxy_port)
    yield proxy
    proxy.close()


@pytest.fixture
def cluster() -> str:
    """The name of a cluster of the test's own."""
    return f"c{uuid.uuid4().hex[:12]}"


@pytest.fixture
def options(kafka: Kafka, cluster: str) -> KafkaOptions:
    """Of the test's cluster, on the one node."""
    return KafkaOptions(servers=kafka.servers, cluster=cluster, replicas=1)


@pytest.fixture
def opened() -> Iterator[Callable[[KafkaOptions], KafkaPartition]]:
    """Opens partitions, and closes them when the test ends."""
    with ExitStack() as closing:

        def open_partition(options: KafkaOptions) -> KafkaPartition:
            facts = prepare_topic(options, wait_s=PATIENCE_S)
            partition = KafkaPartition(options, facts.topic_id)
            closing.callback(partition.close)
            return partition

        yield open_partition


@pytest.fixture
def partition(
    options: KafkaOptions, opened: Callable[[KafkaOptions], KafkaPartition]
) -> KafkaPartition:
    return opened(options)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """A network of the tests' own, on which they start machines, and cut them off."""
    with ExitStack() as closing:
        try:
            network = closing.enter_context(new_network())
        except NetworksMissing as reason:
            if os.environ.get("CI"):
                pytest.fail(str(reason))
            pytest.skip(f"{reason}; root can make them, with iproute2")
        yield network


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, which a test may fill."""
    if os.geteuid() != 0 and not os.environ.get("CI"):
        pytest.skip("mounting a tmpfs needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(disk)]
    subprocess.run(mount, check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
