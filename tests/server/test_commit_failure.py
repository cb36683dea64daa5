"""A commit fails: who waited is told, nothing half done is seen, and the next one works."""

from __future__ import annotations

import threading

import pytest
from google.api_core.exceptions import NotFound, ResourceExhausted, ServiceUnavailable

from fanlog.broker.clock import ManualClock
from fanlog.errors import CommitFailed, DiskFull
from server.conftest import PATIENCE_S


def data(received):
    return [one.message.data for one in received]


def ids(received):
    return [one.ack_id for one in received]


@pytest.fixture(params=["memory", "embedded"])
def server(start_server, request):
    return start_server(request.param, clock=ManualClock())


def break_next(server, error=None):
    server.store.failures.append(error or CommitFailed("the disk is on fire"))


class TestPublish:
    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (CommitFailed("the disk is on fire"), ServiceUnavailable),
            (OSError("not an error of ours"), ServiceUnavailable),
            (DiskFull("no room"), ResourceExhausted),
        ],
        ids=["commit failed", "unexpected", "disk full"],
    )
    def test_it_is_told_and_nothing_is_published(self, server, error, told):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"before")
        break_next(server, error)
        with pytest.raises(told):
            server.publish(topic, b"lost")

        [message_id] = server.publish(topic, b"after")

        received = server.pull(subscription)
        assert data(received) == [b"before", b"after"]
        assert received[1].message.message_id == message_id

    def test_the_official_publisher_tries_again(self, server):
        topic, subscription = server.topic_and_subscription()
        publisher = server.publishing()
        break_next(server)
        publisher.publish(topic, b"x").result(PATIENCE_S)
        publisher.stop()
        assert data(server.pull(subscription)) == [b"x"]

    def test_it_is_counted(self, server):
        topic = server.topic()
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.publish(topic, b"x")
        assert server.metric("fanlog_commit_failures_total") == 1


class TestResources:
    def test_a_topic_that_was_not_made_is_not_there(self, server):
        name = "projects/test/topics/never-made"
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.publisher.create_topic(request={"name": name}, retry=None)
        with pytest.raises(NotFound):
            server.publisher.get_topic(topic=name)
        server.topic(name=name)

    def test_a_subscription_that_was_not_deleted_is_there(self, server):
        topic, subscription = server.topic_and_subscription()
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.subscriber.delete_subscription(subscription=subscription, retry=None)
        server.publish(topic, b"x")
        assert data(server.pull(subscription)) == [b"x"]


class TestAcknowledge:
    def test_what_was_not_acknowledged_comes_again(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"0", b"1")
        held = server.pull(subscription)
        server.ack(subscription, held[:1])
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.ack(subscription, held[1:])
        assert data(server.pull(subscription)) == [b"1"]

    def test_the_ack_can_be_sent_again(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        held = server.pull(subscription)
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.ack(subscription, held)
        server.ack(subscription, held)
        assert server.pull(subscription) == []

    def test_exactly_once_the_lease_outlives_it(self, server):
        topic, subscription = server.topic_and_subscription(enable_exactly_once_delivery=True)
        server.publish(topic, b"x")
        held = server.pull(subscription)
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.ack(subscription, held)
        assert server.pull(subscription) == []
        server.ack(subscription, held)
        server.advance(11)
        assert server.pull(subscription) == []

    def test_exactly_once_a_lease_that_was_not_written_is_not_delivered(self, server):
        topic, subscription = server.topic_and_subscription(enable_exactly_once_delivery=True)
        server.publish(topic, b"x")
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.pull(subscription)
        assert data(server.pull(subscription)) == [b"x"]


class TestConsumers:
    def test_streams_end_so_that_clients_come_again(self, server):
        topic, subscription = server.topic_and_subscription()
        idle = server.open_stream(subscription)
        server.await_waiters(subscription, 1)
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.publish(topic, b"lost")
        assert isinstance(idle.error(), ServiceUnavailable)

    def test_also_those_with_a_full_window(self, server):
        topic, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription, max_outstanding_messages=1)
        server.publish(topic, b"x")
        stream.messages(1)
        server.await_waiters(subscription, 1)
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.publish(topic, b"lost")
        assert isinstance(stream.error(), ServiceUnavailable)
        assert data(server.pull(subscription)) == [b"x"]

    @pytest.mark.parametrize("exactly_once", [False, True])
    def test_acks_on_a_stream(self, server, exactly_once):
        topic, subscription = server.topic_and_subscription(
            enable_exactly_once_delivery=exactly_once
        )
        stream = server.open_stream(subscription)
        server.publish(topic, b"x")
        held = stream.messages(1)
        break_next(server)
        stream.send(ack_ids=ids(held))
        if not exactly_once:
            # Nobody waits for such an ack: it goes with the next commit, and fails with it.
            server.await_metric("fanlog_acks_total", subscription, 1)
            with pytest.raises(ServiceUnavailable):
                server.publish(topic, b"lost")
        assert isinstance(stream.error(), ServiceUnavailable)
        if exactly_once:
            assert server.pull(subscription) == []
            server.advance(11)
        assert data(server.pull(subscription)) == [b"x"]

    def test_the_official_subscriber_comes_again_by_itself(self, server):
        topic, subscription = server.topic_and_subscription()
        came, found = threading.Event(), []

        def callback(message):
            found.append(message.data)
            message.ack()
            came.set()

        pulling = server.subscribing().subscribe(subscription, callback)
        server.publish(topic, b"before")
        assert came.wait(PATIENCE_S)
        server.await_drained(subscription)
        came.clear()
        break_next(server)
        with pytest.raises(ServiceUnavailable):
            server.publish(topic, b"lost")
        server.publish(topic, b"after")
        assert came.wait(PATIENCE_S)
        pulling.cancel()
        pulling.result(PATIENCE_S)
        assert found == [b"before", b"after"]


