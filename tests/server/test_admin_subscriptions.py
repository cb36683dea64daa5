"""Subscriptions through Google's own client: create, get, update, detach, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.api_core.exceptions import (
    AlreadyExists,
    FailedPrecondition,
    GoogleAPICallError,
    InvalidArgument,
    MethodNotImplemented,
    NotFound,
    OutOfRange,
)
from google.protobuf.duration_pb2 import Duration
from google.pubsub_v1 import types

from server.conftest import PROJECT, RunningServer
from server.unique import unique

DAY_S = 86_400
#: What a subscription is when nothing is said: Google's defaults.
DEFAULTS = {
    "push_config": {},
    "ack_deadline_seconds": 10,
    "message_retention_duration": Duration(seconds=7 * DAY_S),
    "expiration_policy": {"ttl": Duration(seconds=31 * DAY_S)},
    "state": types.Subscription.State.ACTIVE,
}


def subscription_name(subscription_id: str) -> str:
    return f"projects/{PROJECT}/subscriptions/{subscription_id}"


def update(server: RunningServer, paths: list[str], **subscription: Any) -> types.Subscription:
    return server.subscriber.update_subscription(
        request={"subscription": subscription, "update_mask": {"paths": paths}}, retry=None
    )


def get(server: RunningServer, name: str) -> types.Subscription:
    return server.subscriber.get_subscription(subscription=name)


def test_defaults_are_googles(server):
    topic = server.topic()
    name = server.subscription(topic)
    assert get(server, name) == types.Subscription(name=name, topic=topic, **DEFAULTS)


def test_a_subscription_comes_back_as_it_was_made(server):
    topic = server.topic(message_retention_duration=Duration(seconds=3600))
    dead = server.topic()
    name = subscription_name(unique("made"))
    wanted = {
        "name": name,
        "topic": topic,
        "push_config": {},
        "ack_deadline_seconds": 600,
        "retain_acked_messages": True,
        "message_retention_duration": Duration(seconds=600),
        "labels": {"team": "shop"},
        "enable_message_ordering": True,
        "enable_exactly_once_delivery": True,
        "expiration_policy": {"ttl": Duration(seconds=DAY_S)},
        "dead_letter_policy": {"dead_letter_topic": dead, "max_delivery_attempts": 7},
        "retry_policy": {
            "minimum_backoff": Duration(seconds=1, nanos=500_000_000),
            "maximum_backoff": Duration(seconds=20),
        },
    }

    made = server.subscriber.create_subscription(request=wanted)

    assert made == types.Subscription(
        **wanted,
        state=types.Subscription.State.ACTIVE,
        topic_message_retention_duration=Duration(seconds=3600),
    )
    assert get(server, name) == made
    assert made in list(server.subscriber.list_subscriptions(project=f"projects/{PROJECT}"))


def test_an_expiration_policy_without_ttl_never_expires(server):
    name = server.subscription(server.topic(), expiration_policy={})
    assert "ttl" not in get(server, name).expiration_policy


def test_what_does_not_exist_is_not_found(server):
    topic = server.topic()
    missing = subscription_name(unique("missing"))
    for call in (
        lambda: get(server, missing),
        lambda: server.subscriber.delete_subscription(subscription=missing),
        lambda: server.pull(missing),
        lambda: server.publisher.detach_subscription(request={"subscription": missing}),
        lambda: server.subscriber.modify_push_config(subscription=missing, push_config={}),
        lambda: update(server, ["labels"], name=missing, topic=topic),
    ):
        with pytest.raises(NotFound, match=missing):
            call()
    no_topic = f"projects/{PROJECT}/topics/missing"
    with pytest.raises(NotFound, match=no_topic):
        server.subscription(no_topic)
    with pytest.raises(NotFound, match=f"dead_letter_topic.*{no_topic}"):
        server.subscription(topic, dead_letter_policy={"dead_letter_topic": no_topic})


def test_one_without_a_name_gets_one_in_the_project_of_its_topic(server):
    elsewhere = f"projects/{unique('elsewhere')}"
    topic = server.topic(name=f"{elsewhere}/topics/orders")
    made = [server.subscriber.create_subscription(request={"topic": topic}) for _ in range(2)]
    first, second = (one.name for one in made)
    assert first != second
    assert first.startswith(f"{elsewhere}/subscriptions/")
    server.publish(topic, b"0")
    assert [one.message.data for one in server.pull(second)] == [b"0"]
    # On a pattern, too; and the dead letter topic is called by the name that it got.
    labels = {"fanlog-dead-letter": "auto"}
    request = {"topic": f"{elsewhere}/topics/o*", "labels": labels}
    third = server.subscriber.create_subscription(request=request)
    own = third.name.replace("/subscriptions/", "/topics/") + ".dead-letters"
    assert third.dead_letter_policy.dead_letter_topic == own
    with pytest.raises(InvalidArgument, match="topic: a name is required"):
        server.subscriber.create_subscription(request={"labels": {"a": "b"}})


def test_a_second_subscription_of_a_name_is_refused(server):
    topic, name = server.topic_and_subscription()
    with pytest.raises(AlreadyExists, match=name):
        server.subscriber.create_subscription(name=name, topic=topic)


def test_a_deleted_subscription_is_gone_and_its_name_free(server):
    topic, name = server.topic_and_subscription()
    server.publish(topic, b"old")
    server.subscriber.delete_subscription(subscription=name)
    with pytest.raises(NotFound):
        get(server, name)
    assert list(server.publisher.list_topic_subscriptions(topic=topic)) == []
    server.subscriber.create_subscription(name=name, topic=topic)
    assert server.pull(name) == []


OUT_OF_RANGE: list[tuple[dict[str, Any], type[GoogleAPICallError], str]] = [
    ({"ack_deadline_seconds": 9}, InvalidArgument, "ack_deadline_seconds: 9 .*10 to 600"),
    ({"ack_deadline_seconds": 601}, InvalidArgument, "ack_deadline_seconds: 601 .*10 to 600"),
    ({"ack_deadline_seconds": -1}, InvalidArgument, "ack_deadline_seconds: -1"),
    (
        {"message_retention_duration": Duration(seconds=599)},
        InvalidArgument,
        "message_retention_duration: 599 s",
    ),
    (
        {"message_retention_duration": Duration(seconds=31 * DAY_S, nanos=1_000_000)},
        InvalidArgument,
        "message_retention_duration",
    ),
    (
        {"expiration_policy": {"ttl": Duration(seconds=DAY_S - 1)}},
        InvalidArgument,
        r"expiration_policy.ttl: 86399 s .*86400 s \(1 day\)",
    ),
    (
        {"expiration_policy": {"ttl": Duration(seconds=2 * DAY_S)}},
        InvalidArgument,
        "expiration_policy.ttl: .* shorter than message_retention_duration",
    ),
    (
        {"retry_policy": {"minimum_backoff": Duration(seconds=601)}},
        InvalidArgument,
        "retry_policy.minimum_backoff: 601 s",
    ),
    (
        {"retry_policy": {"maximum_backoff": Duration(seconds=601)}},
        InvalidArgument,
        "retry_policy.maximum_backoff: 601 s",
    ),
    (
        {
            "retry_policy": {
                "minimum_backoff": Duration(seconds=20),
                "maximum_backoff": Duration(seconds=10),
            }
        },
        InvalidArgument,
        "minimum_backoff .* longer than maximum_backoff",
    ),
    ({"labels": {"UPPER": "x"}}, InvalidArgument, "'UPPER'"),
    ({"labels": {"fanlog-colour": "red"}}, InvalidArgument, "fanlog-colour"),
]


@pytest.mark.parametrize(("fields", "error", "sentence"), OUT_OF_RANGE)
def test_values_out_of_range_are_refused_with_their_limits(server, fields, error, sentence):
    topic = server.topic()
    name = subscription_name(unique("refused"))
    with pytest.raises(error, match=sentence):
        server.subscriber.create_subscription(request={"name": name, "topic": topic} | fields)
    with pytest.raises(NotFound):
        get(server, name)
    # The same value is refused in the same words by an update, and changes nothing.
    made = server.subscription(topic)
    before = get(server, made)
    [field] = fields
    with pytest.raises(error, match=sentence):
        update(server, [field], name=made, **fields)
    assert get(server, made) == before


@pytest.mark.parametrize("attempts", [-1, 101])
def test_delivery_attempts_out_of_range(server, attempts):
    topic, dead = server.topic(), server.topic()
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": attempts}
    with pytest.raises(OutOfRange, match=rf"max_delivery_attempts: {attempts} .*1 to 100"):
        server.subscription(topic, dead_letter_policy=policy)


@pytest.mark.parametrize(
    ("labels", "fields", "sentence"),
    [
        ({"fanlog-start": "yesterday"}, {}, "fanlog-start: 'yesterday'"),
        ({"fanlog-start": "2026-13-01T00:00:00Z"}, {}, "fanlog-start"),
        ({"fanlog-ordering": "strict"}, {}, "needs enable_message_ordering"),
        (
            {"fanlog-ordering": "loose"},
            {"enable_message_ordering": True},
            "'loose' is not 'strict' or 'key'",
        ),
        ({"fanlog-dead-letter": "manual"}, {}, "'manual' is not 'auto' or 'none'"),
    ],
)
def test_labels_of_ours_that_say_nothing_are_refused(server, labels, fields, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        server.subscription(server.topic(), labels=labels, **fields)


UNSUPPORTED: dict[str, Any] = {
    "bigquery_config": {"table": "p.d.t", "use_table_schema": True},
    "cloud_storage_config": {"bucket": "box", "service_account_email": "a@b"},
    "analytics_hub_subscription_info": {"listing": "l"},
    "message_transforms": [{"javascript_udf": {"function_name": "f", "code": "x"}}],
    "tags": {"1/2": "3"},
    "push_config.attributes": {
        "push_endpoint": "http://127.0.0.1:9",
        "attributes": {"x-goog-version": "v1beta1"},
    },
}


@pytest.mark.parametrize("field", UNSUPPORTED)
def test_fields_that_are_not_honoured_are_refused_by_name(server, field):
    topic = server.topic()
    name = subscription_name(unique("unsupported"))
    top = field.partition(".")[0]
    fields = {top: UNSUPPORTED[field]}
    with pytest.raises(MethodNotImplemented, match=field):
        server.subscriber.create_subscription(request={"name": name, "topic": topic} | fields)
    with pytest.raises(NotFound):
        get(server, name)
    made = server.subscription(topic)
    with pytest.raises(MethodNotImplemented, match=field):
        update(server, [top], name=made, **fields)


def test_a_subscription_cannot_be_made_detached(server):
    with pytest.raises(InvalidArgument, match="detached"):
        server.subscription(server.topic(), detached=True)


def test_fields_the_service_sets_are_ignored_in_a_create(server):
    topic = server.topic()
    name = server.subscription(
        topic,
        state=types.Subscription.State.RESOURCE_ERROR,
        topic_message_retention_duration=Duration(seconds=600),
    )
    assert get(server, name) == types.Subscription(name=name, topic=topic, **DEFAULTS)


def _dead_letter_topic(server: RunningServer) -> dict[str, Any]:
    return {"dead_letter_policy": {"dead_letter_topic": server.topic()}}


#: Mask, what to send, what is then seen of the field that the mask names.
UPDATES: dict[str, tuple[Callable[[RunningServer], dict[str, Any]], dict[str, Any] | None]] = {
    "ack_deadline_seconds": (lambda _: {"ack_deadline_seconds": 77}, None),
    "retain_acked_messages": (lambda _: {"retain_acked_messages": True}, None),
    "message_retention_duration": (
        lambda _: {"message_retention_duration": Duration(seconds=3600)},
        None,
    ),
    "labels": (lambda _: {"labels": {"new": "label"}}, None),
    "expiration_policy": (
        lambda _: {"expiration_policy": {"ttl": Duration(seconds=9 * DAY_S)}},
        None,
    ),
    "expiration_policy.ttl": (
        lambda _: {"expiration_policy": {"ttl": Duration(seconds=8 * DAY_S)}},
        None,
    ),
    "dead_letter_policy": (_dead_letter_topic, None),
    "dead_letter_policy.dead_letter_topic": (_dead_letter_topic, None),
    "retry_policy": (
        lambda _: {"retry_policy": {"minimum_backoff": Duration(seconds=5)}},
        {
            "retry_policy": {
                "minimum_backoff": Duration(seconds=5),
                "maximum_backoff": Duration(seconds=600),
            }
        },
    ),
    "retry_policy.maximum_backoff": (
        lambda _: {"retry_policy": {"maximum_backoff": Duration(seconds=50)}},
        {
            "retry_policy": {
                "minimum_backoff": Duration(seconds=10),
                "maximum_backoff": Duration(seconds=50),
            }
        },
    ),
    "retry_policy.minimum_backoff": (
        lambda _: {"retry_policy": {"minimum_backoff": Duration(seconds=5)}},
        {
            "retry_policy": {
                "minimum_backoff": Duration(seconds=5),
                "maximum_backoff": Duration(seconds=600),
            }
        },
    ),
    "enable_exactly_once_delivery": (lambda _: {"enable_exactly_once_delivery": True}, None),
    "push_config": (lambda _: {"push_config": {}}, None),
}


@pytest.mark.parametrize("path", UPDATES)
def test_every_updatable_field(server, path):
    sent_by, seen = UPDATES[path]
    topic, name = server.topic_and_subscription()
    sent = sent_by(server)
    if path.startswith("dead_letter_policy"):
        seen = {"dead_letter_policy": sent["dead_letter_policy"] | {"max_delivery_attempts": 5}}

    updated = update(server, [path], name=name, **sent)

    expected = DEFAULTS | (seen or sent)
    assert updated == types.Subscription(name=name, topic=topic, **expected)
    assert get(server, name) == updated


def test_only_what_the_mask_names_is_updated(server):
    _, name = server.topic_and_subscription(labels={"team": "shop"})
    updated = update(
        server, ["ack_deadline_seconds"], name=name, ack_deadline_seconds=60, labels={"team": "x"}
    )
    assert updated.labels == {"team": "shop"}
    assert updated.ack_deadline_seconds == 60


def test_policies_are_removed_by_leaving_them_unset(server):
    topic = server.topic()
    name = server.subscription(
        topic,
        dead_letter_policy={"dead_letter_topic": server.topic()},
        retry_policy={},
        labels={"team": "shop"},
        expiration_policy={},
    )
    mask = ["dead_letter_policy", "retry_policy", "labels", "expiration_policy"]
    assert update(server, mask, name=name) == types.Subscription(name=name, topic=topic, **DEFAULTS)


def test_expiration_can_be_switched_off_and_on(server):
    _, name = server.topic_and_subscription()
    assert "ttl" not in update(server, ["expiration_policy"], name=name, expiration_policy={}).expiration_policy  # noqa: E501  # fmt: skip
    ttl = {"expiration_policy": {"ttl": Duration(seconds=20 * DAY_S)}}
    shown = update(server, ["expiration_policy.ttl"], name=name, **ttl).expiration_policy.ttl
    assert shown.total_seconds() == 20 * DAY_S
    assert "ttl" not in update(server, ["expiration_policy.ttl"], name=name).expiration_policy


def test_parts_of_a_policy_leave_the_rest_of_it(server):
    dead, other = server.topic(), server.topic()
    _, name = server.topic_and_subscription(
        dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 9}
    )
    mask = ["dead_letter_policy.dead_letter_topic"]
    policy = update(server, mask, name=name, dead_letter_policy={"dead_letter_topic": other})
    assert policy.dead_letter_policy == types.DeadLetterPolicy(
        dead_letter_topic=other, max_delivery_attempts=9
    )
    mask = ["dead_letter_policy.max_delivery_attempts"]
    policy = update(server, mask, name=name, dead_letter_policy={"max_delivery_attempts": 6})
    assert policy.dead_letter_policy == types.DeadLetterPolicy(
        dead_letter_topic=other, max_delivery_attempts=6
    )


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ([], "update_mask: empty"),
        (["colour"], "'colour' is not a field"),
        (["labels.team"], "labels are updated as a whole"),
        (["name"], "'name' cannot be changed"),
        (["topic"], "'topic' cannot be changed"),
        (["enable_message_ordering"], "'enable_message_ordering' cannot be changed"),
        (["detached"], "call DetachSubscription"),
        (["state"], "'state' is set by the service"),
        (["topic_message_retention_duration"], "is set by the service"),
        (["dead_letter_policy.max_delivery_attempts"], "has no dead letter policy"),
        (["ack_deadline_seconds", "topic"], "'topic' cannot be changed"),
        (["expiration_policy.never"], "not a field"),
    ],
)
def test_masks_that_are_refused_change_nothing(server, paths, sentence):
    _, name = server.topic_and_subscription()
    before = get(server, name)
    with pytest.raises(InvalidArgument, match=sentence):
        update(server, paths, name=name, ack_deadline_seconds=99, topic=server.topic())
    assert get(server, name) == before


def test_a_dead_letter_topic_is_checked_when_it_is_changed(server):
    topic, name = server.topic_and_subscription()
    missing = f"projects/{PROJECT}/topics/missing"
    with pytest.raises(NotFound, match=missing):
        update(
            server,
            ["dead_letter_policy"],
            name=name,
            dead_letter_policy={"dead_letter_topic": missing},
        )
    with pytest.raises(InvalidArgument, match="a topic the subscription itself reads"):
        update(
            server,
            ["dead_letter_policy"],
            name=name,
            dead_letter_policy={"dead_letter_topic": topic},
        )
    assert not get(server, name).dead_letter_policy


def test_an_update_holds_for_the_next_delivery(still_server):
    server = still_server
    topic, name = server.topic_and_subscription()
    server.publish(topic, b"x")
    update(server, ["ack_deadline_seconds"], name=name, ack_deadline_seconds=100)
    assert len(server.pull(name)) == 1
    server.advance(99)
    assert server.pull(name) == []
    server.advance(1)
    assert len(server.pull(name)) == 1


def test_labels_that_were_read_at_creation_cannot_be_changed(server):
    topic = server.topic()
    name = server.subscription(topic, labels={"fanlog-start": "earliest"})
    with pytest.raises(InvalidArgument, match=r"fanlog-start .*cannot be changed"):
        update(server, ["labels"], name=name, labels={"fanlog-start": "now"})
    strict = server.subscription(
        topic, enable_message_ordering=True, labels={"fanlog-ordering": "strict"}
    )
    with pytest.raises(InvalidArgument, match="fanlog-ordering"):
        update(server, ["labels"], name=strict, labels={})


def test_auto_dead_letters_make_a_topic_and_a_reader(server):
    _, name = server.topic_and_subscription(labels={"fanlog-dead-letter": "auto"})
    own = name.rpartition("/")[2] + ".dead-letters"
    dead_topic = f"projects/{PROJECT}/topics/{own}"
    shown = get(server, name)
    assert shown.dead_letter_policy.dead_letter_topic == dead_topic
    [reader] = server.publisher.list_topic_subscriptions(topic=dead_topic)
    assert "ttl" not in get(server, reader).expiration_policy
    # Made again, it finds them there and uses them.
    server.subscriber.delete_subscription(subscription=name)
    server.subscriber.create_subscription(
        request={
            "name": name,
            "topic": server.topic(),
            "labels": {"fanlog-dead-letter": "auto"},
        }
    )
    assert list(server.publisher.list_topic_subscriptions(topic=dead_topic)) == [reader]


def test_detaching_lets_go_of_the_backlog_and_sends_consumers_away(server):
    topic, name = server.topic_and_subscription()
    server.publish(topic, b"x")
    received = server.pull(name)
    stream = server.open_stream(name)

    server.publisher.detach_subscription(request={"subscription": name})

    assert isinstance(stream.error(), FailedPrecondition)
    shown = get(server, name)
    assert shown.detached
    for call in (
        lambda: server.pull(name),
        lambda: server.ack(name, received),
        lambda: server.subscriber.seek(
            request={"subscription": name, "time": {"seconds": 1}}, retry=None
        ),
        lambda: server.subscriber.create_snapshot(
            name=f"projects/{PROJECT}/snapshots/{unique('snap')}", subscription=name
        ),
    ):
        with pytest.raises(FailedPrecondition, match="detached"):
            call()
    assert list(server.publisher.list_topic_subscriptions(topic=topic)) == []
    server.publish(topic, b"y")
    backlog = server.run(
        server.broker.backlogs.measure(server.broker.hard.catalog.subscription(name))
    )
    assert backlog.messages == backlog.outstanding == 0


def test_detaching_twice_changes_nothing_and_a_detached_one_outlives_its_topic(server):
    topic, name = server.topic_and_subscription()
    for _ in range(2):
        server.publisher.detach_subscription(request={"subscription": name})
    server.publisher.delete_topic(topic=topic)
    assert get(server, name).topic == "_deleted-topic_"
    server.subscriber.delete_subscription(subscription=name)
    with pytest.raises(NotFound):
        get(server, name)


def test_modify_push_config_that_is_refused_changes_nothing(server):
    _, name = server.topic_and_subscription()
    before = get(server, name)
    server.subscriber.modify_push_config(subscription=name, push_config={})
    with pytest.raises(InvalidArgument, match=r"push_config\.push_endpoint"):
        server.subscriber.modify_push_config(
            subscription=name, push_config={"push_endpoint": "ftp://example.com"}
        )
    assert get(server, name) == before


@pytest.mark.parametrize(
    "subscription_id", ["ab", "1abc", "goog-x", "a b", "a" * 256, "", "a/b", "ä" * 3]
)
def test_names_that_are_refused(server, subscription_id):
    topic = server.topic()
    with pytest.raises(InvalidArgument, match="name"):
        server.subscriber.create_subscription(name=subscription_name(subscription_id), topic=topic)


def test_a_topic_that_is_not_a_name_is_refused(server):
    for topic in ("", "orders", "projects/p/subscriptions/abc", "_deleted-topic_"):
        with pytest.raises(InvalidArgument, match="topic"):
            server.subscription(topic)


def test_everything_is_there_after_a_restart(start_server):
    server = start_server()
    topic = server.topic(labels={"a": "b"}, message_retention_duration=Duration(seconds=700))
    dead = server.topic()
    names = [
        server.subscription(topic),
        server.subscription(
            topic,
            ack_deadline_seconds=33,
            labels={"fanlog-ordering": "strict", "x": "y"},
            enable_message_ordering=True,
            enable_exactly_once_delivery=True,
            dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 3},
            retry_policy={"minimum_backoff": Duration(seconds=1)},
            expiration_policy={},
        ),
        server.subscription(server.topic()),
    ]
    server.publisher.detach_subscription(request={"subscription": names[0]})
    server.publisher.delete_topic(topic=get(server, names[2]).topic)
    gone = server.subscription(topic)
    server.subscriber.delete_subscription(subscription=gone)
    subscriptions = [get(server, name) for name in names]
    topics = list(server.publisher.list_topics(project=f"projects/{PROJECT}"))

    server.restart()

    assert [get(server, name) for name in names] == subscriptions
    assert list(server.publisher.list_topics(project=f"projects/{PROJECT}")) == topics
    assert [s.name for s in server.subscriber.list_subscriptions(project=f"projects/{PROJECT}")] == sorted(names)  # noqa: E501  # fmt: skip
