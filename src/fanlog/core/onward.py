"""Ways from topic to topic: forwards and dead letters, and whether they lead in a circle.

A subscription moves messages on in two ways: it forwards them, or it dead-letters those that fail.
A circle with a forward in it never ends by itself, so the setting that would close one is refused.
A circle of dead letters alone is left to its owners, since every round takes failed deliveries; the
hop count in the batch header ends it (`fanlog.log.seal`), as it does any other circle.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from fanlog import limits
from fanlog.core.catalog import Catalog
from fanlog.errors import InvalidArgument
from fanlog.model import endpoints, names
from fanlog.model.resources import Subscription
from fanlog.model.specs import reads


class Way(NamedTuple):
    """Messages of one topic, or of all that match a pattern, are moved on to another topic."""

    topic: str
    target: str
    is_forward: bool


def check(catalog: Catalog, name: str, way: Way, *, field: str) -> None:
    """Refuse a way of the subscription `name` that would close a circle with a forward in it.

    Raises:
        InvalidArgument: It would; or there are too many ways to see whether it does.
    """
    ways = _Ways(catalog, without=name)
    waiting = [(way.target, way.is_forward)]
    seen = set(waiting)
    while waiting:
        here, has_forward = waiting.pop()
        if has_forward and reads(way.topic, here):
            raise InvalidArgument(
                f"{field}: moving messages on to {names.shown(way.target)} makes a loop: other "
                "subscriptions forward or dead-letter them from there to what this one reads"
            )
        for onward in ways.from_topic(here, field):
            step = (onward.target, has_forward or onward.is_forward)
            if step not in seen:
                seen.add(step)
                waiting.append(step)


class _Ways:
    """All ways of a catalog, by the topic they begin at."""

    def __init__(self, catalog: Catalog, *, without: str) -> None:
        self._by_topic: defaultdict[str, list[Way]] = defaultdict(list)
        self._by_pattern: list[Way] = []
        self._tried = 0
        for subscription in catalog.subscriptions():
            if subscription.name == without or subscription.detached:
                continue
            if subscription.topic_id is None and not subscription.is_pattern:
                continue
            for way in _ways_of(subscription):
                if subscription.is_pattern:
                    self._by_pattern.append(way)
                else:
                    self._by_topic[way.topic].append(way)

    def from_topic(self, topic: str, field: str) -> list[Way]:
        """The ways that begin at a topic, by name: one that a pattern reads may be made later."""
        self._tried += len(self._by_pattern)
        if self._tried > limits.LOOP_PATTERNS_MAX:
            raise InvalidArgument(
                f"{field}: too many subscriptions on patterns move messages on, to see whether "
                "this makes a loop; name topics instead of patterns"
            )
        matching = [way for way in self._by_pattern if reads(way.topic, topic)]
        return [*self._by_topic.get(topic, ()), *matching]


def _ways_of(subscription: Subscription) -> list[Way]:
    found: list[Way] = []
    if subscription.push is not None:
        target = endpoints.forward_topic(subscription.push.endpoint, subscription.name)
        if target is not None:
            found.append(Way(subscription.topic, target, is_forward=True))
    if subscription.dead_letter is not None:
        target = subscription.dead_letter.dead_letter_topic
        found.append(Way(subscription.topic, target, is_forward=False))
    return found
