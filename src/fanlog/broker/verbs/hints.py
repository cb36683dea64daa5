"""Hints: sentences for the caller about a request that was done as it was asked for.

A call may have several. The server says them beside its answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.broker.ports import ForwardDenial
from fanlog.broker.retention.retention import Retention
from fanlog.broker.transaction import Ledger
from fanlog.model import endpoints, names
from fanlog.model.resources import Subscription
from fanlog.model.server_rules import ServerRules
from fanlog.model.specs import subscription_spec_of


@dataclass(eq=False)
class Hints:
    """Hints about the subscriptions of one broker."""

    _ledger: Ledger
    _retention: Retention
    _rules: ServerRules
    _forward_denial: ForwardDenial

    def of_new(self, subscription: Subscription) -> list[str]:
        """About a subscription that was just made."""
        found = (
            self._pattern_hint(subscription),
            self._default_hint(subscription),
            self._order_hint(subscription),
            self._dead_letter_hint(subscription),
            self._forward_hint(subscription),
            self.of_waiting_letters(subscription),
        )
        return [hint for hint in found if hint]

    def of_changed(self, subscription: Subscription) -> list[str]:
        """About a subscription with other settings than before."""
        found = (self._dead_letter_hint(subscription), self.of_waiting_letters(subscription))
        return [hint for hint in found if hint]

    def of_waiting_letters(self, subscription: Subscription) -> str:
        """About dead letters that the server may not publish just now; empty when it may."""
        policy = subscription.dead_letter
        if policy is None:
            return ""
        denial = self._forward_denial(self._ledger.hard, policy.dead_letter_topic)
        return f"dead letters wait: {denial}" if denial else ""

    def _forward_hint(self, subscription: Subscription) -> str:
        """Of a topic that the server may not forward to."""
        push = subscription.push
        topic = push and endpoints.forward_topic(push.endpoint, subscription.name)
        denial = self._forward_denial(self._ledger.hard, topic) if topic else ""
        return f"forwarding waits: {denial}" if denial else ""

    def of_nack(self, name: str) -> list[str]:
        """About a nack on a subscription."""
        catalog = self._ledger.hard.catalog
        if not (catalog.has_subscription(name) and catalog.subscription(name).is_at_most_once):
            return []
        hint = (
            "the subscription delivers at most once: its messages were acknowledged when they were "
            "sent, and a nack changes nothing"
        )
        return [hint]

    def _default_hint(self, subscription: Subscription) -> str:
        """Of the server's default, which this one does not have."""
        if self._rules.dead_letter_default == "none":
            return ""
        return self._rules.why_without(subscription_spec_of(subscription))

    def _order_hint(self, subscription: Subscription) -> str | None:
        """Of a topic with an order of its own, which this one does not keep."""
        topic = self._ledger.hard.catalog.topic_by_id(subscription.topic_id)
        if topic is None or topic.ordering not in ("publisher", "total"):
            return None
        if subscription.enable_message_ordering:
            return None
        return (
            f"the topic is ordered by {topic.ordering!r}, and the subscription does not keep that "
            "order: enable_message_ordering is not set, and cannot be set later"
        )

    def _pattern_hint(self, subscription: Subscription) -> str | None:
        """Of a pattern that matches nothing although it looks as if it did."""
        hard = self._ledger.hard
        if not subscription.is_pattern or hard.shares_of(subscription):
            return None
        name = names.parse_topic_or_pattern(subscription.topic)
        prefix = names.topic_name(name.project, "")
        topics = hard.catalog.topic_names(prefix, "")
        return names.undotted_hint(name.id, [topic[len(prefix) :] for topic in topics])

    def _dead_letter_hint(self, subscription: Subscription) -> str | None:
        """Of a dead letter topic without a subscription or a retention: it keeps no messages."""
        hard, policy = self._ledger.hard, subscription.dead_letter
        topic = None if policy is None else hard.catalog.find_topic(policy.dead_letter_topic)
        if topic is None or self._retention.of_topic(topic).by != "nobody":
            return None
        shares = (share for one in topic.partitions for share in hard.shares_on(one))
        if any(not share.settings.detached for share in shares):
            return None
        return (
            f"dead letter topic {topic.name!r} has no subscription and no retention: dead letters "
            "are lost there until it has one or the other"
        )
