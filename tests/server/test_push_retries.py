"""Push: when a message comes again, how long an endpoint has, and what dead letters tell of it."""

from __future__ import annotations

import itertools
import time
from threading import Event

import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from server.conftest import PATIENCE_S
from server.receiver import push_elsewhere, receiving
from server.test_push import push_to


@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        ({}, b"", ""),
        ({"Content-Type": "text/html"}, b"<b>no\r\n \x1b[2Jorder</b>", "<b>no [2Jorder</b>"),
        ({"Content-Type": "text/plain; charset=ISO-8859-1"}, "é".encode("latin-1"), "é"),
        ({"Content-Encoding": "gzip"}, b"\x1f\x8b\x08abcd", ""),
        ({}, "\U0001f600".encode() * 100_000, "\U0001f600" * 200),
        ({"Content-Length": str(1 << 40)}, b"x" * 100_000, "x" * 200),
    ],
)  # fmt: skip
def test_a_dead_letter_has_the_first_words_of_the_answer(server, headers, body, said):
    with receiving(lambda _: (422, headers, body)) as receiver:
        dead, name = server.topic_and_subscription()
        topic = server.topic()
        pushed = server.subscription(
            topic,
            **push_to(receiver.url()),
            dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 1},
        )
        server.publish(topic, b"x")
        [letter] = server.await_pull(name)
        server.subscriber.delete_subscription(subscription=pushed)
    reason = letter.message.attributes["fanlog-dead-letter-reason"]
    assert len(reason.encode()) <= limits.ATTRIBUTE_VALUE_BYTES_MAX
    assert reason == "1 of 1 delivery attempts, the last one nacked: HTTP 422" + (
        f": {said}" if said else ""
    )


def test_without_a_policy_the_first_retry_comes_at_once_then_each_after_twice_as_long(
    start_server, monkeypatch
):
    # Only the message waits here, not its endpoint.
    monkeypatch.setattr(limits, "PUSH_BREAKER_FAILURES", 100)
    with receiving(lambda _: 500) as receiver:
        server = start_server(clock=ManualClock())
        dead, letters = server.topic_and_subscription()
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url()),
            dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 5},
        )
        server.publish(topic, b"x")
        server.await_metric("fanlog_nacks_total", name, 2)
        # Up to a quarter is added to each wait at random.
        for count, wait_s in ((2, 1.0), (3, 2.0)):
            server.advance(wait_s - 0.01)
            push_elsewhere(server)
            assert len(receiver.received) == count
            server.advance(wait_s / 4 + 0.01)
            server.await_metric("fanlog_nacks_total", name, count + 1)
        # What was counted survives a restart, what was waited for does not.
        server.restart()
        receiver.wait(5)
        [letter] = server.await_pull(letters)
        assert letter.message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"


def test_a_retry_policy_is_kept_to(start_server):
    with receiving(lambda _: 500) as receiver:
        server = start_server(clock=ManualClock())
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url()),
            retry_policy={"minimum_backoff": {"seconds": 20}, "maximum_backoff": {"seconds": 20}},
        )
        server.publish(topic, b"x")
        for count in (1, 2):
            server.await_metric("fanlog_nacks_total", name, count)
            server.advance(19.9)
            push_elsewhere(server)
            assert len(receiver.received) == count
            server.advance(0.2)


def test_a_time_out_longer_than_the_ack_deadline(start_server):
    answers, answering = itertools.count(1), Event()
    with receiving() as receiver:
        receiver.answer = lambda _: answering.wait(PATIENCE_S) and next(answers) and 204
        server = start_server(clock=ManualClock())
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url()),
            ack_deadline_seconds=10,
            labels={"fanlog-push-timeout": "300"},
        )
        server.publish(topic, b"x")
        receiver.wait(1)
        # The lease is for as long as the request may take: nobody else is given the message.
        server.advance(299)
        push_elsewhere(server)
        assert server.outstanding(name) == 1
        answering.set()
        server.await_drained(name)
        assert len(receiver.received) == 1
        assert server.metric("fanlog_expiries_total", name) == 0


def test_a_time_out_shorter_than_the_ack_deadline_and_changed(start_server):
    hangs = iter([True, True])
    with receiving() as receiver:
        receiver.answer = lambda _: (receiver.hang() if next(hangs, False) else None) or 204
        server = start_server()
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url()),
            ack_deadline_seconds=600,
            labels={"fanlog-push-timeout": "600", "team": "a"},
        )
        server.subscriber.update_subscription(
            request={
                "subscription": {"name": name, "labels": {"fanlog-push-timeout": "1"}},
                "update_mask": {"paths": ["labels.fanlog-push-timeout"]},
            }
        )
        shown = server.subscriber.get_subscription(subscription=name)
        assert dict(shown.labels) == {"fanlog-push-timeout": "1", "team": "a"}
        server.publish(topic, b"x")
        server.await_drained(name)
        assert len(receiver.received) == 3
        labels = f'{{outcome="timeout",subscription="{name}"}}'
        assert f"fanlog_push_outcomes_total{labels} 2.0" in server.metrics()


def test_a_connection_that_is_closed_leaves_the_second_request_the_time_that_is_left(server):
    with receiving() as receiver:
        # Silent for most of the time that there is, then closed; then silent.
        first = iter([True])

        def answer(_):
            if next(first, False):
                receiver.closing.wait(0.8)
                return None
            return receiver.hang()

        receiver.answer = answer
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url()), labels={"fanlog-push-timeout": "1"}
        )
        begun = time.monotonic()
        server.publish(topic, b"x")
        server.await_metric("fanlog_push_attempts_total", name, 1)
        assert 0.9 < time.monotonic() - begun < 1.7
        server.subscriber.delete_subscription(subscription=name)


def test_an_endpoint_that_hangs_is_given_the_push_time_out(start_server):
    with receiving() as receiver:
        hangs = iter([True])
        receiver.answer = lambda _: (receiver.hang() if next(hangs, False) else None) or 204
        server = start_server()
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url()),
            ack_deadline_seconds=600,
            labels={"fanlog-push-timeout": "1"},
        )
        begun = time.monotonic()
        server.publish(topic, b"x")
        receiver.wait(2)
        assert time.monotonic() - begun > 0.9
        server.await_drained(name)
        # Not later either: the lease of the request had not run out.
        assert server.metric("fanlog_expiries_total", name) == 0
        labels = f'{{outcome="timeout",subscription="{name}"}}'
        assert f"fanlog_push_outcomes_total{labels} 1.0" in server.metrics()
