"""The topic of a cluster: made safe, or refused with what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from bench.kafka import Kafka
from confluent_kafka.admin import NewTopic

from fanlog import limits
from fanlog.errors import ConfigError
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.requirements import requirements
from fanlog.log.kafka.topic import TopicWatch, prepare_topic
from kafka.changes import PATIENCE_S, admin, change_setting, delete_topic, settings_of

#: A value of each setting that Kafka accepts and the log does not.
UNSAFE = {
    "retention.ms": "604800000",
    "retention.bytes": "1000000000",
    "cleanup.policy": "compact",
    "message.timestamp.type": "CreateTime",
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
    "max.message.bytes": "1048588",
    "segment.bytes": "16777216",
    "flush.messages": "2",
}


def prepare(options: KafkaOptions, **how: bool):
    return prepare_topic(options, wait_s=PATIENCE_S, **how)


def test_a_topic_is_made_with_settings_that_keep_every_record(three: Kafka, cluster: str):
    options = KafkaOptions(servers=three.servers, cluster=cluster)
    facts = prepare(options)
    found = settings_of(three, options)
    assert {name: found[name] for name in UNSAFE} == {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
        "unclean.leader.election.enable": "false",
        "min.insync.replicas": "2",
        "max.message.bytes": "33554432",
        "segment.bytes": "268435456",
        "flush.messages": "9223372036854775807",
    }
    assert (facts.replicas, facts.in_sync_min, facts.is_flushed) == (3, 2, False)
    assert facts.promise == "3 replicas"
    # Found as it was made; by whoever was told to make do with fewer, too.
    assert prepare(options).topic_id == facts.topic_id
    assert prepare(replace(options, replicas=1)).promise == "3 replicas"


@pytest.mark.parametrize("setting", UNSAFE)
def test_a_topic_that_would_lose_records_is_refused(three: Kafka, cluster: str, setting: str):
    options = KafkaOptions(servers=three.servers, cluster=cluster, is_flushed=True)
    prepare(options)
    change_setting(three, options, setting, UNSAFE[setting])
    (wanted,) = [each.wanted for each in requirements(options) if each.setting == setting]
    if setting == "flush.messages":
        # That one the flag asks to be set.
        assert prepare(options).is_flushed
        return
    with pytest.raises(ConfigError) as refused:
        prepare(options)
    sentence = refused.value.message
    assert sentence.startswith(f"topic {cluster}.shards would lose records, or not take them: ")
    assert f"{setting} is {UNSAFE[setting]} and must be {wanted} (" in sentence
    assert sentence.endswith(
        f"kafka-configs.sh --bootstrap-server {three.servers} --alter --entity-type topics"
        f" --entity-name {cluster}.shards --add-config {setting}={wanted}"
    )


def test_a_topic_with_kafkas_defaults_is_refused_for_all_that_is_wrong(three: Kafka, cluster: str):
    options = KafkaOptions(servers=three.servers, cluster=cluster)
    making = admin(three)
    (asked,) = making.create_topics([NewTopic(options.topic, 2, 2)]).values()
    asked.result(PATIENCE_S)
    with pytest.raises(ConfigError) as refused:
        prepare(options)
    sentence = refused.value.message
    for part in (
        "it has 2 partitions and must have 1",
        "it has 2 replicas and must have 3",
        "retention.ms is 604800000 and must be -1 (records are deleted by their age)",
        "message.timestamp.type is CreateTime and must be LogAppendTime",
        "min.insync.replicas is 1 and must be 2",
        "max.message.bytes is 1048588 and must be 33554432",
    ):
        assert part in sentence
    assert "cleanup.policy" not in sentence


def test_more_replicas_in_sync_than_there_are_is_refused(kafka: Kafka, options: KafkaOptions):
    prepare(options)
    change_setting(kafka, options, "min.insync.replicas", "2")
    with pytest.raises(
        ConfigError, match=re.escape("min.insync.replicas is 2 and it has 1 replica (nothing can")
    ):
        prepare(options)


def test_fewer_replicas_are_for_those_who_ask_for_them(kafka: Kafka, options: KafkaOptions):
    with pytest.raises(ConfigError, match=r"cannot be made with 3 replicas: .*ask for fewer"):
        prepare(replace(options, replicas=3))
    facts = prepare(options)
    assert (facts.replicas, facts.in_sync_min) == (1, 1)
    assert facts.promise == "1 replica: all is lost with its disk"
    with pytest.raises(ConfigError, match="it has 1 replica and must have 3"):
        prepare(replace(options, replicas=3))


def test_two_replicas_cannot_do_without_one(three: Kafka, cluster: str):
    facts = prepare(KafkaOptions(servers=three.servers, cluster=cluster, replicas=2))
    assert (facts.replicas, facts.in_sync_min) == (2, 2)
    assert facts.promise == "2 replicas: publishing stops while one is down"


def test_flushing_is_set_on_a_topic_that_is_there(kafka: Kafka, options: KafkaOptions):
    assert not prepare(options).is_flushed
    facts = prepare(replace(options, is_flushed=True))
    assert facts.is_flushed
    assert facts.promise == "1 replica, synced: all is lost with its disk"
    assert settings_of(kafka, options)["flush.messages"] == "1"
    # Safer than asked for is fine.
    assert prepare(options).promise == "1 replica, synced: all is lost with its disk"


def test_a_topic_that_was_seen_is_not_made_again(kafka: Kafka, options: KafkaOptions):
    """Neither by the log nor by Kafka, which makes topics that it is asked for."""
    with pytest.raises(ConfigError, match=f"Kafka has no topic {options.topic}, which had the"):
        prepare(options, may_make=False)
    assert options.topic not in admin(kafka).list_topics(timeout=PATIENCE_S).topics
    facts = prepare(options)
    assert prepare(options, may_make=False) == facts


def test_the_topic_is_looked_at_every_hour(kafka: Kafka, options: KafkaOptions):
    watch = TopicWatch(options, prepare(options), now_s=0)
    change_setting(kafka, options, "retention.ms", "1000")
    assert watch.look(limits.KAFKA_CHECK_S - 1) == ""
    assert "retention.ms is 1000 and must be -1" in watch.look(limits.KAFKA_CHECK_S)
    # A problem is looked after sooner than in an hour.
    change_setting(kafka, options, "retention.ms", "-1")
    again_s = limits.KAFKA_CHECK_S + limits.KAFKA_CHECK_AGAIN_S
    assert "retention.ms is 1000 and must be -1" in watch.look(again_s - 1)
    assert watch.look(again_s) == ""
    assert watch.due_s == again_s + limits.KAFKA_CHECK_S


def test_a_topic_that_is_deleted_or_made_again_is_noticed(kafka: Kafka, options: KafkaOptions):
    watch = TopicWatch(options, prepare(options), now_s=0)
    delete_topic(kafka, options)
    now_s = limits.KAFKA_CHECK_S
    assert watch.look(now_s) == f"Kafka has no topic {options.topic}: it was deleted"
    prepare(options)
    now_s += limits.KAFKA_CHECK_AGAIN_S
    assert f"topic {options.topic} was deleted and made again" in watch.look(now_s)


def test_a_look_that_kafka_does_not_answer_says_nothing(kafka: Kafka, options: KafkaOptions):
    watch = TopicWatch(replace(options, servers="127.0.0.1:1"), prepare(options), now_s=0)
    now_s = limits.KAFKA_CHECK_S
    assert watch.look(now_s) == ""
    assert watch.due_s == now_s + limits.KAFKA_CHECK_AGAIN_S


@pytest.mark.parametrize("cluster", ["", "a b", "-a", "ä", "x" * 101, "a/b"])
def test_a_cluster_whose_name_is_no_topics_is_refused(cluster: str):
    with pytest.raises(ConfigError, match=re.escape(f"cluster {cluster!r}: a name has letters")):
        KafkaOptions(servers="127.0.0.1:1", cluster=cluster)


@pytest.mark.parametrize("replicas", [0, 10])
def test_a_number_of_replicas_that_makes_no_sense_is_refused(replicas: int):
    with pytest.raises(ConfigError, match=f"{replicas} replicas of the topic: from 1 to 9"):
        KafkaOptions(servers="127.0.0.1:1", cluster="c", replicas=replicas)
