"""A server that stops: everybody is sent away to come again, and what was answered is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Timer

import pytest
from google.api_core.exceptions import ServiceUnavailable

from server.conftest import PATIENCE_S


def data(received):
    return [one.message.data for one in received]


@pytest.fixture(params=["memory", "embedded"])
def server(start_server, request):
    return start_server(request.param)


def test_whoever_waits_is_sent_away(server):
    topic, subscription = server.topic_and_subscription()
    other = server.subscription(topic)
    idle = server.open_stream(other)
    full = server.open_stream(subscription, max_outstanding_messages=1)
    server.publish(topic, b"x")
    full.messages(1)
    idle.messages(1)
    with ThreadPoolExecutor(max_workers=1) as pool:
        pull = pool.submit(server.await_pull, subscription)
        server.await_waiters(subscription, 2)
        server.await_waiters(other, 1)
        server.stop()
        with pytest.raises(ServiceUnavailable, match="the broker is stopping"):
            pull.result(PATIENCE_S)
    for stream in (idle, full):
        error = stream.error()
        assert isinstance(error, ServiceUnavailable)
        assert "the broker is stopping" in error.message


def test_whoever_has_just_come_is_sent_away_too(server):
    """CANCELLED would tell an official subscriber that it left by itself, and for good."""
    _, subscription = server.topic_and_subscription()
    is_busy, is_free = Event(), Event()

    async def be_busy():
        is_busy.set()
        is_free.wait(PATIENCE_S)

    with ThreadPoolExecutor(max_workers=9) as pool:
        busy = pool.submit(server.run, be_busy())
        assert is_busy.wait(PATIENCE_S)
        # They come while the loop has no time for them; to stop is the first thing it does then.
        pulls = [pool.submit(server.await_pull, subscription) for _ in range(8)]
        Timer(0.2, is_free.set).start()
        server.stop()
        busy.result(PATIENCE_S)
        errors = [pull.exception(PATIENCE_S) for pull in pulls]
    assert {type(error) for error in errors} == {ServiceUnavailable}


def test_nobody_new_is_served(server):
    topic, subscription = server.topic_and_subscription()
    server.drain_broker()
    with pytest.raises(ServiceUnavailable, match="the broker is stopping"):
        server.publish(topic, b"x")
    with pytest.raises(ServiceUnavailable, match="the broker is stopping"):
        server.pull(subscription)
    assert isinstance(server.open_stream(subscription).error(), ServiceUnavailable)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_acks_are_taken_to_the_last(start_server, exactly_once):
    server = start_server()
    topic, subscription = server.topic_and_subscription(enable_exactly_once_delivery=exactly_once)
    server.publish(topic, b"0", b"1")
    held = server.pull(subscription)
    server.drain_broker()
    server.ack(subscription, held[:1])
    server.nack(subscription, held[1:])
    server.restart()
    assert data(server.pull(subscription)) == [b"1"]


def test_acks_on_a_stream_are_kept(start_server):
    server = start_server()
    topic, subscription = server.topic_and_subscription()
    stream = server.open_stream(subscription)
    server.publish(topic, *[b"%d" % n for n in range(100)])
    held = stream.messages(100)
    stream.send(ack_ids=[one.ack_id for one in held[:99]])
    server.await_metric("fanlog_acks_total", subscription, 99)
    server.restart()
    assert data(server.pull(subscription)) == [b"99"]
