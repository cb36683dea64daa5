"""Ordering keys: strictly in publish order, through nacks, expiries and restarts."""

from __future__ import annotations

import random
import threading
from collections import defaultdict

import pytest
from google.cloud import pubsub_v1

from fanlog import limits
from fanlog.broker.clock import ManualClock
from server.conftest import PATIENCE_S


def data(received):
    return [one.message.data for one in received]


def ids(received):
    return [one.ack_id for one in received]


def by_key(messages):
    found = defaultdict(list)
    for message in messages:
        found[message.ordering_key].append(message.data)
    return found


@pytest.fixture
def ordered(still_server):
    return still_server.topic_and_subscription(enable_message_ordering=True)


class TestRuns:
    def test_a_run_of_a_key_comes_in_one_answer(self, still_server, ordered):
        topic, subscription = ordered
        for number in range(5):
            still_server.publish(topic, b"%d" % number, key="k")
        assert data(still_server.pull(subscription)) == [b"0", b"1", b"2", b"3", b"4"]

    def test_while_any_of_a_run_is_held_nothing_of_the_key_goes_elsewhere(
        self, still_server, ordered
    ):
        topic, subscription = ordered
        still_server.publish(topic, b"0", b"1", b"2", b"3", key="k")
        held = still_server.pull(subscription, 2)
        assert data(held) == [b"0", b"1"]
        assert still_server.pull(subscription) == []
        still_server.ack(subscription, held[:1])
        assert still_server.pull(subscription) == []
        still_server.ack(subscription, held[1:])
        assert data(still_server.pull(subscription)) == [b"2", b"3"]

    def test_keys_do_not_block_each_other_nor_those_without(self, still_server, ordered):
        topic, subscription = ordered
        still_server.publish(topic, b"a0", b"a1", key="a")
        still_server.pull(subscription, 1)
        still_server.publish(topic, b"b0", b"b1", key="b")
        still_server.publish(topic, b"none")
        assert data(still_server.pull(subscription)) == [b"b0", b"b1", b"none"]

    def test_a_subscription_without_ordering_keeps_the_key_and_does_not_wait(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"0", b"1", key="k")
        [first] = still_server.pull(subscription, 1)
        [second] = still_server.pull(subscription, 1)
        assert data([first, second]) == [b"0", b"1"]
        assert second.message.ordering_key == "k"

    def test_a_key_stays_with_the_stream_that_holds_it(self, still_server, ordered):
        topic, subscription = ordered
        holder = still_server.open_stream(subscription)
        still_server.publish(topic, b"0", key="k")
        held = holder.messages(1)
        other = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 2)
        for number in range(1, 20):
            still_server.publish(topic, b"%d" % number, key="k")
            held += holder.messages(1)
        assert data(held) == [b"%d" % number for number in range(20)]
        assert other.pending() == []

    def test_a_key_whose_holder_is_gone_goes_to_another_in_order(self, still_server, ordered):
        topic, subscription = ordered
        still_server.publish(topic, b"0", b"1", b"2", key="k")
        holder = still_server.open_stream(subscription)
        held = holder.messages(3)
        holder.send(ack_ids=ids(held[:1]))
        holder.half_close()
        holder.wait_closed()
        still_server.publish(topic, b"3", key="k")
        other = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 1)
        assert other.pending() == []
        still_server.advance(10.1)
        assert data(other.messages(3)) == [b"1", b"2", b"3"]

    def test_a_long_key_behind_a_held_message(self, still_server, ordered):
        """More than the broker remembers of a key that waits."""
        topic, subscription = ordered
        still_server.publish(topic, b"held", key="k")
        held = still_server.pull(subscription)
        expected = [b"%d" % number for number in range(3000)]
        for start in range(0, 3000, 1000):
            still_server.publish(topic, *expected[start : start + 1000], key="k")
        still_server.publish(topic, b"other", key="other")
        assert data(still_server.pull(subscription)) == [b"other"]
        still_server.ack(subscription, held)
        assert data(still_server.drain(subscription, 3000)) == expected


