"""Priorities: higher first among what is deliverable, and low ones never starve."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import InvalidArgument
from google.pubsub_v1.types import DeadLetterPolicy

from fanlog.broker.clock import ManualClock
from fanlog.limits import PRIORITY_FLOOR_PART
from server.receiver import receiving


def data(received):
    return [one.message.data for one in received]


def take(server, subscription, count=1000):
    received = server.pull(subscription, max_messages=count)
    if received:
        server.ack(subscription, received)
    return data(received)


def urgent(server, topic, priority, *messages, **attributes):
    key = attributes.pop("key", "")
    named = {"fanlog-priority": str(priority)}
    return server.publish(topic, *messages, key=key, **attributes, **named)


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture(params=[False, True], ids=["unordered", "ordered"])
def topic_and_subscription(server, request):
    topic = server.topic()
    return topic, server.subscription(topic, enable_message_ordering=request.param)


def test_the_highest_first_and_the_oldest_of_them(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, b"0a")
    urgent(server, topic, 5, b"5a")
    urgent(server, topic, 9, b"9a")
    urgent(server, topic, 0, b"0b")
    urgent(server, topic, 5, b"5b")
    urgent(server, topic, 9, b"9b")
    assert take(server, subscription) == [b"9a", b"9b", b"5a", b"5b", b"0a", b"0b"]
    assert take(server, subscription) == []


def test_one_at_a_time(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, b"low 1", b"low 2")
    urgent(server, topic, 1, b"high 1", b"high 2")
    found = [take(server, subscription, 1) for _ in range(5)]
    assert found == [[b"high 1"], [b"high 2"], [b"low 1"], [b"low 2"], []]


def test_later_ones_overtake_what_waits(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, *[b"low"] * 5)
    assert take(server, subscription, 2) == [b"low"] * 2
    urgent(server, topic, 3, b"high")
    assert take(server, subscription, 2) == [b"high", b"low"]
    assert take(server, subscription) == [b"low"] * 2


def test_low_ones_never_starve(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, *[b"low"] * 10)
    urgent(server, topic, 9, *[b"high"] * 200)
    for count in (1, 3, 20):
        got: list[bytes] = []
        while len(got) < 40:
            found = take(server, subscription, count)
            urgent(server, topic, 9, *[b"high"] * len(found))
            got += found
        low = got.count(b"low")
        assert len(got) // (2 * PRIORITY_FLOOR_PART) <= low <= len(got) // 4
        server.publish(topic, *[b"low"] * low)


def test_answers_that_bytes_fill_have_low_ones_too(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, *[b"l" * 2_000_000] * 2)
    for _ in range(12):
        urgent(server, topic, 9, b"h" * 2_000_000)
    # One message an answer.
    found = [b"".join(take(server, subscription))[:1] for _ in range(14)]
    assert found.count(b"l") == 2
    assert b"l" in found[:PRIORITY_FLOOR_PART]


def test_a_nacked_one_is_first_again(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, b"low 1", b"low 2")
    urgent(server, topic, 9, b"high")
    received = server.pull(subscription, max_messages=1)
    assert data(received) == [b"high"]
    server.nack(subscription, received)
    assert take(server, subscription, 1) == [b"high"]
    assert take(server, subscription) == [b"low 1", b"low 2"]


def test_nacked_low_ones_wait_for_high_ones(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, b"low 1", b"low 2")
    received = server.pull(subscription)
    urgent(server, topic, 9, b"high")
    server.nack(subscription, received)
    assert take(server, subscription) == [b"high", b"low 1", b"low 2"]


def test_keys_keep_their_order(server):
    topic = server.topic()
    subscription = server.subscription(topic, enable_message_ordering=True)
    for number in range(6):
        server.publish(topic, b"k%d" % number, key="k")
        urgent(server, topic, 1 + number % 3, b"high")
    found = take(server, subscription)
    assert found[:6] == [b"high"] * 6
    assert found[6:] == [b"k%d" % number for number in range(6)]


def test_delayed_ones_are_urgent_when_they_are_due(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    urgent(server, topic, 9, b"high", **{"fanlog-delay": "10"})
    server.publish(topic, b"low 1", b"low 2", b"low 3")
    assert take(server, subscription, 1) == [b"low 1"]
    server.advance(11)
    assert take(server, subscription) == [b"high", b"low 2", b"low 3"]


def test_lapsed_ones_are_passed(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, b"low")
    urgent(server, topic, 9, b"gone", **{"fanlog-ttl": "5"})
    urgent(server, topic, 8, b"high")
    server.advance(6)
    assert take(server, subscription) == [b"high", b"low"]
    assert take(server, subscription) == []


def test_over_a_restart(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"low")
    urgent(server, topic, 9, b"high 1", b"high 2")
    received = server.pull(subscription, max_messages=1)
    server.ack(subscription, received)
    server.restart()
    assert take(server, subscription) == [b"high 2", b"low"]


def test_with_a_filter_and_exactly_once(server):
    topic = server.topic()
    subscription = server.subscription(
        topic, filter='attributes.colour = "red"', enable_exactly_once_delivery=True
    )
    server.publish(topic, b"low", colour="red")
    urgent(server, topic, 9, b"blue", colour="blue")
    urgent(server, topic, 5, b"high", colour="red")
    assert take(server, subscription) == [b"high", b"low"]


def test_a_copy_keeps_it(server):
    dead, topic = server.topic(), server.topic()
    letters = server.subscription(dead)
    subscription = server.subscription(
        topic, dead_letter_policy=DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=5)
    )
    server.publish(topic, b"low")
    urgent(server, topic, 9, b"high")
    for _ in range(5):
        received = server.await_pull(subscription)
        server.nack(subscription, sorted(received, key=lambda one: -len(one.message.data)))
    found = server.await_pull(letters)
    while len(found) < 2:
        found += server.await_pull(letters)
    assert sorted(data(found)) == [b"high", b"low"]
    [high] = [one for one in found if one.message.data == b"high"]
    assert high.message.attributes["fanlog-priority"] == "9"


def test_a_seek_back_has_the_same_order(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    name = subscription.replace("subscriptions", "snapshots")
    server.subscriber.create_snapshot(request={"name": name, "subscription": subscription})
    server.publish(topic, b"low")
    urgent(server, topic, 9, b"high")
    assert take(server, subscription) == [b"high", b"low"]
    server.subscriber.seek(request={"subscription": subscription, "snapshot": name})
    assert take(server, subscription) == [b"high", b"low"]


def test_what_was_trimmed_is_forgotten(lean_server):
    server = lean_server
    topic, subscription = server.topic_and_subscription()
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    urgent(server, topic, 9, b"high")
    assert take(server, subscription) == [b"high"]
    server.sweep()
    server.sweep()
    assert server.broker.hard.agendas.find(partition) is None


@pytest.mark.parametrize("priority", ["10", "-1", "high", "", "1.0", "٣"])
def test_refusals(server, priority):
    with pytest.raises(InvalidArgument, match=r"fanlog-priority is .*; 0 to 9 are allowed"):
        urgent(server, server.topic(), priority, b"x")


def test_never_with_an_ordering_key(server):
    with pytest.raises(InvalidArgument, match=r"messages\[0\].*ordering key 'k'.*leave one of"):
        urgent(server, server.topic(), 5, b"x", key="k")


def test_low_ones_do_not_starve_behind_urgent_ones_that_fail(server):
    for ordering in (False, True):
        topic, subscription = server.topic_and_subscription(enable_message_ordering=ordering)
        server.publish(topic, *[b"low"] * 3)
        urgent(server, topic, 9, *[b"high"] * 10)
        came = []
        for _ in range(4 * PRIORITY_FLOOR_PART):
            [one] = server.pull(subscription, max_messages=1)
            if one.message.data == b"low":
                server.ack(subscription, [one])
                came.append(one)
            else:
                server.nack(subscription, [one])
        assert len(came) == 3


def test_a_stream_gets_the_highest_first(server, topic_and_subscription):
    topic, subscription = topic_and_subscription
    server.publish(topic, *[b"low"] * 3)
    urgent(server, topic, 3, b"middle")
    urgent(server, topic, 9, b"high")
    stream = server.open_stream(subscription, max_outstanding_messages=1)
    came = []
    for _ in range(5):
        [one] = stream.messages(1)
        came.append(one.message.data)
        stream.send(ack_ids=[one.ack_id])
    assert came == [b"high", b"middle", b"low", b"low", b"low"]


def test_push_sends_the_highest_first(start_server):
    with receiving() as endpoint:
        server = start_server("memory")
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, *[b"low"] * 50)
        urgent(server, topic, 9, *[b"high"] * 10)
        server.subscriber.modify_push_config(
            subscription=subscription, push_config={"push_endpoint": endpoint.url()}
        )
        endpoint.wait(60)
        server.await_drained(subscription)
    came = [one.data for one in endpoint.received]
    # Requests run side by side: they begin in order, and end in another.
    assert came[:25].count(b"high") == 10
