"""`fanlog cluster import`, `backup` and `doctor` against a real Kafka."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bench.kafka import Kafka

from commands import invoke
from fanlog.config import resolve
from fanlog.errors import ConfigError
from fanlog.log import folder
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.server.kafka_topic import KafkaShardTopic
from fanlog.testing.conformance import ONE, TWO, Author, make_body
from kafka.changes import PATIENCE_S


def run(*args: object, exit_code: int = 0) -> dict[str, Any]:
    result = invoke([str(arg) for arg in (*args, "--json")])
    assert result.exit_code == exit_code, (result.output, result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def where(kafka: Kafka, cluster: str) -> list[str]:
    return ["--kafka", kafka.servers, "--cluster", cluster, "--kafka-replicas", "1"]


@pytest.fixture
def source_dir(tmp_path: Path) -> Path:
    """Some megabytes, in more than one piece."""
    with closing(EmbeddedLog(tmp_path / "data")) as log:
        author = Author(log)
        for i in range(30):
            author.commit({ONE: [make_body(b"%d" % i, b"x" * 100_000)]})
    return tmp_path / "data"


def node_on(options: KafkaOptions, cache_dir: Path) -> ReplicatedLog:
    """A node that has read all there is."""
    topic_id = prepare_topic(options, wait_s=PATIENCE_S).topic_id
    log = ReplicatedLog(
        cache_dir, lambda: KafkaPartition(options, topic_id), b"north", on_change=lambda: None
    )
    log.start_following()
    until_s = time.monotonic() + PATIENCE_S
    while not log.standing.is_whole or log.standing.applied_offset < log.standing.end_offset:
        assert time.monotonic() < until_s, log.standing
        time.sleep(0.02)
    return log


def test_a_folder_goes_to_kafka_and_comes_back(source_dir, where, options, tmp_path):
    found = run("cluster", "import", source_dir, *where)
    assert (found["sequence"], found["message_count"], found["was_complete"]) == (30, 60, False)
    assert run("cluster", "import", source_dir, *where)["was_complete"]

    with closing(node_on(options, tmp_path / "node")) as node:
        assert node.last_sequence == 30
        assert node.take_over(), node.standing.sentence
        Author(node).commit({TWO: [make_body(b"and on")]})

    report = run("doctor", "--data-dir", tmp_path / "node", *where)
    assert report["is_healthy"], report
    assert "the cache and Kafka agree" in json.dumps(report["findings"])

    backup = run("backup", tmp_path / "backup", "--data-dir", tmp_path / "node")
    assert (backup["last_sequence"], backup["is_healthy"]) == (31, True)
    with closing(EmbeddedLog(tmp_path / "backup")) as log:
        assert log.last_sequence == 31


def test_the_doctor_finds_what_differs(source_dir, where, options, tmp_path):
    run("cluster", "import", source_dir, *where)
    node_on(options, tmp_path / "node").close()
    with closing(EmbeddedLog(tmp_path / "node" / "log", syncs=False)) as log:
        store, key = log._store, folder.batch_key(ONE, 8)
        log.change(lambda writing: writing.txn.delete(key, db=store.batches), "damage")
    report = run("doctor", "--data-dir", tmp_path / "node", *where, exit_code=1)
    assert "the batch in the cache is not the one in Kafka" in json.dumps(report["findings"])


def test_a_node_that_saw_the_topic_does_not_make_another(kafka, options, tmp_path):
    given = {"kafka": options.servers, "cluster": options.cluster, "kafka_replicas": 1}
    config = resolve(given | {"data_dir": tmp_path / "node"}, {})
    folder.make(config.data_dir)
    # As the cache of a node has it.
    (config.data_dir / folder.CACHE_NAME).write_text("{}")
    with pytest.raises(ConfigError, match="it was deleted, or these are"):
        KafkaShardTopic(config).prepare()
