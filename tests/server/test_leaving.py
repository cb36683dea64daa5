"""Clients that leave: they nack what they hold, half-close, and cancel, as Go's `Receive` does."""

from __future__ import annotations

import asyncio
import time

import pytest

from fanlog import limits
from fanlog.broker.delivery.feed import Feed
from fanlog.server.streaming_pull import _Stream

KINDS = pytest.mark.parametrize(
    "kind",
    [
        {},
        {"enable_exactly_once_delivery": True},
        {"enable_message_ordering": True},
        {"enable_message_ordering": True, "enable_exactly_once_delivery": True},
    ],
    ids=["plain", "exactly once", "ordered", "ordered, exactly once"],
)


def data(received):
    return [one.message.data for one in received]


def ids(received):
    return [one.ack_id for one in received]


def nack(server, subscription, received):
    """With a unary call."""
    request = {"subscription": subscription, "ack_ids": ids(received), "ack_deadline_seconds": 0}
    server.subscriber.modify_ack_deadline(request=request)


class TestNackThenClose:
    @KINDS
    def test_the_next_stream_has_them_at_once(self, still_server, kind):
        topic, subscription = still_server.topic_and_subscription(**kind)
        still_server.publish(topic, b"a", key="k" if "enable_message_ordering" in kind else "")
        leaving = still_server.open_stream(subscription, stream_ack_deadline_seconds=60)
        nack(still_server, subscription, leaving.messages(1))
        leaving.half_close()
        leaving.wait_closed()
        later = still_server.open_stream(subscription)
        assert data(later.messages(1)) == [b"a"], "though no time has passed"

    @KINDS
    def test_another_stream_has_them_at_once(self, still_server, kind):
        topic, subscription = still_server.topic_and_subscription(**kind)
        still_server.publish(topic, b"a", key="k" if "enable_message_ordering" in kind else "")
        leaving = still_server.open_stream(subscription)
        held = leaving.messages(1)
        other = still_server.open_stream(subscription)
        nack(still_server, subscription, held)
        assert data(other.messages(1)) == [b"a"]
        assert leaving.pending() == []

    def test_a_pull_has_them_at_once(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"a")
        leaving = still_server.open_stream(subscription)
        nack(still_server, subscription, leaving.messages(1))
        assert data(still_server.pull(subscription)) == [b"a"]

    @KINDS
    def test_a_lone_stream_has_them_back_by_itself(self, still_server, kind):
        topic, subscription = still_server.topic_and_subscription(**kind)
        still_server.publish(topic, b"a", key="k" if "enable_message_ordering" in kind else "")
        stream = still_server.open_stream(subscription)
        nack(still_server, subscription, stream.messages(1))
        assert still_server.outstanding(subscription) == 0
        still_server.advance(limits.AVERSION_S)
        assert data(stream.messages(1)) == [b"a"]

    def test_the_streams_of_one_client_leave_together(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"a")
        first = still_server.open_stream(subscription, client_id="go")
        held = first.messages(1)
        second = still_server.open_stream(subscription, client_id="go")
        still_server.await_waiters(subscription, 2)
        nack(still_server, subscription, held)
        assert still_server.outstanding(subscription, waiters=2) == 0
        for stream in (first, second):
            stream.half_close()
            stream.wait_closed()
        assert data(still_server.open_stream(subscription).messages(1)) == [b"a"]

    def test_on_the_clock_of_the_machine(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"a")
        stream = server.open_stream(subscription, stream_ack_deadline_seconds=60)
        held = stream.messages(1)
        began_s = time.monotonic()
        nack(server, subscription, held)
        assert data(stream.messages(1)) == [b"a"]
        assert time.monotonic() - began_s >= limits.AVERSION_S


class TestAfterTheHalfClose:
    def test_nothing_more_is_written(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        leaving = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 1)
        leaving.half_close()
        leaving.wait_closed()
        still_server.publish(topic, b"a")
        assert data(still_server.pull(subscription)) == [b"a"]

    def test_what_was_written_before_can_be_acknowledged_and_is_not_delivered(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"a")
        leaving = still_server.open_stream(subscription)
        held = leaving.messages(1)
        leaving.half_close()
        leaving.wait_closed()
        assert still_server.pull(subscription) == []
        still_server.ack(subscription, held)
        still_server.advance(60)
        assert still_server.pull(subscription) == []

    @KINDS
    def test_what_was_leased_and_not_written_is_free_at_once(self, still_server, kind, monkeypatch):
        """The half-close comes while an answer is made."""
        topic, subscription = still_server.topic_and_subscription(**kind)
        leaving = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 1)
        take, half_close, heard = Feed.take, _Stream._half_close, asyncio.Event()

        async def taken_too_late(feed, *args, **kwargs):
            deliveries = await take(feed, *args, **kwargs)
            if deliveries:
                monkeypatch.setattr(Feed, "take", take)
                leaving.half_close()
                await heard.wait()
            return deliveries

        def half_closed(stream):
            half_close(stream)
            heard.set()

        monkeypatch.setattr(Feed, "take", taken_too_late)
        monkeypatch.setattr(_Stream, "_half_close", half_closed)
        still_server.publish(topic, b"a", key="k" if "enable_message_ordering" in kind else "")
        leaving.wait_closed()
        [received] = still_server.pull(subscription)
        assert received.message.data == b"a"
        assert not received.delivery_attempt
