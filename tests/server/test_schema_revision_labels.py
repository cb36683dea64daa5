"""Which revisions a subscription may ask for, and what becomes of those that go."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions

from fanlog.config import PROJECT_DEFAULT
from server.registry import JSON
from server.revised import BACKWARDS, LABEL, REASON, WHY, World


@pytest.fixture
def orders(server):
    return World(server)


# What a subscription may ask for.


def test_what_cannot_be_asked_for(orders):
    server = orders.server
    bare = server.topic()
    with pytest.raises(exceptions.FailedPrecondition, match="has no schema, so there is no rev"):
        server.subscription(bare, labels={LABEL: orders.new})
    with pytest.raises(exceptions.NotFound, match="has no revision '00000000'"):
        orders.subscription("00000000")
    other = World(server)
    with pytest.raises(exceptions.NotFound, match=f"has no revision '{other.new}'"):
        orders.subscription(other.new)
    with pytest.raises(exceptions.InvalidArgument, match=f"label {LABEL}: 'newest' is not a rev"):
        orders.subscription("newest")
    with pytest.raises(exceptions.InvalidArgument, match="is not a revision; one is"):
        server.subscription(orders.topic, labels={LABEL: ""})
    with pytest.raises(exceptions.InvalidArgument, match="is a pattern, and its topics may have"):
        server.subscription(f"projects/{PROJECT_DEFAULT}/topics/revised.#", labels={LABEL: "0" * 8})
    with pytest.raises(exceptions.InvalidArgument, match="not a label this service knows on a t"):
        server.topic(labels={LABEL: orders.new})


def test_what_cannot_be_changed_to(orders):
    name = orders.subscription()
    with pytest.raises(exceptions.NotFound, match="has no revision"):
        orders.relabel(name, {LABEL: "00000000"})
    orders.relabel(name, {LABEL: orders.old})
    orders.server.publisher.delete_topic(topic=orders.topic)
    with pytest.raises(exceptions.NotFound, match="_deleted-topic_"):
        orders.relabel(name, {LABEL: orders.new})
    orders.relabel(name, {LABEL: orders.old, "team": "shop"})


def test_an_old_revision_that_the_topic_no_longer_takes(orders):
    """Readers may be behind: what is accepted is for publishers."""
    settings = {"schema": orders.schema, "encoding": JSON, "first_revision_id": orders.new}
    topic = orders.server.topic(schema_settings=settings)
    name = orders.server.subscription(topic, labels={LABEL: orders.old})
    orders.server.publish(topic, BACKWARDS)
    [one] = orders.server.pull(name)
    assert WHY in one.message.attributes[REASON]


# Revisions and schemas that go.


def delete(orders, revision):
    orders.registry.client.delete_schema_revision(request={"name": f"{orders.schema}@{revision}"})


def test_a_revision_that_is_asked_for_stays(orders):
    name = orders.subscription(orders.old)
    with pytest.raises(exceptions.FailedPrecondition, match=f"'{name}' asks for revision"):
        delete(orders, orders.old)
    orders.relabel(name, {})
    delete(orders, orders.old)


def test_messages_of_a_revision_that_was_deleted(orders):
    name = orders.subscription()
    orders.publish()
    delete(orders, orders.old)
    [one] = orders.server.pull(name)
    assert one.message.data == orders.case.before
    assert one.message.attributes[REASON] == (
        f"written in {orders.old}, wanted in {orders.new}: "
        f"schema '{orders.schema}' has no revision '{orders.old}'"
    )


def test_a_schema_that_was_deleted(orders):
    name = orders.subscription()
    orders.publish(BACKWARDS, orders.case.before)
    orders.registry.client.delete_schema(name=orders.schema)
    same, other = orders.server.pull(name)
    assert same.message.data == BACKWARDS
    assert REASON not in same.message.attributes
    assert other.message.attributes[REASON].endswith(f"schema '{orders.schema}' does not exist")
    with pytest.raises(exceptions.FailedPrecondition, match="has one that was deleted"):
        orders.subscription()


def test_a_topic_keeps_the_schema_whose_revision_is_asked_for(orders):
    name, server = orders.subscription(), orders.server
    other = orders.registry.create()

    def update(settings: dict[str, Any]) -> Any:
        return server.publisher.update_topic(
            request={
                "topic": {"name": orders.topic, "schema_settings": settings},
                "update_mask": {"paths": ["schema_settings"]},
            }
        )

    for settings in ({}, {"schema": other.name, "encoding": JSON}):
        with pytest.raises(exceptions.FailedPrecondition, match=f"'{name}' asks for revision"):
            update(settings)
    update({"schema": orders.schema, "encoding": JSON, "first_revision_id": orders.new})
    orders.relabel(name, {})
    update({"schema": other.name, "encoding": JSON})
