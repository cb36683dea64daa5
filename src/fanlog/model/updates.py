"""Changes to topics, subscriptions and snapshots, checked when applied to the present value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import endpoints
from fanlog.model.attributes import (
    LABEL_DELIVERY,
    LABEL_MAX_OUTSTANDING_MESSAGES,
    LABEL_PUSH_BODY,
)
from fanlog.model.labels import (
    SETTING_LABELS,
    SNAPSHOT_LABELS,
    TOPIC_SETTING_LABELS,
    check_fixed_labels,
    check_fixed_ordering,
    check_labels,
)
from fanlog.model.resources import (
    AT_MOST_ONCE,
    DeadLetterPolicy,
    PushConfig,
    RetryPolicy,
    SchemaSettings,
    Snapshot,
    StoragePolicy,
    Subscription,
    Topic,
)
from fanlog.model.specs import TopicSpec, subscription_spec_of

#: The window that the short form gives to subscriptions that are pulled from.
_SHORT_WINDOW = str(limits.MAX_OUTSTANDING_MESSAGES_SHORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUpdate:
    """Changes to a topic: `model.Topic`'s field to its new value.

    A part of the schema settings is named `schema_settings.encoding`, one of the storage policy
    `storage_policy.allowed_regions`; the rest of them stays. On a topic without a schema, parts
    make settings when schema and encoding are among them. One label is named
    `labels.fanlog-publish-rate`; None removes it.
    """

    name: str
    changes: Mapping[str, Any]
    #: Whether labels that are settings stay when `labels` changes without them: in the short form
    #: they are fields.
    keeps_settings: bool = False

    def apply_to(self, topic: Topic) -> Topic:
        """Give the topic as changed; raises InvalidArgument as `TopicSpec` does."""
        whole = {name: value for name, value in self.changes.items() if "." not in name}
        changed = replace(topic, **whole)
        if parts := self._parts_of("schema_settings"):
            settings = _merge_settings(changed.schema_settings, parts)
            changed = replace(changed, schema_settings=settings)
        if parts := self._parts_of("storage_policy"):
            policy = replace(changed.storage_policy or StoragePolicy(allowed_regions=()), **parts)
            changed = replace(changed, storage_policy=policy if any(astuple(policy)) else None)
        changed = replace(changed, labels=self._labels(topic, changed))
        check_fixed_ordering(topic.labels, changed.labels)
        TopicSpec(**{part.name: getattr(changed, part.name) for part in fields(TopicSpec)})
        return changed

    def _labels(self, before: Topic, after: Topic) -> dict[str, str]:
        kept = {}
        if self.keeps_settings:
            kept = {n: v for n, v in before.labels.items() if n in TOPIC_SETTING_LABELS}
        labels = kept | dict(after.labels)
        for name, value in self._parts_of("labels").items():
            labels.pop(name, None)
            if value is not None:
                labels[name] = value
        return labels

    def _parts_of(self, field: str) -> dict[str, Any]:
        prefix = f"{field}."
        return {
            path.removeprefix(prefix): value
            for path, value in self.changes.items()
            if path.startswith(prefix)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionUpdate:
    """Changes to a subscription: `model.Subscription`'s field to its new value.

    A field of a policy is named `retry.minimum_backoff_s`; the rest of the policy stays. The
    secrets of a push config stay unless `push.webhook_secrets` says otherwise. One label is named
    `labels.fanlog-retry`; None removes it.
    """

    name: str
    changes: Mapping[str, Any]
    #: The body of push requests to a subscription that was not pushed to an HTTP endpoint before;
    #: it goes with that endpoint, unless another was asked for. Set by the short form, in which
    #: labels that are settings are fields, and stay when `labels` changes without them.
    short_body: str = ""

    def apply_to(self, subscription: Subscription) -> Subscription:
        """Give the subscription as changed; raises InvalidArgument as `SubscriptionSpec` does."""
        whole = {name: value for name, value in self.changes.items() if "." not in name}
        changed = replace(subscription, **whole)
        if "push" in whole:
            changed = replace(changed, push_off="")
        if changed.push is not None and "push" in whole:
            # Secrets are never shown, so a caller that sends back a subscription it read has none.
            kept = subscription.push.webhook_secrets if subscription.push is not None else ()
            changed = replace(changed, push=replace(changed.push, webhook_secrets=kept))
        changed = replace(changed, labels=self._labels(subscription, changed))
        for path, value in self.changes.items():
            policy, _, part = path.partition(".")
            if part and policy != "labels":
                merged: Any = _merge(getattr(changed, policy), policy, part, value)
                changed = replace(changed, **{policy: merged})
        check_fixed_labels(subscription.labels, changed.labels)
        return replace(changed, filter=subscription_spec_of(changed).filter)

    def _labels(self, before: Subscription, after: Subscription) -> dict[str, str]:
        labels = self._short_labels(before, after) if self.short_body else dict(after.labels)
        for path, value in self.changes.items():
            field, _, name = path.partition(".")
            if field == "labels" and name:
                labels.pop(name, None)
                if value is None and name == LABEL_PUSH_BODY and _is_web(after):
                    value = self.short_body or None
                if value is None and name == LABEL_MAX_OUTSTANDING_MESSAGES and self.short_body:
                    # The default of that form; dropped below where there can be none.
                    value = _SHORT_WINDOW if after.mode == "pull" else None
                if value is not None:
                    labels[name] = value
        if self.short_body:
            self._drop_window(labels, after)
        return labels

    def _drop_window(self, labels: dict[str, str], after: Subscription) -> None:
        """Leave out the window that the short form gave, where none is possible any more."""
        is_named = self.changes.get(f"labels.{LABEL_MAX_OUTSTANDING_MESSAGES}") is not None
        has_none = after.mode == "export" or labels.get(LABEL_DELIVERY) == AT_MOST_ONCE
        is_default = labels.get(LABEL_MAX_OUTSTANDING_MESSAGES) == _SHORT_WINDOW
        if has_none and is_default and not is_named:
            del labels[LABEL_MAX_OUTSTANDING_MESSAGES]

    def _short_labels(self, before: Subscription, after: Subscription) -> dict[str, str]:
        """Labels after an update of the short form, before those that it names one by one."""
        named = self.changes.get("labels", {})
        kept = {
            name: value
            for name, value in before.labels.items()
            if name in SETTING_LABELS and name not in named
        }
        if "push" in self.changes:
            if not _is_web(after) and kept.get(LABEL_PUSH_BODY) == self.short_body:
                del kept[LABEL_PUSH_BODY]
                return {n: v for n, v in after.labels.items() if n != LABEL_PUSH_BODY} | kept
            if _is_web(after) and not _is_web(before):
                kept.setdefault(LABEL_PUSH_BODY, self.short_body)
        return kept | dict(after.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotUpdate:
    """Changes to a snapshot: `model.Snapshot`'s field to its new value.

    Whether an expiry time lies in reach is the broker's to say, which knows the time.
    """

    name: str
    changes: Mapping[str, Any]

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot as changed; raises InvalidArgument for bad labels."""
        changed = replace(snapshot, **self.changes)
        check_labels(changed.labels, SNAPSHOT_LABELS, "a snapshot")
        return changed


