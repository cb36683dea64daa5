"""Quotas of a running server: each kind of resource is refused by the name of its quota."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import AlreadyExists, ResourceExhausted

from fanlog.client import CallFailed, Client
from fanlog.client.jobs import JobClient
from fanlog.model.quotas import Quotas
from server.conftest import RunningServer
from server.registry import Registry

QUOTAS = Quotas(
    topics=3,
    subscriptions=3,
    snapshots=1,
    schemas=1,
    schema_revisions=2,
    label_bytes=10,
    patterns=2,
    glob_shapes=1,
    waiting_jobs=1,
)
PROJECT = "projects/test"


@pytest.fixture
def server(start_server) -> RunningServer:
    return start_server("embedded", quotas=QUOTAS)


def test_topics_and_their_labels(server):
    for number in range(3):
        server.topic(name=f"{PROJECT}/topics/topic-{number}")
    with pytest.raises(ResourceExhausted, match="topics=3"):
        server.topic(name=f"{PROJECT}/topics/topic-3")
    # One that is there is that, whatever the quota says; other projects have their own.
    with pytest.raises(AlreadyExists):
        server.topic(name=f"{PROJECT}/topics/topic-0")
    server.topic(name="projects/other/topics/topic-0")
    server.publisher.delete_topic(topic=f"{PROJECT}/topics/topic-0")
    with pytest.raises(ResourceExhausted, match="label-bytes=10"):
        server.topic(name=f"{PROJECT}/topics/topic-3", labels={"colour": "black"})
    server.topic(name=f"{PROJECT}/topics/topic-3", labels={"colour": "blue"})


def test_labels_of_an_update(server):
    topic = server.topic(labels={"colour": "blue"})
    changed = {"name": topic, "labels": {"colour": "black"}}
    with pytest.raises(ResourceExhausted, match="label-bytes=10"):
        server.publisher.update_topic(
            request={"topic": changed, "update_mask": {"paths": ["labels"]}}
        )
    shorter = {"name": topic, "labels": {"colour": "red"}}
    server.publisher.update_topic(request={"topic": shorter, "update_mask": {"paths": ["labels"]}})


def test_subscriptions_and_what_they_bring_along(server):
    topic = server.topic()
    server.subscription(topic)
    server.subscription(topic)
    # Its dead letter topic has a reader: that would be the fourth.
    with pytest.raises(ResourceExhausted, match="subscriptions=3"):
        server.subscription(topic, labels={"fanlog-dead-letter": "auto"})
    assert len(list(server.publisher.list_topics(project=PROJECT))) == 1
    server.subscription(topic)
    with pytest.raises(ResourceExhausted, match="subscriptions=3"):
        server.subscription(topic)


def test_patterns_and_their_globs(server):
    server.subscription(f"{PROJECT}/topics/eu-*")
    with pytest.raises(ResourceExhausted, match="glob-shapes=1"):
        server.subscription(f"{PROJECT}/topics/*-eu-long")
    # The same shape costs nothing more.
    server.subscription(f"{PROJECT}/topics/us-*")
    with pytest.raises(ResourceExhausted, match="patterns=2"):
        server.subscription(f"{PROJECT}/topics/#")


def test_snapshots(server):
    _, subscription = server.topic_and_subscription()
    for name, is_refused in (("one", False), ("two", True)):
        request = {"name": f"{PROJECT}/snapshots/{name}", "subscription": subscription}
        if is_refused:
            with pytest.raises(ResourceExhausted, match="snapshots=1"):
                server.subscriber.create_snapshot(request=request)
        else:
            server.subscriber.create_snapshot(request=request)


def test_schemas_and_revisions(server):
    registry = Registry(server)
    definition = '{"type": "record", "name": "R", "fields": []}'
    made = registry.create(definition)
    with pytest.raises(ResourceExhausted, match="schemas=1"):
        registry.create(definition)
    registry.commit(made.name, definition)
    with pytest.raises(ResourceExhausted, match="schema-revisions=2"):
        registry.commit(made.name, definition)


def test_waiting_jobs(server):
    with Client(server.endpoint) as client:
        jobs = JobClient(client)
        first = jobs.create(PROJECT, "expire", {}, job_id="first")
        with pytest.raises(CallFailed, match="waiting-jobs=1") as refused:
            jobs.create(PROJECT, "expire", {})
        assert refused.value.status == "RESOURCE_EXHAUSTED"
        # Asking again for the same is asking once.
        jobs.create(PROJECT, "expire", {}, job_id="first")
        jobs.cancel(first.name)
        jobs.create(PROJECT, "expire", {})


def test_what_is_over_a_quota_after_a_restart_stays(server):
    for number in range(3):
        server.topic(name=f"{PROJECT}/topics/topic-{number}")
    server.restart()
    assert len(list(server.publisher.list_topics(project=PROJECT))) == 3
    with pytest.raises(ResourceExhausted, match="topics=3"):
        server.topic(name=f"{PROJECT}/topics/topic-3")
