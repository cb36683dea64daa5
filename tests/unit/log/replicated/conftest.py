"""Nodes on a topic in memory, with a clock that a test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fanlog.testing.kafka_partition import KafkaTopic
from replica_nodes import ReplicaNodes


@pytest.fixture
def topic() -> KafkaTopic:
    return KafkaTopic("here")


@pytest.fixture
def nodes(tmp_path: Path, topic: KafkaTopic) -> Iterator[ReplicaNodes]:
    nodes = ReplicaNodes(tmp_path, topic)
    yield nodes
    nodes.close()
