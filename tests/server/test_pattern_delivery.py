"""What subscriptions do, done by those on patterns: order, dead letters, seek, snapshots."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.broker.clock import ManualClock
from server.conftest import RunningServer
from server.project import TOPIC, Project

BACKLOG = "fanlog_backlog_messages"


@pytest.fixture
def project(still_server: RunningServer) -> Project:
    return Project(still_server)


@pytest.fixture
def lean_project(lean_server: RunningServer) -> Project:
    return Project(lean_server)


def data(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]


def test_order_is_kept_within_each_topic_and_key(project):
    project.topics("aaa", "bbb")
    subscription = project.subscription("*", enable_message_ordering=True)
    for number in range(10):
        project.publish(("aaa", "bbb")[number % 2], b"%d" % number, key="k")
    received = project.server.pull(subscription)
    of_a = [one for one in received if one.message.attributes[TOPIC].endswith("/aaa")]
    assert data(of_a) == [b"0", b"2", b"4", b"6", b"8"]
    # A key is of its topic: what fails in one holds up nothing in the other.
    project.server.nack(subscription, of_a[:1])
    of_b = [one for one in received if one not in of_a]
    project.server.ack(subscription, of_b)
    assert project.take(subscription) == [("aaa", b"%d" % n) for n in (0, 2, 4, 6, 8)]
    assert data(of_b) == [b"1", b"3", b"5", b"7", b"9"]


def test_exactly_once_over_many_topics(start_server):
    server = start_server(clock=ManualClock())
    project = Project(server)
    project.topics("aaa", "bbb")
    subscription = project.subscription(
        "*", enable_exactly_once_delivery=True, enable_message_ordering=True
    )
    project.publish("aaa", b"0", b"1", key="k")
    project.publish("bbb", b"2", b"3", key="k")
    held = server.pull(subscription)
    assert len(held) == 4
    server.restart()
    assert server.pull(subscription) == []
    server.ack(subscription, held)
    with pytest.raises(FailedPrecondition):
        server.ack(subscription, held)
    server.advance(100)
    assert server.pull(subscription) == []


def test_exactly_once_a_request_over_many_topics_is_done_whole_or_not_at_all(project):
    project.topics("aaa", "bbb")
    subscription = project.subscription("*", enable_exactly_once_delivery=True)
    project.publish("aaa", b"0")
    stale = project.server.pull(subscription)
    project.server.ack(subscription, stale)
    project.publish("bbb", b"1")
    fresh = project.server.pull(subscription)
    for ids in ([*fresh, *stale], [*stale, *fresh]):
        for refuse in (project.server.ack, project.server.nack):
            with pytest.raises(FailedPrecondition) as refused:
                refuse(subscription, ids)
            [why] = [detail.metadata for detail in refused.value.details]
            assert why[stale[0].ack_id] == "PERMANENT_FAILURE_INVALID_ACK_ID"
            assert why[fresh[0].ack_id].startswith("TRANSIENT_FAILURE")
            project.server.await_metric(BACKLOG, subscription, 1)
            project.server.await_metric("fanlog_outstanding_messages", subscription, 1)
    # So the rest can be sent again, and is done then.
    project.server.ack(subscription, fresh)
    project.server.await_metric(BACKLOG, subscription, 0)


def test_dead_letters_name_the_real_topic(project):
    letters = project.topic("letters")
    reader = project.subscription("letters")
    project.topics("orders.eu", "orders.us")
    subscription = project.subscription(
        "orders.*", dead_letter_policy={"dead_letter_topic": letters, "max_delivery_attempts": 5}
    )
    project.publish("orders.eu", b"0")
    [us_id] = project.publish("orders.us", b"1")
    project.delete("orders.us")
    for _ in range(5):
        project.server.nack(subscription, project.server.pull(subscription))
    found: dict[bytes, Any] = {}
    while len(found) < 2:
        found |= {one.message.data: one.message for one in project.server.await_pull(reader)}
    for content, topic in ((b"0", "orders.eu"), (b"1", "orders.us")):
        said = found[content].attributes
        assert said["fanlog-source-topic"] == project.topic_name(topic)
        assert TOPIC not in said
    assert found[b"1"].attributes["fanlog-source-message-id"] == us_id


def test_a_dead_letter_topic_that_the_pattern_reads_is_refused(project):
    project.topics("orders.eu", "orders.dead")
    own = {"dead_letter_topic": project.topic_name("orders.dead")}
    for pattern in ("orders.*", "#", "orders.d*"):
        with pytest.raises(InvalidArgument, match="come back"):
            project.subscription(pattern, dead_letter_policy=own)
    fine = project.subscription("orders.e*", dead_letter_policy=own)
    other = project.subscription("orders.*")
    with pytest.raises(InvalidArgument, match="come back"):
        project.server.subscriber.update_subscription(
            request={
                "subscription": {"name": other, "dead_letter_policy": own},
                "update_mask": {"paths": ["dead_letter_policy"]},
            }
        )
    assert project.readers("orders.eu") == sorted([fine, other])


def test_an_automatic_dead_letter_topic(project):
    auto = {"fanlog-dead-letter": "auto"}
    for pattern in ("#", "*.#", "*.dead-letters"):
        with pytest.raises(InvalidArgument, match="come back"):
            project.subscription(pattern, labels=auto)
    assert list(project.server.publisher.list_topics(project=f"projects/{project.name}")) == []
    project.topic("orders.eu")
    subscription = project.subscription("orders.*", labels=auto)
    project.publish("orders.eu", b"0")
    for _ in range(5):
        project.server.nack(subscription, project.server.pull(subscription))
    [letter] = project.server.await_pull(f"{subscription}.dead-letters")
    assert letter.message.data == b"0"
    assert letter.message.attributes["fanlog-source-topic"] == project.topic_name("orders.eu")


def test_the_topic_for_dead_letters_of_another_joins_a_pattern(project):
    project.topic("orders.eu")
    everything = project.subscription("#")
    subscription = project.subscription("orders.*", labels={"fanlog-dead-letter": "auto"})
    project.publish("orders.eu", b"0")
    for _ in range(5):
        project.server.nack(subscription, project.server.pull(subscription))
    project.server.await_pull(f"{subscription}.dead-letters")
    assert [content for _, content in project.take(everything)] == [b"0", b"0"]


def test_readers_of_a_topic_are_listed_by_pages(project):
    project.topic("orders.eu")
    patterns = ["orders.eu", "orders.*", "#", "other.*", "orders.#", "orders.eu"]
    made = [project.subscription(pattern) for pattern in patterns]
    expected = sorted(name for name, p in zip(made, patterns, strict=True) if p != "other.*")
    assert project.readers("orders.eu") == expected
    pager = project.server.publisher.list_topic_subscriptions(
        request={"topic": project.topic_name("orders.eu"), "page_size": 2}
    )
    pages = [list(page.subscriptions) for page in pager.pages]
    assert pages == [expected[:2], expected[2:4], expected[4:]]


def test_deleting_and_detaching(lean_project):
    lean_project.topics("aaa", "bbb")
    deleted, detached = lean_project.subscription("*"), lean_project.subscription("*")
    lean_project.publish("aaa", b"0")
    stream = lean_project.server.open_stream(deleted)
    stream.messages(1)
    lean_project.server.subscriber.delete_subscription(subscription=deleted)
    assert isinstance(stream.error(), NotFound)
    lean_project.server.publisher.detach_subscription(request={"subscription": detached})
    with pytest.raises(FailedPrecondition, match="detached"):
        lean_project.server.pull(detached)
    # Neither is read by, nor joined to, anything any more; neither holds the log.
    lean_project.topic("ccc")
    assert lean_project.readers("aaa") == lean_project.readers("ccc") == []
    lean_project.publish("ccc", b"1")
    lean_project.server.sweep()
    for name in ("aaa", "bbb", "ccc"):
        [partition] = lean_project.server.broker.hard.catalog.topic(
            lean_project.topic_name(name)
        ).partitions
        found = lean_project.server.store.bounds(partition)
        assert found.start == found.end
    found = lean_project.server.subscriber.get_subscription(subscription=detached)
    assert found.detached
    lean_project.server.subscriber.delete_subscription(subscription=detached)


def test_a_name_is_used_once_whatever_it_reads(project):
    project.topic("aaa")
    subscription = project.subscription("*")
    with pytest.raises(AlreadyExists):
        project.subscription("aaa", name=subscription)


def test_retention_and_trimming_by_topic(lean_project):
    lean_project.topics("aaa", "bbb")
    subscription = lean_project.subscription("*", message_retention_duration=Duration(seconds=600))
    lean_project.publish("aaa", b"old")
    lean_project.server.advance(601)
    lean_project.publish("aaa", b"new")
    lean_project.publish("bbb", b"0", b"1")
    lean_project.server.sweep()
    held = lean_project.server.pull(subscription)
    assert lean_project.shown(held) == [("aaa", b"new"), ("bbb", b"0"), ("bbb", b"1")]
    lean_project.server.ack(subscription, held)
    lean_project.server.sweep()
    for name, end in (("aaa", 2), ("bbb", 2)):
        [partition] = lean_project.server.broker.hard.catalog.topic(
            lean_project.topic_name(name)
        ).partitions
        bounds = lean_project.server.store.bounds(partition)
        assert (bounds.start, bounds.end) == (end, end)


def test_a_deleted_topic_is_kept_while_acknowledged_messages_are_retained(project):
    project.topic("aaa")
    subscription = project.subscription(
        "*", retain_acked_messages=True, message_retention_duration=Duration(seconds=3600)
    )
    project.publish("aaa", b"0")
    assert project.take(subscription) == [("aaa", b"0")]
    project.delete("aaa")
    project.server.sweep()
    project.seek(subscription, time=Timestamp(seconds=0))
    assert project.take(subscription) == [("aaa", b"0")]
    project.server.advance(3601)
    project.server.sweep()
    project.server.sweep()
    project.seek(subscription, time=Timestamp(seconds=0))
    assert project.take(subscription) == []


# Seek and snapshots.


def test_seek_to_a_time_in_all_topics(project):
    project.topics("aaa", "bbb")
    subscription = project.subscription("*", retain_acked_messages=True)
    project.publish("aaa", b"0")
    project.server.advance(100)
    middle = Timestamp(seconds=int(project.server.clock.now()))
    project.publish("aaa", b"1")
    project.publish("bbb", b"2")
    assert len(project.take(subscription)) == 3
    project.seek(subscription, time=middle)
    assert project.take(subscription) == [("aaa", b"1"), ("bbb", b"2")]
    project.publish("bbb", b"3")
    project.server.advance(1)
    project.seek(subscription, time=Timestamp(seconds=int(project.server.clock.now()) + 1))
    assert project.take(subscription) == []
    project.topic("ccc")
    project.publish("ccc", b"4")
    assert project.take(subscription) == [("ccc", b"4")]


def test_a_snapshot_of_a_pattern(project):
    project.topics("aaa", "bbb", "gone")
    subscription = project.subscription("*")
    for name in ("aaa", "bbb", "gone"):
        project.publish(name, b"0", b"1")
    held = project.server.pull(subscription)
    of_a = [one for one in held if one.message.attributes[TOPIC].endswith("/aaa")]
    project.server.ack(subscription, of_a[:1])
    name = project.snapshot(subscription)
    shown = project.server.subscriber.get_snapshot(snapshot=name)
    assert shown.topic == project.topic_name("*")
    assert list(project.server.publisher.list_topic_snapshots(topic=project.topic_name("bbb"))) == [
        name
    ]
    # After it: the rest is read, a topic goes and is drained, another comes and is drained, too.
    project.server.ack(subscription, held)
    project.delete("gone")
    project.topic("new")
    project.publish("new", b"0")
    assert project.take(subscription) == [("new", b"0")]
    project.server.sweep()
    project.server.sweep()

    project.seek(subscription, snapshot=name)

    expected = [
        ("aaa", b"1"),
        ("bbb", b"0"),
        ("bbb", b"1"),
        ("gone", b"0"),
        ("gone", b"1"),
        ("new", b"0"),
    ]
    assert project.take(subscription) == expected
    project.server.sweep()
    project.seek(subscription, snapshot=name)
    assert project.take(subscription) == expected
    project.server.subscriber.delete_snapshot(snapshot=name)
    project.server.sweep()
    project.server.sweep()
    assert list(project.server.broker.hard.catalog.former_topics()) == []


def test_a_snapshot_of_a_pattern_survives_a_restart(start_server):
    server = start_server()
    project = Project(server)
    project.topics("aaa", "gone")
    subscription = project.subscription("*")
    project.publish("aaa", b"0")
    project.publish("gone", b"1")
    name = project.snapshot(subscription)
    assert len(project.take(subscription)) == 2
    project.delete("gone")
    server.sweep()
    project.topic("new")
    project.publish("new", b"2")
    server.restart()
    assert project.take(subscription) == [("new", b"2")]
    project.seek(subscription, snapshot=name)
    assert project.take(subscription) == [("aaa", b"0"), ("gone", b"1"), ("new", b"2")]


def test_a_topic_made_and_deleted_after_the_snapshot_comes_back(project):
    subscription = project.subscription("*")
    name = project.snapshot(subscription)
    project.topic("short")
    project.publish("short", b"0")
    assert project.take(subscription) == [("short", b"0")]
    project.delete("short")
    project.server.sweep()
    project.seek(subscription, snapshot=name)
    assert project.take(subscription) == [("short", b"0")]


def test_another_subscription_on_the_same_pattern_takes_a_snapshot_over(project):
    project.topics("aaa", "bbb")
    first = project.subscription("*")
    project.publish("aaa", b"0")
    project.publish("bbb", b"1")
    name = project.snapshot(first)
    second = project.subscription("*")
    project.seek(second, snapshot=name)
    assert project.take(second) == [("aaa", b"0"), ("bbb", b"1")]


def test_a_snapshot_of_something_else_is_refused(project):
    project.topics("aaa", "bbb")
    on_pattern, exact = project.subscription("*"), project.subscription("aaa")
    of_pattern, of_exact = project.snapshot(on_pattern), project.snapshot(exact)
    for subscription, name in (
        (on_pattern, of_exact),
        (exact, of_pattern),
        (project.subscription("#"), of_pattern),
    ):
        with pytest.raises(FailedPrecondition, match="topic"):
            project.seek(subscription, snapshot=name)


def test_seeking_moves_an_open_stream(project):
    project.topics("aaa", "bbb")
    subscription = project.subscription("*")
    name = project.snapshot(subscription)
    stream = project.server.open_stream(subscription)
    project.publish("aaa", b"0")
    project.publish("bbb", b"1")
    first = stream.messages(2)
    stream.send(ack_ids=[one.ack_id for one in first])
    project.server.await_drained(subscription)
    project.seek(subscription, snapshot=name)
    assert project.shown(stream.messages(2)) == [("aaa", b"0"), ("bbb", b"1")]


def test_a_filter_and_a_pattern_after_a_restart(start_server):
    server = start_server()
    project = Project(server)
    project.topics("orders.eu", "orders.us")
    subscription = project.subscription("orders.*", filter="payload.amount >= 10")
    for name in ("orders.eu", "orders.us"):
        project.publish(name, b'{"amount": 5}', b'{"amount": 15}', b"no JSON")
    server.restart()
    project.topic("orders.asia")
    project.publish("orders.asia", b'{"amount": 25}', b'{"amount": 9}')
    assert project.take(subscription) == [
        ("orders.asia", b'{"amount": 25}'),
        ("orders.eu", b'{"amount": 15}'),
        ("orders.us", b'{"amount": 15}'),
    ]
    server.await_metric(BACKLOG, subscription, 0)
    server.restart()
    assert project.take(subscription) == []
