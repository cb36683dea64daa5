"""Snapshots: exactly what was not acknowledged, and everything published later."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    MethodNotImplemented,
    NotFound,
)
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.pubsub_v1 import types

from fanlog.broker.clock import ManualClock
from server.conftest import PROJECT, RunningServer
from server.unique import unique

HOUR_S = 3600
DAY_S = 86_400


def snapshot_name() -> str:
    return f"projects/{PROJECT}/snapshots/{unique('snapshot')}"


def snapshot(server: RunningServer, subscription: str, **fields: Any) -> str:
    request = {"name": snapshot_name(), "subscription": subscription} | fields
    return str(server.subscriber.create_snapshot(request=request).name)


def seek(server: RunningServer, subscription: str, name: str) -> None:
    server.subscriber.seek(request={"subscription": subscription, "snapshot": name}, retry=None)


def update(server: RunningServer, paths: list[str], **fields: Any) -> types.Snapshot:
    return server.subscriber.update_snapshot(
        request={"snapshot": fields, "update_mask": {"paths": paths}}, retry=None
    )


def data(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]


def take(server: RunningServer, subscription: str) -> list[bytes]:
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    return data(received)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


def test_one_without_a_name_gets_one_in_the_project_of_its_subscription(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"0")
    made = [
        server.subscriber.create_snapshot(request={"subscription": subscription}) for _ in range(2)
    ]
    first, second = (one.name for one in made)
    assert first != second
    assert first.startswith(f"projects/{PROJECT}/snapshots/")
    assert server.subscriber.get_snapshot(snapshot=first).topic == topic
    take(server, subscription)
    seek(server, subscription, second)
    assert take(server, subscription) == [b"0"]
    with pytest.raises(InvalidArgument, match="subscription: a name is required"):
        server.subscriber.create_snapshot(request={"labels": {"a": "b"}})


def test_a_snapshot_comes_back_as_it_was_made(server):
    topic, subscription = server.topic_and_subscription()
    name = snapshot_name()
    made = server.subscriber.create_snapshot(
        request={"name": name, "subscription": subscription, "labels": {"why": "deploy"}}
    )
    expires = Timestamp(seconds=int(server.clock.now()) + 7 * DAY_S)
    assert made == types.Snapshot(
        name=name, topic=topic, expire_time=expires, labels={"why": "deploy"}
    )
    assert server.subscriber.get_snapshot(snapshot=name) == made
    assert made in list(server.subscriber.list_snapshots(project=f"projects/{PROJECT}"))
    assert list(server.publisher.list_topic_snapshots(topic=topic)) == [name]


def test_it_remembers_the_unacknowledged_and_what_comes_later(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, *numbered(4))
    received = server.pull(subscription)
    server.ack(subscription, received[:2])
    name = snapshot(server, subscription)
    server.ack(subscription, received[2:])
    server.publish(topic, b"later")
    assert take(server, subscription) == [b"later"]
    server.sweep()

    seek(server, subscription, name)

    assert take(server, subscription) == [b"2", b"3", b"later"]
    # Again, and with what was published since.
    server.publish(topic, b"later still")
    assert take(server, subscription) == [b"later still"]
    seek(server, subscription, name)
    assert take(server, subscription) == [b"2", b"3", b"later", b"later still"]


def test_acknowledgements_out_of_order_are_remembered_one_by_one(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, *numbered(1000))
    received = server.pull(subscription)
    server.ack(subscription, received[1::3])
    name = snapshot(server, subscription)
    server.ack(subscription, received)
    server.sweep()
    seek(server, subscription, name)
    expected = [m for number, m in enumerate(numbered(1000)) if number % 3 != 1]
    assert take(server, subscription) == expected


def test_what_is_leased_at_the_moment_is_not_acknowledged(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, *numbered(3))
    leased = server.pull(subscription, max_messages=2)
    name = snapshot(server, subscription)
    # The snapshot leaves the leases alone.
    assert take(server, subscription) == [b"2"]
    server.ack(subscription, leased)
    seek(server, subscription, name)
    assert take(server, subscription) == [b"0", b"1", b"2"]


def test_what_is_acknowledged_out_of_order_within_a_key_is_not_yet_acknowledged(server):
    topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
    server.publish(topic, *numbered(3), key="k")
    received = server.pull(subscription)
    server.ack(subscription, received[1:2])
    name = snapshot(server, subscription)
    server.ack(subscription, received)
    seek(server, subscription, name)
    assert take(server, subscription) == [b"0", b"1", b"2"]


def test_seeking_to_a_snapshot_acknowledges_what_it_has_acknowledged(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    server.publish(topic, *numbered(3))
    server.ack(subscription, server.pull(subscription)[:2])
    name = snapshot(server, subscription)
    server.subscriber.seek(request={"subscription": subscription, "time": Timestamp(seconds=0)})
    seek(server, subscription, name)
    assert take(server, subscription) == [b"2"]


def test_another_subscription_of_the_topic_can_take_it_over(server):
    topic, first = server.topic_and_subscription()
    server.publish(topic, *numbered(4))
    server.ack(first, server.pull(first, max_messages=3))
    name = snapshot(server, first)
    second = server.subscription(topic)
    assert take(server, second) == []
    seek(server, second, name)
    assert take(server, second) == [b"3"]


def test_a_snapshot_of_another_topic_is_refused(server):
    topic, subscription = server.topic_and_subscription()
    _, other = server.topic_and_subscription()
    server.publish(topic, b"0")
    name = snapshot(server, other)
    with pytest.raises(FailedPrecondition, match=f"{name}.*not of.*{topic}"):
        seek(server, subscription, name)
    assert take(server, subscription) == [b"0"]


def test_a_topic_made_again_is_another_topic_for_its_snapshots(server):
    topic, subscription = server.topic_and_subscription()
    name = snapshot(server, subscription)
    server.publisher.delete_topic(topic=topic)
    server.publisher.create_topic(name=topic)
    new = server.subscription(topic)
    assert server.subscriber.get_snapshot(snapshot=name).topic == "_deleted-topic_"
    assert list(server.publisher.list_topic_snapshots(topic=topic)) == []
    with pytest.raises(FailedPrecondition, match=name):
        seek(server, new, name)


def test_a_snapshot_outlives_its_subscription_and_its_topic(server):
    topic, subscription = server.topic_and_subscription()
    reader = server.subscription(topic)
    server.publish(topic, *numbered(2))
    name = snapshot(server, subscription)
    server.subscriber.delete_subscription(subscription=subscription)
    server.publisher.delete_topic(topic=topic)
    assert take(server, reader) == [b"0", b"1"]
    server.sweep()
    seek(server, reader, name)
    assert take(server, reader) == [b"0", b"1"]


def test_all_of_it_survives_a_restart(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, *numbered(10))
    received = server.pull(subscription)
    server.ack(subscription, received[::2])
    name = snapshot(server, subscription, labels={"a": "b"})
    before = server.subscriber.get_snapshot(snapshot=name)
    server.ack(subscription, received)
    server.sweep()
    server.restart()
    server.sweep()
    assert server.subscriber.get_snapshot(snapshot=name) == before
    assert take(server, subscription) == []
    seek(server, subscription, name)
    assert take(server, subscription) == [b"1", b"3", b"5", b"7", b"9"]


def test_it_expires_seven_days_after_its_oldest_message(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"0")
    server.advance(2 * DAY_S)
    name = snapshot(server, subscription)
    expires = server.subscriber.get_snapshot(snapshot=name).expire_time
    assert expires.timestamp() == server.clock.now() + 5 * DAY_S
    server.advance(5 * DAY_S - 1)
    server.sweep()
    server.subscriber.get_snapshot(snapshot=name)
    server.advance(1)
    server.sweep()
    with pytest.raises(NotFound, match=name):
        server.subscriber.get_snapshot(snapshot=name)
    with pytest.raises(NotFound, match=name):
        seek(server, subscription, name)


def test_one_that_would_live_less_than_an_hour_is_refused(server):
    topic, subscription = server.topic_and_subscription(
        message_retention_duration=Duration(seconds=31 * DAY_S),
        expiration_policy={},
    )
    server.publish(topic, b"0")
    server.advance(7 * DAY_S - HOUR_S + 1)
    with pytest.raises(FailedPrecondition, match="too old"):
        snapshot(server, subscription)
    # Acknowledged, it is not in the way.
    assert take(server, subscription) == [b"0"]
    snapshot(server, subscription)


def test_expiry_frees_what_only_the_snapshot_held(lean_server):
    topic, subscription = lean_server.topic_and_subscription()
    lean_server.publish(topic, *numbered(5))
    name = snapshot(lean_server, subscription)
    assert len(take(lean_server, subscription)) == 5
    partition = lean_server.broker.hard.catalog.topic(topic).partitions[0]
    lean_server.sweep()
    assert lean_server.store.bounds(partition).start == 0
    update(
        lean_server,
        ["expire_time"],
        name=name,
        expire_time=Timestamp(seconds=int(lean_server.clock.now()) + 60),
    )
    lean_server.advance(61)
    lean_server.sweep()
    assert lean_server.store.bounds(partition).start == 5


def test_labels_and_expiry_can_be_updated(server):
    _, subscription = server.topic_and_subscription()
    name = snapshot(server, subscription, labels={"old": "x"})
    assert update(server, ["labels"], name=name, labels={"new": "y"}).labels == {"new": "y"}
    expires = Timestamp(seconds=int(server.clock.now()) + DAY_S)
    updated = update(server, ["expire_time"], name=name, expire_time=expires, labels={"z": "z"})
    assert updated.expire_time.timestamp() == server.clock.now() + DAY_S
    assert updated.labels == {"new": "y"}
    assert server.subscriber.get_snapshot(snapshot=name) == updated
    assert update(server, ["labels"], name=name).labels == {}


@pytest.mark.parametrize(
    ("paths", "fields", "sentence"),
    [
        ([], {}, "update_mask: empty"),
        (["colour"], {}, "'colour' is not a field"),
        (["name"], {}, "'name' cannot be changed"),
        (["topic"], {}, "'topic' cannot be changed"),
        (["expire_time"], {}, "expire_time: named in update_mask, but not set"),
        (["expire_time"], {"expire_time": Timestamp(seconds=1)}, "expire_time"),
        (["expire_time"], {"expire_time": Timestamp(seconds=9_000_000_000)}, "at most 7 days"),
        (["labels"], {"labels": {"Bad": "x"}}, "'Bad'"),
    ],
)
def test_updates_that_are_refused_change_nothing(server, paths, fields, sentence):
    _, subscription = server.topic_and_subscription()
    name = snapshot(server, subscription, labels={"old": "x"})
    before = server.subscriber.get_snapshot(snapshot=name)
    with pytest.raises(InvalidArgument, match=sentence):
        update(server, paths, name=name, **fields)
    assert server.subscriber.get_snapshot(snapshot=name) == before


def test_refusals(server):
    _, subscription = server.topic_and_subscription()
    name = snapshot(server, subscription)
    with pytest.raises(AlreadyExists, match=name):
        server.subscriber.create_snapshot(name=name, subscription=subscription)
    with pytest.raises(NotFound, match="no-such"):
        snapshot(server, f"projects/{PROJECT}/subscriptions/no-such")
    with pytest.raises(InvalidArgument, match="name"):
        snapshot(server, subscription, name=f"projects/{PROJECT}/snapshots/1st")
    with pytest.raises(InvalidArgument, match="labels"):
        snapshot(server, subscription, labels={"Bad": "x"})
    with pytest.raises(MethodNotImplemented, match="tags"):
        snapshot(server, subscription, tags={"1/2": "3"})
    missing = f"projects/{PROJECT}/snapshots/no-such"
    for call in (
        lambda: server.subscriber.get_snapshot(snapshot=missing),
        lambda: server.subscriber.delete_snapshot(snapshot=missing),
        lambda: update(server, ["labels"], name=missing),
    ):
        with pytest.raises(NotFound, match=missing):
            call()


def test_a_deleted_snapshot_is_gone_and_holds_nothing(lean_server):
    topic, subscription = lean_server.topic_and_subscription()
    lean_server.publish(topic, *numbered(3))
    name = snapshot(lean_server, subscription)
    assert len(take(lean_server, subscription)) == 3
    lean_server.subscriber.delete_snapshot(snapshot=name)
    with pytest.raises(NotFound):
        seek(lean_server, subscription, name)
    lean_server.sweep()
    partition = lean_server.broker.hard.catalog.topic(topic).partitions[0]
    assert lean_server.store.bounds(partition).start == 3
