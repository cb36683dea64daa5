"""Exactly-once delivery: what is confirmed is final, and what is stale is refused by name."""

from __future__ import annotations

import queue
import random
import threading
from collections import Counter, defaultdict

import pytest
from google.api_core.exceptions import FailedPrecondition, GoogleAPICallError
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus

from fanlog import limits
from fanlog.broker.clock import ManualClock
from server.conftest import PATIENCE_S

INVALID = "PERMANENT_FAILURE_INVALID_ACK_ID"
EARLY = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"


def data(received):
    return [one.message.data for one in received]


def ids(received):
    return [one.ack_id for one in received]


def refusal(call, *args):
    """What a refused request says of each id."""
    with pytest.raises(FailedPrecondition) as caught:
        call(*args)
    assert caught.value.reason == "ACK_IDS_REFUSED"
    return dict(caught.value.metadata)


@pytest.fixture
def once(still_server):
    return still_server.topic_and_subscription(enable_exactly_once_delivery=True)


class TestUnary:
    def test_an_acknowledged_message_never_comes_again(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        still_server.ack(subscription, still_server.pull(subscription))
        still_server.advance(100)
        assert still_server.pull(subscription) == []

    def test_an_expired_id_is_refused_and_the_message_comes_again(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        still_server.advance(10.1)
        assert refusal(still_server.ack, subscription, held) == {held[0].ack_id: INVALID}
        again = still_server.pull(subscription)
        assert data(again) == [b"x"]
        # The old id does not settle the new lease either.
        assert refusal(still_server.ack, subscription, held) == {held[0].ack_id: INVALID}
        still_server.ack(subscription, again)

    def test_a_used_id_is_refused(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        still_server.ack(subscription, held)
        for call in (still_server.ack, still_server.nack):
            assert refusal(call, subscription, held) == {held[0].ack_id: INVALID}

    @pytest.mark.parametrize("seconds", [0, 10])
    def test_a_stale_id_cannot_change_a_deadline(self, still_server, once, seconds):
        topic, subscription = once
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        still_server.advance(10.1)
        said = refusal(still_server.modify, subscription, held, seconds)
        assert said == {held[0].ack_id: INVALID}

    def test_a_nacked_id_is_used_up(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        still_server.nack(subscription, held)
        assert refusal(still_server.ack, subscription, held) == {held[0].ack_id: INVALID}
        still_server.ack(subscription, still_server.pull(subscription))

    def test_more_time_is_more_time(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        still_server.modify(subscription, held, 600)
        still_server.advance(599)
        assert still_server.pull(subscription) == []
        still_server.ack(subscription, held)

    def test_one_bad_id_and_nothing_of_the_request_is_done(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"0", b"1")
        used = still_server.pull(subscription, 1)
        still_server.ack(subscription, used)
        good = still_server.pull(subscription)
        said = refusal(still_server.ack, subscription, good + used)
        assert said[used[0].ack_id] == INVALID
        # Worth sending again: there was nothing wrong with it.
        assert said[good[0].ack_id].startswith("TRANSIENT_FAILURE_")
        still_server.ack(subscription, good)
        still_server.advance(11)
        assert still_server.pull(subscription) == []

    def test_what_is_wrong_is_named_first_when_not_all_can_be(self, still_server, once):
        """A status has room for some fifty ids: a client must learn which not to send again."""
        topic, subscription = once
        still_server.publish(topic, *[b"%d" % n for n in range(300)])
        used = still_server.pull(subscription, 3)
        still_server.ack(subscription, used)
        good = still_server.pull(subscription)
        with pytest.raises(GoogleAPICallError) as caught:
            still_server.ack(subscription, good + used)
        # Clients send the ids that are not named again, and so none may be lost or doubled.
        assert caught.value.grpc_status_code.name == "RESOURCE_EXHAUSTED"
        said = dict(caught.value.metadata)
        assert {said[one.ack_id] for one in used} == {INVALID}
        still_server.ack(subscription, good)

    @pytest.mark.parametrize("ack_id", ["nonsense", "0" * 52, "é" * 52])
    def test_an_id_that_is_none(self, still_server, once, ack_id):
        topic, subscription = once
        still_server.publish(topic, b"x")
        [held] = still_server.pull(subscription)
        forged = type(held)(ack_id=ack_id)
        assert refusal(still_server.ack, subscription, [held, forged])[ack_id] == INVALID
        still_server.ack(subscription, [held])

    def test_an_id_of_another_subscription(self, still_server, once):
        topic, subscription = once
        other = still_server.subscription(topic, enable_exactly_once_delivery=True)
        still_server.publish(topic, b"x")
        foreign = still_server.pull(other)
        assert refusal(still_server.ack, subscription, foreign) == {foreign[0].ack_id: INVALID}
        still_server.ack(other, foreign)

    def test_an_id_twice_in_a_request_is_one(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        still_server.ack(subscription, still_server.pull(subscription) * 2)
        still_server.advance(11)
        assert still_server.pull(subscription) == []

    def test_refusals_are_counted(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        still_server.ack(subscription, held)
        refusal(still_server.ack, subscription, held)
        assert still_server.metric("fanlog_ack_ids_refused_total", subscription) == 1
        assert still_server.metric("fanlog_acks_total", subscription) == 1


class TestOnTheStream:
    def test_acks_are_confirmed(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"0", b"1")
        stream = still_server.open_stream(subscription)
        held = stream.messages(2)
        stream.send(ack_ids=ids(held))
        confirmed = stream.confirmation("acknowledge_confirmation")
        assert sorted(confirmed.ack_ids) == sorted(ids(held))
        assert list(confirmed.invalid_ack_ids) == []

    def test_the_stale_are_told_from_the_good(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"0", b"1")
        stream = still_server.open_stream(subscription)
        held = stream.messages(2)
        stream.send(ack_ids=ids(held[:1]))
        stream.confirmation("acknowledge_confirmation")
        stream.send(ack_ids=[*ids(held), "nonsense"])
        confirmed = stream.confirmation("acknowledge_confirmation")
        assert list(confirmed.ack_ids) == ids(held[1:])
        assert sorted(confirmed.invalid_ack_ids) == sorted([held[0].ack_id, "nonsense"])

    @pytest.mark.parametrize("seconds", [0, 30])
    def test_deadlines_are_confirmed(self, still_server, once, seconds):
        topic, subscription = once
        still_server.publish(topic, b"0", b"1")
        stream = still_server.open_stream(subscription)
        held = stream.messages(2)
        still_server.ack(subscription, held[:1])
        stream.send(modify_deadline_ack_ids=ids(held), modify_deadline_seconds=[seconds, seconds])
        confirmed = stream.confirmation("modify_ack_deadline_confirmation")
        assert list(confirmed.ack_ids) == ids(held[1:])
        assert list(confirmed.invalid_ack_ids) == ids(held[:1])

    def test_half_close_waits_for_the_confirmation(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        stream = still_server.open_stream(subscription)
        held = stream.messages(1)
        stream.send(ack_ids=ids(held))
        stream.half_close()
        assert list(stream.confirmation("acknowledge_confirmation").ack_ids) == ids(held)
        stream.wait_closed()

    def test_at_least_once_nothing_is_confirmed(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        stream = still_server.open_stream(subscription, max_outstanding_messages=1)
        still_server.publish(topic, b"0", b"1")
        stream.send(ack_ids=ids(stream.messages(1)))
        answer = stream.answer()
        assert "acknowledge_confirmation" not in answer
        assert data(answer.received_messages) == [b"1"]


class TestWithOrdering:
    @pytest.fixture
    def once_in_order(self, still_server):
        return still_server.topic_and_subscription(
            enable_exactly_once_delivery=True, enable_message_ordering=True
        )

    def test_an_early_ack_is_transient_and_then_succeeds(self, still_server, once_in_order):
        topic, subscription = once_in_order
        still_server.publish(topic, b"0", b"1", key="k")
        first, second = still_server.pull(subscription)
        assert refusal(still_server.ack, subscription, [second]) == {second.ack_id: EARLY}
        still_server.ack(subscription, [first])
        still_server.ack(subscription, [second])
        still_server.advance(11)
        assert still_server.pull(subscription) == []

    def test_all_of_a_run_at_once_is_not_early(self, still_server, once_in_order):
        topic, subscription = once_in_order
        still_server.publish(topic, b"0", b"1", b"2", key="k")
        still_server.ack(subscription, reversed(still_server.pull(subscription)))
        still_server.advance(11)
        assert still_server.pull(subscription) == []

    def test_on_the_stream(self, still_server, once_in_order):
        topic, subscription = once_in_order
        still_server.publish(topic, b"0", b"1", b"2", key="k")
        stream = still_server.open_stream(subscription)
        held = stream.messages(3)
        stream.send(ack_ids=ids(held[1:2]))
        confirmed = stream.confirmation("acknowledge_confirmation")
        assert list(confirmed.unordered_ack_ids) == ids(held[1:2])
        assert list(confirmed.ack_ids) == []
        stream.send(ack_ids=ids(held[:2]))
        confirmed = stream.confirmation("acknowledge_confirmation")
        assert sorted(confirmed.ack_ids) == sorted(ids(held[:2]))

    def test_a_recalled_message_takes_the_ids_after_it_along(self, still_server, once_in_order):
        topic, subscription = once_in_order
        still_server.publish(topic, b"0", b"1", b"2", key="k")
        held = still_server.pull(subscription)
        still_server.nack(subscription, held[:1])
        said = refusal(still_server.ack, subscription, held[1:])
        assert set(said.values()) == {INVALID}
        assert data(still_server.pull(subscription)) == [b"0", b"1", b"2"]


class TestRestart:
    @pytest.fixture(params=[False, True], ids=["no order", "ordered"])
    def world(self, start_server, request):
        server = start_server(clock=ManualClock())
        topic, subscription = server.topic_and_subscription(
            enable_exactly_once_delivery=True, enable_message_ordering=request.param
        )
        server.publish(topic, b"0", b"1", b"2", key="k")
        return server, topic, subscription

    def test_no_redelivery_while_the_lease_lives(self, world):
        server, topic, subscription = world
        server.pull(subscription)
        server.publish(topic, b"other", key="o")
        server.restart()
        assert data(server.pull(subscription)) == [b"other"]
        server.advance(10.1)
        assert data(server.pull(subscription))[:3] == [b"0", b"1", b"2"]

    def test_the_old_ids_are_good_while_the_lease_lives(self, world):
        server, _, subscription = world
        held = server.pull(subscription)
        server.restart()
        server.ack(subscription, held[:2])
        server.restart()
        assert refusal(server.ack, subscription, held[:1]) == {held[0].ack_id: INVALID}
        server.advance(10.1)
        assert data(server.pull(subscription)) == [b"2"]

    def test_a_longer_deadline_is_kept(self, world):
        server, _, subscription = world
        held = server.pull(subscription)
        server.modify(subscription, held, 100)
        server.restart()
        server.advance(99)
        assert server.pull(subscription) == []
        server.advance(1.1)
        assert data(server.pull(subscription)) == [b"0", b"1", b"2"]

    def test_a_nack_is_kept(self, world):
        server, _, subscription = world
        held = server.pull(subscription)
        server.nack(subscription, held)
        server.restart()
        assert data(server.pull(subscription)) == [b"0", b"1", b"2"]

    def test_what_was_acknowledged_does_not_come_back(self, world):
        server, _, subscription = world
        server.ack(subscription, server.pull(subscription))
        server.restart()
        server.advance(100)
        assert server.pull(subscription) == []


class TestSwitching:
    @staticmethod
    def switch(server, subscription, is_on):
        server.subscriber.update_subscription(
            request={
                "subscription": {"name": subscription, "enable_exactly_once_delivery": is_on},
                "update_mask": {"paths": ["enable_exactly_once_delivery"]},
            }
        )

    def test_on_holds_for_what_is_leased_already(self, start_server):
        server = start_server(clock=ManualClock())
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        held = server.pull(subscription)
        self.switch(server, subscription, True)
        server.restart()
        assert server.pull(subscription) == []
        server.advance(10.1)
        assert refusal(server.ack, subscription, held) == {held[0].ack_id: INVALID}

    def test_off_takes_late_acks_again(self, still_server, once):
        topic, subscription = once
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        self.switch(still_server, subscription, False)
        still_server.advance(10.1)
        still_server.ack(subscription, held)
        assert still_server.pull(subscription) == []


class TestOfficialSubscriber:
    @pytest.fixture
    def received(self, still_server, once):
        """Messages as the official subscriber's callback got them, unsettled."""
        _, subscription = once
        messages = queue.SimpleQueue()
        client = still_server.subscribing()
        pulling = client.subscribe(subscription, messages.put, await_callbacks_on_shutdown=False)
        yield messages
        pulling.cancel()
        pulling.result(PATIENCE_S)

    def test_ack_with_response(self, still_server, once, received):
        topic, subscription = once
        still_server.publish(topic, b"x")
        message = received.get(timeout=PATIENCE_S)
        assert message.ack_with_response().result(PATIENCE_S) is AcknowledgeStatus.SUCCESS
        still_server.await_drained(subscription)

    def test_ack_of_an_expired_one(self, still_server, once, received):
        topic, _ = once
        still_server.publish(topic, b"x")
        message = received.get(timeout=PATIENCE_S)
        still_server.advance(700)
        with pytest.raises(AcknowledgeError) as caught:
            message.ack_with_response().result(PATIENCE_S)
        assert caught.value.error_code is AcknowledgeStatus.INVALID_ACK_ID
        again = received.get(timeout=PATIENCE_S)
        assert again.message_id == message.message_id
        assert again.ack_with_response().result(PATIENCE_S) is AcknowledgeStatus.SUCCESS

    def test_ack_of_a_used_one(self, still_server, once, received):
        topic, subscription = once
        still_server.publish(topic, b"x")
        message = received.get(timeout=PATIENCE_S)
        still_server.ack(subscription, [message])
        with pytest.raises(AcknowledgeError) as caught:
            message.ack_with_response().result(PATIENCE_S)
        assert caught.value.error_code is AcknowledgeStatus.INVALID_ACK_ID

    def test_nack_with_response(self, still_server, once, received):
        topic, _ = once
        still_server.publish(topic, b"x")
        message = received.get(timeout=PATIENCE_S)
        assert message.nack_with_response().result(PATIENCE_S) is AcknowledgeStatus.SUCCESS
        still_server.advance(limits.AVERSION_S)
        again = received.get(timeout=PATIENCE_S)
        assert again.message_id == message.message_id
        assert again.ack_with_response().result(PATIENCE_S) is AcknowledgeStatus.SUCCESS

    def test_nack_of_an_expired_one(self, still_server, once, received):
        topic, _ = once
        still_server.publish(topic, b"x")
        message = received.get(timeout=PATIENCE_S)
        still_server.advance(700)
        with pytest.raises(AcknowledgeError) as caught:
            message.nack_with_response().result(PATIENCE_S)
        assert caught.value.error_code is AcknowledgeStatus.INVALID_ACK_ID

    def test_modify_ack_deadline_with_response(self, still_server, once, received):
        topic, _ = once
        still_server.publish(topic, b"x")
        message = received.get(timeout=PATIENCE_S)
        changed = message.modify_ack_deadline_with_response(60)
        assert changed.result(PATIENCE_S) is AcknowledgeStatus.SUCCESS
        still_server.advance(700)
        with pytest.raises(AcknowledgeError) as caught:
            message.modify_ack_deadline_with_response(60).result(PATIENCE_S)
        assert caught.value.error_code is AcknowledgeStatus.INVALID_ACK_ID

    def test_every_message_is_acknowledged_once_though_some_are_nacked(self, still_server, once):
        topic, subscription = once
        rng, lock, acked = random.Random(5), threading.Lock(), Counter()
        futures = queue.SimpleQueue()

        def callback(message):
            with lock:
                is_good = rng.random() < 0.8
            settle = message.ack_with_response if is_good else message.nack_with_response
            futures.put((message.data, is_good, settle()))

        pulling = still_server.subscribing().subscribe(subscription, callback)
        still_server.publish(topic, *[b"%d" % n for n in range(200)])
        while sum(acked.values()) < 200:
            name, is_good, future = futures.get(timeout=PATIENCE_S)
            assert future.result(PATIENCE_S) is AcknowledgeStatus.SUCCESS
            acked[name] += is_good
            if not is_good:
                still_server.advance(limits.AVERSION_S)
        still_server.await_drained(subscription)
        pulling.cancel()
        pulling.result(PATIENCE_S)
        assert set(acked.values()) == {1}
        assert futures.empty()

    def test_in_order(self, still_server):
        topic, subscription = still_server.topic_and_subscription(
            enable_exactly_once_delivery=True, enable_message_ordering=True
        )
        seen, futures = defaultdict(list), queue.SimpleQueue()

        def callback(message):
            seen[message.ordering_key].append(message.data)
            futures.put(message.ack_with_response())

        pulling = still_server.subscribing().subscribe(subscription, callback)
        expected = {key: [b"%d" % n for n in range(40)] for key in "abc"}
        for key, messages in expected.items():
            still_server.publish(topic, *messages, key=key)
        for _ in range(120):
            assert futures.get(timeout=PATIENCE_S).result(PATIENCE_S) is AcknowledgeStatus.SUCCESS
        still_server.await_drained(subscription)
        pulling.cancel()
        pulling.result(PATIENCE_S)
        assert seen == expected
