"""Seek to a time, and where a new subscription begins."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from google.api_core.exceptions import InvalidArgument, NotFound
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.broker.clock import ManualClock
from server.conftest import PROJECT, RunningServer

HOUR_S = 3600
DAY_S = 86_400


def at(seconds: float) -> Timestamp:
    whole, part = divmod(round(seconds * 1_000_000_000), 1_000_000_000)
    return Timestamp(seconds=whole, nanos=part)


def seek(server: RunningServer, subscription: str, seconds: float) -> None:
    server.subscriber.seek(request={"subscription": subscription, "time": at(seconds)}, retry=None)


def data(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]


def take(server: RunningServer, subscription: str) -> list[bytes]:
    """Pull everything there is and acknowledge it."""
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    return data(received)


def publish_hourly(server: RunningServer, topic: str, *messages: bytes) -> list[float]:
    """Publish one message an hour; when each was."""
    times = []
    for message in messages:
        times.append(server.clock.now())
        server.publish(topic, message)
        server.advance(HOUR_S)
    return times


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


def test_back_into_acknowledged_messages_that_are_retained(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    times = publish_hourly(server, topic, b"0", b"1", b"2", b"3")
    assert take(server, subscription) == [b"0", b"1", b"2", b"3"]
    server.sweep()

    seek(server, subscription, times[2])
    assert take(server, subscription) == [b"2", b"3"]
    # Just after a message's time it is not of those any more.
    seek(server, subscription, times[2] + 1e-6)
    assert take(server, subscription) == [b"3"]
    # Long ago: everything that is retained.
    seek(server, subscription, 0)
    assert take(server, subscription) == [b"0", b"1", b"2", b"3"]


def test_without_retention_the_acknowledged_stay_acknowledged(lean_server):
    topic, subscription = lean_server.topic_and_subscription()
    times = publish_hourly(lean_server, topic, b"0", b"1", b"2", b"3")
    received = lean_server.pull(subscription)
    lean_server.ack(subscription, [received[0], received[2]])

    seek(lean_server, subscription, times[0])

    assert take(lean_server, subscription) == [b"1", b"3"]
    seek(lean_server, subscription, 0)
    assert take(lean_server, subscription) == []


def test_forward_acknowledges_what_was_published_before(server):
    topic, subscription = server.topic_and_subscription()
    times = publish_hourly(server, topic, b"0", b"1", b"2", b"3")
    seek(server, subscription, times[2])
    assert take(server, subscription) == [b"2", b"3"]


def test_the_future_purges_and_what_comes_later_is_delivered(server):
    topic, subscription = server.topic_and_subscription()
    publish_hourly(server, topic, b"0", b"1")
    leased = server.pull(subscription, max_messages=1)
    seek(server, subscription, server.clock.now() + 100 * DAY_S)
    assert take(server, subscription) == []
    server.publish(topic, b"2")
    # An ack id from before the seek is stale: it says nothing about what is there now.
    server.ack(subscription, leased)
    assert take(server, subscription) == [b"2"]


def test_the_future_with_retained_messages_can_be_undone(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    times = publish_hourly(server, topic, b"0", b"1")
    seek(server, subscription, 253_402_300_799)
    server.sweep()
    assert take(server, subscription) == []
    seek(server, subscription, times[1])
    assert take(server, subscription) == [b"1"]


def test_leases_are_void_after_a_seek(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    [time] = publish_hourly(server, topic, b"0")
    leased = server.pull(subscription)
    seek(server, subscription, time)
    again = server.pull(subscription)
    assert data(again) == [b"0"]
    server.ack(subscription, leased)
    server.nack(subscription, again)
    assert take(server, subscription) == [b"0"]


def test_a_topic_that_retains_lets_a_newer_subscription_go_back_before_it_was_made(server):
    topic = server.topic(message_retention_duration=Duration(seconds=DAY_S))
    times = publish_hourly(server, topic, b"0", b"1", b"2")
    server.sweep()
    subscription = server.subscription(topic)
    server.publish(topic, b"3")
    assert take(server, subscription) == [b"3"]
    seek(server, subscription, times[1])
    assert take(server, subscription) == [b"1", b"2", b"3"]


def test_topic_retention_reaches_further_than_the_subscriptions_own(server):
    topic = server.topic(message_retention_duration=Duration(seconds=2 * DAY_S))
    subscription = server.subscription(topic, message_retention_duration=Duration(seconds=600))
    times = publish_hourly(server, topic, b"0", b"1")
    assert take(server, subscription) == [b"0", b"1"]
    server.advance(DAY_S)
    seek(server, subscription, times[0])
    # Always available to subscribers while the topic retains them, as Google puts it.
    server.sweep()
    assert take(server, subscription) == [b"0", b"1"]


def test_what_the_topic_retained_no_longer_does_not_come_back(server):
    topic = server.topic(message_retention_duration=Duration(seconds=2 * HOUR_S))
    subscription = server.subscription(topic)
    publish_hourly(server, topic, b"0", b"1", b"2", b"3")
    assert take(server, subscription) == [b"0", b"1", b"2", b"3"]
    seek(server, subscription, 0)
    # Published 4, 3, 2 and 1 hours ago.
    assert take(server, subscription) == [b"2", b"3"]


def test_what_the_subscription_retained_no_longer_does_not_come_back(server):
    topic, subscription = server.topic_and_subscription(
        retain_acked_messages=True, message_retention_duration=Duration(seconds=2 * HOUR_S)
    )
    for message in (b"0", b"1", b"2", b"3"):
        server.publish(topic, message)
        assert take(server, subscription) == [message]
        server.advance(HOUR_S)
    seek(server, subscription, 0)
    assert take(server, subscription) == [b"2", b"3"]


def test_others_are_not_moved(server):
    topic, moved = server.topic_and_subscription(retain_acked_messages=True)
    other = server.subscription(topic)
    times = publish_hourly(server, topic, b"0", b"1")
    assert take(server, moved) == take(server, other) == [b"0", b"1"]
    seek(server, moved, times[0])
    assert take(server, other) == []
    assert take(server, moved) == [b"0", b"1"]


def test_a_waiting_consumer_gets_what_a_seek_brings_back(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    [time] = publish_hourly(server, topic, b"0")
    stream = server.open_stream(subscription)
    [received] = stream.messages(1)
    stream.send(ack_ids=[received.ack_id])
    seek(server, subscription, time)
    assert data(stream.messages(1)) == [b"0"]
    stream.close()


def test_order_holds_over_a_seek(server):
    topic, subscription = server.topic_and_subscription(
        retain_acked_messages=True, enable_message_ordering=True
    )
    time = server.clock.now()
    messages = [b"%d" % number for number in range(20)]
    server.publish(topic, *messages, key="k")
    server.pull(subscription, max_messages=7)
    seek(server, subscription, time)
    assert take(server, subscription) == messages


def test_a_seek_survives_a_restart(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    times = publish_hourly(server, topic, b"0", b"1", b"2")
    assert take(server, subscription) == [b"0", b"1", b"2"]
    seek(server, subscription, times[1])
    server.restart()
    assert take(server, subscription) == [b"1", b"2"]


def test_refusals(server):
    _, subscription = server.topic_and_subscription()
    verb = server.subscriber.seek
    with pytest.raises(InvalidArgument, match="target"):
        verb(request={"subscription": subscription}, retry=None)
    with pytest.raises(InvalidArgument, match="time"):
        verb(
            request={"subscription": subscription, "time": Timestamp(seconds=1, nanos=-1)},
            retry=None,
        )
    with pytest.raises(NotFound, match="no-such"):
        seek(server, f"projects/{PROJECT}/subscriptions/no-such", 0)
    with pytest.raises(NotFound, match="no-such"):
        verb(
            request={
                "subscription": subscription,
                "snapshot": f"projects/{PROJECT}/snapshots/no-such",
            },
            retry=None,
        )
    with pytest.raises(InvalidArgument, match="snapshot"):
        verb(request={"subscription": subscription, "snapshot": "nonsense"}, retry=None)


# The label `fanlog-start`.


def test_a_subscription_begins_now_unless_told(server):
    topic = server.topic(message_retention_duration=Duration(seconds=DAY_S))
    server.publish(topic, b"before")
    subscriptions = [
        server.subscription(topic),
        server.subscription(topic, labels={"fanlog-start": "now"}),
    ]
    server.publish(topic, b"after")
    assert [take(server, s) for s in subscriptions] == [[b"after"]] * 2


def test_a_subscription_begins_at_the_earliest_message_there_is(server):
    topic = server.topic(message_retention_duration=Duration(seconds=2 * HOUR_S))
    publish_hourly(server, topic, b"0", b"1", b"2", b"3")
    server.sweep()
    subscription = server.subscription(topic, labels={"fanlog-start": "earliest"})
    assert take(server, subscription) == [b"2", b"3"]


def test_a_subscription_begins_at_a_time(server):
    topic = server.topic(message_retention_duration=Duration(seconds=DAY_S))
    server.advance(0.123457)
    times = publish_hourly(server, topic, b"0", b"1", b"2")

    def begin(seconds: float) -> list[bytes]:
        start = datetime.fromtimestamp(seconds, UTC).isoformat()
        return take(server, server.subscription(topic, labels={"fanlog-start": start}))

    # A label has microseconds, and a clock of floats may be a little less than one off.
    assert begin(times[1] - 1e-6) == [b"1", b"2"]
    assert begin(times[1] + 2e-6) == [b"2"]
    assert begin(0) == [b"0", b"1", b"2"]
    assert begin(server.clock.now() + DAY_S) == []


def test_a_start_in_the_future_gives_what_comes_next(server):
    topic = server.topic()
    start = datetime.fromtimestamp(server.clock.now() + DAY_S, UTC).isoformat()
    subscription = server.subscription(topic, labels={"fanlog-start": start})
    server.publish(topic, b"next")
    assert take(server, subscription) == [b"next"]