class TestRedelivery:
    @pytest.mark.parametrize("how", ["nack", "expiry"])
    @pytest.mark.parametrize("failed", [0, 1, 4])
    def test_a_message_that_comes_back_brings_all_after_it(
        self, still_server, ordered, how, failed
    ):
        topic, subscription = ordered
        still_server.publish(topic, b"0", b"1", b"2", b"3", b"4", key="k")
        held = still_server.pull(subscription)
        still_server.modify(subscription, held[:failed] + held[failed + 1 :], 60) if failed else 0
        if how == "nack":
            still_server.nack(subscription, held[failed : failed + 1])
        else:
            still_server.modify(subscription, held[failed : failed + 1], 1)
            still_server.advance(1.1)
        if failed:
            # Those before it are still held, so nothing of the key may go.
            assert still_server.pull(subscription) == []
            still_server.ack(subscription, held[:failed])
        assert data(still_server.pull(subscription)) == data(held)[failed:]

    def test_an_ack_behind_a_nacked_message_does_not_count(self, still_server, ordered):
        topic, subscription = ordered
        still_server.publish(topic, b"0", b"1", b"2", key="k")
        held = still_server.pull(subscription)
        still_server.ack(subscription, held[1:])
        still_server.nack(subscription, held[:1])
        assert data(still_server.pull(subscription)) == [b"0", b"1", b"2"]

    def test_an_ack_ahead_counts_when_those_before_are_acked(self, still_server, ordered):
        topic, subscription = ordered
        still_server.publish(topic, b"0", b"1", b"2", key="k")
        held = still_server.pull(subscription)
        still_server.ack(subscription, held[2:])
        still_server.ack(subscription, held[:1])
        still_server.ack(subscription, held[1:2])
        still_server.advance(11)
        assert still_server.pull(subscription) == []

    def test_twenty_with_each_nacked_once(self, still_server, ordered):
        """Where Google's emulator loses the order."""
        topic, subscription = ordered
        expected = [b"%d" % number for number in range(20)]
        still_server.publish(topic, *expected, key="k")
        seen = []
        for _ in range(20):
            held = still_server.pull(subscription)
            still_server.nack(subscription, held[:1])
            again = still_server.pull(subscription)
            assert data(again) == data(held)
            still_server.ack(subscription, again[:1])
            if again[1:]:
                still_server.nack(subscription, again[1:2])
            seen += data(again[:1])
        assert seen == expected
        assert still_server.pull(subscription) == []

    def test_a_nack_on_a_stream(self, still_server, ordered):
        topic, subscription = ordered
        still_server.publish(topic, b"0", b"1", b"2", key="k")
        still_server.publish(topic, b"other", key="o")
        stream = still_server.open_stream(subscription)
        held = stream.messages(4)
        stream.send(modify_deadline_ack_ids=ids(held[1:2]), modify_deadline_seconds=[0], ack_ids=[])
        stream.send(ack_ids=ids(held[:1]))
        still_server.await_outstanding(subscription, 1)
        still_server.advance(limits.AVERSION_S)
        assert data(stream.messages(2)) == [b"1", b"2"]

    def test_random_settling_keeps_the_order_of_every_key(self, still_server, ordered):
        topic, subscription = ordered
        rng = random.Random(7)
        expected = defaultdict(list)
        for number in range(200):
            key = rng.choice("abc")
            expected[key].append(b"%d" % number)
            still_server.publish(topic, b"%d" % number, key=key)
        acked = defaultdict(list)
        while sum(map(len, acked.values())) < 200:
            held = still_server.pull(subscription, rng.randint(1, 30))
            for key, messages in by_key([one.message for one in held]).items():
                begin = len(acked[key])
                assert messages == expected[key][begin : begin + len(messages)]
            # Acknowledge a random start of each key's run, give the rest back or let it expire.
            runs = defaultdict(list)
            for one in held:
                runs[one.message.ordering_key].append(one)
            for key, run in runs.items():
                cut = rng.randint(0, len(run))
                if run[:cut]:
                    still_server.ack(subscription, run[:cut])
                    acked[key] += data(run[:cut])
                if run[cut:] and rng.random() < 0.7:
                    still_server.nack(subscription, [rng.choice(run[cut:])])
            still_server.advance(10.1)
        assert acked == expected
        assert still_server.pull(subscription) == []