def test_a_forward_that_failed_is_made_later(server):
    topic, letters = server.topic(), server.topic()
    reader = server.subscription(letters)
    subscription = server.subscription(
        topic, dead_letter_policy={"dead_letter_topic": letters, "max_delivery_attempts": 1}
    )
    server.publish(topic, b"x")
    held = server.pull(subscription)
    # The nack itself is written; the forward is not.
    server.run(wait_then_break(server))
    server.nack(subscription, held)
    server.await_metric("fanlog_commit_failures_total", None, 1)
    assert server.pull(reader) == []
    # It has no attempts left, so who asks for it makes the broker forward it.
    assert server.pull(subscription) == []
    assert data(server.await_pull(reader)) == [b"x"]
    assert server.pull(subscription) == []


async def wait_then_break(server):
    """Fail the commit after the next one."""
    commit = server.store.commit

    def second(value):
        server.store.commit = commit
        commit(value)
        break_next(server)

    server.store.commit = second


def test_a_restart_after_failures_finds_what_was_answered(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    answered = []
    for number in range(30):
        if number % 3 == 1:
            break_next(server)
        try:
            server.publish(topic, b"%d" % number)
        except ServiceUnavailable:
            continue
        answered.append(b"%d" % number)
    assert len(answered) == 20
    server.restart()
    assert data(server.drain(subscription, 20)) == answered


def test_publishes_that_wait_behind_a_failed_commit_fail_too(start_server):
    """They were given offsets that follow those of the failed one."""
    server = start_server("memory")
    topic, subscription = server.topic_and_subscription()
    entered, release = threading.Event(), threading.Event()
    commit = server.store.commit

    def blocked(_):
        server.store.commit = commit
        entered.set()
        release.wait(PATIENCE_S)
        raise CommitFailed("the disk is on fire")

    server.store.commit = blocked
    results = {}

    def publish(name):
        try:
            server.publish(topic, name)
            results[name] = "published"
        except ServiceUnavailable:
            results[name] = "unavailable"

    first = threading.Thread(target=publish, args=(b"first",))
    first.start()
    assert entered.wait(PATIENCE_S)
    second = threading.Thread(target=publish, args=(b"second",))
    second.start()
    server.await_submitted(topic, 2)
    release.set()
    first.join(PATIENCE_S)
    second.join(PATIENCE_S)

    assert results == {b"first": "unavailable", b"second": "unavailable"}
    server.publish(topic, b"third")
    assert data(server.pull(subscription)) == [b"third"]
