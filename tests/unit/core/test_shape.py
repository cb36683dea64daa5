"""Records with sound bytes and unsound content."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from fanlog.core.shape import reader
from fanlog.model.resources import (
    DeadLetterPolicy,
    FilterChange,
    PartitionId,
    PushConfig,
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


STORED = json.loads(json.dumps(asdict(GOOD)))
read = reader(Subscription, {PushConfig: ("webhook_secrets",)})


def test_what_the_types_say_passes():
    assert read(STORED) == GOOD
    none = {"topic_id": None, "dead_letter": None, "retry": None, "labels": {}}
    assert read(STORED | none) == replace(GOOD, **none)


def test_lists_become_tuples_and_objects_dataclasses():
    push = {"endpoint": "https://x.y", "webhook_secrets": ["whsec_a", "whsec_b"]}
    changes = [{"filter": "a", "before_sequence": 1}, {"filter": "", "before_sequence": 2}]
    found = read(STORED | {"push": push, "filter_changes": changes})
    assert found.push == PushConfig(endpoint="https://x.y", webhook_secrets=("whsec_a", "whsec_b"))
    assert found.filter_changes == (
        FilterChange(filter="a", before_sequence=1),
        FilterChange(filter="", before_sequence=2),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "3"),
        ("id", True),
        ("name", None),
        ("topic_id", 1.5),
        ("partitions", 2),
        ("partitions", "2"),
        ("partitions", ["2"]),
        ("labels", None),
        ("labels", {"a": 1}),
        ("labels", ["a"]),
        ("detached", 0),
        ("created_s", "now"),
        ("retry", 1),
        ("retry", {"minimum_backoff_s": "1"}),
        ("retry", {"backoff_s": 1}),
        ("dead_letter", {"dead_letter_topic": 5}),
        ("dead_letter", {}),
        ("filter_changes", [{}]),
        ("files", {"bucket": "b", "format": "xml"}),
        ("push", {"endpoint": "https://x.y"}),
        ("unheard_of", 1),
    ],
)
def test_anything_else_is_named(field: str, value: object):
    with pytest.raises(TypeError, match=f"^{field}"):
        read(STORED | {field: value})


@pytest.mark.parametrize("stored", [None, 1, "x", [], [["id", 3]]])
def test_only_an_object_has_fields(stored: object):
    with pytest.raises(TypeError, match="cannot be of type"):
        read(stored)


def test_a_field_without_a_default_must_be_there():
    with pytest.raises(TypeError, match="name"):
        read({name: value for name, value in STORED.items() if name != "name"})
    fewer = {name: value for name, value in STORED.items() if name != "labels"}
    assert read(fewer) == replace(GOOD, labels={})


def test_errors_have_no_secrets():
    push = {"endpoint": "https://x.y", "webhook_secrets": ["whsec_a", 5]}
    with pytest.raises(TypeError) as caught:
        read(STORED | {"push": push})
    assert str(caught.value) == "push: webhook_secrets: cannot be of type int"
