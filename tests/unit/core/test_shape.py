"""Records with sound bytes and unsound content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fanlog.core.shape import check_shape
from fanlog.model.resources import (
    DeadLetterPolicy,
    PartitionId,
    RetryPolicy,
    Subscription,
    SubscriptionId,
    TopicId,
)

GOOD = Subscription(
    id=SubscriptionId(3),
    name="projects/p/subscriptions/s",
    topic="projects/p/topics/t",
    topic_id=TopicId(1),
    partitions=(PartitionId(2),),
    labels={"a": "b"},
    dead_letter=DeadLetterPolicy(dead_letter_topic="projects/p/topics/d"),
    retry=RetryPolicy(minimum_backoff_s=1),
    created_s=5,
)


def test_what_the_types_say_passes():
    check_shape(GOOD)
    check_shape(replace(GOOD, topic_id=None, dead_letter=None, retry=None, labels={}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "3"),
        ("id", True),
        ("name", None),
        ("topic_id", 1.5),
        ("partitions", [2]),
        ("partitions", ("2",)),
        ("labels", None),
        ("labels", {"a": 1}),
        ("labels", ["a"]),
        ("detached", 0),
        ("created_s", "now"),
        ("retry", {"minimum_backoff_s": 1}),
        ("dead_letter", DeadLetterPolicy(dead_letter_topic=5)),  # type: ignore[arg-type]
    ],
)
def test_anything_else_is_named(field: str, value: Any):
    with pytest.raises(TypeError, match=field):
        check_shape(replace(GOOD, **{field: value}))
