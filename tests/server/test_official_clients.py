"""The official clients as programs use them: emulator mode, callbacks, flow control."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
from google.cloud import pubsub_v1

from server.conftest import PATIENCE_S


@pytest.fixture
def emulator(server, monkeypatch):
    """What users of Google's emulator set, and nothing else."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.endpoint)
    return server


class Collected:
    """A callback that keeps what it acknowledges; a share of the messages it nacks."""

    def __init__(self, expected, nack_share=0.0):
        self._expected = expected
        self._nack_share = nack_share
        self._random = random.Random(11)
        self._done = threading.Event()
        self._lock = threading.Lock()
        self.data = Counter()

    def __call__(self, message):
        with self._lock:
            if self._random.random() < self._nack_share:
                message.nack()
                return
            self.data[message.data] += 1
            if len(self.data) >= self._expected:
                self._done.set()
        message.ack()

    def wait(self):
        assert self._done.wait(PATIENCE_S), f"only {len(self.data)} of {self._expected} came"


class TestEmulatorMode:
    def test_from_nothing_to_a_message(self, emulator):
        publisher = pubsub_v1.PublisherClient()
        subscriber = pubsub_v1.SubscriberClient()
        topic = publisher.topic_path("emulated", "first")
        subscription = subscriber.subscription_path("emulated", "first")
        with subscriber:
            publisher.create_topic(name=topic)
            subscriber.create_subscription(name=subscription, topic=topic)
            collected = Collected(100)
            pulling = subscriber.subscribe(subscription, collected)
            futures = [publisher.publish(topic, b"%d" % number) for number in range(100)]
            for future in futures:
                future.result(PATIENCE_S)
            collected.wait()
            pulling.cancel()
            pulling.result(PATIENCE_S)
        publisher.stop()
        assert set(collected.data) == {b"%d" % number for number in range(100)}

    def test_answers_fit_into_its_4_MiB(self, emulator):
        """Emulator mode keeps gRPC's own limit; a larger answer would be refused for ever."""
        topic, subscription = emulator.topic_and_subscription()
        for _ in range(3):
            emulator.publish(topic, *[b"x" * 400_000] * 20)
        with pubsub_v1.SubscriberClient() as subscriber:
            count = 0
            while count < 60:
                received = subscriber.pull(
                    request={"subscription": subscription, "max_messages": 1000}, timeout=PATIENCE_S
                ).received_messages
                subscriber.acknowledge(
                    subscription=subscription, ack_ids=[one.ack_id for one in received]
                )
                count += len(received)
        assert count == 60

    def test_streamed_answers_fit_too(self, emulator):
        topic, subscription = emulator.topic_and_subscription()
        expected = {b"%04d" % number * 100_000 for number in range(20)}
        emulator.publish(topic, *sorted(expected))
        collected = Collected(20)
        with pubsub_v1.SubscriberClient() as subscriber:
            pulling = subscriber.subscribe(subscription, collected)
            collected.wait()
            pulling.cancel()
            pulling.result(PATIENCE_S)
        assert set(collected.data) == expected


class TestCallbacks:
    def test_everything_comes_and_is_settled(self, server):
        topic, subscription = server.topic_and_subscription()
        collected = Collected(2000)
        pulling = server.subscribing().subscribe(subscription, collected)
        for start in range(0, 2000, 500):
            server.publish(topic, *[b"%d" % n for n in range(start, start + 500)])
        collected.wait()
        server.await_drained(subscription)
        pulling.cancel()
        pulling.result(PATIENCE_S)
        assert set(collected.data.values()) == {1}

    def test_a_nack_comes_again(self, server):
        topic, subscription = server.topic_and_subscription()
        seen, done = [], threading.Event()

        def callback(message):
            seen.append(message.message_id)
            if len(seen) < 3:
                message.nack()
            else:
                message.ack()
                done.set()

        pulling = server.subscribing().subscribe(subscription, callback)
        [message_id] = server.publish(topic, b"x")
        assert done.wait(PATIENCE_S)
        server.await_drained(subscription)
        pulling.cancel()
        pulling.result(PATIENCE_S)
        assert seen == [message_id] * 3

    def test_flow_control(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, *[b"%d" % n for n in range(100)])
        release, reached = threading.Event(), threading.Semaphore(0)

        def callback(message):
            reached.release()
            release.wait(PATIENCE_S)
            message.ack()

        flow = pubsub_v1.types.FlowControl(max_messages=7)
        pulling = server.subscribing().subscribe(subscription, callback, flow_control=flow)
        for _ in range(7):
            assert reached.acquire(timeout=PATIENCE_S)
        assert server.outstanding(subscription) == 7
        release.set()
        server.await_drained(subscription)
        pulling.cancel()
        pulling.result(PATIENCE_S)

    def test_two_subscribers_share(self, server):
        topic, subscription = server.topic_and_subscription()
        collected = Collected(500)
        flow = pubsub_v1.types.FlowControl(max_messages=10)
        pulling = [
            server.subscribing().subscribe(subscription, collected, flow_control=flow)
            for _ in range(2)
        ]
        server.publish(topic, *[b"%d" % n for n in range(500)])
        collected.wait()
        server.await_drained(subscription)
        for one in pulling:
            one.cancel()
            one.result(PATIENCE_S)
        assert set(collected.data.values()) == {1}

    def test_a_deleted_subscription_ends_it(self, server):
        _, subscription = server.topic_and_subscription()
        pulling = server.subscribing().subscribe(subscription, lambda message: message.ack())
        server.await_waiters(subscription, 1)
        server.subscriber.delete_subscription(subscription=subscription)
        with pytest.raises(Exception, match="was deleted"):
            pulling.result(PATIENCE_S)

    def test_many_publishers_and_subscribers_at_once(self, server):
        topic = server.topic()
        subscriptions = [server.subscription(topic) for _ in range(3)]
        collected = [Collected(2000, nack_share=0.05) for _ in subscriptions]
        pulling = [
            server.subscribing().subscribe(subscription, one)
            for subscription, one in zip(subscriptions, collected, strict=True)
        ]

        def publish(worker):
            for number in range(20):
                first = worker * 500 + number * 25
                server.publish(topic, *[b"%d" % n for n in range(first, first + 25)])

        workers = [threading.Thread(target=publish, args=(n,)) for n in range(4)]
        for worker in workers:
            worker.start()
        for one in collected:
            one.wait()
        for subscription, one in zip(subscriptions, pulling, strict=True):
            server.await_drained(subscription)
            one.cancel()
            one.result(PATIENCE_S)
        for worker in workers:
            worker.join(PATIENCE_S)
        for one in collected:
            assert set(one.data) == {b"%d" % n for n in range(2000)}
            # At least once, and with leases that live as good as once.
            assert sum(one.data.values()) < 2100

    @pytest.mark.slow
    def test_it_comes_again_after_a_restart(self, start_server):
        """Ten seconds of which are the client's own: it allows itself five attempts in that."""
        server = start_server()
        topic, subscription = server.topic_and_subscription()
        collected = Collected(20)
        pulling = server.subscribing().subscribe(subscription, collected)
        server.publish(topic, *[b"%d" % n for n in range(10)])
        server.await_drained(subscription)
        server.restart()
        server.publish(topic, *[b"%d" % n for n in range(10, 20)])
        collected.wait()
        server.await_drained(subscription)
        pulling.cancel()
        pulling.result(PATIENCE_S)
        assert collected.data == {b"%d" % n: 1 for n in range(20)}
