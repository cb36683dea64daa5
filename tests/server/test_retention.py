"""What expires, what keeps it alive, and what the log lets go of."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import NotFound
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.broker.clock import ManualClock
from server.conftest import RunningServer, StartServer

#: Topics that say nothing keep nothing here: what the default adds is in `test_default_retention`.
SETTINGS = {"topic_retention": 0.0}


MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86_400
#: An idle subscription may live this much longer: so coarsely is its last use written down.
SLACK_S = HOUR_S


def data(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]


def take(server: RunningServer, subscription: str) -> list[bytes]:
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    return data(received)


def start_of(server: RunningServer, topic: str) -> int:
    """First offset that the log still has of a topic."""
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    return int(server.store.bounds(partition).start)


def backlog(server: RunningServer, subscription: str) -> int:
    found = server.broker.hard.catalog.subscription(subscription)
    return server.run(server.broker.backlogs.measure(found)).messages


def exists(server: RunningServer, subscription: str) -> bool:
    # In process: asking through the API would be a use of the subscription.
    return server.broker.hard.catalog.has_subscription(subscription)


def pass_time(server: RunningServer, seconds: float) -> None:
    server.advance(seconds)
    server.sweep()


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


# Messages.


def test_an_unacknowledged_message_expires_with_the_subscriptions_retention(server):
    topic, short = server.topic_and_subscription(
        message_retention_duration=Duration(seconds=10 * MINUTE_S)
    )
    long = server.subscription(topic)
    server.publish(topic, b"0", b"1")
    pass_time(server, 5 * MINUTE_S)
    server.publish(topic, b"2")

    pass_time(server, 5 * MINUTE_S)
    assert backlog(server, short) == 3
    pass_time(server, 1)
    assert backlog(server, short) == 1
    assert data(server.pull(short)) == [b"2"]
    # The other subscription has its own, and the log keeps the messages for it.
    assert data(server.pull(long)) == [b"0", b"1", b"2"]
    pass_time(server, 7 * DAY_S)
    assert server.pull(long) == []
    assert start_of(server, topic) == 3


def test_a_leased_message_expires_too_and_its_ack_is_harmless(server):
    topic, subscription = server.topic_and_subscription(
        message_retention_duration=Duration(seconds=10 * MINUTE_S), ack_deadline_seconds=600
    )
    server.publish(topic, b"0")
    pass_time(server, 9 * MINUTE_S)
    leased = server.pull(subscription)
    pass_time(server, 2 * MINUTE_S)
    assert backlog(server, subscription) == 0
    server.ack(subscription, leased)
    pass_time(server, 10 * MINUTE_S)
    assert server.pull(subscription) == []


def test_a_shorter_retention_holds_for_what_is_there(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"0")
    pass_time(server, HOUR_S)
    assert backlog(server, subscription) == 1
    server.subscriber.update_subscription(
        request={
            "subscription": {
                "name": subscription,
                "message_retention_duration": Duration(seconds=600),
            },
            "update_mask": {"paths": ["message_retention_duration"]},
        }
    )
    server.sweep()
    assert backlog(server, subscription) == 0


def test_expiry_in_the_middle_of_a_key_lets_the_rest_come(server):
    topic, subscription = server.topic_and_subscription(
        message_retention_duration=Duration(seconds=10 * MINUTE_S), enable_message_ordering=True
    )
    server.publish(topic, b"0", key="k")
    pass_time(server, 9 * MINUTE_S + 55)
    server.publish(topic, b"1", b"2", key="k")
    assert data(server.pull(subscription, max_messages=1)) == [b"0"]
    pass_time(server, 6)
    assert take(server, subscription) == [b"1", b"2"]


# The log.


def test_what_everybody_acknowledged_is_let_go_of(server):
    topic, first = server.topic_and_subscription()
    second = server.subscription(topic)
    server.publish(topic, *[b"%d" % n for n in range(10)])
    server.ack(first, server.pull(first))
    server.sweep()
    assert start_of(server, topic) == 0
    received = server.pull(second)
    server.ack(second, received[:4])
    server.sweep()
    assert start_of(server, topic) == 4
    server.ack(second, received[5:])
    server.sweep()
    assert start_of(server, topic) == 4
    server.ack(second, received[4:5])
    server.sweep()
    assert start_of(server, topic) == 10


def test_a_topic_nobody_reads_keeps_nothing_unless_it_retains(server):
    plain = server.topic()
    retaining = server.topic(message_retention_duration=Duration(seconds=HOUR_S))
    for topic in (plain, retaining):
        server.publish(topic, b"0", b"1")
    server.sweep()
    assert start_of(server, plain) == 2
    assert start_of(server, retaining) == 0
    pass_time(server, HOUR_S + 1)
    assert start_of(server, retaining) == 2


def test_acknowledged_ones_that_are_retained_stay_for_the_retention(server):
    topic, subscription = server.topic_and_subscription(
        retain_acked_messages=True, message_retention_duration=Duration(seconds=HOUR_S)
    )
    server.publish(topic, b"0")
    assert take(server, subscription) == [b"0"]
    pass_time(server, HOUR_S)
    assert start_of(server, topic) == 0
    pass_time(server, 1)
    assert start_of(server, topic) == 1


def test_deleting_and_detaching_let_go(server):
    topic, deleted = server.topic_and_subscription()
    detached = server.subscription(topic)
    server.publish(topic, b"0", b"1")
    server.subscriber.delete_subscription(subscription=deleted)
    server.sweep()
    assert start_of(server, topic) == 0
    server.publisher.detach_subscription(request={"subscription": detached})
    server.sweep()
    assert start_of(server, topic) == 2


def test_a_deleted_topic_goes_when_its_last_reader_has(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"0")
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    server.publisher.delete_topic(topic=topic)
    server.sweep()
    assert partition in server.store.partitions()
    server.subscriber.delete_subscription(subscription=subscription)
    server.sweep()
    assert partition not in server.store.partitions()


def test_the_disk_gets_its_pages_back(start_server: StartServer):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    megabyte = bytes(1_000_000)

    def fill_and_drain() -> int:
        for _ in range(8):
            server.publish(topic, megabyte)
        server.drain(subscription, 8)
        server.sweep()
        while server.store.has_garbage:
            server.sweep()
        return int(server.store.stats().file_bytes)

    first = fill_and_drain()
    assert server.store.stats().free_bytes > 7_000_000
    # The same pages are used again and again.
    assert max(fill_and_drain() for _ in range(4)) <= first + 4_000_000


def test_nothing_remains_of_what_was_deleted(start_server: StartServer):
    server = start_server(clock=ManualClock())
    before = {key for key, _ in server.store.state()}
    topic, dead = server.topic(), server.topic()
    subscriptions = [
        server.subscription(topic, **fields)
        for fields in (
            {},
            {"enable_exactly_once_delivery": True},
            {"enable_message_ordering": True, "retain_acked_messages": True},
            {"dead_letter_policy": {"dead_letter_topic": dead, "max_delivery_attempts": 9}},
        )
    ]
    server.publish(topic, *[b"%d" % n for n in range(20)])
    snapshots = []
    for subscription in subscriptions:
        received = server.pull(subscription)
        server.ack(subscription, received[5:10])
        server.nack(subscription, received[:5])
        snapshot = subscription.replace("subscriptions", "snapshots")
        server.subscriber.create_snapshot(name=snapshot, subscription=subscription)
        snapshots.append(snapshot)
    pass_time(server, 2 * HOUR_S)
    for subscription in subscriptions:
        server.pull(subscription)
    assert len({key for key, _ in server.store.state()}) > len(before) + 12

    for snapshot in snapshots:
        server.subscriber.delete_snapshot(snapshot=snapshot)
    for subscription in subscriptions:
        server.subscriber.delete_subscription(subscription=subscription)
    for name in (topic, dead):
        server.publisher.delete_topic(topic=name)
    server.sweep()
    while server.store.has_garbage:
        server.sweep()

    assert {key for key, _ in server.store.state()} == before
    assert not server.store.partitions()
    server.restart()
    assert server.broker.hard.activity == {}


# Idle subscriptions.


def idle_subscription(server: RunningServer, days: int = 1) -> tuple[str, str]:
    return server.topic_and_subscription(
        expiration_policy={"ttl": Duration(seconds=days * DAY_S)},
        message_retention_duration=Duration(seconds=HOUR_S),
    )


def test_an_idle_subscription_expires_and_publishing_does_not_keep_it(server):
    topic, subscription = idle_subscription(server)
    kept = server.subscription(topic, expiration_policy={})
    pass_time(server, DAY_S - 1)
    server.publish(topic, b"0")
    assert exists(server, subscription)
    pass_time(server, SLACK_S + 2)
    assert not exists(server, subscription)
    with pytest.raises(NotFound, match=subscription):
        server.pull(subscription)
    pass_time(server, 1000 * DAY_S)
    assert exists(server, kept)


@pytest.mark.parametrize(
    "use",
    [
        lambda server, name: server.pull(name),
        lambda server, name: server.subscriber.get_subscription(subscription=name),
        lambda server, name: server.subscriber.seek(
            request={"subscription": name, "time": Timestamp(seconds=1)}
        ),
        lambda server, name: server.subscriber.update_subscription(
            request={
                "subscription": {"name": name, "labels": {"a": "b"}},
                "update_mask": {"paths": ["labels"]},
            }
        ),
        lambda server, name: server.subscriber.create_snapshot(
            name=name.replace("subscriptions", "snapshots"), subscription=name
        ),
    ],
    ids=["pull", "get", "seek", "update", "snapshot"],
)
def test_any_use_keeps_it_alive(server, use):
    _, subscription = idle_subscription(server)
    pass_time(server, DAY_S - MINUTE_S)
    use(server, subscription)
    pass_time(server, DAY_S - MINUTE_S)
    assert exists(server, subscription)
    pass_time(server, SLACK_S + 2 * MINUTE_S)
    assert not exists(server, subscription)


def test_acknowledging_keeps_it_alive(server):
    topic, subscription = idle_subscription(server)
    pass_time(server, DAY_S - MINUTE_S)
    server.publish(topic, b"0")
    leased = server.pull(subscription)
    server.advance(MINUTE_S / 2)
    server.ack(subscription, leased)
    pass_time(server, DAY_S - 1)
    assert exists(server, subscription)


def test_an_open_stream_keeps_it_alive(server):
    topic, subscription = idle_subscription(server)
    server.publish(topic, b"0")
    stream = server.open_stream(subscription)
    stream.messages(1)
    for _ in range(4):
        pass_time(server, DAY_S - 1)
        assert exists(server, subscription)
    stream.half_close()
    stream.wait_closed()
    pass_time(server, DAY_S + SLACK_S + 1)
    assert not exists(server, subscription)


def test_a_shorter_expiry_counts_from_the_update(server):
    _, subscription = idle_subscription(server, days=31)
    pass_time(server, 20 * DAY_S)
    server.subscriber.update_subscription(
        request={
            "subscription": {
                "name": subscription,
                "expiration_policy": {"ttl": Duration(seconds=DAY_S)},
            },
            "update_mask": {"paths": ["expiration_policy"]},
        }
    )
    server.sweep()
    assert exists(server, subscription)
    pass_time(server, DAY_S + SLACK_S + 1)
    assert not exists(server, subscription)


def test_use_is_remembered_over_a_restart(start_server: StartServer):
    server = start_server(clock=ManualClock())
    _, subscription = idle_subscription(server)
    pass_time(server, DAY_S - MINUTE_S)
    server.pull(subscription)
    server.restart()
    pass_time(server, DAY_S - MINUTE_S)
    assert exists(server, subscription)
    pass_time(server, SLACK_S + 2 * MINUTE_S)
    assert not exists(server, subscription)


def test_after_a_long_stop_consumers_have_time_to_come_back(start_server: StartServer):
    server = start_server(clock=ManualClock())
    _, used = idle_subscription(server)
    _, idle = idle_subscription(server)
    server.stop()
    server.clock.advance(100 * DAY_S)
    server.start()
    pass_time(server, HOUR_S - 1)
    server.pull(used)
    pass_time(server, 2)
    assert not exists(server, idle)
    assert exists(server, used)
