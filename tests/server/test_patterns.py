"""Subscriptions on patterns: every topic of the project that matches, those to come included."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)

from server.conftest import PATIENCE_S, RunningServer
from server.project import TOPIC, Project
from server.unique import unique

BACKLOG = "fanlog_backlog_messages"


@pytest.fixture
def project(still_server: RunningServer) -> Project:
    return Project(still_server)


def data(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]


# Which topics.

NAMES = [
    "orders",
    "orders.eu",
    "orders.eu.created",
    "orders.us.created",
    "orders.us.west.created",
    "OrderPlaced",
    "Order.placed",
    "app-eu-1",
    "created",
]

CASES = [
    ("orders.*", "orders.eu"),
    ("orders.*.created", "orders.eu.created orders.us.created"),
    ("orders.#", "orders orders.eu orders.eu.created orders.us.created orders.us.west.created"),
    ("#.created", "created orders.eu.created orders.us.created orders.us.west.created"),
    ("orders.#.created", "orders.eu.created orders.us.created orders.us.west.created"),
    ("orders.u*.#", "orders.us.created orders.us.west.created"),
    ("*", "OrderPlaced app-eu-1 created orders"),
    ("Order*", "OrderPlaced"),
    ("Order.*", "Order.placed"),
    ("*-eu-*", "app-eu-1"),
    ("#", " ".join(sorted(NAMES))),
    ("nothing.*", ""),
]


@pytest.mark.parametrize("when", ["topics first", "topics later"])
def test_which_topics_a_pattern_reads(project, when):
    if when == "topics first":
        project.topics(*NAMES)
    made = {pattern: project.subscription(pattern) for pattern, _ in CASES}
    if when == "topics later":
        project.topics(*NAMES)
    for name in NAMES:
        project.publish(name, name.encode())
    for pattern, expected in CASES:
        found = project.pull(made[pattern])
        assert [topic for topic, _ in found] == expected.split(), pattern
        assert all(topic.encode() == content for topic, content in found)


def test_an_exact_name_stays_exact(project):
    project.topics("orders", "orders.eu")
    subscription = project.subscription("orders")
    project.publish("orders", b"mine")
    project.publish("orders.eu", b"another's")
    [one] = project.server.pull(subscription)
    assert one.message.data == b"mine"
    assert TOPIC not in one.message.attributes
    with pytest.raises(NotFound):
        project.subscription("missing")


def test_the_pattern_is_shown_where_the_topic_stands(project):
    subscription = project.subscription("orders.*")
    found = project.server.subscriber.get_subscription(subscription=subscription)
    assert found.topic == project.topic_name("orders.*")
    project.topic("orders.eu")
    project.delete("orders.eu")
    listed = project.server.subscriber.list_subscriptions(project=f"projects/{project.name}")
    assert [one.topic for one in listed] == [project.topic_name("orders.*")]


def test_the_attribute_is_not_stored(project):
    """It is added on the way out; what a publisher calls so itself is overruled."""
    project.topic("a.b")
    on_pattern, exact = project.subscription("a.*"), project.subscription("a.b")
    project.server.publisher.publish(
        request={
            "topic": project.topic_name("a.b"),
            "messages": [
                {"data": b"x", "attributes": {"colour": "red"}},
                {"data": b"y", "attributes": {TOPIC: "a lie"}},
            ],
        }
    )
    first, second = project.server.pull(on_pattern)
    assert dict(first.message.attributes) == {"colour": "red", TOPIC: project.topic_name("a.b")}
    assert dict(second.message.attributes) == {TOPIC: project.topic_name("a.b")}
    first, second = project.server.pull(exact)
    assert dict(first.message.attributes) == {"colour": "red"}
    assert dict(second.message.attributes) == {TOPIC: "a lie"}


def test_projects_are_no_part_of_a_pattern(still_server):
    mine, other = Project(still_server), Project(still_server)
    mine.topic("ttt")
    other.topic("ttt")
    own = mine.subscription("#")
    # A subscription may be of one project and its pattern of another.
    foreign = still_server.subscription(
        other.topic_name("#"), name=f"projects/{mine.name}/subscriptions/{unique('sub')}"
    )
    mine.publish("ttt", b"mine")
    other.publish("ttt", b"the other's")
    other.topic("later")
    other.publish("later", b"more")
    assert mine.take(own) == [("ttt", b"mine")]
    assert other.take(foreign) == [("later", b"more"), ("ttt", b"the other's")]


def test_messages_from_before_do_not_come(project):
    project.topic("aaa")
    project.publish("aaa", b"before")
    subscription = project.subscription("*")
    project.publish("aaa", b"after")
    assert project.take(subscription) == [("aaa", b"after")]


@pytest.mark.parametrize("start", ["earliest", "time"])
def test_starting_earlier(project, start):
    project.topics("aaa", "bbb")
    keepers = [project.subscription("aaa"), project.subscription("bbb")]
    project.publish("aaa", b"0")
    project.server.advance(100)
    now = int(project.server.clock.now())
    project.publish("aaa", b"1")
    project.publish("bbb", b"2")
    time = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    label = "earliest" if start == "earliest" else time
    subscription = project.subscription("*", labels={"fanlog-start": label})
    project.topic("ccc")
    project.publish("ccc", b"3")
    first = [("aaa", b"0")] if start == "earliest" else []
    assert project.take(subscription) == [*first, ("aaa", b"1"), ("bbb", b"2"), ("ccc", b"3")]
    assert len(keepers) == 2


REFUSED = [
    ("a..*", "empty"),
    (".*", "empty"),
    ("*.", "empty"),
    ("a#", "#"),
    ("a.**", "#"),
    ("goog*", "goog"),
    ("1*", "1"),
    ("é*", "é"),
    ("a" * 255 + "*", "255"),
]


@pytest.mark.parametrize(("pattern", "said"), REFUSED, ids=[p[:10] for p, _ in REFUSED])
def test_a_pattern_that_is_none(project, pattern, said):
    with pytest.raises(InvalidArgument, match="topic") as refused:
        project.subscription(pattern)
    assert said in refused.value.message
    listed = project.server.subscriber.list_subscriptions(project=f"projects/{project.name}")
    assert list(listed) == []


def test_a_refused_pattern_says_where(project):
    with pytest.raises(InvalidArgument, match=r"segment 2") as refused:
        project.subscription("a..*")
    assert "a..*" in refused.value.message


def test_topics_are_not_made_with_the_name_of_a_pattern(project):
    for name in ("a.*", "#"):
        with pytest.raises(InvalidArgument):
            project.topic(name)


# A hint.


def create_with_trailers(project: Project, pattern: str) -> dict[str, str]:
    """Create a subscription; the trailing metadata of the answer, which is a success."""
    name = f"projects/{project.name}/subscriptions/{unique('sub')}"
    request = gapic.Subscription(name=name, topic=project.topic_name(pattern))
    with project.server.channel() as channel:
        call: Any = channel.unary_unary(
            "/google.pubsub.v1.Subscriber/CreateSubscription",
            request_serializer=gapic.Subscription.serialize,
            response_deserializer=gapic.Subscription.deserialize,
        )
        answer, finished = call.with_call(request, timeout=PATIENCE_S)
    assert answer.topic == request.topic
    return dict(finished.trailing_metadata() or ())


def test_a_pattern_that_looks_as_if_it_matched_comes_with_a_hint(project):
    project.topics("OrderPlaced", "OrderSent")
    hint = create_with_trailers(project, "Order.*")["fanlog-hint"]
    assert "'Order*' would match 'OrderPlaced', 'OrderSent'" in hint
    assert "fanlog-hint" not in create_with_trailers(project, "Order*")
    assert "fanlog-hint" not in create_with_trailers(project, "invoice.*")
    project.topic("Order.placed")
    assert "fanlog-hint" not in create_with_trailers(project, "Order.*")


# Topics come and go.


def test_a_topic_made_later_joins_from_its_first_message(project):
    subscription = project.subscription("orders.#")
    project.topic("orders.eu")
    project.publish("orders.eu", b"0")
    project.publish("orders.eu", b"1")
    assert project.take(subscription) == [("orders.eu", b"0"), ("orders.eu", b"1")]


def test_a_topic_joins_an_open_stream_at_once(project):
    """The clock stands still: nothing waits for a tick."""
    subscription = project.subscription("orders.#")
    stream = project.server.open_stream(subscription)
    project.server.await_waiters(subscription, 1)
    for name in ("orders", "orders.eu", "orders.eu.created"):
        project.topic(name)
        project.publish(name, name.encode())
        [one] = stream.messages(1)
        assert project.shown([one]) == [(name, name.encode())]
    project.publish("orders", b"again")
    assert data(stream.messages(1)) == [b"again"]


def test_a_topic_joins_a_stream_that_has_a_filter(project):
    subscription = project.subscription("orders.#", filter='colour = "red" AND topic = *.eu')
    stream = project.server.open_stream(subscription)
    project.server.await_waiters(subscription, 1)
    project.topics("orders.eu", "orders.us")
    for name in ("orders.us", "orders.eu"):
        project.publish(name, b"blue", colour="blue")
        project.publish(name, b"red", colour="red")
    assert project.shown(stream.messages(1)) == [("orders.eu", b"red")]
    assert stream.pending() == []


def test_a_pull_that_waits_sees_a_topic_join(project):
    subscription = project.subscription("*")
    found: list[bytes] = []
    thread = threading.Thread(
        target=lambda: found.extend(data(project.server.await_pull(subscription)))
    )
    thread.start()
    project.server.await_waiters(subscription, 1)
    project.topic("new")
    project.publish("new", b"x")
    thread.join(PATIENCE_S)
    assert found == [b"x"]


def test_a_deleted_topic_leaves_its_backlog_to_be_served(project):
    project.topics("orders.eu", "orders.us")
    subscription = project.subscription("orders.*")
    project.publish("orders.eu", b"0", b"1")
    project.publish("orders.us", b"2")
    project.delete("orders.eu")
    project.server.sweep()
    expected = [("orders.eu", b"0"), ("orders.eu", b"1"), ("orders.us", b"2")]
    assert project.take(subscription) == expected
    project.server.sweep()
    assert project.take(subscription) == []
    # Nothing of the topic is kept any more, and the subscription lives on.
    assert list(project.server.broker.hard.catalog.former_topics()) == []
    project.publish("orders.us", b"3")
    assert project.take(subscription) == [("orders.us", b"3")]


def test_the_backlog_of_a_deleted_topic_survives_a_restart(start_server):
    server = start_server()
    project = Project(server)
    project.topic("orders.eu")
    subscription = project.subscription("orders.*")
    project.publish("orders.eu", b"0", b"1")
    project.delete("orders.eu")
    server.restart()
    server.sweep()
    assert project.take(subscription) == [("orders.eu", b"0"), ("orders.eu", b"1")]
    server.sweep()
    server.restart()
    assert project.take(subscription) == []


def test_acknowledging_once_more_after_a_deleted_topic_is_through(project):
    project.topic("aaa")
    subscription = project.subscription("*")
    project.publish("aaa", b"0")
    received = project.server.pull(subscription)
    project.delete("aaa")
    project.server.ack(subscription, received)
    project.server.sweep()
    # As it is with any ack that comes twice: a client that did not hear the answer sends it again.
    project.server.ack(subscription, received)
    project.server.nack(subscription, received)


def test_the_same_exactly_once_is_refused_by_id(project):
    project.topic("aaa")
    subscription = project.subscription("*", enable_exactly_once_delivery=True)
    project.publish("aaa", b"0")
    received = project.server.pull(subscription)
    project.delete("aaa")
    project.server.ack(subscription, received)
    project.server.sweep()
    with pytest.raises(FailedPrecondition) as refused:
        project.server.ack(subscription, received)
    [ids] = [detail.metadata for detail in refused.value.details if hasattr(detail, "metadata")]
    assert ids[received[0].ack_id] == "PERMANENT_FAILURE_INVALID_ACK_ID"


def test_a_topic_made_again_is_a_new_one(project):
    project.topic("orders.eu")
    subscription = project.subscription("orders.*")
    project.publish("orders.eu", b"old")
    project.delete("orders.eu")
    project.topic("orders.eu")
    project.publish("orders.eu", b"new")
    assert sorted(project.take(subscription)) == [("orders.eu", b"new"), ("orders.eu", b"old")]
    project.server.sweep()
    assert project.take(subscription) == []
    assert project.readers("orders.eu") == [subscription]


def test_membership_survives_a_restart(start_server):
    server = start_server()
    project = Project(server)
    project.topics("orders.eu", "invoices")
    subscription = project.subscription("orders.#", enable_message_ordering=True)
    project.topic("orders.us")
    project.publish("orders.eu", b"0", key="k")
    project.publish("orders.us", b"1", key="k")
    server.ack(subscription, server.pull(subscription, max_messages=1))
    server.restart()
    project.publish("invoices", b"2")
    project.topic("orders")
    project.publish("orders", b"3")
    assert {content for _, content in project.take(subscription)} == {b"1", b"3"}
    for name in ("orders.eu", "orders.us", "orders"):
        assert project.readers(name) == [subscription]
    assert project.readers("invoices") == []
    server.await_metric(BACKLOG, subscription, 0)


# Many topics.


def test_one_pull_fills_from_many_topics(project):
    project.topics("aaa", "bbb", "ccc")
    subscription = project.subscription("*")
    for name in ("aaa", "bbb", "ccc"):
        project.publish(name, *[name.encode()] * 3)
    received = project.server.pull(subscription, max_messages=8)
    assert len(received) == 8
    assert len({one.message.attributes[TOPIC] for one in received}) == 3
    assert len(project.server.pull(subscription)) == 1


def test_a_topic_with_much_does_not_starve_the_others(project):
    project.topics("busy", "quiet", "still")
    subscription = project.subscription("*")
    project.publish("busy", *[b"busy"] * 1_000)
    project.publish("quiet", b"quiet")
    project.publish("still", b"still")
    found: Counter[bytes] = Counter()
    for _ in range(4):
        found.update(data(project.server.pull(subscription, max_messages=10)))
    assert found[b"quiet"] == found[b"still"] == 1


def test_two_busy_topics_get_their_turns(project):
    project.topics("aaa", "bbb")
    subscription = project.subscription("*")
    stream_room = 10
    project.publish("aaa", *[b"aaa"] * 500)
    project.publish("bbb", *[b"bbb"] * 500)
    found: Counter[bytes] = Counter()
    for _ in range(10):
        received = project.server.pull(subscription, max_messages=stream_room)
        project.server.ack(subscription, received)
        found.update(data(received))
    assert found == {b"aaa": 50, b"bbb": 50}


def test_acks_of_many_topics_in_one_request(project):
    names = [f"top{number}" for number in range(20)]
    project.topics(*names)
    subscription = project.subscription("top*")
    for name in names:
        project.publish(name, b"0", b"1")
    assert len(project.take(subscription)) == 40
    project.server.await_metric(BACKLOG, subscription, 0)
    assert project.take(subscription) == []


def test_1000_topics_on_one_pattern(start_server):
    """Not slow: an idle topic costs a pull nothing."""
    server = start_server("memory")
    project = Project(server)
    subscription = project.subscription("top*.#")
    names = [f"top{number}.x" for number in range(1_000)]
    project.topics(*names)
    stream = server.open_stream(subscription)
    for name in names[::10]:
        project.publish(name, name.encode())
    found = stream.messages(100)
    assert sorted(data(found)) == sorted(name.encode() for name in names[::10])
    stream.send(ack_ids=[one.ack_id for one in found])
    server.await_drained(subscription)

    # Work, not time: what others do on the machine counts for nothing.
    began_s = time.process_time()
    for name in names[:100]:
        project.publish(name, b"x")
        stream.messages(1)
    took_s = time.process_time() - began_s
    # A round is a publish and an answer: 2 ms or so, where a look at every topic would take more.
    assert took_s < 4
