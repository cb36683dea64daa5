"""Topics, subscriptions and snapshots: what is read, refused and shown."""

from __future__ import annotations

from typing import Any

import pytest

from fanlog.errors import FanlogError, InvalidArgument, OutOfRange, Unimplemented
from fanlog.model.resources import (
    DeadLetterPolicy,
    PartitionId,
    RetryPolicy,
    Snapshot,
    SnapshotId,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)
from fanlog.model.specs import SubscriptionSpec, TopicSpec, subscription_spec_of
from fanlog.wire import types
from fanlog.wire.resources import (
    snapshot_pb,
    snapshot_spec,
    subscription_pb,
    subscription_spec,
    topic_pb,
    topic_spec,
)

TOPIC = "projects/p/topics/orders"
SUBSCRIPTION = "projects/p/subscriptions/billing"
SNAPSHOT = "projects/p/snapshots/before"
DEAD = "projects/q/topics/dead"


def read_topic(**given: Any) -> TopicSpec:
    return topic_spec(types.Topic(**{"name": TOPIC, **given}))


def read_subscription(**given: Any) -> SubscriptionSpec:
    return subscription_spec(types.Subscription(**{"name": SUBSCRIPTION, "topic": TOPIC, **given}))


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


# --- Topics -------------------------------------------------------------------------------------


def test_topic() -> None:
    assert read_topic() == TopicSpec(name=TOPIC)
    made = read_topic(labels={"env": "prod"}, message_retention_duration={"seconds": 600})
    assert made == TopicSpec(name=TOPIC, labels={"env": "prod"}, message_retention_s=600.0)


def test_output_only_fields_of_a_topic_are_ignored() -> None:
    assert read_topic(state="ACTIVE", satisfies_pzs=True) == TopicSpec(name=TOPIC)


def test_topic_shown_and_read_again() -> None:
    shown = topic_pb(topic(labels={"env": "prod"}, message_retention_s=3_600.5))
    assert shown == types.Topic(
        name=TOPIC,
        labels={"env": "prod"},
        message_retention_duration={"seconds": 3_600, "nanos": 500_000_000},
        state="ACTIVE",
    )
    assert topic_spec(shown).message_retention_s == 3_600.5
    assert not topic_pb(topic()).HasField("message_retention_duration")


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"name": "t"}, InvalidArgument, "name: 't' is not of the form"),
        (
            {"message_retention_duration": {"seconds": 599}},
            InvalidArgument,
            "message_retention_duration: 599 s is out of range; 600 s (10 minutes) to 2678400 s",
        ),
        (
            {"message_retention_duration": {"seconds": 3_153_600_001}},
            InvalidArgument,
            "message_retention_duration: 3153600001 s is out of range",
        ),
        (
            {"message_retention_duration": {"seconds": 600, "nanos": -5}},
            InvalidArgument,
            "message_retention_duration: seconds=600 nanos=-5 is not a valid duration",
        ),
        ({"message_retention_duration": {}}, InvalidArgument, "message_retention_duration: 0 s"),
        (
            {"labels": {"fanlog-start": "now"}},
            InvalidArgument,
            "labels: 'fanlog-start' is not a label this service knows on a topic",
        ),
        ({"schema_settings": {}}, InvalidArgument, "schema_settings.encoding: 0 is not"),
        ({"schema_settings": {"encoding": 1}}, InvalidArgument, "schema_settings.schema: a name"),
        (
            {"message_transforms": [{"disabled": True}]},
            Unimplemented,
            "message_transforms: message transforms are not supported",
        ),
        (
            {"kms_key_name": "k"},
            Unimplemented,
            "kms_key_name: a setting of Google's cloud that has no meaning here; leave it unset",
        ),
        (
            {"message_storage_policy": {"enforce_in_transit": True}},
            InvalidArgument,
            "message_storage_policy.allowed_persistence_regions: empty, with enforce_in_transit",
        ),
        (
            {"message_storage_policy": {"allowed_persistence_regions": ["europe west"]}},
            InvalidArgument,
            "message_storage_policy.allowed_persistence_regions: 'europe west' is not the name of",
        ),
        (
            {"message_storage_policy": {"allowed_persistence_regions": map(str, range(101))}},
            InvalidArgument,
            "message_storage_policy.allowed_persistence_regions: 101 regions; at most 100",
        ),
        (
            {"ingestion_data_source_settings": {}},
            Unimplemented,
            "ingestion_data_source_settings: a setting of",
        ),
        ({"tags": {"a": "b"}}, Unimplemented, "tags: a setting of"),
    ],
)
def test_topics_refused(given: dict[str, Any], error: type[FanlogError], sentence: str) -> None:
    with pytest.raises(error) as caught:
        read_topic(**given)
    assert caught.value.message.startswith(sentence)


