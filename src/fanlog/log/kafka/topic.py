"""The topic of a cluster: made with settings that keep every record, or refused with others.

Kafka's defaults lose data: it deletes records after a week, and counts a record that one replica
has. So the settings are looked at as they work (the topic's own, a node's, or Kafka's defaults), at
the start and every hour: they can be changed under a running cluster.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException

from fanlog import limits
from fanlog.errors import ConfigError
from fanlog.log.kafka.client import Complaints, KafkaOptions, code_of, sentence
from fanlog.log.kafka.questions import NotAllowed, Questions, TopicMissing
from fanlog.log.kafka.requirements import flaws, remedy, settings_of_new
from fanlog.log.replicated.partition import PartitionUnavailable

#: How often a topic that was just made is asked for, until the node that is asked knows it.
_AGAIN_S = 0.05
#: A Kafka node that stands still does not answer: after so long the next one is asked.
_MAKE_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The topic as it was found, with nothing wrong about it."""

    topic_id: str
    replicas: int
    #: Replicas that had everything at that moment.
    in_sync: int
    #: Replicas that must have a record before it is acknowledged.
    in_sync_min: int
    is_flushed: bool

    @property
    def promise(self) -> str:
        """What an acknowledged record stands on; for the ready line."""
        synced = ", synced" if self.is_flushed else ""
        if self.replicas == 1:
            return f"1 replica{synced}: all is lost with its disk"
        if self.replicas <= self.in_sync_min:
            return f"{self.replicas} replicas{synced}: publishing stops while one is down"
        return f"{self.replicas} replicas{synced}"


def prepare_topic(options: KafkaOptions, *, wait_s: float, may_make: bool = True) -> TopicFacts:
    """Make the topic if it is missing, and see that it keeps what is written to it.

    Args:
        options: Where it is, and how safe it must be.
        wait_s: For Kafka, which may be starting too.
        may_make: A node that has seen the topic must not make another one in its place.

    Raises:
        ConfigError: The topic is missing, cannot be made, or would lose records; the sentence says
            which setting has which value, and what it must have.
        PartitionUnavailable: Kafka does not answer.
    """
    end_s = time.monotonic() + wait_s
    with closing(Questions(options, Complaints())) as questions:
        try:
            _have_topic(questions, options, end_s, may_make)
            facts, wrong = _known(questions, options, end_s)
        except NotAllowed as error:
            raise ConfigError(
                f"{error}: a node needs CREATE, DESCRIBE_CONFIGS, READ, WRITE and DELETE there"
            ) from error
    if wrong:
        raise ConfigError(wrong)
    return facts


class TopicWatch:
    """Looks at the topic's settings again, every hour; `look` may be called as often as one likes.

    Args:
        options: As the topic was prepared with.
        facts: As `prepare_topic` found them.
        now_s: When it did, by the caller's clock.
    """

    def __init__(self, options: KafkaOptions, facts: TopicFacts, now_s: float) -> None:
        self._options = options
        self._questions = Questions(options, Complaints())
        #: As of the last look that found nothing wrong.
        self.facts = facts
        #: What is wrong with the topic, as of the last look; empty when nothing is.
        self.problem = ""
        self.due_s = now_s + limits.KAFKA_CHECK_S

    def close(self) -> None:
        """End the connections to Kafka; idempotent."""
        self._questions.close()

    def look(self, now_s: float) -> str:
        """Ask Kafka if it is time to; the problem there is, or "". Blocks while it asks.

        A topic with a problem is looked at more often, and so is one that could not be looked at.
        """
        if now_s < self.due_s:
            return self.problem
        self.due_s = now_s + limits.KAFKA_CHECK_AGAIN_S
        try:
            facts, self.problem = _look(self._questions, self._options, limits.KAFKA_ASK_S, {})
        except TopicMissing as error:
            self.problem = f"{error}: it was deleted"
        except PartitionUnavailable:
            pass  # The log finds out by itself, and sooner.
        else:
            if facts.topic_id != self.facts.topic_id:
                self.problem = (
                    f"topic {self._options.topic} was deleted and made again: its id was"
                    f" {self.facts.topic_id} and is {facts.topic_id}"
                )
            if not self.problem:
                self.facts = facts
                self.due_s = now_s + limits.KAFKA_CHECK_S
        return self.problem


