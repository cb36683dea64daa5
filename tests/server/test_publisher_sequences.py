"""Publishers that number their messages: repetitions, gaps and epochs; through official clients."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument

from fanlog.broker.clock import ManualClock


def data(received):
    return [one.message.data for one in received]


def publish(server, topic, *numbers, publisher="p", epoch=None, key="", payload=None, **attributes):
    """Publish messages with these numbers in one request; their ids."""
    more = {name.replace("fanlog_", "fanlog-"): text for name, text in attributes.items()}
    if epoch is not None:
        more["fanlog-publisher-epoch"] = str(epoch)
    messages = [
        {
            "data": b"%d" % number if payload is None else payload,
            "ordering_key": key,
            "attributes": {"fanlog-publisher": publisher, "fanlog-sequence": str(number), **more},
        }
        for number in numbers
    ]
    request = {"topic": topic, "messages": messages}
    return list(server.publisher.publish(request=request, retry=None).message_ids)


def take(server, subscription, most=1000):
    """Everything there is, in the order in which it comes, acknowledged answer by answer."""
    found = []
    while received := server.pull(subscription, most):
        server.ack(subscription, received)
        found += data(received)
    return found


@pytest.fixture
def server(still_server):
    return still_server


# Repetitions.


def test_a_repeated_number_is_the_message_that_is_there(server):
    topic, subscription = server.topic_and_subscription()
    first, second = publish(server, topic, 1, 2)
    assert publish(server, topic, 2) == [second]
    assert publish(server, topic, 1, 2, 3)[:2] == [first, second]
    assert take(server, subscription) == [b"1", b"2", b"3"]


def test_inside_one_request(server):
    topic, subscription = server.topic_and_subscription()
    ids = publish(server, topic, 1, 2, 2, 1, 3)
    assert ids[2] == ids[1]
    assert ids[3] == ids[0]
    assert take(server, subscription) == [b"1", b"2", b"3"]


def test_publishers_and_topics_count_for_themselves(server):
    topic, other = server.topic(), server.topic()
    ids = [
        *publish(server, topic, 5),
        *publish(server, topic, 1, publisher="q"),
        *publish(server, other, 2),
    ]
    assert len(set(ids)) == 3


def test_a_publisher_that_begins_again_is_told(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, 1, 2, 3)
    with pytest.raises(FailedPrecondition, match="expected next is 4"):
        publish(server, topic, 1, payload=b"another")
    publish(server, topic, 1, payload=b"anew", epoch=1)
    with pytest.raises(FailedPrecondition, match="which is over for publisher 'p': its epoch is 1"):
        publish(server, topic, 4)
    assert take(server, subscription) == [b"1", b"2", b"3", b"anew"]


def test_an_older_number_that_is_not_known_is_refused(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, 10, 11)
    with pytest.raises(FailedPrecondition, match="expected next is 12"):
        publish(server, topic, 9)
    with pytest.raises(FailedPrecondition, match="expected next is 12"):
        publish(server, topic, 12, 3)
    assert take(server, subscription) == [b"10", b"11"]
    assert publish(server, topic, 12)


def test_attributes_of_the_client_do_not_make_another_message(server):
    topic = server.topic()
    [first] = publish(server, topic, 1, googclient_trace="one")
    assert publish(server, topic, 1, googclient_trace="two") == [first]
    with pytest.raises(FailedPrecondition):
        publish(server, topic, 1, colour="red")


# Gaps.


@pytest.mark.parametrize("ordering", [False, True])
@pytest.mark.parametrize("key", ["", "k"])
@pytest.mark.parametrize("exactly_once", [False, True])
def test_messages_behind_a_gap_come_when_it_is_filled(server, ordering, key, exactly_once):
    topic = server.topic()
    subscription = server.subscription(
        topic, enable_message_ordering=ordering, enable_exactly_once_delivery=exactly_once
    )
    later = server.subscription(topic, enable_message_ordering=ordering)
    publish(server, topic, 1, key=key)
    publish(server, topic, 3, 4, key=key)
    assert take(server, subscription) == [b"1"]
    publish(server, topic, 7, key=key)
    publish(server, topic, 6, key=key)
    assert take(server, subscription) == []
    assert server.metric("fanlog_held_messages") >= 4
    publish(server, topic, 2, key=key)
    assert take(server, subscription) == [b"2", b"3", b"4"]
    publish(server, topic, 5, key=key)
    publish(server, topic, 8, key=key)
    assert take(server, subscription) == [b"5", b"6", b"7", b"8"]
    assert take(server, later) == [b"%d" % number for number in range(1, 9)]
    server.await_drained(subscription)


@pytest.mark.parametrize("ordering", ["publisher", "total"])
def test_a_topic_in_order(server, ordering):
    topic = server.topic(labels={"fanlog-ordering": ordering})
    subscription = server.subscription(topic, enable_message_ordering=True)
    publish(server, topic, 1)
    publish(server, topic, 3)
    publish(server, topic, 1, publisher="q", payload=b"q")
    assert take(server, subscription) == [b"1", b"q"]
    publish(server, topic, 2)
    publish(server, topic, 4)
    received = server.pull(subscription)
    assert data(received)[0] == b"2"
    server.nack(subscription, received)
    server.advance(1)
    assert take(server, subscription) == [b"2", b"3", b"4"]


def test_a_gap_is_given_up_in_time_and_not_before(server):
    topic = server.topic(labels={"fanlog-gap-timeout": "20"})
    subscription = server.subscription(topic)
    publish(server, topic, 1)
    publish(server, topic, 3)
    server.advance(10)
    publish(server, topic, 5)
    server.advance(9.9)
    assert take(server, subscription) == [b"1"]
    before = server.metric("fanlog_gaps_given_up_total")
    server.advance(0.2)
    assert take(server, subscription) == [b"3"]
    assert server.metric("fanlog_gaps_given_up_total") == before + 1
    with pytest.raises(FailedPrecondition, match="expected next is 4"):
        publish(server, topic, 2)
    server.advance(9)
    assert take(server, subscription) == []
    server.advance(1)
    assert take(server, subscription) == [b"5"]
    assert publish(server, topic, 6)
    assert take(server, subscription) == [b"6"]


def test_thirty_seconds_unless_the_topic_says_otherwise(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, 1)
    publish(server, topic, 3)
    server.advance(29.9)
    assert take(server, subscription) == [b"1"]
    server.advance(0.2)
    assert take(server, subscription) == [b"3"]


def test_a_gap_of_no_time_holds_nothing_for_long(server):
    topic = server.topic(labels={"fanlog-gap-timeout": "0"})
    subscription = server.subscription(topic)
    publish(server, topic, 1)
    publish(server, topic, 3)
    server.advance(0.1)
    assert take(server, subscription) == [b"1", b"3"]


def test_a_new_epoch_ends_the_gaps_of_the_last(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, 1)
    publish(server, topic, 3)
    publish(server, topic, 1, epoch=1, payload=b"anew")
    assert take(server, subscription) == [b"1", b"3", b"anew"]


def test_a_gap_inside_one_request(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, 1, 3, 2, 6)
    assert take(server, subscription) == [b"1", b"2", b"3"]
    publish(server, topic, 5, 4)
    assert take(server, subscription) == [b"4", b"5", b"6"]


def test_a_number_that_a_filter_leaves_out_is_no_gap(server):
    topic = server.topic()
    filtered = server.subscription(topic, filter='attributes.colour = "red"')
    publish(server, topic, 1, colour="red")
    publish(server, topic, 2, colour="blue")
    publish(server, topic, 3, colour="red")
    assert take(server, filtered) == [b"1", b"3"]
    publish(server, topic, 5, colour="red")
    assert take(server, filtered) == []
    publish(server, topic, 4, colour="blue")
    assert take(server, filtered) == [b"5"]
    server.await_drained(filtered)


def test_with_delays(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, 1)
    publish(server, topic, 3, fanlog_delay="5")
    publish(server, topic, 2, fanlog_delay="2")
    assert take(server, subscription) == [b"1"]
    server.advance(2.1)
    assert take(server, subscription) == [b"2"]
    server.advance(3)
    assert take(server, subscription) == [b"3"]
    publish(server, topic, 5, fanlog_delay="1")
    server.advance(2)
    assert take(server, subscription) == []
    publish(server, topic, 4)
    assert take(server, subscription) == [b"4", b"5"]


@pytest.mark.parametrize("ordering", [False, True])
def test_seek_and_snapshots_keep_the_order(server, ordering):
    topic = server.topic()
    key = "k" if ordering else ""
    subscription = server.subscription(
        topic, enable_message_ordering=ordering, retain_acked_messages=True
    )
    publish(server, topic, 1, key=key)
    publish(server, topic, 3, key=key)
    assert take(server, subscription) == [b"1"]
    name = subscription.replace("/subscriptions/", "/snapshots/")
    server.subscriber.create_snapshot(request={"name": name, "subscription": subscription})
    publish(server, topic, 2, key=key)
    publish(server, topic, 4, key=key)
    assert take(server, subscription) == [b"2", b"3", b"4"]
    server.subscriber.seek(request={"subscription": subscription, "time": "1970-01-02T00:00:00Z"})
    assert take(server, subscription) == [b"1", b"2", b"3", b"4"]
    server.subscriber.seek(request={"subscription": subscription, "snapshot": name})
    assert take(server, subscription) == [b"2", b"3", b"4"]
    server.await_drained(subscription)


def test_purged_messages_behind_a_gap_do_not_come(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, 1)
    publish(server, topic, 3)
    server.subscriber.seek(request={"subscription": subscription, "time": "2999-01-01T00:00:00Z"})
    publish(server, topic, 2)
    assert take(server, subscription) == [b"2"]
    server.await_drained(subscription)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_one_at_a_time_and_nacked(server, exactly_once):
    topic = server.topic()
    subscription = server.subscription(topic, enable_exactly_once_delivery=exactly_once)
    publish(server, topic, 1)
    publish(server, topic, 4, 3)
    publish(server, topic, 2)
    assert take(server, subscription, most=1) == [b"1", b"2", b"3", b"4"]
    publish(server, topic, 6)
    publish(server, topic, 5)
    received = server.pull(subscription) + server.pull(subscription)
    assert data(received) == [b"5", b"6"]
    server.nack(subscription, received)
    server.advance(1)
    assert sorted(take(server, subscription)) == [b"5", b"6"]
    server.await_drained(subscription)


def test_a_small_consumer_gets_first_what_filled_the_gap(server):
    """Also when what stood behind the gap is more than it has room for."""
    topic = server.topic()
    subscription = server.subscription(topic, enable_message_ordering=True)
    publish(server, topic, 1, key="k")
    for number in (3, 4, 5, 6):
        publish(server, topic, number, key="k", colour="x" * 1_000)
    publish(server, topic, 2, key="k")
    first = server.pull(subscription, 1)
    assert data(first) == [b"1"]
    assert server.pull(subscription) == [], "all of them wait for the first of their key"
    server.ack(subscription, first)
    small = server.open_stream(subscription, max_outstanding_bytes=1_500)
    assert data(small.messages(1)) == [b"2"]
    small.close()


def test_with_key_slots(server):
    topic = server.topic()
    subscription = server.subscription(topic, labels={"fanlog-assignment": "sticky"})
    publish(server, topic, 1)
    publish(server, topic, 3)
    stream = server.open_stream(subscription)
    assert data(stream.messages(1)) == [b"1"]
    assert stream.pending() == []
    publish(server, topic, 2)
    assert sorted(data(stream.messages(2))) == [b"2", b"3"]
    stream.close()


def test_at_most_once(server):
    topic = server.topic()
    subscription = server.subscription(topic, labels={"fanlog-delivery": "at-most-once"})
    publish(server, topic, 1)
    publish(server, topic, 3)
    assert data(server.pull(subscription)) == [b"1"]
    assert server.pull(subscription) == []
    publish(server, topic, 2)
    assert data(server.pull(subscription) + server.pull(subscription)) == [b"2", b"3"]
    server.await_drained(subscription)


# Restarts.


def test_over_restarts(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    [first] = publish(server, topic, 1)
    publish(server, topic, 3)
    server.restart()
    assert publish(server, topic, 1) == [first]
    assert take(server, subscription) == [b"1"]
    with pytest.raises(FailedPrecondition, match="expected next is 2"):
        publish(server, topic, 0)
    [second] = publish(server, topic, 2)
    publish(server, topic, 4)
    server.restart()
    assert publish(server, topic, 2) == [second]
    assert take(server, subscription) == [b"2", b"3", b"4"]
    publish(server, topic, 6)
    server.advance(20)
    server.restart()
    server.advance(11)
    assert take(server, subscription) == [b"6"]
    server.restart()
    with pytest.raises(FailedPrecondition, match="expected next is 7"):
        publish(server, topic, 5)
    publish(server, topic, 1, epoch=3, payload=b"anew")
    server.restart()
    with pytest.raises(FailedPrecondition, match="its epoch is 3"):
        publish(server, topic, 7)


# What is remembered.


@pytest.mark.parametrize("ordering", [False, True])
def test_leases_behind_a_gap_over_a_restart(start_server, ordering):
    """Exactly once they are acknowledged after it, or fail and come once."""
    server = start_server("embedded", clock=ManualClock())
    topic, subscription = server.topic_and_subscription(
        enable_message_ordering=ordering,
        enable_exactly_once_delivery=True,
        ack_deadline_seconds=600,
        retry_policy={
            "minimum_backoff": timedelta(seconds=10),
            "maximum_backoff": timedelta(seconds=10),
        },
    )
    publish(server, topic, 1, key="k")
    publish(server, topic, 3, key="k")
    publish(server, topic, 4, key="k")
    server.publish(topic, b"other")
    publish(server, topic, 2, key="k")
    held = {}
    while b"4" not in held:
        received = server.pull(subscription)
        if settled := [one for one in received if one.message.data in (b"1", b"2")]:
            server.ack(subscription, settled)
        held |= {one.message.data: one for one in received}
    server.nack(subscription, [held[b"other"]])
    server.restart()
    server.advance(21)
    assert data(server.pull(subscription, 1)) == [b"other"]
    server.nack(subscription, [held[b"3"]])
    server.advance(21)
    again = server.pull(subscription)
    if ordering:
        # The one behind it comes back with it.
        assert data(again) == [b"3", b"4"]
    else:
        assert data(again) == [b"3"]
        again.append(held[b"4"])
    server.ack(subscription, again)
    assert server.pull(subscription) == []


@pytest.mark.parametrize("ordering", [False, True])
def test_acks_behind_a_gap_after_a_restart(start_server, ordering):
    server = start_server("embedded", clock=ManualClock())
    topic, subscription = server.topic_and_subscription(
        enable_message_ordering=ordering, enable_exactly_once_delivery=True
    )
    server.publish(topic, b"other")
    publish(server, topic, 1, key="k")
    publish(server, topic, 3, key="k")
    publish(server, topic, 2, key="k")
    held = {}
    while b"3" not in held:
        received = server.pull(subscription)
        if settled := [one for one in received if one.message.data in (b"1", b"2")]:
            server.ack(subscription, settled)
        held |= {one.message.data: one for one in received}
    server.restart()
    server.ack(subscription, [held[b"3"]])
    server.ack(subscription, [held[b"other"]])
    server.await_drained(subscription)


def test_a_stream_in_order_gets_what_stood_behind_a_gap_when_the_filler_is_acknowledged(server):
    topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
    stream = server.open_stream(subscription)
    publish(server, topic, 1, key="k")
    publish(server, topic, 3, 4, key="k")
    publish(server, topic, 2, key="k")
    server.publish(topic, b"another key", key="l")
    received = stream.messages(3)
    assert sorted(data(received)) == [b"1", b"2", b"another key"]
    stream.send(ack_ids=[one.ack_id for one in received if one.message.data == b"1"])
    # Nothing more of the key, and other keys go on.
    server.publish(topic, b"one more", key="l")
    assert data(stream.messages(1)) == [b"one more"]
    stream.send(ack_ids=[one.ack_id for one in received if one.message.data == b"2"])
    assert data(stream.messages(2)) == [b"3", b"4"]


def test_a_silent_publisher_is_forgotten_and_told(server):
    topic = server.topic(labels={"fanlog-publisher-life": "600"})
    publish(server, topic, 1, 2)
    server.advance(599)
    server.sweep()
    publish(server, topic, 3)
    server.advance(599)
    server.sweep()
    assert len(publish(server, topic, 3)) == 1
    server.advance(2)
    server.sweep()
    with pytest.raises(FailedPrecondition, match="forgotten, and then this message may"):
        publish(server, topic, 3)
    assert publish(server, topic, 1, publisher="another")
    assert publish(server, topic, 3, epoch=1)


def test_records_go_with_the_topic(server):
    topic = server.topic()
    publish(server, topic, 1)
    publish(server, topic, 3)
    publish(server, topic, 2)
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    assert len(server.broker.hard.publishers.on(partition)) == 1
    server.publisher.delete_topic(topic=topic)
    server.sweep()
    server.sweep()
    assert server.broker.hard.publishers.on(partition).is_empty
    assert server.broker.hard.agendas.find(partition) is None


# What is refused.


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"fanlog-sequence": "1"}, "fanlog-sequence is given without fanlog-publisher"),
        (
            {"fanlog-sequence": "x", "fanlog-publisher": "p"},
            "fanlog-sequence is 'x'; a whole number from 0 to 9223372036854775807 is allowed",
        ),
        ({"fanlog-sequence": "-1", "fanlog-publisher": "p"}, "fanlog-sequence is '-1'; a whole"),
        ({"fanlog-sequence": "", "fanlog-publisher": "p"}, "fanlog-sequence is ''; a whole"),
        ({"fanlog-sequence": str(2**63), "fanlog-publisher": "p"}, "a whole number from 0"),
        (
            {"fanlog-sequence": "1", "fanlog-publisher": "p", "fanlog-publisher-epoch": "1.5"},
            "fanlog-publisher-epoch is '1.5'; a whole number",
        ),
        (
            {"fanlog-publisher": "p", "fanlog-publisher-epoch": "1"},
            "fanlog-publisher-epoch is given without fanlog-sequence",
        ),
        (
            {"fanlog-sequence": "1", "fanlog-publisher": "p", "fanlog-dedup-id": "a"},
            "both say what the message repeats; leave one of them out",
        ),
    ],
)
def test_bad_input(server, attributes, sentence):
    topic, subscription = server.topic_and_subscription()
    with pytest.raises(InvalidArgument, match=sentence):
        server.publish(topic, b"x", **attributes)
    assert server.pull(subscription) == []


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("fanlog-gap-timeout", "3601"),
        ("fanlog-gap-timeout", "x"),
        ("fanlog-publisher-life", "599"),
        ("fanlog-publisher-life", "2678401"),
    ],
)
def test_bad_labels(server, label, text):
    with pytest.raises(InvalidArgument, match=f"label {label}: '{text}' is not a whole number"):
        server.topic(labels={label: text})