def with_field(message: Any, name: str) -> Any:
    """The message with a field of message type set, be it single, repeated or a map."""
    value = getattr(message, name)
    if hasattr(value, "SetInParent"):
        value.SetInParent()
    elif message.DESCRIPTOR.fields_by_name[name].message_type.GetOptions().map_entry:
        value["key"] = "value"
    else:
        value.add()
    return message


def policies_of(message_class: Any) -> list[str]:
    return [part.name for part in message_class.DESCRIPTOR.fields if part.message_type is not None]


@pytest.mark.parametrize("name", policies_of(types.Topic))
def test_no_field_of_a_topic_is_accepted_and_ignored(name: str) -> None:
    """A field that a later API adds is in no list, and so is refused."""
    given = with_field(types.Topic(name=TOPIC), name)
    if name == "labels":
        assert topic_spec(given).labels
        return
    if name == "message_storage_policy":
        # Empty it says nothing, and frameworks always send it.
        assert topic_spec(given).storage_policy is None
        return
    with pytest.raises(FanlogError, match=rf"^{name}[:.]"):
        topic_spec(given)


@pytest.mark.parametrize("name", policies_of(types.Subscription))
def test_no_field_of_a_subscription_is_accepted_and_ignored(name: str) -> None:
    given = with_field(types.Subscription(name=SUBSCRIPTION, topic=TOPIC), name)
    configs = ("push_config", "bigquery_config", "cloud_storage_config")
    if name in (*configs, "topic_message_retention_duration"):
        assert subscription_spec(given) == read_subscription()
    elif name in ("labels", "expiration_policy", "retry_policy"):
        assert subscription_spec(given) != read_subscription()
    else:
        with pytest.raises(FanlogError, match=rf"^{name}[:.]"):
            subscription_spec(given)


# --- Subscriptions ------------------------------------------------------------------------------


def test_subscription_defaults() -> None:
    assert read_subscription() == SubscriptionSpec(
        name=SUBSCRIPTION,
        topic=TOPIC,
        ack_deadline_s=10,
        retain_acked=False,
        message_retention_s=7 * 86_400.0,
        labels={},
        enable_message_ordering=False,
        enable_exactly_once=False,
        expiration_ttl_s=31 * 86_400.0,
        dead_letter=None,
        retry=None,
    )


def test_subscription_with_everything() -> None:
    assert read_subscription(
        ack_deadline_seconds=600,
        retain_acked_messages=True,
        message_retention_duration={"seconds": 600},
        labels={"env": "prod", "fanlog-ordering": "strict", "fanlog-start": "earliest"},
        enable_message_ordering=True,
        enable_exactly_once_delivery=True,
        expiration_policy={"ttl": {"seconds": 86_400}},
        dead_letter_policy={"dead_letter_topic": DEAD, "max_delivery_attempts": 1},
        retry_policy={"minimum_backoff": {"nanos": 500_000_000}, "maximum_backoff": {"seconds": 1}},
        push_config={},
    ) == SubscriptionSpec(
        name=SUBSCRIPTION,
        topic=TOPIC,
        ack_deadline_s=600,
        retain_acked=True,
        message_retention_s=600.0,
        labels={"env": "prod", "fanlog-ordering": "strict", "fanlog-start": "earliest"},
        enable_message_ordering=True,
        enable_exactly_once=True,
        expiration_ttl_s=86_400.0,
        dead_letter=DeadLetterPolicy(dead_letter_topic=DEAD, max_delivery_attempts=1),
        retry=RetryPolicy(minimum_backoff_s=0.5, maximum_backoff_s=1.0),
    )


