"""Hints: what a caller should know about a request that was done as it was asked for.

A call may have several. They are sentences; the server says them beside its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanlog.model import names
from fanlog.model.resources import Subscription
from fanlog.model.specs import subscription_spec_of

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker


def of_new(broker: Broker, subscription: Subscription) -> list[str]:
    """About a subscription that was just made."""
    found = (
        _pattern_hint(broker, subscription),
        broker.admin.rules.why_without(subscription_spec_of(subscription)),
        _dead_letter_hint(broker, subscription),
    )
    return [hint for hint in found if hint]


def of_changed(broker: Broker, subscription: Subscription) -> list[str]:
    """About a subscription whose settings were just changed."""
    hint = _dead_letter_hint(broker, subscription)
    return [] if hint is None else [hint]


def _pattern_hint(broker: Broker, subscription: Subscription) -> str | None:
    """Of a pattern that matches nothing although it looks as if it did."""
    if not subscription.is_pattern or broker.hard.shares_of(subscription):
        return None
    name = names.parse_topic_or_pattern(subscription.topic)
    prefix = names.topic_name(name.project, "")
    topics = broker.hard.catalog.topic_names(prefix, "")
    return names.undotted_hint(name.id, [topic[len(prefix) :] for topic in topics])


def _dead_letter_hint(broker: Broker, subscription: Subscription) -> str | None:
    """Of a dead letter topic that keeps nothing: neither a subscription nor a retention does."""
    policy = subscription.dead_letter
    topic = None if policy is None else broker.hard.catalog.find_topic(policy.dead_letter_topic)
    if topic is None or broker.retention.kept(topic).by != "nobody":
        return None
    shares = (share for one in topic.partitions for share in broker.hard.shares_on(one))
    if any(not share.settings.detached for share in shares):
        return None
    return (
        f"dead letter topic {topic.name!r} has no subscription and no retention: dead letters are "
        "lost there until it has one or the other"
    )
