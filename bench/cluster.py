"""The log on Kafka; and Kafka alone: how far a bare producer comes with records of a commit's size.

Kafka runs on the same machine, and takes most of it: these figures say how large the log's part is,
and not how fast a cluster of several machines is.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from bench.kafka import Kafka, KafkaMissing
from bench.servers import Server
from bench.session import STEP_S, Sample, Stalled
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.topic import prepare_topic

BUILD = Path(__file__).resolve().parent.parent / "build"
RECORD_BYTES = 2**20
#: A producer that does not wait may have so many records under way.
AHEAD = 8
#: Records before the clock starts: Java is slow at first.
WARM_UP = 40
#: For Kafka to make a topic.
_TOPIC_S = 60


def measure_bare(_: Server, count: int, *, nodes: int) -> Sample:
    """`count` records of 1 MiB, each when the last is acknowledged; and again with some ahead."""
    try:
        with _running(nodes) as kafka:
            one, ahead = (_bare(kafka, count, under_way) for under_way in (1, AHEAD))
    except KafkaMissing as reason:
        return Sample(figures={"one": None, "ahead": None}, notes=(f"left out: {reason}",))
    return Sample(figures={"one": one, "ahead": ahead}, messages=count)


def _bare(kafka: Kafka, count: int, under_way: int) -> float:
    """Records a second, each on as many replicas as there are nodes."""
    options = KafkaOptions(
        servers=kafka.servers, cluster=f"bare-{under_way}", replicas=len(kafka.nodes)
    )
    prepare_topic(options, wait_s=_TOPIC_S)
    with closing(_Bare(options, under_way)) as bare:
        bare.produce(WARM_UP)
        began = time.perf_counter()
        bare.produce(count)
        return count / (time.perf_counter() - began)


class _Bare:
    """A producer with the log's safety and nothing else."""

    def __init__(self, options: KafkaOptions, under_way: int) -> None:
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

    def produce(self, count: int) -> None:
        value, end_s = os.urandom(RECORD_BYTES), time.monotonic() + STEP_S
        for _ in range(count):
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
            self._waiting += 1
            self._wait(self._under_way - 1, end_s)
        self._wait(0, end_s)

    def close(self) -> None:
        self._producer.close()

    def _wait(self, most: int, end_s: float) -> None:
        while self._waiting > most:
            self._producer.poll(1)
            if time.monotonic() > end_s:
                raise Stalled(f"{self._waiting} records are not acknowledged")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise Stalled(f"a record was not acknowledged: {error.str()}")
        self._waiting -= 1


@contextmanager
def _running(nodes: int) -> Iterator[Kafka]:
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-kafka-", dir=BUILD) as folder:
        kafka = Kafka(Path(folder), nodes=nodes)
        kafka.start()
        try:
            yield kafka
        finally:
            kafka.stop()
