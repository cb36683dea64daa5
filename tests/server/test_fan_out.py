"""One topic, many subscriptions: each gets everything, and none costs the others anything."""

from __future__ import annotations

import threading

from google.pubsub_v1 import StreamingPullRequest

from server.conftest import PATIENCE_S


def data(received):
    return [one.message.data for one in received]


def ids(received):
    return [one.ack_id for one in received]


def numbers(count):
    return [b"%d" % number for number in range(count)]


def test_every_subscription_gets_every_message(server):
    topic = server.topic()
    subscriptions = [server.subscription(topic) for _ in range(20)]
    for start in range(0, 30, 10):
        server.publish(topic, *numbers(30)[start : start + 10])
    for subscription in subscriptions:
        assert data(server.drain(subscription, 30)) == numbers(30)


def test_each_settles_for_itself(still_server):
    topic = still_server.topic()
    acks, nacks, sleeps = (still_server.subscription(topic) for _ in range(3))
    still_server.publish(topic, b"x")
    still_server.ack(acks, still_server.pull(acks))
    still_server.nack(nacks, still_server.pull(nacks))
    still_server.pull(sleeps)
    assert still_server.pull(acks) == []
    assert data(still_server.pull(nacks)) == [b"x"]
    assert still_server.pull(sleeps) == []
    still_server.advance(11)
    assert still_server.pull(acks) == []
    assert data(still_server.pull(sleeps)) == [b"x"]


def test_one_publish_wakes_all_who_wait(server):
    topic = server.topic()
    subscriptions = [server.subscription(topic) for _ in range(10)]
    streams = [server.open_stream(subscription) for subscription in subscriptions]
    for subscription in subscriptions:
        server.await_waiters(subscription, 1)
    server.publish(topic, b"x")
    for stream in streams:
        assert data(stream.messages(1)) == [b"x"]


def test_topics_do_not_mix(server):
    (one, reads_one), (other, reads_other) = (server.topic_and_subscription() for _ in range(2))
    server.publish(one, b"one")
    server.publish(other, b"other")
    assert data(server.pull(reads_one)) == [b"one"]
    assert data(server.pull(reads_other)) == [b"other"]


def test_a_subscription_of_another_project(server):
    topic = server.topic(name="projects/owners/topics/shared")
    names = [f"projects/{project}/subscriptions/reader" for project in ("owners", "guests")]
    for name in names:
        server.subscription(topic, name=name)
    server.publish(topic, b"x")
    for name in names:
        assert data(server.drain(name, 1)) == [b"x"]


class TestASlowSubscriber:
    def test_one_that_holds_all_it_may(self, still_server):
        topic = still_server.topic()
        slow, quick = still_server.subscription(topic), still_server.subscription(topic)
        stuck = still_server.open_stream(slow, max_outstanding_messages=1)
        stream = still_server.open_stream(quick)
        for start in range(0, 5000, 1000):
            still_server.publish(topic, *numbers(5000)[start : start + 1000])
        received = []
        while len(received) < 5000:
            some = stream.answer().received_messages
            stream.send(ack_ids=ids(some))
            received += some
        assert data(received) == numbers(5000)
        assert data(stuck.messages(1)) == [b"0"]

    def test_one_that_does_not_read_what_it_gets(self, still_server):
        """Its socket fills up; the broker stops at that and serves the others."""
        topic = still_server.topic()
        slow, quick = still_server.subscription(topic), still_server.subscription(topic)
        request = StreamingPullRequest(subscription=slow, stream_ack_deadline_seconds=600)
        over = threading.Event()

        def requests():
            yield StreamingPullRequest.serialize(request)
            over.wait(PATIENCE_S)

        unread = still_server.raw_stream(requests())
        for _ in range(30):
            still_server.publish(topic, b"x" * 1_000_000)
        assert len(still_server.drain(quick, 30)) == 30
        # Only what fits into buffers was leased; the rest is anybody's.
        assert still_server.pull(slow, 1) != []
        over.set()
        unread.cancel()

    def test_one_that_nacks_for_ever(self, still_server):
        topic = still_server.topic()
        angry, quick = still_server.subscription(topic), still_server.subscription(topic)
        still_server.publish(topic, b"x")
        for _ in range(100):
            still_server.nack(angry, still_server.pull(angry))
        assert data(still_server.drain(quick, 1)) == [b"x"]

    def test_one_that_is_dead(self, still_server):
        """A consumer that took everything and died holds up neither others nor its successor."""
        topic = still_server.topic()
        dead, quick = still_server.subscription(topic), still_server.subscription(topic)
        still_server.publish(topic, *numbers(1000))
        stream = still_server.open_stream(dead)
        stream.messages(1000)
        stream.close()
        assert data(still_server.drain(quick, 1000)) == numbers(1000)
        still_server.advance(10.1)
        assert data(still_server.drain(dead, 1000)) == numbers(1000)


def test_a_backlog_of_100000_is_drained_without_loss_or_double(server):
    topic, subscription = server.topic_and_subscription()
    for start in range(0, 100_000, 1000):
        server.publish(topic, *[b"%d" % number for number in range(start, start + 1000)])
    found = data(server.drain(subscription, 20_000))
    stream = server.open_stream(
        subscription, max_outstanding_messages=5000, stream_ack_deadline_seconds=600
    )
    while len(found) < 100_000:
        some = stream.answer().received_messages
        stream.send(ack_ids=ids(some))
        found += data(some)
    assert found == numbers(100_000)
    server.await_drained(subscription)


def test_a_backlog_over_a_restart(start_server):
    server = start_server()
    topic, subscription = server.topic_and_subscription()
    for start in range(0, 10_000, 1000):
        server.publish(topic, *[b"%d" % n for n in range(start, start + 1000)])
    first = data(server.drain(subscription, 3000))
    server.restart()
    assert first + data(server.drain(subscription, 7000)) == numbers(10_000)
