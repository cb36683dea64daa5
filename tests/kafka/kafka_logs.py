"""Replicated logs on a real Kafka, in this process: nodes without ports."""

from __future__ import annotations

import time
from pathlib import Path

from bench.kafka import Kafka

from fanlog.cluster.cards import NodeCard
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.model.ids import message_id
from fanlog.testing.author import ONE, Author
from fanlog.testing.history import History
from fanlog.wire.publish import build_body
from kafka.changes import PATIENCE_S, put_record
from kafka.serving import until

#: How long the outcome of an append is looked for, while Kafka does not answer.
OUTCOME_S = 3.0
#: The name of all that these logs publish, in a history.
TOPIC = "logs"


class KafkaLogs:
    """Logs by name; one that is made again goes on from its cache."""

    def __init__(self, kafka: Kafka, options: KafkaOptions, place: Path) -> None:
        self.kafka = kafka
        self.options = options
        self._place = place
        self._open: list[ReplicatedLog] = []
        self.history = History()

    def cache_dir(self, name: str) -> Path:
        return self._place / name

    def make(self, name: str, *, pace: UpkeepPace | None = None) -> ReplicatedLog:
        topic_id = prepare_topic(self.options, wait_s=PATIENCE_S).topic_id
        card = NodeCard(name=name, link_address="127.0.0.1:1", api_address="127.0.0.1:2")
        log = ReplicatedLog(
            self.cache_dir(name),
            lambda: KafkaPartition(self.options, topic_id),
            card.to_bytes(),
            on_change=lambda: None,
            pace=pace,
            patience_s=OUTCOME_S,
        )
        self._open.append(log)
        return log

    def owner(self, name: str, *, pace: UpkeepPace | None = None) -> ReplicatedLog:
        log = self.make(name, pace=pace)
        self.take_over(log)
        return log

    def take_over(self, log: ReplicatedLog) -> None:
        until(log.take_over, "it does not own", lambda: log.standing.sentence)

    def publish(self, log: ReplicatedLog, *data: bytes) -> None:
        """Commit, and note that it was answered."""
        begin = log.bounds(ONE).end
        bodies = [build_body([(each, {}, "")]) for each in data]
        Author(log).commit({ONE: bodies}, publish_time_ns=time.time_ns())
        ids = [message_id(ONE, begin + index) for index in range(len(data))]
        self.history.published(TOPIC, zip(ids, data, strict=True))

    def read_all(self, log: ReplicatedLog, like: ReplicatedLog) -> None:
        """Follow as far as another log is; both have the same then."""
        log.start_following()
        wanted = like.standing.applied_offset

        def is_there() -> bool:
            assert log.standing.role == "following", log.standing.sentence
            return log.standing.applied_offset >= wanted

        until(is_there, "it does not come to the end", lambda: log.standing.sentence)
        log.stop_following()
        assert everything(log) == everything(like)

    def put(self, value: bytes) -> None:
        put_record(self.kafka, self.options, value)

    def close(self) -> None:
        for log in self._open:
            log.close()


def everything(log: ReplicatedLog) -> tuple[object, ...]:
    return log.identity, log.last_sequence, dict(log.partitions()), list(log.state())
