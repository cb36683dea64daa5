"""Topics, subscriptions and snapshots: protobuf to specs and updates, model to protobuf.

Fields that the service sets are filled in answers; `fanlog.wire.output_only` has how they are
treated in requests. In an update only the fields that the mask names are looked at. Every
other field is honoured or refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import LABEL_DEAD_LETTER
from fanlog.model.labels import SETTING_LABELS, TOPIC_SETTING_LABELS, labels_of
from fanlog.model.resources import (
    DeadLetterPolicy,
    ExportState,
    RetryPolicy,
    Snapshot,
    StoragePolicy,
    Subscription,
    Topic,
)
from fanlog.model.specs import SnapshotSpec, SubscriptionSpec, TopicSpec
from fanlog.model.updates import SnapshotUpdate, SubscriptionUpdate, TopicUpdate
from fanlog.wire import exports, output_only, schemas, types
from fanlog.wire.fields import (
    duration,
    mask_paths,
    refuse_unsupported,
    seconds_of,
    time_ns_of,
    timestamp,
)
from fanlog.wire.push import push_changes, push_config, push_config_pb

_FIXED = "cannot be changed after creation"
_OUTPUT_ONLY = "is set by the service and cannot be changed"

_TOPIC_HONOURED = frozenset(
    {"name", "labels", "message_retention_duration", "schema_settings", "message_storage_policy"}
)
_TOPIC_OUTPUT_ONLY = output_only.ignored_fields("Topic")
_SCHEMA_PARTS = ("schema", "encoding", "first_revision_id", "last_revision_id")
#: Parts of a storage policy, and their names here.
_STORAGE_PARTS = {
    "allowed_persistence_regions": "allowed_regions",
    "enforce_in_transit": "enforce_in_transit",
}
_TOPIC_UPDATABLE = frozenset(
    (_TOPIC_HONOURED - {"name"})
    | {f"schema_settings.{part}" for part in _SCHEMA_PARTS}
    | {f"message_storage_policy.{part}" for part in _STORAGE_PARTS}
    | {f"labels.{label}" for label in TOPIC_SETTING_LABELS}
)
_TOPIC_IMMUTABLE = {"name": _FIXED, "state": _OUTPUT_ONLY, "satisfies_pzs": _OUTPUT_ONLY}

_SUBSCRIPTION_UPDATABLE = frozenset(
    {
        "ack_deadline_seconds",
        "retain_acked_messages",
        "message_retention_duration",
        "labels",
        "expiration_policy",
        "expiration_policy.ttl",
        "dead_letter_policy",
        "dead_letter_policy.dead_letter_topic",
        "dead_letter_policy.max_delivery_attempts",
        "retry_policy",
        "retry_policy.minimum_backoff",
        "retry_policy.maximum_backoff",
        "enable_exactly_once_delivery",
        "filter",
        "push_config",
        "bigquery_config",
        "cloud_storage_config",
    }
    | {f"labels.{label}" for label in SETTING_LABELS}
)
_SUBSCRIPTION_HONOURED = frozenset(
    {"name", "topic", "enable_message_ordering"}
    | {path for path in _SUBSCRIPTION_UPDATABLE if "." not in path}
)
_SUBSCRIPTION_OUTPUT_ONLY = output_only.ignored_fields("Subscription")
_SUBSCRIPTION_IMMUTABLE = {
    "name": _FIXED,
    "topic": _FIXED,
    "enable_message_ordering": _FIXED,
    "detached": "cannot be changed by an update; call DetachSubscription",
    "state": _OUTPUT_ONLY,
    "topic_message_retention_duration": _OUTPUT_ONLY,
}

_SNAPSHOT_HONOURED = frozenset({"name", "subscription", "labels"})
_SNAPSHOT_UPDATABLE = frozenset({"labels", "expire_time"})
_SNAPSHOT_IMMUTABLE = {"name": _FIXED, "topic": _FIXED}

#: Fields that a whole new set of settings for a subscription has.
SUBSCRIPTION_SETTINGS = frozenset(path for path in _SUBSCRIPTION_UPDATABLE if "." not in path)
#: Fields of each message that mean something here; others are refused when they are set.
HONOURED = {
    "Topic": _TOPIC_HONOURED | _TOPIC_OUTPUT_ONLY,
    "Subscription": _SUBSCRIPTION_HONOURED | _SUBSCRIPTION_OUTPUT_ONLY | {"detached"},
    "CreateSnapshotRequest": _SNAPSHOT_HONOURED,
    "Schema": schemas.HONOURED,
}


def topic_spec(topic: types.Topic) -> TopicSpec:
    """Read the Topic of a CreateTopic.

    Raises:
        InvalidArgument: A value is out of range; the sentence names it and its limit.
        Unimplemented: A field is set that this version does not honour; the sentence names it.
    """
    refuse_unsupported(topic, _TOPIC_HONOURED | _TOPIC_OUTPUT_ONLY)
    return TopicSpec(
        name=topic.name,
        labels=labels_of(topic.labels),
        message_retention_s=_topic_retention_s(topic),
        schema_settings=schemas.settings(topic),
        storage_policy=_storage_policy(topic),
    )


def topic_update(request: types.UpdateTopicRequest) -> TopicUpdate:
    """Read an UpdateTopicRequest; raises as `topic_spec` does, and for a mask that is wrong."""
    topic = request.topic
    names.parse_topic(topic.name, field="topic.name")
    changes: dict[str, object] = {}
    for path in mask_paths(request.update_mask, _TOPIC_UPDATABLE, _TOPIC_IMMUTABLE, topic):
        match path:
            case "labels":
                changes["labels"] = labels_of(topic.labels)
            case "message_retention_duration":
                changes["message_retention_s"] = _topic_retention_s(topic)
            case "schema_settings":
                changes["schema_settings"] = schemas.updated_settings(topic)
            case "message_storage_policy":
                changes["storage_policy"] = _storage_policy(topic)
            case _:
                field, _, part = path.partition(".")
                if field == "labels":
                    changes[path] = topic.labels.get(part)
                elif field == "schema_settings":
                    changes[path] = schemas.settings_part(topic.schema_settings, part)
                else:
                    value = _storage_part(topic.message_storage_policy, part)
                    changes[f"storage_policy.{_STORAGE_PARTS[part]}"] = value
    return TopicUpdate(name=topic.name, changes=changes)


def topic_pb(topic: Topic) -> types.Topic:
    """Make the Topic that answers show."""
    message = types.Topic(name=topic.name, labels=topic.labels, state=types.Topic.State.ACTIVE)
    if topic.message_retention_s is not None:
        message.message_retention_duration.CopyFrom(duration(topic.message_retention_s))
    if topic.schema_settings is not None:
        message.schema_settings.CopyFrom(schemas.settings_pb(topic.schema_settings))
    if topic.storage_policy is not None:
        policy = message.message_storage_policy
        policy.allowed_persistence_regions.extend(topic.storage_policy.allowed_regions)
        policy.enforce_in_transit = topic.storage_policy.enforce_in_transit
    return message


def subscription_spec(subscription: types.Subscription) -> SubscriptionSpec:
    """Read the Subscription of a CreateSubscription; raises as `topic_spec` does.

    Raises:
        OutOfRange: The number of delivery attempts of its dead letter policy.
    """
    if subscription.detached:
        raise InvalidArgument(
            "detached: a subscription cannot be created detached; leave it unset, "
            "or call DetachSubscription afterwards"
        )
    refuse_unsupported(subscription, _SUBSCRIPTION_HONOURED | _SUBSCRIPTION_OUTPUT_ONLY)
    return SubscriptionSpec(
        name=subscription.name,
        topic=subscription.topic,
        ack_deadline_s=_ack_deadline_s(subscription),
        retain_acked=subscription.retain_acked_messages,
        message_retention_s=_retention_s(subscription),
        labels=labels_of(subscription.labels),
        enable_message_ordering=subscription.enable_message_ordering,
        enable_exactly_once=subscription.enable_exactly_once_delivery,
        expiration_ttl_s=_expiration_ttl_s(subscription),
        dead_letter=_dead_letter(subscription, labels=subscription.labels),
        retry=_retry(subscription),
        filter=subscription.filter,
        push=push_config(subscription.push_config),
        table=exports.table_export(subscription),
        files=exports.file_export(subscription),
    )


def subscription_update(request: types.UpdateSubscriptionRequest) -> SubscriptionUpdate:
    """Read an UpdateSubscriptionRequest; raises as `subscription_spec` does, and for a wrong mask.

    `SubscriptionUpdate.applied_to` makes the checks that depend on the present value.
    """
    subscription = request.subscription
    names.parse_subscription(subscription.name, field="subscription.name")
    paths = mask_paths(
        request.update_mask, _SUBSCRIPTION_UPDATABLE, _SUBSCRIPTION_IMMUTABLE, subscription
    )
    changes: dict[str, object] = {}
    for path in paths:
        changes.update(_subscription_change(path, subscription))
    return SubscriptionUpdate(name=subscription.name, changes=changes)


def subscription_pb(
    subscription: Subscription,
    topic: Topic | None,
    *,
    is_failing: bool = False,
    export_state: ExportState = "ACTIVE",
) -> types.Subscription:
    """Make the Subscription that answers show; `topic` is None once it was deleted.

    `is_failing` says that its endpoint does not take messages just now; `export_state` is the
    state of its table or files, as the pipeline reports it.
    """
    is_failing = is_failing or bool(subscription.push_off) or export_state != "ACTIVE"
    states = types.Subscription.State
    message = types.Subscription(
        name=subscription.name,
        topic=subscription.topic_shown,
        push_config=push_config_pb(subscription.push),
        ack_deadline_seconds=subscription.ack_deadline_s,
        retain_acked_messages=subscription.retain_acked,
        message_retention_duration=duration(subscription.message_retention_s),
        labels=subscription.labels,
        enable_message_ordering=subscription.enable_message_ordering,
        expiration_policy=types.ExpirationPolicy(),
        detached=subscription.detached,
        filter=subscription.filter,
        enable_exactly_once_delivery=subscription.enable_exactly_once,
        state=states.RESOURCE_ERROR if is_failing else states.ACTIVE,
    )
    exports.fill(message, subscription, export_state)
    if subscription.expiration_ttl_s is not None:
        message.expiration_policy.ttl.CopyFrom(duration(subscription.expiration_ttl_s))
    if subscription.dead_letter is not None:
        policy = message.dead_letter_policy
        policy.dead_letter_topic = subscription.dead_letter.dead_letter_topic
        policy.max_delivery_attempts = subscription.dead_letter.max_delivery_attempts
    if subscription.retry is not None:
        retry = message.retry_policy
        retry.minimum_backoff.CopyFrom(duration(subscription.retry.minimum_backoff_s))
        retry.maximum_backoff.CopyFrom(duration(subscription.retry.maximum_backoff_s))
    if topic is not None and topic.message_retention_s is not None:
        retention = duration(topic.message_retention_s)
        message.topic_message_retention_duration.CopyFrom(retention)
    return message


def snapshot_spec(request: types.CreateSnapshotRequest) -> SnapshotSpec:
    """Read a CreateSnapshotRequest; raises as `topic_spec` does."""
    refuse_unsupported(request, _SNAPSHOT_HONOURED)
    return SnapshotSpec(
        name=request.name, subscription=request.subscription, labels=labels_of(request.labels)
    )


def snapshot_update(request: types.UpdateSnapshotRequest) -> SnapshotUpdate:
    """Read an UpdateSnapshotRequest; raises as `topic_update` does."""
    snapshot = request.snapshot
    names.parse_snapshot(snapshot.name, field="snapshot.name")
    changes: dict[str, object] = {}
    for path in mask_paths(request.update_mask, _SNAPSHOT_UPDATABLE, _SNAPSHOT_IMMUTABLE, snapshot):
        match path:
            case "labels":
                changes["labels"] = labels_of(snapshot.labels)
            case "expire_time":
                if not snapshot.HasField("expire_time"):
                    raise InvalidArgument("expire_time: named in update_mask, but not set")
                changes["expire_s"] = time_ns_of(snapshot.expire_time, "expire_time") / 1e9
    return SnapshotUpdate(name=snapshot.name, changes=changes)


def snapshot_pb(snapshot: Snapshot) -> types.Snapshot:
    """Make the Snapshot that answers show."""
    return types.Snapshot(
        name=snapshot.name,
        topic=snapshot.topic_shown,
        expire_time=timestamp(snapshot.expire_s),
        labels=snapshot.labels,
    )


def _topic_retention_s(topic: types.Topic) -> float | None:
    if not topic.HasField("message_retention_duration"):
        return None
    return seconds_of(topic.message_retention_duration, "message_retention_duration")


def _storage_policy(topic: types.Topic) -> StoragePolicy | None:
    """Read the policy; an empty one, which some clients always send, is none."""
    policy = topic.message_storage_policy
    regions = _allowed_regions(policy)
    if not (regions or policy.enforce_in_transit):
        return None
    return StoragePolicy(allowed_regions=regions, enforce_in_transit=policy.enforce_in_transit)


def _storage_part(policy: types.MessageStoragePolicy, part: str) -> bool | tuple[str, ...]:
    return policy.enforce_in_transit if part == "enforce_in_transit" else _allowed_regions(policy)


def _allowed_regions(policy: types.MessageStoragePolicy) -> tuple[str, ...]:
    return tuple(dict.fromkeys(policy.allowed_persistence_regions))


def _ack_deadline_s(subscription: types.Subscription) -> int:
    return subscription.ack_deadline_seconds or limits.ACK_DEADLINE_S_DEFAULT


def _retention_s(subscription: types.Subscription) -> float:
    if not subscription.HasField("message_retention_duration"):
        return limits.RETENTION_S_DEFAULT
    return seconds_of(subscription.message_retention_duration, "message_retention_duration")


def _expiration_ttl_s(subscription: types.Subscription) -> float | None:
    """Unset is the default, set without a ttl is never, as Google has it."""
    if not subscription.HasField("expiration_policy"):
        return limits.EXPIRATION_TTL_S_DEFAULT
    if not subscription.expiration_policy.HasField("ttl"):
        return None
    return seconds_of(subscription.expiration_policy.ttl, "expiration_policy.ttl")


def _dead_letter(
    subscription: types.Subscription, *, labels: Mapping[str, str]
) -> DeadLetterPolicy | None:
    """Read the policy; with `fanlog-dead-letter: auto` its topic, and all of it, may be unset."""
    is_auto = labels.get(LABEL_DEAD_LETTER) == "auto"
    if not (is_auto or subscription.HasField("dead_letter_policy")):
        return None
    topic = subscription.dead_letter_policy.dead_letter_topic
    if is_auto and not topic:
        topic = names.dead_letter_topic_of(subscription.name)
    return DeadLetterPolicy(
        dead_letter_topic=topic, max_delivery_attempts=_delivery_attempts(subscription)
    )


def _delivery_attempts(subscription: types.Subscription) -> int:
    return subscription.dead_letter_policy.max_delivery_attempts or limits.DELIVERY_ATTEMPTS_DEFAULT


def _retry(subscription: types.Subscription) -> RetryPolicy | None:
    if not subscription.HasField("retry_policy"):
        return None
    return RetryPolicy(
        minimum_backoff_s=_minimum_backoff_s(subscription.retry_policy),
        maximum_backoff_s=_maximum_backoff_s(subscription.retry_policy),
    )


def _minimum_backoff_s(policy: types.RetryPolicy) -> float:
    if not policy.HasField("minimum_backoff"):
        return limits.RETRY_MINIMUM_BACKOFF_S_DEFAULT
    return seconds_of(policy.minimum_backoff, "retry_policy.minimum_backoff")


def _maximum_backoff_s(policy: types.RetryPolicy) -> float:
    if not policy.HasField("maximum_backoff"):
        return limits.RETRY_MAXIMUM_BACKOFF_S_DEFAULT
    return seconds_of(policy.maximum_backoff, "retry_policy.maximum_backoff")


def _subscription_change(path: str, subscription: types.Subscription) -> dict[str, object]:
    match path:
        case "ack_deadline_seconds":
            return {"ack_deadline_s": _ack_deadline_s(subscription)}
        case "retain_acked_messages":
            return {"retain_acked": subscription.retain_acked_messages}
        case "message_retention_duration":
            return {"message_retention_s": _retention_s(subscription)}
        case "labels":
            return {"labels": labels_of(subscription.labels)}
        case "expiration_policy":
            return {"expiration_ttl_s": _expiration_ttl_s(subscription)}
        case "expiration_policy.ttl":
            has_ttl = subscription.expiration_policy.HasField("ttl")
            return {"expiration_ttl_s": _expiration_ttl_s(subscription) if has_ttl else None}
        case "dead_letter_policy":
            return {"dead_letter": _dead_letter(subscription, labels={})}
        case "dead_letter_policy.dead_letter_topic":
            topic = subscription.dead_letter_policy.dead_letter_topic
            return {"dead_letter.dead_letter_topic": topic}
        case "dead_letter_policy.max_delivery_attempts":
            return {"dead_letter.max_delivery_attempts": _delivery_attempts(subscription)}
        case "retry_policy":
            return {"retry": _retry(subscription)}
        case "retry_policy.minimum_backoff":
            return {"retry.minimum_backoff_s": _minimum_backoff_s(subscription.retry_policy)}
        case "retry_policy.maximum_backoff":
            return {"retry.maximum_backoff_s": _maximum_backoff_s(subscription.retry_policy)}
        case "filter":
            return {"filter": subscription.filter}
        case "enable_exactly_once_delivery":
            return {"enable_exactly_once": subscription.enable_exactly_once_delivery}
        case "bigquery_config":
            return {"table": exports.table_export(subscription)}
        case "cloud_storage_config":
            return {"files": exports.file_export(subscription)}
        case "push_config":
            return push_changes(subscription.push_config)
        case _:
            label = path.removeprefix("labels.")
            assert label in SETTING_LABELS
            return {path: subscription.labels.get(label)}
