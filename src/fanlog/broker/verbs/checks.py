"""Checks that the verbs of resources share: quotas, dead letter topics, forwards."""

from __future__ import annotations

from collections.abc import Mapping

from fanlog.core import onward
from fanlog.core.catalog import Catalog, label_bytes
from fanlog.errors import InvalidArgument, TopicNotFound
from fanlog.model import endpoints, names
from fanlog.model.attributes import LABEL_ORDERING
from fanlog.model.quotas import Quotas
from fanlog.model.resources import DEFAULT_ORDERING, DeadLetterPolicy, PushConfig


def check_quota(
    catalog: Catalog,
    quotas: Quotas,
    noun: str,
    name: str,
    labels: Mapping[str, str],
    more: int = 1,
    maker: str | None = None,
) -> None:
    """Raises ResourceExhausted: A quota leaves no room for a resource with these labels."""
    usage, project = catalog.usage, names.project_of(name)
    quotas.check(noun, project, usage, more, maker)
    quotas.check("label_bytes", project, usage, label_bytes(labels))


def check_labels(
    catalog: Catalog,
    quotas: Quotas,
    name: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    """Raises ResourceExhausted: A quota leaves no room for longer labels."""
    more = label_bytes(after) - label_bytes(before)
    quotas.check("label_bytes", names.project_of(name), catalog.usage, more)


def check_dead_letters(
    catalog: Catalog, name: str, topic: str, policy: DeadLetterPolicy, *, is_made: bool = False
) -> None:
    """Check where the subscription `name` on `topic` sends its dead letters.

    Args:
        is_made: The dead letter topic is made along with the subscription.

    Raises:
        TopicNotFound: The dead letter topic does not exist.
        InvalidArgument: Dead letters would go in a circle, or to a topic with an order of its own.
    """
    target, field = policy.dead_letter_topic, "dead_letter_policy.dead_letter_topic"
    if catalog.find_topic(target) is None and not is_made:
        raise TopicNotFound(f"{field}: topic {target!r} does not exist")
    _check_copies(catalog, target, field)
    onward.check(catalog, name, onward.Way(topic, target, is_forward=False), field=field)


def check_topic_order(catalog: Catalog, name: str, labels: Mapping[str, str]) -> None:
    """Check that nobody makes copies to a topic that is to be made with an order of its own.

    Raises:
        InvalidArgument: A subscription forwards to it, or sends its dead letters there.
    """
    if labels.get(LABEL_ORDERING, DEFAULT_ORDERING) == DEFAULT_ORDERING:
        return
    for other in catalog.subscriptions():
        forward = None
        if other.push is not None:
            forward = endpoints.forward_topic(other.push.endpoint, other.name)
        letters = None if other.dead_letter is None else other.dead_letter.dead_letter_topic
        if name in (forward, letters):
            raise InvalidArgument(
                f"label {LABEL_ORDERING}: {other.name!r} makes copies to this topic, which keep "
                "their ordering keys; it must be ordered by 'key'"
            )


def _check_copies(catalog: Catalog, target: str, field: str) -> None:
    topic = catalog.find_topic(target)
    if topic is not None and topic.ordering != DEFAULT_ORDERING:
        raise InvalidArgument(
            f"{field}: topic {target!r} is ordered by {topic.ordering!r} (its label "
            f"{LABEL_ORDERING}); copies keep their ordering keys, and need one ordered by 'key'"
        )


def check_forward(catalog: Catalog, name: str, topic: str, push: PushConfig | None) -> None:
    """Check the topic that the subscription `name` on `topic` forwards to, if it does.

    Called in the turn of the loop in which the setting is applied: two subscriptions that are made
    at the same time could otherwise close a loop that neither sees.

    Raises:
        InvalidArgument: The forwarded messages would come back, or the topic has an order of its
            own.
        TopicNotFound: It forwards to a topic that does not exist.
    """
    target = None if push is None else endpoints.forward_topic(push.endpoint, name)
    if target is not None:
        if catalog.find_topic(target) is None:
            raise TopicNotFound(f"{endpoints.FIELD}: topic {target!r} does not exist")
        _check_copies(catalog, target, endpoints.FIELD)
        way = onward.Way(topic, target, is_forward=True)
        onward.check(catalog, name, way, field=endpoints.FIELD)
