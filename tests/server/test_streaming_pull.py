"""StreamingPull, request by request, through Google's own client."""

from __future__ import annotations

import grpc
import pytest
from google.api_core.exceptions import (
    FailedPrecondition,
    InternalServerError,
    InvalidArgument,
    NotFound,
)
from google.pubsub_v1 import StreamingPullRequest

from fanlog import limits

KIB = 1024


def data(received):
    return [one.message.data for one in received]


def ids(received):
    return [one.ack_id for one in received]


def numbers(count):
    return [b"%d" % number for number in range(count)]


class TestDelivery:
    def test_what_waits_comes_and_what_is_published_comes_at_once(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"before")
        stream = server.open_stream(subscription)
        assert data(stream.messages(1)) == [b"before"]
        for number in range(20):
            server.publish(topic, b"%d" % number)
            assert data(stream.messages(1)) == [b"%d" % number]

    def test_a_message_says_all_it_has(self, server):
        topic, subscription = server.topic_and_subscription()
        [message_id] = server.publish(topic, b"x", key="k", colour="red")
        [received] = server.open_stream(subscription).messages(1)
        assert received.message.message_id == message_id
        assert received.message.attributes == {"colour": "red"}
        assert received.message.ordering_key == "k"
        assert received.message.publish_time.timestamp() > 1_000_000
        assert received.delivery_attempt == 0

    def test_two_streams_share_the_messages(self, server):
        topic, subscription = server.topic_and_subscription()
        streams = [server.open_stream(subscription, max_outstanding_messages=5) for _ in "ab"]
        server.publish(topic, *numbers(10))
        parts = [stream.messages(5) for stream in streams]
        assert sorted(data(parts[0]) + data(parts[1])) == numbers(10)

    def test_a_message_of_9_9_MB(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x" * 9_900_000)
        [received] = server.open_stream(subscription).messages(1)
        assert len(received.message.data) == 9_900_000

    def test_expired_messages_come_again_on_the_stream(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        stream = still_server.open_stream(subscription)
        [first] = stream.messages(1)
        still_server.advance(10.1)
        [second] = stream.messages(1)
        assert second.message.message_id == first.message.message_id
        assert second.ack_id != first.ack_id

    def test_what_a_dead_client_held_goes_to_another_at_the_deadline(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        stream = still_server.open_stream(subscription)
        stream.messages(1)
        stream.close()
        assert still_server.pull(subscription) == []
        still_server.advance(10.1)
        assert data(still_server.pull(subscription)) == [b"x"]


class TestAcksOnTheStream:
    def test_acks(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        stream = still_server.open_stream(subscription, max_outstanding_messages=4)
        still_server.publish(topic, *numbers(6))
        first = stream.messages(4)
        stream.send(ack_ids=ids(first))
        # The rest can come only when the acknowledgements were heard.
        assert data(stream.messages(2)) == [b"4", b"5"]
        still_server.advance(10.1)
        assert data(stream.messages(2)) == [b"4", b"5"]

    def test_acks_are_durable(self, start_server):
        server = start_server()
        topic, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription)
        server.publish(topic, *numbers(3))
        received = stream.messages(3)
        stream.send(ack_ids=ids(received[:2]))
        stream.half_close()
        stream.wait_closed()
        server.restart()
        assert data(server.pull(subscription)) == [b"2"]

    def test_nacks_come_again_after_a_moment(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        stream = still_server.open_stream(subscription)
        still_server.publish(topic, *numbers(3))
        received = stream.messages(3)
        stream.send(modify_deadline_ack_ids=ids(received[1:2]), modify_deadline_seconds=[0])
        still_server.await_outstanding(subscription, 2)
        still_server.advance(limits.AVERSION_S)
        assert data(stream.messages(1)) == [b"1"]

    def test_deadlines_of_their_own(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        stream = still_server.open_stream(subscription)
        still_server.publish(topic, *numbers(3))
        received = stream.messages(3)
        # The nack comes last: when it was heard the others were, too.
        stream.send(modify_deadline_ack_ids=ids(received), modify_deadline_seconds=[20, 30, 0])
        still_server.await_outstanding(subscription, 2)
        still_server.advance(1)
        assert data(stream.messages(1)) == [b"2"]
        still_server.advance(18)
        assert data(stream.messages(1)) == [b"2"]
        still_server.advance(1.1)
        assert data(stream.messages(1)) == [b"0"]
        still_server.advance(9.95)
        assert set(data(stream.messages(2))) == {b"1", b"2"}

    def test_acks_and_deadlines_in_the_first_request(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, *numbers(2))
        held = still_server.pull(subscription)
        stream = still_server.open_stream(
            subscription,
            ack_ids=ids(held[:1]),
            modify_deadline_ack_ids=ids(held[1:]),
            modify_deadline_seconds=[0],
        )
        assert data(stream.messages(1)) == [b"1"]

    def test_a_heartbeat_is_nothing(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        stream = still_server.open_stream(subscription)
        stream.send()
        stream.send()
        still_server.publish(topic, b"x")
        assert data(stream.messages(1)) == [b"x"]


class TestDeadlineOfTheStream:
    @pytest.mark.parametrize("seconds", [10, 600])
    def test_it_holds_instead_of_the_subscriptions(self, still_server, seconds):
        topic, subscription = still_server.topic_and_subscription(ack_deadline_seconds=60)
        stream = still_server.open_stream(subscription, stream_ack_deadline_seconds=seconds)
        still_server.publish(topic, b"x")
        stream.messages(1)
        still_server.advance(seconds - 0.1)
        still_server.await_waiters(subscription, 1)
        assert stream.pending() == []
        still_server.advance(0.2)
        assert data(stream.messages(1)) == [b"x"]

    @pytest.mark.parametrize("seconds", [-1, 0, 9, 601])
    def test_out_of_range(self, server, seconds):
        _, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription, stream_ack_deadline_seconds=seconds)
        error = stream.error()
        assert isinstance(error, InvalidArgument)
        assert f"stream_ack_deadline_seconds: {seconds}" in error.message

    def test_it_may_change(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        stream = still_server.open_stream(subscription, max_outstanding_messages=1)
        still_server.publish(topic, *numbers(2))
        first = stream.messages(1)
        stream.send(stream_ack_deadline_seconds=30, ack_ids=ids(first))
        stream.messages(1)
        still_server.advance(29)
        still_server.await_waiters(subscription, 1)
        assert stream.pending() == []
        still_server.advance(1.1)
        assert data(stream.messages(1)) == [b"1"]

    def test_a_change_out_of_range_ends_the_stream(self, server):
        _, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription)
        stream.send(stream_ack_deadline_seconds=5)
        assert isinstance(stream.error(), InvalidArgument)


class TestFlowControl:
    @pytest.mark.parametrize("window", [1, 5, 1000])
    def test_messages(self, still_server, window):
        topic, subscription = still_server.topic_and_subscription()
        for _ in range(2):
            still_server.publish(topic, *numbers(window))
        still_server.publish(topic, b"one more")
        stream = still_server.open_stream(subscription, max_outstanding_messages=window)
        received = stream.messages(window)
        assert still_server.outstanding(subscription) == window
        half = max(1, window // 2)
        stream.send(ack_ids=ids(received[:half]))
        assert len(stream.messages(half)) == half
        assert still_server.outstanding(subscription) == window

    @pytest.mark.parametrize("settle", ["ack", "nack", "unary ack", "expiry"])
    def test_the_window_opens_however_a_message_is_settled(self, still_server, settle):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, *numbers(3))
        stream = still_server.open_stream(subscription, max_outstanding_messages=2)
        held = stream.messages(2)
        assert still_server.outstanding(subscription) == 2
        if settle == "ack":
            stream.send(ack_ids=ids(held))
        elif settle == "nack":
            stream.send(modify_deadline_ack_ids=ids(held), modify_deadline_seconds=[0, 0])
        elif settle == "unary ack":
            still_server.ack(subscription, held)
        else:
            still_server.advance(10.1)
        # What it nacked is not for this stream for a moment.
        expected = [b"2"] if "ack" in settle else [b"0", b"1"]
        assert data(stream.messages(len(expected))) == expected
        assert still_server.outstanding(subscription) == len(expected)

    def test_bytes(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, *[b"x" * KIB] * 10)
        stream = still_server.open_stream(subscription, max_outstanding_bytes=4 * KIB)
        held = stream.messages(3)
        assert still_server.outstanding(subscription) == 3
        for _ in range(3):
            stream.send(ack_ids=ids(held[:1]))
            held = held[1:] + stream.messages(1)
            assert still_server.outstanding(subscription) == 3

    def test_a_message_larger_than_the_window_comes_alone(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"small")
        still_server.publish(topic, b"x" * 5 * KIB)
        still_server.publish(topic, b"last")
        stream = still_server.open_stream(subscription, max_outstanding_bytes=KIB)
        small = stream.messages(1)
        assert still_server.outstanding(subscription) == 1
        stream.send(ack_ids=ids(small))
        large = stream.messages(1)
        assert len(large[0].message.data) == 5 * KIB
        assert still_server.outstanding(subscription) == 1
        stream.send(ack_ids=ids(large))
        assert data(stream.messages(1)) == [b"last"]

    def test_bytes_in_order(self, still_server):
        topic, subscription = still_server.topic_and_subscription(enable_message_ordering=True)
        sizes = [600, 600, 3000, 100, 100]
        still_server.publish(topic, *[b"x" * size for size in sizes], key="k")
        stream = still_server.open_stream(subscription, max_outstanding_bytes=1000)
        for size in sizes[:3]:
            held = stream.messages(1)
            assert len(held[0].message.data) == size
            assert still_server.outstanding(subscription) == 1
            stream.send(ack_ids=ids(held))
        assert len(stream.messages(2)) == 2

    def test_a_seek_opens_the_window(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, *numbers(4))
        stream = still_server.open_stream(subscription, max_outstanding_messages=2)
        held = stream.messages(2)
        still_server.advance(1)
        still_server.subscriber.seek(
            request={"subscription": subscription, "time": {"seconds": 4_000_000_000}}
        )
        still_server.publish(topic, b"new")
        assert data(stream.messages(1)) == [b"new"]
        # What was handed out before the seek is void.
        stream.send(ack_ids=ids(held))
        still_server.publish(topic, b"newer")
        assert data(stream.messages(1)) == [b"newer"]
        assert still_server.outstanding(subscription) == 2

    def test_retention_opens_the_window(self, still_server):
        topic, subscription = still_server.topic_and_subscription(
            message_retention_duration={"seconds": 600}
        )
        still_server.publish(topic, b"old")
        stream = still_server.open_stream(
            subscription, max_outstanding_messages=1, stream_ack_deadline_seconds=600
        )
        held = stream.messages(1)
        still_server.advance(300)
        still_server.modify(subscription, held, 600)
        still_server.publish(topic, b"new")
        still_server.advance(301)
        still_server.sweep()
        assert data(stream.messages(1)) == [b"new"]

    @pytest.mark.parametrize("limit", [0, -1])
    def test_no_limit(self, still_server, limit):
        topic, subscription = still_server.topic_and_subscription()
        for _ in range(3):
            still_server.publish(topic, *[b"x" * 100] * 1000)
        stream = still_server.open_stream(
            subscription, max_outstanding_messages=limit, max_outstanding_bytes=limit
        )
        assert len(stream.messages(3000)) == 3000

    def test_a_full_window_does_not_hold_up_another_stream(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, *numbers(10))
        stream = still_server.open_stream(subscription, max_outstanding_messages=1)
        stream.messages(1)
        other = still_server.open_stream(subscription)
        assert data(other.messages(9)) == numbers(10)[1:]


class TestRequestsAfterTheFirst:
    @pytest.mark.parametrize(
        "field",
        [
            {"subscription": "projects/test/subscriptions/other"},
            {"client_id": "me"},
            {"max_outstanding_messages": 10},
            {"max_outstanding_bytes": 10},
        ],
        ids=lambda field: next(iter(field)),
    )
    def test_what_belongs_to_the_first_is_refused(self, server, field):
        _, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription, client_id="me")
        stream.send(**field)
        error = stream.error()
        assert isinstance(error, InvalidArgument)
        assert f"{next(iter(field))}: must be set on the first request" in error.message

    @pytest.mark.parametrize("seconds", [[], [10, 10], [-1], [601]])
    def test_deadlines_that_cannot_be(self, still_server, seconds):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        stream = still_server.open_stream(subscription)
        held = stream.messages(1)
        stream.send(
            ack_ids=ids(held), modify_deadline_ack_ids=ids(held), modify_deadline_seconds=seconds
        )
        error = stream.error()
        assert isinstance(error, InvalidArgument)
        assert "modify_deadline_seconds" in error.message
        still_server.advance(10.1)
        assert data(still_server.pull(subscription)) == [b"x"]

    @pytest.mark.parametrize("field", ["ack_ids", "modify_deadline_ack_ids"])
    def test_an_ack_id_that_is_none_ends_the_stream(self, still_server, field):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        stream = still_server.open_stream(subscription)
        held = stream.messages(1)
        request = {field: [*ids(held), "nonsense"]}
        if field == "modify_deadline_ack_ids":
            request["modify_deadline_seconds"] = [0, 0]
        stream.send(**request)
        error = stream.error()
        assert isinstance(error, InvalidArgument)
        assert "'nonsense' is not an ack id of this service" in error.message
        assert still_server.pull(subscription) == []
        still_server.advance(10.1)
        assert data(still_server.pull(subscription)) == [b"x"]

    def test_an_id_twice_counts_once(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, *numbers(4))
        stream = still_server.open_stream(subscription, max_outstanding_messages=2)
        held = stream.messages(2)
        stream.send(ack_ids=ids(held[:1]) * 3)
        assert data(stream.messages(1)) == [b"2"]
        stream.send(ack_ids=ids(held[:1]))
        stream.send(ack_ids=ids(held[1:]))
        assert data(stream.messages(1)) == [b"3"]
        assert still_server.outstanding(subscription) == 2

    def test_an_ack_id_of_another_subscription_does_nothing(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        other = still_server.subscription(topic)
        still_server.publish(topic, *numbers(2))
        foreign = still_server.pull(other)
        stream = still_server.open_stream(subscription, max_outstanding_messages=1)
        first = stream.messages(1)
        stream.send(ack_ids=ids(foreign))
        stream.send(ack_ids=ids(first))
        assert data(stream.messages(1)) == [b"1"]

    def test_bytes_that_are_no_request(self, server):
        _, subscription = server.topic_and_subscription()
        first = StreamingPullRequest(subscription=subscription, stream_ack_deadline_seconds=10)
        call = server.raw_stream([StreamingPullRequest.serialize(first), b"\xff\xff"])
        with pytest.raises(grpc.RpcError) as caught:
            list(call)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    def test_a_mistake_of_ours_ends_the_stream(self, server, monkeypatch):
        """A stream whose requests are not read any more must not stay open."""

        async def fail(*_: object) -> None:
            raise RuntimeError("a bug")

        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        stream = server.open_stream(subscription)
        [received] = stream.messages(1)
        monkeypatch.setattr(server.broker, "settle_some", fail)
        stream.send(ack_ids=[received.ack_id])
        assert isinstance(stream.error(), InternalServerError)


class TestOpening:
    def test_no_subscription_named(self, server):
        assert isinstance(server.open_stream("").error(), InvalidArgument)

    def test_no_request_at_all(self, server):
        with pytest.raises(grpc.RpcError) as caught:
            list(server.raw_stream([]))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    def test_one_that_does_not_exist(self, server):
        error = server.open_stream("projects/test/subscriptions/nowhere").error()
        assert isinstance(error, NotFound)
        assert "'projects/test/subscriptions/nowhere' does not exist" in error.message

    def test_one_that_is_detached(self, server):
        _, subscription = server.topic_and_subscription()
        server.publisher.detach_subscription(request={"subscription": subscription})
        assert isinstance(server.open_stream(subscription).error(), FailedPrecondition)

    @pytest.mark.parametrize("ordering", [False, True])
    @pytest.mark.parametrize("exactly_once", [False, True])
    def test_the_properties_of_the_subscription_are_told(self, server, ordering, exactly_once):
        topic, subscription = server.topic_and_subscription(
            enable_message_ordering=ordering, enable_exactly_once_delivery=exactly_once
        )
        stream = server.open_stream(subscription)
        if ordering or exactly_once:
            # At once: clients ask before the first message comes.
            told = stream.answer().subscription_properties
            assert told.message_ordering_enabled is ordering
            assert told.exactly_once_delivery_enabled is exactly_once
        server.publish(topic, b"x")
        told = stream.answer().subscription_properties
        assert told.message_ordering_enabled is ordering
        assert told.exactly_once_delivery_enabled is exactly_once

    def test_a_change_of_properties_is_told(self, server):
        topic, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription)
        server.publish(topic, b"x")
        assert not stream.answer().subscription_properties.exactly_once_delivery_enabled
        server.subscriber.update_subscription(
            request={
                "subscription": {"name": subscription, "enable_exactly_once_delivery": True},
                "update_mask": {"paths": ["enable_exactly_once_delivery"]},
            }
        )
        server.publish(topic, b"y")
        assert stream.answer().subscription_properties.exactly_once_delivery_enabled


class TestEnding:
    def test_half_close(self, server):
        _, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription)
        stream.half_close()
        stream.wait_closed()

    def test_half_close_hears_what_was_sent_before(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, *numbers(3))
        stream = still_server.open_stream(subscription)
        held = stream.messages(3)
        stream.send(ack_ids=ids(held[:1]))
        stream.send(modify_deadline_ack_ids=ids(held[1:2]), modify_deadline_seconds=[0])
        stream.half_close()
        stream.wait_closed()
        still_server.advance(10.1)
        assert set(data(still_server.pull(subscription))) == {b"1", b"2"}

    @pytest.mark.parametrize("window", [1, 2], ids=["window full", "window open"])
    def test_deleting_the_subscription(self, server, window):
        topic, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription, max_outstanding_messages=window)
        server.publish(topic, b"x")
        stream.messages(1)
        server.await_waiters(subscription, 1)
        server.subscriber.delete_subscription(subscription=subscription)
        error = stream.error()
        assert isinstance(error, NotFound)
        assert "was deleted" in error.message

    def test_detaching_the_subscription(self, server):
        _, subscription = server.topic_and_subscription()
        stream = server.open_stream(subscription)
        server.await_waiters(subscription, 1)
        server.publisher.detach_subscription(request={"subscription": subscription})
        assert isinstance(stream.error(), FailedPrecondition)

    def test_deleting_the_topic_ends_nothing(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, *numbers(2))
        stream = server.open_stream(subscription, max_outstanding_messages=1)
        held = stream.messages(1)
        server.publisher.delete_topic(topic=topic)
        stream.send(ack_ids=ids(held))
        assert data(stream.messages(1)) == [b"1"]

    def test_streams_are_counted_while_they_last(self, server):
        _, subscription = server.topic_and_subscription()
        before = server.metric("fanlog_streams")
        stream = server.open_stream(subscription)
        server.await_waiters(subscription, 1)
        assert server.metric("fanlog_streams") == before + 1
        stream.half_close()
        stream.wait_closed()
        assert server.metric("fanlog_streams") == before

    def test_answers_are_small_until_the_first_message_comes_back(self, server):
        """A client may never read; what it is sent waits in memory."""
        topic, subscription = server.topic_and_subscription()
        for _ in range(4):
            server.publish(topic, *[bytes(10_000)] * 100)
        stream = server.open_stream(subscription, max_outstanding_messages=50)
        first = stream.answer().received_messages
        assert 1 <= len(first) <= limits.STREAM_FIRST_ANSWER_BYTES_MAX // 10_000
        held = [*first, *stream.messages(50 - len(first))]
        stream.send(ack_ids=ids(held))
        later = stream.answer().received_messages
        assert len(later) > limits.STREAM_FIRST_ANSWER_BYTES_MAX // 10_000