def _look(
    questions: Questions, options: KafkaOptions, wait_s: float, changed: dict[str, str]
) -> tuple[TopicFacts, str]:
    """The facts, and a sentence for everything that is wrong with them.

    `changed` are settings that were just changed: not all nodes of Kafka know of it yet.
    """
    shape = questions.shape(wait_s=wait_s)
    settings = questions.settings(wait_s=wait_s) | changed
    found = flaws(options, shape.partitions, shape.replicas, settings)
    wrong = f"topic {options.topic} would lose records, or not take them: " + "; ".join(
        flaw.sentence for flaw in found
    )
    facts = TopicFacts(
        topic_id=shape.topic_id,
        replicas=shape.replicas,
        in_sync=shape.in_sync,
        in_sync_min=int(settings.get("min.insync.replicas", 0)),
        is_flushed=settings.get("flush.messages") == "1",
    )
    return facts, wrong + remedy(options, found) if found else ""


def _have_topic(questions: Questions, options: KafkaOptions, end_s: float, may_make: bool) -> None:
    while True:
        try:
            questions.shape(wait_s=_left_s(end_s))
            return
        except TopicMissing as error:
            if not may_make:
                raise ConfigError(
                    f"{error}, which had the records of this cluster: it was deleted, or these are"
                    " the wrong servers"
                ) from error
        if _make(questions, options, end_s):
            return


def _make(questions: Questions, options: KafkaOptions, end_s: float) -> bool:
    """Whether the topic is made. If not, that is not known, and there is time to look again."""
    try:
        wait_s = min(_left_s(end_s), _MAKE_S)
        questions.make_topic(options.replicas, settings_of_new(options), wait_s=wait_s)
    except KafkaException as error:
        code = code_of(error)
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return True  # Another node was faster.
        if code == KafkaError.INVALID_REPLICATION_FACTOR:
            raise ConfigError(
                f"topic {options.topic} cannot be made with {options.replicas} replicas:"
                f" {sentence(error)} Start more nodes of Kafka, or ask for fewer replicas"
            ) from error
        if _is_refusal(code):
            raise ConfigError(f"topic {options.topic} cannot be made: {sentence(error)}") from error
        if time.monotonic() > end_s:
            raise questions.unavailable(error) from error
        time.sleep(_AGAIN_S)
        return False
    return True


def _known(questions: Questions, options: KafkaOptions, end_s: float) -> tuple[TopicFacts, str]:
    """A look at a topic that is there, though a node of Kafka may not know it yet."""
    while True:
        try:
            changed = _flush(questions, options, end_s) if options.is_flushed else {}
            return _look(questions, options, _left_s(end_s), changed)
        except TopicMissing as error:
            if time.monotonic() > end_s:
                raise PartitionUnavailable(f"{error}, or not yet") from error
        time.sleep(_AGAIN_S)


def _flush(questions: Questions, options: KafkaOptions, end_s: float) -> dict[str, str]:
    """Have replicas sync each record; the setting that this changed, if it did."""
    if questions.settings(wait_s=_left_s(end_s)).get("flush.messages") == "1":
        return {}
    try:
        questions.change("flush.messages", "1", wait_s=_left_s(end_s))
    except KafkaException as error:
        if _is_refusal(code_of(error)):
            raise ConfigError(
                f"flush.messages of topic {options.topic} cannot be set to 1: {sentence(error)}"
            ) from error
        raise questions.unavailable(error) from error
    return {"flush.messages": "1"}


def _is_refusal(code: int) -> bool:
    """Whether Kafka would say the same again."""
    return code in (
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REQUEST,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    )


def _left_s(end_s: float) -> float:
    return end_s - time.monotonic()