class TestStrict:
    @pytest.fixture
    def strict(self, still_server):
        return still_server.topic_and_subscription(
            enable_message_ordering=True, labels={"fanlog-ordering": "strict"}
        )

    def test_one_at_a_time(self, still_server, strict):
        topic, subscription = strict
        still_server.publish(topic, b"a0", b"a1", b"a2", key="a")
        still_server.publish(topic, b"b0", b"b1", key="b")
        still_server.publish(topic, b"none", b"none")
        held = still_server.pull(subscription)
        assert data(held) == [b"a0", b"b0", b"none", b"none"]
        assert still_server.pull(subscription) == []
        still_server.ack(subscription, held[:1])
        assert data(still_server.pull(subscription)) == [b"a1"]

    def test_on_a_stream_too(self, still_server, strict):
        topic, subscription = strict
        still_server.publish(topic, b"0", b"1", b"2", key="k")
        stream = still_server.open_stream(subscription)
        for number in range(3):
            held = stream.messages(1)
            assert data(held) == [b"%d" % number]
            assert still_server.outstanding(subscription) == 1
            stream.send(ack_ids=ids(held))


class TestRestart:
    def test_order_survives(self, start_server):
        server = start_server(clock=ManualClock())
        topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
        server.publish(topic, *[b"a%d" % n for n in range(5)], key="a")
        server.publish(topic, *[b"b%d" % n for n in range(5)], key="b")
        held = server.pull(subscription)
        # Ahead of its key: not hard, so it comes again.
        server.ack(subscription, [one for one in held if one.message.data in (b"a0", b"a1", b"b2")])
        server.restart()

        received = server.drain(subscription, 8)

        assert by_key([one.message for one in received]) == {
            "a": [b"a2", b"a3", b"a4"],
            "b": [b"b0", b"b1", b"b2", b"b3", b"b4"],
        }

    def test_strict_survives(self, start_server):
        server = start_server(clock=ManualClock())
        topic, subscription = server.topic_and_subscription(
            enable_message_ordering=True, labels={"fanlog-ordering": "strict"}
        )
        server.publish(topic, b"0", b"1", key="k")
        server.restart()
        assert data(server.pull(subscription)) == [b"0"]
        assert server.pull(subscription) == []


def test_the_official_clients_in_order_with_callbacks_that_nack(server):
    topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
    publisher = server.publishing(
        publisher_options=pubsub_v1.types.PublisherOptions(enable_message_ordering=True)
    )
    expected = {key: [b"%d" % n for n in range(60)] for key in "abc"}
    futures = [
        publisher.publish(topic, expected[key][n], ordering_key=key)
        for n in range(60)
        for key in "abc"
    ]
    for future in futures:
        future.result(PATIENCE_S)

    rng, changed = random.Random(3), threading.Condition()
    seen = defaultdict(list)

    def callback(message):
        with changed:
            seen[message.ordering_key].append(message.data)
            changed.notify()
            if rng.random() < 0.1:
                message.nack()
            else:
                message.ack()

    pulling = server.subscribing().subscribe(subscription, callback)
    server.await_drained(subscription)
    # Late acknowledgements may have settled what the client has yet to show.
    delivered = server.metric("fanlog_deliveries_total", subscription)
    with changed:
        assert changed.wait_for(
            lambda: sum(map(len, seen.values())) == delivered, timeout=PATIENCE_S
        )
    pulling.cancel()
    pulling.result(PATIENCE_S)
    publisher.stop()
    # What the client had already when it nacked is seen early, and then again, in its place.
    for key in "abc":
        in_order_of_last_sight = list(dict.fromkeys(reversed(seen[key])))[::-1]
        assert in_order_of_last_sight == expected[key]