def test_an_expiration_policy_without_ttl_never_expires() -> None:
    assert read_subscription(expiration_policy={}).expiration_ttl_s is None


def test_zero_delivery_attempts_is_the_default() -> None:
    made = read_subscription(dead_letter_policy={"dead_letter_topic": DEAD})
    assert made.dead_letter == DeadLetterPolicy(dead_letter_topic=DEAD, max_delivery_attempts=5)


def test_an_empty_retry_policy_has_the_defaults() -> None:
    assert read_subscription(retry_policy={}).retry == RetryPolicy(
        minimum_backoff_s=10.0, maximum_backoff_s=600.0
    )


def test_output_only_fields_of_a_subscription_are_ignored() -> None:
    given = {"state": "ACTIVE", "topic_message_retention_duration": {"seconds": 1}}
    assert read_subscription(**given) == read_subscription()


def test_subscription_shown_and_read_again() -> None:
    present = subscription(
        ack_deadline_s=20,
        retain_acked=True,
        message_retention_s=700.25,
        labels={"env": "prod"},
        enable_message_ordering=True,
        enable_exactly_once=True,
        expiration_ttl_s=None,
        dead_letter=DeadLetterPolicy(dead_letter_topic=DEAD, max_delivery_attempts=7),
        retry=RetryPolicy(minimum_backoff_s=0.1, maximum_backoff_s=2.0),
    )
    shown = subscription_pb(present, topic(message_retention_s=800.0))
    assert subscription_spec(shown) == subscription_spec_of(present)
    assert shown.topic == TOPIC
    assert shown.state == types.Subscription.State.ACTIVE
    assert shown.HasField("push_config")
    assert shown.HasField("expiration_policy")
    assert not shown.expiration_policy.HasField("ttl")
    assert shown.topic_message_retention_duration.seconds == 800


def test_plain_subscription_shown() -> None:
    shown = subscription_pb(subscription(), topic())
    assert shown.expiration_policy.ttl.seconds == 31 * 86_400
    assert shown.message_retention_duration.seconds == 7 * 86_400
    for name in ("dead_letter_policy", "retry_policy", "topic_message_retention_duration"):
        assert not shown.HasField(name)


