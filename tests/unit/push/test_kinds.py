"""Whether and how messages of a subscription are moved on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanlog.model.resources import PushConfig, Subscription, SubscriptionId, TopicId
from fanlog.push.rules.kinds import is_pushed, kind_of

PUSHED = Subscription(
    id=SubscriptionId(1),
    name="projects/p/subscriptions/s",
    topic="projects/p/topics/t",
    topic_id=TopicId(1),
    partitions=(),
    push=PushConfig(endpoint="http://8.8.8.8/"),
)


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [
        ("http://a.org/", "web"),
        ("https://a.org/grpc", "web"),
        ("grpc://a.org:80", "grpc"),
        ("grpcs://a.org", "grpc"),
        ("topic:copies", "topic"),
    ],
)
def test_kinds(endpoint, kind):
    assert kind_of(PushConfig(endpoint=endpoint)) == kind


def test_push_that_is_set_and_on():
    assert is_pushed(PUSHED)
    assert not is_pushed(None)
    assert not is_pushed(replace(PUSHED, push=None))
    assert not is_pushed(replace(PUSHED, push_off="HTTP 410"))
    assert not is_pushed(replace(PUSHED, detached=True))
