"""Topics through Google's own client: create, get, update, list, delete."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import (
    AlreadyExists,
    InvalidArgument,
    MethodNotImplemented,
    NotFound,
)
from google.protobuf.duration_pb2 import Duration
from google.pubsub_v1 import types

from server.conftest import PROJECT, RunningServer
from server.unique import unique

DAY_S = 86_400


def topic_name(topic_id: str) -> str:
    return f"projects/{PROJECT}/topics/{topic_id}"


def update(server: RunningServer, paths: list[str], **topic: object) -> types.Topic:
    return server.publisher.update_topic(
        request={"topic": topic, "update_mask": {"paths": paths}}, retry=None
    )


def test_a_topic_comes_back_as_it_was_made(server):
    name = topic_name(unique("made"))
    wanted = {
        "name": name,
        "labels": {"team": "shop", "stage": ""},
        "message_retention_duration": Duration(seconds=DAY_S, nanos=500_000_000),
    }

    made = server.publisher.create_topic(request=wanted)

    assert made == types.Topic(**wanted, state=types.Topic.State.ACTIVE)
    assert server.publisher.get_topic(topic=name) == made


def test_what_does_not_exist_is_not_found(server):
    name = topic_name(unique("missing"))
    for call in (
        lambda: server.publisher.get_topic(topic=name),
        lambda: server.publisher.delete_topic(topic=name),
        lambda: server.publisher.list_topic_subscriptions(topic=name),
        lambda: server.publisher.list_topic_snapshots(topic=name),
        lambda: server.publish(name, b"x"),
        lambda: update(server, ["labels"], name=name),
    ):
        with pytest.raises(NotFound, match=name):
            call()


def test_a_second_topic_of_a_name_is_refused_and_changes_nothing(server):
    name = server.topic(labels={"first": "yes"})
    with pytest.raises(AlreadyExists, match=name):
        server.publisher.create_topic(request={"name": name, "labels": {"second": "yes"}})
    assert server.publisher.get_topic(topic=name).labels == {"first": "yes"}


@pytest.mark.parametrize(
    "topic_id",
    ["abc", "A-_.~+%9", "a" * 255, "g00gle", "goo"],
)
def test_names_that_google_allows(server, topic_id):
    name = f"projects/{unique('project')}/topics/{topic_id}"
    assert server.publisher.create_topic(name=name).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "projects/p/topics/",
        "projects/p/topics/ab",
        "projects/p/topics/" + "a" * 256,
        "projects/p/topics/1abc",
        "projects/p/topics/-abc",
        "projects/p/topics/abc/d",
        "projects/p/topics/abc d",
        "projects/p/topics/abc\n",
        "projects/p/topics/übung",
        "projects/p/topics/goog",
        "projects/p/topics/google-news",
        "projects//topics/abc",
        "projects/p/subscriptions/abc",
        "/projects/p/topics/abc",
        "projects/p/topics/_deleted-topic_",
    ],
)
def test_names_that_are_refused(server, name):
    with pytest.raises(InvalidArgument, match="name"):
        server.publisher.create_topic(name=name)
    with pytest.raises(InvalidArgument, match="topic"):
        server.publisher.get_topic(topic=name)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ({"Upper": "x"}, "'Upper'"),
        ({"": "x"}, "key"),
        ({"1st": "x"}, "'1st'"),
        ({"k": "Upper"}, "'Upper'"),
        ({"k" * 64: "x"}, "63"),
        ({"k": "x" * 64}, "63"),
        ({"k": "sp ace"}, "'sp ace'"),
        ({f"k{n}": "x" for n in range(65)}, "65 labels; at most 64"),
        ({"fanlog-start": "now"}, "fanlog-start"),
        ({"fanlog-new": "x"}, "fanlog-new"),
    ],
)
def test_labels_that_are_refused(server, labels, sentence):
    name = topic_name(unique("labels"))
    with pytest.raises(InvalidArgument, match=sentence):
        server.publisher.create_topic(request={"name": name, "labels": labels})
    with pytest.raises(NotFound):
        server.publisher.get_topic(topic=name)


@pytest.mark.parametrize("seconds", [0, 599, 31 * DAY_S + 1, -600])
def test_retention_out_of_range_is_refused_with_its_limits(server, seconds):
    retention = {"message_retention_duration": Duration(seconds=seconds)}
    with pytest.raises(
        InvalidArgument, match=r"message_retention_duration: .*600 s.*2678400 s \(31 days\)"
    ):
        server.topic(**retention)
    name = server.topic()
    with pytest.raises(InvalidArgument, match="message_retention_duration"):
        update(server, ["message_retention_duration"], name=name, **retention)
    assert not server.publisher.get_topic(topic=name).message_retention_duration


@pytest.mark.parametrize("seconds", [600, 31 * DAY_S])
def test_retention_at_its_limits_is_accepted(server, seconds):
    name = server.topic(message_retention_duration=Duration(seconds=seconds))
    shown = server.publisher.get_topic(topic=name).message_retention_duration
    assert shown.total_seconds() == seconds


UNSUPPORTED = {
    "kms_key_name": "projects/p/locations/l/keyRings/r/cryptoKeys/k",
    "ingestion_data_source_settings": {"aws_kinesis": {"stream_arn": "arn"}},
    "message_transforms": [{"javascript_udf": {"function_name": "f", "code": "x"}}],
    "tags": {"1/2": "3"},
}


@pytest.mark.parametrize("field", UNSUPPORTED)
def test_fields_that_are_not_honoured_are_refused_by_name(server, field):
    name = topic_name(unique("unsupported"))
    asked = {"name": name, field: UNSUPPORTED[field]}
    with pytest.raises(MethodNotImplemented, match=field):
        server.publisher.create_topic(request=asked)
    with pytest.raises(NotFound):
        server.publisher.get_topic(topic=name)
    made = server.topic()
    with pytest.raises(MethodNotImplemented, match=field):
        update(server, [field], name=made, **{field: UNSUPPORTED[field]})


def test_fields_the_service_sets_are_ignored_in_a_create(server):
    name = topic_name(unique("output"))
    made = server.publisher.create_topic(
        request={
            "name": name,
            "state": types.Topic.State.INGESTION_RESOURCE_ERROR,
            "satisfies_pzs": True,
        }
    )
    assert made == types.Topic(name=name, state=types.Topic.State.ACTIVE)


def test_every_updatable_field(server):
    name = server.topic(labels={"old": "x"})

    updated = update(server, ["labels"], name=name, labels={"new": "y"})
    assert updated.labels == {"new": "y"}
    updated = update(
        server,
        ["message_retention_duration"],
        name=name,
        labels={"ignored": "not-in-the-mask"},
        message_retention_duration=Duration(seconds=3600),
    )
    assert updated.labels == {"new": "y"}
    assert updated.message_retention_duration.total_seconds() == 3600
    assert server.publisher.get_topic(topic=name) == updated

    cleared = update(server, ["labels", "message_retention_duration"], name=name)
    assert cleared == types.Topic(name=name, state=types.Topic.State.ACTIVE)
    assert server.publisher.get_topic(topic=name) == cleared


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ([], "update_mask: empty"),
        (["colour"], "'colour' is not a field"),
        (["labels", "colour"], "'colour' is not a field"),
        (["labels.team"], "labels are updated as a whole"),
        (["name"], "'name' cannot be changed"),
        (["state"], "'state' is set by the service"),
        (["satisfies_pzs"], "'satisfies_pzs' is set by the service"),
        (["*"], "is not a field"),
        (["messageRetentionDuration"], "is not a field"),
    ],
)
def test_masks_that_are_refused_change_nothing(server, paths, sentence):
    name = server.topic(labels={"before": "x"})
    with pytest.raises(InvalidArgument, match=sentence):
        update(server, paths, name=name, labels={"after": "x"})
    assert server.publisher.get_topic(topic=name).labels == {"before": "x"}


def test_a_bad_value_in_a_good_mask_changes_nothing(server):
    name = server.topic(labels={"before": "x"})
    with pytest.raises(InvalidArgument, match="message_retention_duration"):
        update(
            server,
            ["labels", "message_retention_duration"],
            name=name,
            labels={"after": "x"},
            message_retention_duration=Duration(seconds=1),
        )
    assert server.publisher.get_topic(topic=name).labels == {"before": "x"}


def test_a_deleted_topic_shows_as_such_and_its_backlog_is_still_served(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"before", b"also before")

    server.publisher.delete_topic(topic=topic)

    shown = server.subscriber.get_subscription(subscription=subscription)
    assert shown.topic == "_deleted-topic_"
    with pytest.raises(NotFound):
        server.publisher.get_topic(topic=topic)
    with pytest.raises(NotFound):
        server.publish(topic, b"after")
    server.sweep()
    assert [m.message.data for m in server.drain(subscription, 2)] == [b"before", b"also before"]
    server.subscriber.delete_subscription(subscription=subscription)


def test_a_topic_made_again_is_a_new_topic(server):
    topic, old = server.topic_and_subscription()
    server.publish(topic, b"to the old one")
    server.publisher.delete_topic(topic=topic)

    server.publisher.create_topic(name=topic)
    new = server.subscription(topic, labels={"fanlog-start": "earliest"})
    server.publish(topic, b"to the new one")

    assert server.subscriber.get_subscription(subscription=old).topic == "_deleted-topic_"
    assert list(server.publisher.list_topic_subscriptions(topic=topic)) == [new]
    assert [m.message.data for m in server.pull(old)] == [b"to the old one"]
    assert [m.message.data for m in server.pull(new)] == [b"to the new one"]


def test_subscriptions_of_a_topic_of_another_project(server):
    topic = server.topic()
    elsewhere = f"projects/{unique('elsewhere')}"
    name = f"{elsewhere}/subscriptions/reader"
    server.subscriber.create_subscription(name=name, topic=topic)
    server.publish(topic, b"across")

    assert [m.message.data for m in server.pull(name)] == [b"across"]
    assert list(server.publisher.list_topic_subscriptions(topic=topic)) == [name]
    listed = server.subscriber.list_subscriptions(project=elsewhere)
    assert [s.name for s in listed] == [name]
    here = server.subscriber.list_subscriptions(project=f"projects/{PROJECT}")
    assert name not in [s.name for s in here]
