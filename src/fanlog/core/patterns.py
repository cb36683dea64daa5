"""Subscriptions on patterns of topic names, found by a topic's name. Derived from the catalog.

Matched once, when a topic is created: a publish does not know of patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fanlog.model import names
from fanlog.model.quotas import Quotas, Usage
from fanlog.model.resources import Subscription, SubscriptionId
from fanlog.routing.pattern import PatternTrie


class Patterns:
    """A trie for each project, since projects are no part of a pattern."""

    def __init__(self) -> None:
        self._tries: dict[str, PatternTrie[SubscriptionId]] = {}
        #: How many shapes of globs there are, for quotas.
        self.usage = Usage()

    def check(self, topic: str, quotas: Quotas) -> None:
        """Refuse a pattern if its globs would make every new topic cost too much.

        Raises:
            ResourceExhausted: Names the quota.
        """
        name = names.parse_topic_or_pattern(topic)
        trie = self._tries.get(name.project) or PatternTrie[SubscriptionId]()
        quotas.check("glob_shapes", name.project, self.usage, trie.count_missing_shapes(name.id))

    def add(self, subscription: Subscription) -> None:
        if subscription.is_pattern:
            name = names.parse_topic_or_pattern(subscription.topic)
            trie = self._tries.setdefault(name.project, PatternTrie())
            with self._counting(name.project, trie):
                trie.insert(name.id, subscription.id)

    def remove(self, subscription: Subscription) -> None:
        if subscription.is_pattern:
            name = names.parse_topic_or_pattern(subscription.topic)
            trie = self._tries[name.project]
            with self._counting(name.project, trie):
                trie.remove(name.id, subscription.id)

    def match(self, topic: str) -> Iterator[SubscriptionId]:
        """The subscriptions on patterns that match a topic's full name."""
        name = names.parse_topic(topic)
        trie = self._tries.get(name.project)
        return iter(()) if trie is None else iter(trie.matches(name.id))

    @contextmanager
    def _counting(self, project: str, trie: PatternTrie[SubscriptionId]) -> Iterator[None]:
        before = trie.stats().shapes
        yield
        self.usage.change(project, {"glob_shapes": trie.stats().shapes - before}, 1)