def test_a_subscription_of_a_deleted_topic() -> None:
    orphan = Subscription(
        id=SubscriptionId(1),
        name=SUBSCRIPTION,
        topic=TOPIC,
        topic_id=None,
        partitions=(),
        detached=True,
    )
    shown = subscription_pb(orphan, None)
    assert shown.topic == "_deleted-topic_"
    assert shown.detached


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"name": ""}, InvalidArgument, "name: a name is required, but it is empty"),
        ({"name": "projects/p/subscriptions/googx"}, InvalidArgument, "name: 'projects/p/sub"),
        ({"topic": "orders"}, InvalidArgument, "topic: 'orders' is not of the form"),
        ({"topic": "_deleted-topic_"}, InvalidArgument, "topic: '_deleted-topic_' is not of the"),
        (
            {"ack_deadline_seconds": 9},
            InvalidArgument,
            "ack_deadline_seconds: 9 is out of range; 10 to 600 seconds are allowed",
        ),
        ({"ack_deadline_seconds": 601}, InvalidArgument, "ack_deadline_seconds: 601 is out of"),
        ({"ack_deadline_seconds": -1}, InvalidArgument, "ack_deadline_seconds: -1 is out of"),
        (
            {"message_retention_duration": {"seconds": 1}},
            InvalidArgument,
            "message_retention_duration: 1 s is out of range",
        ),
        (
            {"message_retention_duration": {"seconds": 31 * 86_400, "nanos": 1_000}},
            InvalidArgument,
            "message_retention_duration: 2678400.000001 s is out of range",
        ),
        (
            {"expiration_policy": {"ttl": {"seconds": 86_399}}},
            InvalidArgument,
            "expiration_policy.ttl: 86399 s is out of range; at least 86400 s (1 day) is allowed",
        ),
        (
            {"expiration_policy": {"ttl": {"seconds": 86_400}}},
            InvalidArgument,
            "expiration_policy.ttl: 86400 s is shorter than message_retention_duration (604800 s)",
        ),
        (
            {"dead_letter_policy": {}},
            InvalidArgument,
            "dead_letter_policy.dead_letter_topic: a name is required, but it is empty",
        ),
        (
            {"dead_letter_policy": {"dead_letter_topic": TOPIC}},
            InvalidArgument,
            "dead_letter_policy.dead_letter_topic: 'projects/p/topics/orders' is a topic the",
        ),
        (
            {"dead_letter_policy": {"dead_letter_topic": DEAD, "max_delivery_attempts": 101}},
            OutOfRange,
            "dead_letter_policy.max_delivery_attempts: 101 is out of range; 1 to 100 are allowed",
        ),
        (
            {"dead_letter_policy": {"dead_letter_topic": DEAD, "max_delivery_attempts": -1}},
            OutOfRange,
            "dead_letter_policy.max_delivery_attempts: -1 is out of range",
        ),
        (
            {"retry_policy": {"minimum_backoff": {"seconds": 601}}},
            InvalidArgument,
            "retry_policy.minimum_backoff: 601 s is out of range; 0 to 600 s are allowed",
        ),
        (
            {"retry_policy": {"maximum_backoff": {"seconds": -1}}},
            InvalidArgument,
            "retry_policy.maximum_backoff: -1 s is out of range",
        ),
        (
            {"retry_policy": {"maximum_backoff": {"seconds": 9}}},
            InvalidArgument,
            "retry_policy: minimum_backoff (10 s) is longer than maximum_backoff (9 s)",
        ),
        ({"detached": True}, InvalidArgument, "detached: a subscription cannot be created"),
        (
            {"filter": "attributes.x ="},
            InvalidArgument,
            'filter: expected a value after "=" at column 15, found the end',
        ),
        (
            {"push_config": {"push_endpoint": "ftp://x"}},
            InvalidArgument,
            "push_config.push_endpoint: 'ftp://x' is not an address of http, https, grpc or grpcs",
        ),
        (
            {"push_config": {"push_endpoint": "grpc://x"}},
            InvalidArgument,
            "push_config.push_endpoint: 'grpc://x' names no port",
        ),
        (
            {"push_config": {"attributes": {"x-goog-version": "v1"}}},
            InvalidArgument,
            "push_config.push_endpoint: empty, and push_config says other things",
        ),
        ({"push_config": {"no_wrapper": {}}}, InvalidArgument, "push_config.push_endpoint: empty"),
        (
            {"push_config": {"push_endpoint": "http://x", "attributes": {"a": "b"}}},
            InvalidArgument,
            "push_config.attributes: 'a' is not known",
        ),
        (
            {
                "push_config": {
                    "push_endpoint": "http://x",
                    "attributes": {"x-goog-version": "v1beta1"},
                }
            },
            Unimplemented,
            "push_config.attributes: x-goog-version 'v1beta1' is not supported",
        ),
        (
            {"push_config": {"push_endpoint": "http://x", "oidc_token": {"audience": "a"}}},
            InvalidArgument,
            "push_config.oidc_token.service_account_email: empty",
        ),
        (
            {
                "push_config": {"push_endpoint": "http://x", "no_wrapper": {}},
                "labels": {"fanlog-push-body": "plain"},
            },
            InvalidArgument,
            "push_config.no_wrapper: the label fanlog-push-body asks for another body",
        ),
        (
            {"labels": {"fanlog-push-body": "xml"}},
            InvalidArgument,
            "label fanlog-push-body: 'xml' is not one of 'wrapped', 'plain', 'cloudevents', 'event",
        ),
        (
            {"labels": {"fanlog-retry": "at-once"}},
            InvalidArgument,
            "label fanlog-retry: 'at-once' is not 'first-immediate'; other waits are a retry",
        ),
        (
            {"labels": {"fanlog-retry": "first-immediate"}, "retry_policy": {}},
            InvalidArgument,
            "label fanlog-retry: asks for another schedule than retry_policy, which is set",
        ),
        *(
            (
                {"labels": {"fanlog-push-timeout": text}},
                InvalidArgument,
                f"label fanlog-push-timeout: '{text}' is not a whole number of seconds from 1 to",
            )
            for text in ("0", "601", "1.5", "-1", "", "10s", "9" * 30)
        ),
        *(
            (
                {"labels": {label: value}, "push_config": {"push_endpoint": "topic:elsewhere"}},
                InvalidArgument,
                "push_config.push_endpoint: forwarding to a topic makes no request",
            )
            for label, value in (
                ("fanlog-push-timeout", "20"),
                ("fanlog-retry", "first-immediate"),
                ("fanlog-push-body", "event"),
            )
        ),
        (
            {
                "labels": {"fanlog-retry": "first-immediate"},
                "bigquery_config": {"table": "p.d.t"},
            },
            InvalidArgument,
            "label fanlog-retry: means nothing with bigquery_config",
        ),
        ({"bigtable_config": {}}, Unimplemented, "bigtable_config: export to Bigtable is not"),
        ({"message_transforms": [{}]}, Unimplemented, "message_transforms: message transforms"),
        ({"tags": {"a": "b"}}, Unimplemented, "tags: a setting of Google's cloud"),
        (
            {"analytics_hub_subscription_info": {}},
            Unimplemented,
            "analytics_hub_subscription_info: a setting of Google's cloud",
        ),
    ],
)
def test_subscriptions_refused(
    given: dict[str, Any], error: type[FanlogError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        read_subscription(**given)
    assert caught.value.message.startswith(sentence)


def test_a_dead_letter_topic_made_by_itself() -> None:
    own = "projects/p/topics/billing.dead-letters"
    auto = {"fanlog-dead-letter": "auto"}
    made = read_subscription(labels=auto)
    assert made.makes_dead_letter_topic
    assert made.dead_letter == DeadLetterPolicy(dead_letter_topic=own, max_delivery_attempts=5)
    made = read_subscription(labels=auto, dead_letter_policy={"max_delivery_attempts": 3})
    assert made.dead_letter == DeadLetterPolicy(dead_letter_topic=own, max_delivery_attempts=3)
    assert read_subscription(labels=auto, dead_letter_policy={"dead_letter_topic": own})
    with pytest.raises(InvalidArgument, match=r"^label fanlog-dead-letter: 'auto' makes the topic"):
        read_subscription(labels=auto, dead_letter_policy={"dead_letter_topic": DEAD})
    assert not read_subscription().makes_dead_letter_topic


# --- Snapshots ----------------------------------------------------------------------------------


def test_snapshot() -> None:
    spec = snapshot_spec(
        types.CreateSnapshotRequest(name=SNAPSHOT, subscription=SUBSCRIPTION, labels={"a": "b"})
    )
    assert (spec.name, spec.subscription, spec.labels) == (SNAPSHOT, SUBSCRIPTION, {"a": "b"})


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"name": "x"}, InvalidArgument, "name: 'x' is not of the form"),
        ({"subscription": "x"}, InvalidArgument, "subscription: 'x' is not of the form"),
        ({"labels": {"A": "b"}}, InvalidArgument, "labels: the key 'A' is not allowed"),
        ({"tags": {"a": "b"}}, Unimplemented, "tags: a setting of Google's cloud"),
    ],
)
def test_snapshots_refused(given: dict[str, Any], error: type[FanlogError], sentence: str) -> None:
    request = types.CreateSnapshotRequest(
        **{"name": SNAPSHOT, "subscription": SUBSCRIPTION, **given}
    )
    with pytest.raises(error) as caught:
        snapshot_spec(request)
    assert caught.value.message.startswith(sentence)


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


def test_snapshot_shown() -> None:
    assert snapshot_pb(present_snapshot()) == types.Snapshot(
        name=SNAPSHOT,
        topic=TOPIC,
        expire_time={"seconds": 1_790_000_000, "nanos": 250_000_000},
        labels={"a": "b"},
    )
