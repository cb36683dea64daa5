"""What is wrong with a topic, from what Kafka tells of it."""

from __future__ import annotations

from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.requirements import flaws, remedy, requirements, settings_of_new

OPTIONS = KafkaOptions(servers="kafka:9092", cluster="c")
SAFE = settings_of_new(OPTIONS)


def sentences(
    replicas: int = 3, options: KafkaOptions = OPTIONS, **changes: str | None
) -> list[str]:
    named = {name.replace("_", "."): value for name, value in changes.items()}
    settings = {name: value for name, value in (SAFE | named).items() if value is not None}
    return [flaw.sentence for flaw in flaws(OPTIONS, 1, replicas, settings)]


def test_a_topic_as_it_is_made_has_no_flaw():
    assert sentences() == []
    assert sentences(replicas=5) == []


def test_more_than_is_asked_for_suffices():
    assert sentences(min_insync_replicas="3", max_message_bytes="100000000") == []
    assert sentences(segment_bytes="1073741824") == []


def test_a_number_that_is_none_does_not_suffice():
    assert sentences(max_message_bytes="-1") == [
        "max.message.bytes is -1 and must be 33554432 (a large commit is refused)"
    ]


def test_a_setting_that_is_not_told_is_not_taken_for_safe():
    for each in requirements(OPTIONS):
        assert sentences(**{each.setting: None}) == [
            f"these servers do not tell its {each.setting}"
        ]


def test_compaction_beside_deletion_is_refused():
    assert sentences(cleanup_policy="compact,delete") == [
        "cleanup.policy is compact,delete and must be delete (records are compacted away)"
    ]


def test_no_command_is_named_where_none_helps():
    found = flaws(OPTIONS, 2, 1, {**SAFE, "min.insync.replicas": "1"})
    assert len(found) == 3
    assert remedy(OPTIONS, found).endswith("--add-config min.insync.replicas=2")
    assert remedy(OPTIONS, found[:2]) == ""
