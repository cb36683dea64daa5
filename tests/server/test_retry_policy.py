"""Retry policy: exponential between its bounds, counted per message."""

from __future__ import annotations

import pytest

from fanlog.broker.clock import ManualClock

MINIMUM_S, MAXIMUM_S = 10, 60
#: First wait of each power, and the most that jitter may add to it.
BOUNDS = [(10, 12.5), (20, 25), (40, 50), (60, 60), (60, 60)]


def data(received):
    return [one.message.data for one in received]


def policy(minimum_s=MINIMUM_S, maximum_s=MAXIMUM_S):
    return {
        "minimum_backoff": {"seconds": minimum_s},
        "maximum_backoff": {"seconds": maximum_s},
    }


@pytest.fixture
def retried(still_server):
    return still_server.topic_and_subscription(retry_policy=policy())


@pytest.mark.parametrize("how", ["nack", "expiry"])
def test_each_wait_is_twice_the_one_before_up_to_the_maximum(still_server, retried, how):
    topic, subscription = retried
    still_server.publish(topic, b"x")
    held = still_server.pull(subscription)
    for least_s, most_s in BOUNDS:
        if how == "nack":
            still_server.nack(subscription, held)
        else:
            still_server.advance(10)
        still_server.advance(least_s - 0.01)
        assert still_server.pull(subscription) == []
        still_server.advance(most_s - least_s + 0.02)
        held = still_server.pull(subscription)
        assert data(held) == [b"x"]


def test_jitter_spreads_the_waits(still_server, retried):
    topic, subscription = retried
    waits = set()
    for _ in range(12):
        still_server.publish(topic, b"x")
        still_server.nack(subscription, still_server.pull(subscription))
        waited_s = 10.0
        still_server.advance(10.0)
        while not (held := still_server.pull(subscription)):
            still_server.advance(0.25)
            waited_s += 0.25
        waits.add(waited_s)
        still_server.ack(subscription, held)
    assert len(waits) > 2
    assert max(waits) <= 12.75


def test_a_waiting_pull_wakes_when_the_wait_is_over(still_server, retried):
    topic, subscription = retried
    stream = still_server.open_stream(subscription)
    still_server.publish(topic, b"x")
    still_server.nack(subscription, stream.messages(1))
    still_server.await_waiters(subscription, 1)
    still_server.advance(12.6)
    assert data(stream.messages(1)) == [b"x"]


def test_one_waits_and_the_others_do_not(still_server, retried):
    topic, subscription = retried
    still_server.publish(topic, b"0", b"1", b"2")
    held = still_server.pull(subscription)
    still_server.nack(subscription, held[1:2])
    still_server.ack(subscription, held[2:])
    still_server.publish(topic, b"3")
    assert data(still_server.pull(subscription)) == [b"3"]
    still_server.ack(subscription, held[:1])
    still_server.advance(12.6)
    assert b"1" in data(still_server.pull(subscription))


def test_counts_are_per_message(still_server, retried):
    topic, subscription = retried
    still_server.publish(topic, b"old")
    for _ in range(3):
        still_server.nack(subscription, still_server.pull(subscription))
        still_server.advance(60.1)
    still_server.publish(topic, b"new")
    held = still_server.pull(subscription)
    assert data(held) == [b"old", b"new"]
    still_server.nack(subscription, held)
    still_server.advance(12.6)
    assert data(still_server.pull(subscription)) == [b"new"]


def test_a_late_ack_ends_the_wait(still_server, retried):
    topic, subscription = retried
    still_server.publish(topic, b"x")
    held = still_server.pull(subscription)
    still_server.nack(subscription, held)
    still_server.ack(subscription, held)
    still_server.advance(100)
    assert still_server.pull(subscription) == []


def test_a_zero_minimum_is_immediate(still_server):
    topic, subscription = still_server.topic_and_subscription(retry_policy=policy(0, 0))
    still_server.publish(topic, b"x")
    for _ in range(5):
        held = still_server.pull(subscription)
        assert data(held) == [b"x"]
        still_server.nack(subscription, held)


def test_without_a_policy_it_is_immediate(still_server):
    topic, subscription = still_server.topic_and_subscription()
    still_server.publish(topic, b"x")
    for _ in range(50):
        held = still_server.pull(subscription)
        assert data(held) == [b"x"]
        still_server.nack(subscription, held)


def test_an_empty_policy_is_googles_defaults(still_server):
    topic, subscription = still_server.topic_and_subscription(retry_policy={})
    still_server.publish(topic, b"x")
    still_server.nack(subscription, still_server.pull(subscription))
    still_server.advance(9.9)
    assert still_server.pull(subscription) == []
    still_server.advance(2.7)
    assert data(still_server.pull(subscription)) == [b"x"]


def test_in_order_the_key_waits_and_other_keys_do_not(still_server):
    topic, subscription = still_server.topic_and_subscription(
        retry_policy=policy(), enable_message_ordering=True
    )
    still_server.publish(topic, b"a0", b"a1", key="a")
    held = still_server.pull(subscription)
    still_server.nack(subscription, held[:1])
    still_server.publish(topic, b"b0", key="b")
    assert data(still_server.pull(subscription)) == [b"b0"]
    still_server.advance(9.9)
    assert still_server.pull(subscription) == []
    still_server.advance(2.7)
    assert data(still_server.pull(subscription))[:2] == [b"a0", b"a1"]


def test_a_restart_forgets_the_wait_and_not_the_message(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription(retry_policy=policy(600, 600))
    server.publish(topic, b"x")
    server.nack(subscription, server.pull(subscription))
    assert server.pull(subscription) == []
    server.restart()
    assert data(server.pull(subscription)) == [b"x"]
