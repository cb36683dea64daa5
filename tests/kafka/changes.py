"""What others do to a topic under a log."""

from __future__ import annotations

import time

from bench.kafka import Kafka
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    PartitionMetadata,
    ResourceType,
)

from fanlog.log.kafka.client import KafkaOptions

PATIENCE_S = 30.0


def admin(kafka: Kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.servers, "log_level": 0})


def change_setting(kafka: Kafka, options: KafkaOptions, setting: str, value: str) -> None:
    """Change a setting of the topic, and see it changed."""
    changing = admin(kafka)
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, options.topic, incremental_configs=[entry])
    (asked,) = changing.incremental_alter_configs([resource]).values()
    asked.result(PATIENCE_S)
    end_s = time.monotonic() + PATIENCE_S
    while settings_of(kafka, options)[setting] != value:
        assert time.monotonic() < end_s


def settings_of(kafka: Kafka, options: KafkaOptions) -> dict[str, str]:
    """The settings of the topic as they work."""
    asking = admin(kafka)
    (asked,) = asking.describe_configs([ConfigResource(ResourceType.TOPIC, options.topic)]).values()
    return {entry.name: entry.value for entry in asked.result(PATIENCE_S).values()}


def delete_topic(kafka: Kafka, options: KafkaOptions) -> None:
    """Delete the topic, and see it gone."""
    deleting = admin(kafka)
    (asked,) = deleting.delete_topics([options.topic]).values()
    asked.result(PATIENCE_S)
    end_s = time.monotonic() + PATIENCE_S
    while options.topic in deleting.list_topics(timeout=PATIENCE_S).topics:
        assert time.monotonic() < end_s


def put_record(kafka: Kafka, options: KafkaOptions, value: bytes) -> None:
    """Append a record as some other program does, and see it there."""
    producer = Producer({"bootstrap.servers": kafka.servers, "acks": "all", "log_level": 0})
    refused: list[object] = []
    producer.produce(
        options.topic,
        value,
        partition=0,
        on_delivery=lambda error, _: refused.append(error) if error else None,
    )
    assert producer.flush(PATIENCE_S) == 0
    assert refused == []


def leader_of(kafka: Kafka, options: KafkaOptions) -> int:
    """The node that leads the partition."""
    end_s = time.monotonic() + PATIENCE_S
    while not (leader := _described(kafka, options).leader) > 0:
        assert time.monotonic() < end_s
    return int(leader)


def are_all_in_sync(kafka: Kafka, options: KafkaOptions) -> bool:
    """Whether every node has the whole partition: one of them can be spared."""
    return len(_described(kafka, options).isrs) == len(kafka.nodes)


def _described(kafka: Kafka, options: KafkaOptions) -> PartitionMetadata:
    found = admin(kafka).list_topics(options.topic, timeout=PATIENCE_S)
    return found.topics[options.topic].partitions[0]
