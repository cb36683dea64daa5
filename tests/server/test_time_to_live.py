"""Messages that are not worth delivering after a while."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import InvalidArgument
from google.protobuf.duration_pb2 import Duration
from google.pubsub_v1.types import DeadLetterPolicy
from pyroaring import BitMap64

from fanlog import times
from fanlog.broker.clock import ManualClock


def data(received):
    return [one.message.data for one in received]


def take(server, subscription):
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    return data(received)


def living(server, topic, *messages, seconds="60", **attributes):
    named = {f"fanlog-{name.replace('_', '-')}": value for name, value in attributes.items()}
    return server.publish(topic, *messages, **named, **{"fanlog-ttl": seconds})


def unacked(server, subscription):
    found = server.broker.hard.catalog.subscription(subscription)
    return server.run(server.broker.backlogs.measure(found)).messages


@pytest.fixture
def server(still_server):
    return still_server


@pytest.mark.parametrize("ordering", [False, True])
def test_what_lapsed_is_acknowledged_and_counted(server, ordering):
    topic = server.topic()
    subscription = server.subscription(topic, enable_message_ordering=ordering)
    living(server, topic, b"short", seconds="0.5")
    living(server, topic, b"long", seconds="60")
    server.publish(topic, b"ever")
    server.advance(1)
    assert take(server, subscription) == [b"long", b"ever"]
    assert unacked(server, subscription) == 0
    assert server.metric("fanlog_lapsed_messages_total", subscription) == 1


def test_in_time_it_is_delivered_and_may_be_acknowledged_late(server):
    topic, subscription = server.topic_and_subscription()
    living(server, topic, b"x", seconds="5")
    server.advance(4.9)
    received = server.pull(subscription)
    server.advance(4)
    server.ack(subscription, received)
    assert unacked(server, subscription) == 0


def test_a_redelivery_after_it_does_not_happen(server):
    topic, subscription = server.topic_and_subscription()
    living(server, topic, b"x", seconds="5")
    received = server.pull(subscription)
    server.advance(6)
    server.nack(subscription, received)
    assert take(server, subscription) == []
    assert unacked(server, subscription) == 0


def test_many_lapsed_ones_do_not_hide_the_rest(server):
    topic, subscription = server.topic_and_subscription()
    for _ in range(5):
        living(server, topic, *[b"gone"] * 900, seconds="1")
    server.publish(topic, b"here")
    server.advance(2)
    assert data(server.pull(subscription, max_messages=10)) == [b"here"]
    assert unacked(server, subscription) == 1


def test_it_counts_from_when_a_delayed_message_is_due(server):
    topic, subscription = server.topic_and_subscription()
    living(server, topic, b"a", b"b", seconds="10", delay="100")
    server.advance(105)
    received = server.pull(subscription, max_messages=1)
    assert data(received) == [b"a"]
    server.ack(subscription, received)
    server.advance(6)
    assert take(server, subscription) == []


def test_a_default_of_the_subscription(server):
    topic = server.topic()
    subscription = server.subscription(topic, labels={"fanlog-ttl": "10"})
    other = server.subscription(topic)
    server.publish(topic, b"plain")
    living(server, topic, b"own", seconds="60")
    living(server, topic, b"brief", seconds="2")
    server.publish(topic, b"late", **{"fanlog-delay": "8"})
    server.advance(3)
    assert data(server.pull(subscription)) == [b"plain", b"own"]
    server.advance(11)
    assert take(server, subscription) == [b"own", b"late"]
    assert take(server, other) == [b"plain", b"own", b"late"]


def test_a_default_may_be_changed_and_removed(server):
    topic = server.topic()
    subscription = server.subscription(topic, labels={"fanlog-ttl": "10"})

    def label(value):
        labels = {} if value is None else {"fanlog-ttl": value}
        server.subscriber.update_subscription(
            request={
                "subscription": {"name": subscription, "labels": labels},
                "update_mask": {"paths": ["labels"]},
            }
        )

    server.publish(topic, b"x")
    label(None)
    server.advance(100)
    received = server.pull(subscription)
    assert data(received) == [b"x"]
    label("50")
    server.nack(subscription, received)
    assert take(server, subscription) == []


def test_dead_letters_of_what_lapsed(server):
    dead, topic = server.topic(), server.topic()
    letters = server.subscription(dead)
    subscription = server.subscription(
        topic,
        labels={"fanlog-expired": "dead-letter"},
        dead_letter_policy=DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=5),
    )
    living(server, topic, b"gone", seconds="5")
    server.publish(topic, b"here")
    server.advance(6)
    assert take(server, subscription) == [b"here"]
    [letter] = server.await_pull(letters)
    assert letter.message.data == b"gone"
    assert letter.message.attributes["fanlog-dead-letter-reason"] == "its time-to-live was over"
    # A letter has no time-to-live: it is not lost in its turn.
    assert "fanlog-ttl" not in letter.message.attributes
    server.await_drained(subscription)


@pytest.mark.parametrize("dead_letters", [False, True])
def test_order_of_a_key_around_what_lapsed(server, dead_letters):
    dead, topic = server.topic(), server.topic()
    policy = DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=5)
    fields = (
        {"labels": {"fanlog-expired": "dead-letter"}, "dead_letter_policy": policy}
        if dead_letters
        else {}
    )
    letters = server.subscription(dead, enable_message_ordering=True)
    subscription = server.subscription(topic, enable_message_ordering=True, **fields)
    messages = [
        {
            "data": b"%d" % number,
            "ordering_key": "k",
            "attributes": {"fanlog-ttl": "5"} if number in (1, 2, 4) else {},
        }
        for number in range(6)
    ]
    server.publisher.publish(request={"topic": topic, "messages": messages})
    first = server.pull(subscription, max_messages=1)
    server.advance(6)
    assert take(server, subscription) == []
    server.ack(subscription, first)
    got = []
    while len(got) < 2:
        got += server.await_pull(subscription)
        server.ack(subscription, got)
    assert data(got) == [b"3", b"5"]
    if dead_letters:
        assert data(server.drain(letters, 3)) == [b"1", b"2", b"4"]
    server.await_drained(subscription)


def test_filters_and_exactly_once(server):
    topic = server.topic()
    subscription = server.subscription(
        topic, filter='attributes.colour = "red"', enable_exactly_once_delivery=True
    )
    living(server, topic, b"red", seconds="5", delay="1")
    server.publish(topic, b"short", colour="red", **{"fanlog-ttl": "5"})
    server.publish(topic, b"long", colour="red", **{"fanlog-ttl": "50"})
    server.advance(6)
    assert take(server, subscription) == [b"long"]
    assert unacked(server, subscription) == 0


def test_over_a_restart(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    living(server, topic, b"short", seconds="5")
    living(server, topic, b"long", seconds="50", delay="10")
    server.restart()
    server.advance(6)
    assert take(server, subscription) == []
    server.advance(6)
    assert take(server, subscription) == [b"long"]
    assert unacked(server, subscription) == 0


def test_a_message_that_was_delivered_in_time_is_not_reopened_in_vain(server):
    """Whoever reopens a message wants it, however old it is."""
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    living(server, topic, b"x", seconds="5")
    server.ack(subscription, server.pull(subscription))
    server.advance(100)
    share = server.broker.hard.shares_of(server.broker.hard.catalog.subscription(subscription))[0]

    async def reopen() -> None:
        generation = server.broker.reopening._generations.next()
        decision = share.reopen(server.clock.now(), BitMap64([0]), generation=generation)
        server.broker.decisions.decide(share, decision)
        await server.broker.ledger.sync()

    server.run(reopen())
    assert take(server, subscription) == [b"x"]


def test_a_seek_back_finds_only_what_is_alive(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    before = server.clock.now()
    living(server, topic, b"short", seconds="5")
    server.publish(topic, b"ever")
    assert take(server, subscription) == [b"short", b"ever"]
    server.advance(6)
    time = times.parse(times.of_ns(int(before * 1e9)))
    server.subscriber.seek(request={"subscription": subscription, "time": time})
    assert take(server, subscription) == [b"ever"]


@pytest.mark.parametrize("ttl", ["0", "-1", "nan", "0.0004", "", "2678401", "1 h"])
def test_refusals(server, ttl):
    topic, _ = server.topic_and_subscription()
    with pytest.raises(InvalidArgument, match=r"messages\[0\].attributes: fanlog-ttl is"):
        living(server, topic, b"x", seconds=ttl)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"fanlog-ttl": "0"}, "label fanlog-ttl: '0' is not a whole number of seconds from 1"),
        ({"fanlog-ttl": "1.5"}, "label fanlog-ttl: '1.5' is not"),
        ({"fanlog-ttl": "9" * 60}, "is not a whole number"),
        ({"fanlog-expired": "keep"}, "'keep' is not one of 'drop', 'dead-letter'"),
        ({"fanlog-expired": "dead-letter"}, "needs a dead_letter_policy"),
    ],
)
def test_labels_that_are_refused(server, labels, says):
    with pytest.raises(InvalidArgument, match=says):
        server.subscription(server.topic(), labels=labels)


def test_it_may_outlive_the_retention(server):
    topic, subscription = server.topic_and_subscription(
        message_retention_duration=Duration(seconds=600)
    )
    living(server, topic, b"x", seconds="86400")
    server.advance(601)
    server.sweep()
    assert take(server, subscription) == []
