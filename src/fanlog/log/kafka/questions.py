"""Questions about the topic, on connections of their own: those of readers wait for records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from fanlog.log.kafka.client import Complaints, KafkaOptions, code_of, new_admin, sentence
from fanlog.log.replicated.partition import PartitionUnavailable

Answer = TypeVar("Answer")
#: Asks with a time-out in seconds; one answer.
Ask = Callable[[float], Mapping[Any, "Future[Answer]"]]

_DENIALS = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)

#: Shorter than this no question waits.
_PATIENCE_S = 1.0
#: The library gives an answer, or says that there is none, within the time it is told; nearly.
_SPARE_S = 1.0


class TopicMissing(PartitionUnavailable):
    """There is no such topic, or none that this user may know of."""


class NotAllowed(PartitionUnavailable):
    """Kafka knows the user, and the user may not do this."""


class TopicShape(NamedTuple):
    """The topic as Kafka describes it."""

    #: Made anew with each topic, so that one that was made again is told from the first.
    topic_id: str
    partitions: int
    #: Of partition 0.
    replicas: int
    in_sync: int
    #: -1 while Kafka is choosing one.
    leader: int


class Questions:
    """Asks Kafka; may be used by several threads.

    `wait_s` is how long an answer may take; an answer has a second though it be less.
    """

    def __init__(self, options: KafkaOptions, complaints: Complaints) -> None:
        self._topic = options.topic
        self._complaints = complaints
        # The library's client has no other way to be ended.
        self._closing = ExitStack()
        self._admin = self._closing.enter_context(new_admin(options, complaints))
        self._is_warm = False

    def start(self, *, wait_s: float) -> int:
        """The first offset that can be read."""
        return self._offset(OffsetSpec.earliest(), wait_s)

    def end(self, *, wait_s: float) -> int:
        """The offset behind the last record that all replicas in sync have.

        A leader that was just chosen does not answer before it knows what its predecessor had
        acknowledged.
        """
        return self._offset(OffsetSpec.latest(), wait_s)

    def shape(self, *, wait_s: float) -> TopicShape:
        """
        Raises:
            TopicMissing: There is none.
        """
        topics = TopicCollection([self._topic])
        described = self._answer(
            lambda wait_s: self._admin.describe_topics(topics, request_timeout=wait_s), wait_s
        )
        leading = described.partitions[0]
        return TopicShape(
            topic_id=str(described.topic_id),
            partitions=len(described.partitions),
            replicas=len(leading.replicas),
            in_sync=len(leading.isr),
            leader=-1 if leading.leader is None else int(leading.leader.id),
        )

    def settings(self, *, wait_s: float) -> dict[str, str]:
        """The topic's settings as they work: its own, the Kafka node's, or Kafka's defaults."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        entries = self._answer(
            lambda wait_s: self._admin.describe_configs([resource], request_timeout=wait_s), wait_s
        )
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def make_topic(self, replicas: int, settings: Mapping[str, str], *, wait_s: float) -> None:
        """Make the topic with these settings of its own.

        Raises:
            KafkaException: Kafka refuses, or did not answer.
        """
        topic = NewTopic(self._topic, 1, replicas, config=dict(settings))
        self._result(
            lambda wait_s: self._admin.create_topics([topic], request_timeout=wait_s), wait_s
        )

    def change(self, setting: str, value: str, *, wait_s: float) -> None:
        """Change one setting of the topic.

        Raises:
            KafkaException: Kafka refuses, or did not answer.
        """
        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, self._topic, incremental_configs=[entry])
        self._result(
            lambda wait_s: self._admin.incremental_alter_configs([topic], request_timeout=wait_s),
            wait_s,
        )

    def delete_before(self, offset: int, *, wait_s: float) -> None:
        """Have the partition begin at `offset`; on all replicas when this returns.

        Raises:
            PartitionUnavailable: Kafka refuses, or did not answer.
        """
        place = TopicPartition(self._topic, 0, offset)
        self._answer(
            lambda wait_s: self._admin.delete_records(
                [place], request_timeout=wait_s, operation_timeout=wait_s
            ),
            wait_s,
        )

    def close(self) -> None:
        """Idempotent; nothing can be asked afterwards."""
        self._closing.close()

    def _offset(self, spec: OffsetSpec, wait_s: float) -> int:
        asked = {TopicPartition(self._topic, 0): spec}
        try:
            found = self._result(
                lambda wait_s: self._admin.list_offsets(asked, request_timeout=wait_s), wait_s
            )
        except KafkaException as error:
            if code_of(error) == KafkaError._NOENT:
                # It has no leader, or is not there at all.
                self.shape(wait_s=wait_s)
            raise self.unavailable(error) from error
        if found.offset < 0:
            raise PartitionUnavailable("Kafka: the leader does not know its bounds yet")
        return int(found.offset)

    def _answer(self, ask: Ask[Answer], wait_s: float) -> Answer:
        try:
            return self._result(ask, wait_s)
        except KafkaException as error:
            raise self.unavailable(error) from error

    def _result(self, ask: Ask[Answer], wait_s: float) -> Answer:
        """The one answer to a question about one thing.

        Raises:
            KafkaException: There is none, or a refusal.
        """
        wait_s = max(wait_s, _PATIENCE_S)
        if not self._is_warm:
            # The library may lose a question that it is asked before it knows the cluster.
            self._admin.list_topics(self._topic, timeout=wait_s)
            self._is_warm = True
        (future,) = ask(wait_s).values()
        try:
            return future.result(wait_s + _SPARE_S)
        except FutureTimeout:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None

    def unavailable(self, error: KafkaException) -> PartitionUnavailable:
        """Kafka's error as the log's: the sentence says what Kafka says."""
        if code_of(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return TopicMissing(f"Kafka has no topic {self._topic}")
        if code_of(error) in _DENIALS:
            return NotAllowed(f"topic {self._topic}: {sentence(error).rstrip('.')}")
        self._admin.poll(0)
        return PartitionUnavailable(f"Kafka: {sentence(error)}{self._complaints.said()}")