def _is_web(subscription: Subscription) -> bool:
    """Whether messages are sent in the bodies of HTTP requests."""
    push = subscription.push
    return push is not None and endpoints.is_web(push.endpoint)


def _merge_settings(present: SchemaSettings | None, parts: Mapping[str, Any]) -> SchemaSettings:
    if present is not None:
        return replace(present, **parts)
    missing = [name for name in ("schema", "encoding") if not parts.get(name)]
    if missing:
        named = ", ".join(f"schema_settings.{part}" for part in sorted(parts))
        raise InvalidArgument(
            f"update_mask: {named} cannot be changed alone; the topic has no schema. Name "
            f"{' and '.join(f'schema_settings.{name}' for name in missing)}, too, and set them"
        )
    return SchemaSettings(**parts)


def _merge(
    present: RetryPolicy | DeadLetterPolicy | PushConfig | None, policy: str, part: str, value: Any
) -> RetryPolicy | DeadLetterPolicy | PushConfig:
    if present is not None:
        return replace(present, **{part: value})
    if policy == "retry":
        return RetryPolicy(**{part: value})
    if part == "dead_letter_topic":
        return DeadLetterPolicy(dead_letter_topic=value)
    raise InvalidArgument(
        f"update_mask: dead_letter_policy.{part} cannot be changed; the subscription has no dead "
        "letter policy. Update dead_letter_policy as a whole"
    )
