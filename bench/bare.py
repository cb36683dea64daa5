"""A producer of Kafka with the log's safety and nothing else, for records of a commit's size."""

from __future__ import annotations

import os
import time

from confluent_kafka import KafkaError, Message, Producer

from bench.kafka import Kafka
from bench.session import STEP_S, Stalled
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.topic import prepare_topic

RECORD_BYTES = 2**20
#: For Kafka to make a topic.
_TOPIC_S = 60


class BareProducer:
    """Sends records of 1 MiB to a topic of its own, at most `under_way` at a time."""

    def __init__(self, kafka: Kafka, under_way: int) -> None:
        options = KafkaOptions(
            servers=kafka.servers, cluster=f"bare-{under_way}", replicas=len(kafka.nodes)
        )
        prepare_topic(options, wait_s=_TOPIC_S)
        self._topic = options.topic
        self._under_way = under_way
        self._waiting = 0
        self._producer = Producer(
            {
                "bootstrap.servers": options.servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.max.bytes": 2 * RECORD_BYTES,
                "log_level": 0,
            }
        )

    def rate(self, count: int) -> float:
        """Records a second, of so many."""
        began = time.perf_counter()
        self._produce(count)
        return count / (time.perf_counter() - began)

    def close(self) -> None:
        self._producer.close()

    def _produce(self, count: int) -> None:
        value, end_s = os.urandom(RECORD_BYTES), time.monotonic() + STEP_S
        for _ in range(count):
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
            self._waiting += 1
            self._wait(self._under_way - 1, end_s)
        self._wait(0, end_s)

    def _wait(self, most: int, end_s: float) -> None:
        while self._waiting > most:
            self._producer.poll(1)
            if time.monotonic() > end_s:
                raise Stalled(f"{self._waiting} records are not acknowledged")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise Stalled(f"a record was not acknowledged: {error.str()}")
        self._waiting -= 1
