"""Topics and subscriptions that ask for nothing are told apart by their labels: by which ones."""

from __future__ import annotations

import pytest

from fanlog.model import attributes
from fanlog.model.labels import SUBSCRIPTION_LABELS, TOPIC_LABELS
from fanlog.model.resources import (
    PartitionId,
    SchemaSettings,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)

#: Of topics: what a publish is not to pass by.
PARTICULAR = {
    attributes.LABEL_ORDERING: "total",
    attributes.LABEL_PUBLISH_RATE: "10",
    attributes.LABEL_PUBLISH_BYTES_RATE: "10",
}
#: Of topics: read by those who use them, or nothing without one of the others.
FREE = {
    attributes.LABEL_PUBLISH_BURST,
    attributes.LABEL_PUBLISH_BYTES_BURST,
    attributes.LABEL_DEDUP_WINDOW,
    attributes.LABEL_ARCHIVE,
    attributes.LABEL_GAP_TIMEOUT,
    attributes.LABEL_PUBLISHER_LIFE,
}
#: Of subscriptions: what a delivery is not to pass by.
CHANGING = {
    attributes.LABEL_SCHEMA_REVISION: "1",
    attributes.LABEL_BACKLOG_POLICY: "sample",
    attributes.LABEL_ASSIGNMENT: "sticky",
    attributes.LABEL_MAX_OUTSTANDING_MESSAGES: "1",
    attributes.LABEL_MAX_OUTSTANDING_BYTES: "1",
}


def topic(**settings: object) -> Topic:
    partitions = (PartitionId(1),)
    return Topic(id=TopicId(1), name="projects/p/topics/t", partitions=partitions, **settings)  # type: ignore[arg-type]


def subscription(labels: dict[str, str]) -> Subscription:
    return Subscription(
        id=SubscriptionId(1),
        name="projects/p/subscriptions/s",
        topic="projects/p/topics/t",
        topic_id=TopicId(1),
        partitions=(PartitionId(1),),
        labels=labels,
    )


def test_every_label_of_topics_is_decided_about() -> None:
    assert PARTICULAR.keys() | FREE == TOPIC_LABELS
    assert not PARTICULAR.keys() & FREE


@pytest.mark.parametrize("label", sorted(PARTICULAR))
def test_a_topic_that_looks_at_messages_is_not_plain(label: str) -> None:
    assert not topic(labels={label: PARTICULAR[label]}).is_plain


def test_a_topic_with_a_schema_is_not_plain() -> None:
    settings = SchemaSettings(schema="projects/p/schemas/s", encoding="JSON")
    assert not topic(schema_settings=settings).is_plain


def test_other_labels_leave_a_topic_plain() -> None:
    assert topic().is_plain
    assert topic(labels={"env": "prod", **dict.fromkeys(FREE, "1")}).is_plain


@pytest.mark.parametrize("label", sorted(SUBSCRIPTION_LABELS))
def test_what_a_plain_subscription_has(label: str) -> None:
    found = subscription({"env": "prod", label: CHANGING.get(label, "1")})
    assert found.is_plain == (label not in CHANGING)
    if found.is_plain:
        assert not found.schema_revision
        assert not found.key_slots
        assert found.window == (0, 0)
        policy = found.backlog_policy
        assert policy is None or policy.way == "keep"
