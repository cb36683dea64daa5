"""Subscriptions on patterns of topic names, found by a topic's name. Derived from the catalog."""

from __future__ import annotations

from collections.abc import Iterator

from fanlog import names
from fanlog.model import Subscription, SubscriptionId
from fanlog.routing.pattern import PatternTrie


class Patterns:
    """A trie for each project, since projects are no part of a pattern."""

    def __init__(self) -> None:
        self._tries: dict[str, PatternTrie[SubscriptionId]] = {}

    def add(self, subscription: Subscription) -> None:
        if subscription.is_pattern:
            name = names.parse_topic_or_pattern(subscription.topic)
            self._tries.setdefault(name.project, PatternTrie()).insert(name.id, subscription.id)

    def remove(self, subscription: Subscription) -> None:
        if subscription.is_pattern:
            name = names.parse_topic_or_pattern(subscription.topic)
            self._tries[name.project].remove(name.id, subscription.id)

    def matching(self, topic: str) -> Iterator[SubscriptionId]:
        """Subscriptions whose pattern matches a topic's full name."""
        name = names.parse_topic(topic)
        trie = self._tries.get(name.project)
        return iter(()) if trie is None else iter(trie.matches(name.id))
