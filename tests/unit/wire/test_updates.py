"""Updates of topics, subscriptions and snapshots: masks, merging, and what cannot change."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from fanlog import limits
from fanlog.errors import FanlogError, InvalidArgument, Unimplemented
from fanlog.model.resources import (
    DeadLetterPolicy,
    PartitionId,
    PushConfig,
    RetryPolicy,
    Snapshot,
    SnapshotId,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)
from fanlog.model.updates import SubscriptionUpdate
from fanlog.wire import types
from fanlog.wire.resources import (
    snapshot_update,
    subscription_update,
    topic_update,
)

TOPIC = "projects/p/topics/orders"
SUBSCRIPTION = "projects/p/subscriptions/billing"
SNAPSHOT = "projects/p/snapshots/before"
DEAD = "projects/q/topics/dead"


def subscription(**given: Any) -> Subscription:
    return Subscription(
        id=SubscriptionId(1),
        name=SUBSCRIPTION,
        topic=TOPIC,
        topic_id=TopicId(1),
        partitions=(PartitionId(1),),
        **given,
    )


def topic(**given: Any) -> Topic:
    return Topic(id=TopicId(1), name=TOPIC, partitions=(PartitionId(1),), **given)


def updated(paths: str, present: Subscription | None = None, **given: Any) -> Subscription:
    request = types.UpdateSubscriptionRequest(
        subscription={"name": SUBSCRIPTION, **given}, update_mask=FieldMask(paths=paths.split())
    )
    return subscription_update(request).apply_to(present or subscription())


# --- Updating topics ----------------------------------------------------------------------------


def update_topic(*paths: str, **given: Any) -> Topic:
    request = types.UpdateTopicRequest(
        topic={"name": TOPIC, **given}, update_mask=FieldMask(paths=paths)
    )
    present = topic(labels={"a": "b"}, message_retention_s=700.0)
    return topic_update(request).apply_to(present)


def test_update_topic() -> None:
    assert update_topic("labels", labels={"c": "d"}).labels == {"c": "d"}
    assert update_topic("labels").labels == {}
    kept = update_topic("message_retention_duration", message_retention_duration={"seconds": 900})
    assert (kept.message_retention_s, kept.labels) == (900.0, {"a": "b"})
    assert update_topic("message_retention_duration").message_retention_s is None
    # What the mask does not name is not looked at.
    assert update_topic("labels", kms_key_name="k").labels == {}


@pytest.mark.parametrize(
    ("path", "error", "sentence"),
    [
        ("name", InvalidArgument, "update_mask: 'name' cannot be changed after creation"),
        ("state", InvalidArgument, "update_mask: 'state' is set by the service and cannot be"),
        ("nothing", InvalidArgument, "update_mask: 'nothing' is not a field of Topic"),
        ("*", InvalidArgument, "update_mask: '*' is not a field of Topic"),
        ("", InvalidArgument, "update_mask: '' is not a field of Topic"),
        ("labels.env", InvalidArgument, "update_mask: 'labels.env' names a single label; labels"),
        ("kms_key_name", Unimplemented, "kms_key_name: a setting of Google's cloud"),
        ("schema_settings.encoding", InvalidArgument, "schema_settings.encoding: 0 is not an"),
        ("schema_settings.schema", InvalidArgument, "update_mask: schema_settings.schema cannot"),
        ("schema_settings.colour", InvalidArgument, "update_mask: 'schema_settings.colour'"),
    ],
)
def test_topic_masks_refused(path: str, error: type[FanlogError], sentence: str) -> None:
    with pytest.raises(error) as caught:
        update_topic("labels", path)
    assert caught.value.message.startswith(sentence)


def test_an_empty_mask() -> None:
    with pytest.raises(InvalidArgument) as caught:
        update_topic()
    assert caught.value.message == (
        "update_mask: empty; name the fields to update, of labels, message_retention_duration, "
        "message_storage_policy, schema_settings"
    )


def test_update_topic_out_of_range() -> None:
    with pytest.raises(InvalidArgument, match=r"^message_retention_duration: 1 s is out of range"):
        update_topic("message_retention_duration", message_retention_duration={"seconds": 1})
    with pytest.raises(InvalidArgument, match=r"^topic.name: a name is required"):
        topic_update(types.UpdateTopicRequest())


# --- Updating subscriptions ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "given", "field", "value"),
    [
        ("ack_deadline_seconds", {"ack_deadline_seconds": 30}, "ack_deadline_s", 30),
        ("ack_deadline_seconds", {}, "ack_deadline_s", 10),
        ("retain_acked_messages", {"retain_acked_messages": True}, "retain_acked", True),
        (
            "message_retention_duration",
            {"message_retention_duration": {"seconds": 900}},
            "message_retention_s",
            900.0,
        ),
        ("message_retention_duration", {}, "message_retention_s", limits.RETENTION_S_DEFAULT),
        ("labels", {"labels": {"a": "b"}}, "labels", {"a": "b"}),
        ("expiration_policy", {"expiration_policy": {}}, "expiration_ttl_s", None),
        ("expiration_policy", {}, "expiration_ttl_s", limits.EXPIRATION_TTL_S_DEFAULT),
        (
            "expiration_policy.ttl",
            {"expiration_policy": {"ttl": {"seconds": 700_000}}},
            "expiration_ttl_s",
            700_000.0,
        ),
        ("expiration_policy.ttl", {}, "expiration_ttl_s", None),
        (
            "dead_letter_policy",
            {"dead_letter_policy": {"dead_letter_topic": DEAD, "max_delivery_attempts": 9}},
            "dead_letter",
            DeadLetterPolicy(dead_letter_topic=DEAD, max_delivery_attempts=9),
        ),
        ("dead_letter_policy", {}, "dead_letter", None),
        (
            "dead_letter_policy.dead_letter_topic",
            {"dead_letter_policy": {"dead_letter_topic": DEAD, "max_delivery_attempts": 9}},
            "dead_letter",
            DeadLetterPolicy(dead_letter_topic=DEAD),
        ),
        (
            "retry_policy",
            {"retry_policy": {"minimum_backoff": {"seconds": 1}}},
            "retry",
            RetryPolicy(minimum_backoff_s=1.0),
        ),
        ("retry_policy", {}, "retry", None),
        (
            "retry_policy.minimum_backoff",
            {"retry_policy": {"minimum_backoff": {"seconds": 2}, "maximum_backoff": {}}},
            "retry",
            RetryPolicy(minimum_backoff_s=2.0),
        ),
        (
            "retry_policy.maximum_backoff",
            {"retry_policy": {"maximum_backoff": {"seconds": 20}}},
            "retry",
            RetryPolicy(maximum_backoff_s=20.0),
        ),
        (
            "enable_exactly_once_delivery",
            {"enable_exactly_once_delivery": True},
            "enable_exactly_once",
            True,
        ),
        ("push_config", {"push_config": {}}, "ack_deadline_s", 10),
    ],
)
def test_update_subscription(path: str, given: dict[str, Any], field: str, value: Any) -> None:
    changed = updated(path, **given)
    assert getattr(changed, field) == value
    for other in fields(Subscription):
        if other.name != field:
            assert getattr(changed, other.name) == getattr(subscription(), other.name)


def test_parts_of_policies_are_merged() -> None:
    present = subscription(
        dead_letter=DeadLetterPolicy(dead_letter_topic=DEAD, max_delivery_attempts=9),
        retry=RetryPolicy(minimum_backoff_s=1.0, maximum_backoff_s=2.0),
    )
    changed = updated(
        "dead_letter_policy.max_delivery_attempts retry_policy.maximum_backoff",
        present,
        dead_letter_policy={"max_delivery_attempts": 20},
        retry_policy={"maximum_backoff": {"seconds": 30}},
    )
    assert changed.dead_letter == DeadLetterPolicy(dead_letter_topic=DEAD, max_delivery_attempts=20)
    assert changed.retry == RetryPolicy(minimum_backoff_s=1.0, maximum_backoff_s=30.0)


def test_a_whole_policy_goes_before_its_parts() -> None:
    changed = updated(
        "retry_policy.minimum_backoff retry_policy",
        retry_policy={"minimum_backoff": {"seconds": 3}},
    )
    assert changed.retry == RetryPolicy(minimum_backoff_s=3.0)


@pytest.mark.parametrize(
    ("paths", "given", "error", "sentence"),
    [
        ("name", {}, InvalidArgument, "update_mask: 'name' cannot be changed after creation"),
        ("topic", {"topic": DEAD}, InvalidArgument, "update_mask: 'topic' cannot be changed"),
        (
            "enable_message_ordering",
            {"enable_message_ordering": True},
            InvalidArgument,
            "update_mask: 'enable_message_ordering' cannot be changed after creation",
        ),
        ("filter", {"filter": "k ="}, InvalidArgument, 'filter: expected a value after "="'),
        ("detached", {}, InvalidArgument, "update_mask: 'detached' cannot be changed by an update"),
        ("state", {}, InvalidArgument, "update_mask: 'state' is set by the service"),
        ("colour", {}, InvalidArgument, "update_mask: 'colour' is not a field of Subscription"),
        (
            "retry_policy.jitter",
            {},
            InvalidArgument,
            "update_mask: 'retry_policy.jitter' is not a field of Subscription",
        ),
        ("labels.env", {}, InvalidArgument, "update_mask: 'labels.env' names a single label"),
        (
            "bigquery_config.table",
            {},
            InvalidArgument,
            "update_mask: 'bigquery_config.table' names a part; bigquery_config is updated as a",
        ),
        ("tags", {}, Unimplemented, "tags: a setting of Google's cloud"),
        (
            "push_config",
            {"push_config": {"push_endpoint": "grpc://x"}},
            InvalidArgument,
            "push_config.push_endpoint: 'grpc://x' names no port",
        ),
        (
            "push_config.push_endpoint",
            {"push_config": {"push_endpoint": "http://x"}},
            InvalidArgument,
            "update_mask: 'push_config.push_endpoint' names a part; push_config is updated",
        ),
        (
            "dead_letter_policy.max_delivery_attempts",
            {"dead_letter_policy": {"max_delivery_attempts": 9}},
            InvalidArgument,
            (
                "update_mask: dead_letter_policy.max_delivery_attempts cannot be changed; the "
                "subscription has no dead letter policy"
            ),
        ),
        ("ack_deadline_seconds", {"ack_deadline_seconds": 1}, InvalidArgument, "ack_deadline_sec"),
        (
            "retry_policy.minimum_backoff",
            {"retry_policy": {"minimum_backoff": {"seconds": 1_000}}},
            InvalidArgument,
            "retry_policy.minimum_backoff: 1000 s is out of range",
        ),
        (
            "expiration_policy.ttl",
            {"expiration_policy": {"ttl": {"seconds": 100_000}}},
            InvalidArgument,
            "expiration_policy.ttl: 100000 s is shorter than message_retention_duration",
        ),
        (
            "labels",
            {"labels": {"fanlog-start": "earliest"}},
            InvalidArgument,
            (
                "labels: fanlog-start is read when a subscription is made and cannot be changed "
                "later (it is not set)"
            ),
        ),
        (
            "labels",
            {"labels": {"fanlog-shoe-size": "44"}},
            InvalidArgument,
            (
                "labels: 'fanlog-shoe-size' is not a label this service knows on a subscription; "
                "it knows fanlog-assignment, fanlog-backlog-age, fanlog-backlog-block, "
                "fanlog-backlog-bytes, fanlog-backlog-critical, fanlog-backlog-fallback, "
                "fanlog-backlog-group, fanlog-backlog-high, fanlog-backlog-low, "
                "fanlog-backlog-messages, fanlog-backlog-policy, fanlog-backlog-summaries, "
                "fanlog-dead-letter, fanlog-delivery, "
                "fanlog-dependency-policy, fanlog-dependency-timeout, fanlog-expired, "
                "fanlog-fairness, "
                "fanlog-max-outstanding-bytes, fanlog-max-outstanding-messages, "
                "fanlog-ordering, fanlog-push-body, fanlog-push-breaker-failures, "
                "fanlog-push-breaker-max-wait, fanlog-push-breaker-wait, fanlog-push-rate, "
                "fanlog-push-timeout, fanlog-retry, "
                "fanlog-schema-revision, fanlog-slots, fanlog-start, fanlog-ttl"
            ),
        ),
    ],
)
def test_updates_refused(
    paths: str, given: dict[str, Any], error: type[FanlogError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        updated(paths, **given)
    assert caught.value.message.startswith(sentence)


def test_labels_that_are_read_once_stay_or_go() -> None:
    present = subscription(labels={"fanlog-start": "earliest", "a": "b"})
    same = {"fanlog-start": "earliest", "c": "d"}
    assert updated("labels", present, labels=same).labels == same
    assert updated("labels", present, labels={"c": "d"}).labels == {"c": "d"}
    with pytest.raises(InvalidArgument, match=r"\(it is 'earliest'\)$"):
        updated("labels", present, labels={"fanlog-start": "now"})


def test_strict_ordering_stays() -> None:
    present = subscription(labels={"fanlog-ordering": "strict"}, enable_message_ordering=True)
    with pytest.raises(InvalidArgument, match=r"^labels: fanlog-ordering .* \(it is 'strict'\)$"):
        updated("labels", present)


def test_an_automatic_dead_letter_policy_cannot_be_taken_from_under_its_label() -> None:
    own = DeadLetterPolicy(dead_letter_topic="projects/p/topics/billing.dead-letters")
    present = subscription(labels={"fanlog-dead-letter": "auto"}, dead_letter=own)
    with pytest.raises(InvalidArgument, match=r"^label fanlog-dead-letter"):
        updated("dead_letter_policy", present)
    assert updated("dead_letter_policy labels", present).dead_letter is None


def test_an_update_without_a_name() -> None:
    with pytest.raises(InvalidArgument, match=r"^subscription.name: a name is required"):
        subscription_update(types.UpdateSubscriptionRequest())


# --- Snapshots -----------------------------------------------------------------------------------


def present_snapshot() -> Snapshot:
    return Snapshot(
        id=SnapshotId(1),
        name=SNAPSHOT,
        topic=TOPIC,
        topic_id=TopicId(1),
        partitions=(PartitionId(1),),
        expire_s=1_790_000_000.25,
        labels={"a": "b"},
    )


def update_snapshot(*paths: str, **given: Any) -> Snapshot:
    request = types.UpdateSnapshotRequest(
        snapshot={"name": SNAPSHOT, **given}, update_mask=FieldMask(paths=paths)
    )
    return snapshot_update(request).apply_to(present_snapshot())


def test_update_snapshot() -> None:
    changed = update_snapshot(
        "labels", "expire_time", labels={"c": "d"}, expire_time={"seconds": 5, "nanos": 500_000_000}
    )
    assert (changed.labels, changed.expire_s) == ({"c": "d"}, 5.5)


@pytest.mark.parametrize(
    ("paths", "given", "sentence"),
    [
        ([], {}, "update_mask: empty; name the fields to update, of expire_time, labels"),
        (["name"], {}, "update_mask: 'name' cannot be changed after creation"),
        (["topic"], {}, "update_mask: 'topic' cannot be changed after creation"),
        (["size"], {}, "update_mask: 'size' is not a field of Snapshot"),
        (["expire_time"], {}, "expire_time: named in update_mask, but not set"),
        (
            ["expire_time"],
            {"expire_time": {"nanos": -1}},
            "expire_time: seconds=0 nanos=-1 is not a valid time",
        ),
        (["labels"], {"labels": {"fanlog-x": ""}}, "labels: 'fanlog-x' is not a label this"),
    ],
)
def test_snapshot_updates_refused(paths: list[str], given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        update_snapshot(*paths, **given)
    assert caught.value.message.startswith(sentence)


# --- Labels that are settings -------------------------------------------------------------------

WEB, CALL = "https://example.com/hook", "grpc://example.com:9000"


def short(present: Subscription, **changes: Any) -> dict[str, str]:
    """The labels of a subscription after an update of the short form."""
    named = {path.replace("__", ".").replace("_", "-"): v for path, v in changes.items()}
    update = SubscriptionUpdate(name=SUBSCRIPTION, changes=named, short_body="plain")
    return dict(update.apply_to(present).labels)


def test_one_setting_is_changed_and_the_other_labels_stay() -> None:
    present = subscription(labels={"team": "a", "fanlog-retry": "first-immediate"})
    changed = updated(
        "labels.fanlog-push-timeout labels.fanlog-retry",
        present,
        labels={"fanlog-push-timeout": "20", "team": "b"},
    )
    assert changed.labels == {"team": "a", "fanlog-push-timeout": "20"}
    assert changed.push_timeout_s == 20
    with pytest.raises(InvalidArgument, match="names a single label"):
        updated("labels.team", present)


def test_a_setting_is_checked_when_it_is_changed() -> None:
    with pytest.raises(InvalidArgument, match="label fanlog-push-timeout: '' is not"):
        updated("labels.fanlog-push-timeout", labels={"fanlog-push-timeout": ""})
    present = subscription(retry=RetryPolicy())
    with pytest.raises(InvalidArgument, match="leave one of them out"):
        updated("labels.fanlog-retry", present, labels={"fanlog-retry": "first-immediate"})
    present = subscription(labels={"fanlog-retry": "first-immediate"})
    with pytest.raises(InvalidArgument, match="leave one of them out"):
        updated("retry_policy", present, retry_policy={})
    assert updated("retry_policy labels.fanlog-retry", present, retry_policy={}).labels == {}


def test_schedules_of_retries() -> None:
    policy = RetryPolicy()
    assert subscription().retry_schedule is None
    asked = subscription(labels={"fanlog-retry": "first-immediate"})
    assert asked.retry_schedule == "first-immediate"
    pushed = subscription(push=PushConfig(endpoint=WEB))
    assert pushed.retry_schedule == "first-immediate"
    assert replace(pushed, retry=policy).retry_schedule is policy
    assert pushed.push_timeout_s == limits.PUSH_TIMEOUT_S_DEFAULT == 10


def test_the_body_of_the_short_form_goes_with_an_http_endpoint() -> None:
    web, call = PushConfig(endpoint=WEB), PushConfig(endpoint=CALL)
    plain = {"fanlog-push-body": "plain"}
    assert short(subscription(), push=web) == plain
    assert short(subscription(push=call), push=web) == plain
    assert short(subscription(push=web), push=web) == {}
    assert short(subscription(push=web, labels=plain), push=web) == plain
    assert short(subscription(push=web, labels=plain), push=call) == {}
    assert short(subscription(push=web, labels=plain), push=None) == {}
    event = {"fanlog-push-body": "event"}
    assert short(subscription(labels=event), push=web) == event
    assert short(subscription(push=web, labels=event), push=None) == event
    # Null is the default of the form.
    assert short(subscription(push=web, labels=event), labels__fanlog_push_body=None) == plain
    assert short(subscription(labels=event), labels__fanlog_push_body=None) == {}


def test_labels_of_the_short_form_leave_settings_alone() -> None:
    settings = {"fanlog-push-timeout": "20", "fanlog-retry": "first-immediate"}
    present = subscription(labels={"team": "a"} | settings)
    assert short(present, labels={"team": "b"}) == {"team": "b"} | settings
    assert short(present, labels={"fanlog-push-timeout": "30"}) == settings | {
        "fanlog-push-timeout": "30"
    }
