"""`KafkaPartition`: the partition of a shard, as Kafka has it.

Three clients: one sends, one reads, one asks. Everything that Kafka may do with a record short of
losing it is passed on as it is; what a record means where it lies, the log above decides.

The topic's id is remembered. A topic that was deleted and made again is another partition, whatever
its offsets say: whoever asks for the bounds, or meets an end that cannot be, is told. A reader that
meets neither may be given its records, and finds that they do not go on with the story.
"""

from __future__ import annotations

import time

from confluent_kafka import KafkaError

from fanlog import limits
from fanlog.log.kafka.client import Complaints, KafkaOptions
from fanlog.log.kafka.producers import Producers
from fanlog.log.kafka.questions import Questions
from fanlog.log.kafka.reader import Reader, ReadFailed
from fanlog.log.replicated.partition import (
    Fetched,
    OffsetGone,
    PartitionBounds,
    PartitionUnavailable,
    Produced,
    Uncertain,
)

#: Records that are there come within this, as a rule in a few milliseconds.
_COMING_S = 1.0


class TopicReplaced(PartitionUnavailable):
    """The topic was deleted and made again: nothing that it has is of this partition."""


class KafkaPartition:
    """A `Partition` of a topic that is there already (`fanlog.log.kafka.topic`).

    Args:
        options: Where it is.
        topic_id: Of the topic, as it was found at the node's start.

    Raises:
        ConfigError: The library refuses a setting.
    """

    def __init__(self, options: KafkaOptions, topic_id: str) -> None:
        self.cluster = options.cluster
        self._topic = options.topic
        self._topic_id = topic_id
        complaints = Complaints()
        self._questions = Questions(options, complaints)
        self._reader = Reader(options, complaints)
        self._producers = Producers(options, complaints)

    def produce(self, value: bytes) -> Produced | Uncertain:
        return self._producers.send(value)

    def reset_producer(self) -> None:
        self._producers.reset()

    def fetch(self, offset: int, *, max_bytes: int, wait_s: float) -> list[Fetched]:
        self._producers.serve()
        try:
            if found := self._reader.read(offset, max_bytes=max_bytes, wait_s=wait_s):
                return found
            # Silence may mean that there is nothing, or that there is no Kafka.
            end = self._questions.end(wait_s=wait_s)
            if end == offset:
                return []
            if end > offset and (
                found := self._reader.read(offset, max_bytes=max_bytes, wait_s=_COMING_S)
            ):
                return found
        except ReadFailed as error:
            if error.code == KafkaError._LOG_TRUNCATION:
                raise OffsetGone(f"the partition lost records that it had: {error}") from error
            self._check_readable(offset)
            raise PartitionUnavailable(f"Kafka: {error}") from error
        self._check_readable(offset)
        raise PartitionUnavailable(
            f"Kafka has records up to {end}, and gives none from {offset} on"
        )

    def bounds(self, *, wait_s: float) -> PartitionBounds:
        end_s = time.monotonic() + wait_s
        self._check_topic(wait_s)
        start = self._questions.start(wait_s=end_s - time.monotonic())
        end = self._questions.end(wait_s=end_s - time.monotonic())
        return PartitionBounds(start, end)

    def delete_before(self, offset: int) -> None:
        self._questions.delete_before(offset, wait_s=limits.KAFKA_ASK_S)

    def close(self) -> None:
        self._producers.close()
        self._reader.close()
        self._questions.close()

    def _check_readable(self, offset: int) -> None:
        """
        Raises:
            OffsetGone: The offset is not within the bounds.
            PartitionUnavailable: Kafka does not answer.
        """
        start, end = self.bounds(wait_s=_COMING_S)
        if offset < start:
            raise OffsetGone(f"offset {offset} was deleted: the partition begins at {start}")
        if offset > end:
            raise OffsetGone(
                f"offset {offset} lies behind the partition's end at {end}: it lost records"
            )

    def _check_topic(self, wait_s: float) -> None:
        found = self._questions.shape(wait_s=wait_s).topic_id
        if found != self._topic_id:
            raise TopicReplaced(
                f"the topic {self._topic} was deleted and made again: its id was {self._topic_id}"
                f" and is {found}"
            )
