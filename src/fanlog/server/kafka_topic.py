"""The topic of a cluster in Kafka. Imported only by a node: it needs the extra `kafka`."""

from __future__ import annotations

import time

from fanlog.config import Config
from fanlog.errors import Unavailable
from fanlog.log import folder
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.settings import read_settings
from fanlog.log.kafka.topic import TopicWatch, prepare_topic
from fanlog.log.replicated.partition import Partition, PartitionUnavailable

#: How long a node waits for Kafka at its start.
START_S = 60.0


class KafkaShardTopic:
    """A `ShardTopic` in Kafka."""

    def __init__(self, config: Config) -> None:
        """Raises ConfigError: A setting of Kafka's client is refused."""
        settings = {} if config.kafka_config is None else read_settings(config.kafka_config)
        self._options = KafkaOptions(
            servers=",".join(config.kafka),
            cluster=config.cluster,
            settings=settings,
            replicas=config.kafka_replicas,
            is_flushed=config.kafka_flush,
        )
        # A node that has seen the topic must not make another one in its place.
        self._may_make = not folder.is_cache(config.data_dir)
        self._watch: TopicWatch | None = None

    @property
    def name(self) -> str:
        return self._options.topic

    @property
    def promise(self) -> str:
        return "" if self._watch is None else self._watch.facts.promise

    @property
    def problem(self) -> str:
        return "" if self._watch is None else self._watch.problem

    def prepare(self) -> None:
        try:
            facts = prepare_topic(self._options, wait_s=START_S, may_make=self._may_make)
        except PartitionUnavailable as error:
            servers = self._options.servers
            raise Unavailable(f"Kafka does not answer at {servers}: {error}") from error
        self._watch = TopicWatch(self._options, facts, time.monotonic())

    def open(self) -> Partition:
        assert self._watch is not None, "prepare it first"
        return KafkaPartition(self._options, self._watch.facts.topic_id)

    def look(self) -> None:
        if self._watch is not None:
            self._watch.look(time.monotonic())
