"""Messages that are delivered after those that they depend on."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import InvalidArgument
from google.pubsub_v1.types import DeadLetterPolicy

from fanlog import times
from fanlog.broker.clock import ManualClock


def data(received):
    return [one.message.data for one in received]


def take(server, subscription):
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    return data(received)


def publish(server, topic, message, *causes, key="", **attributes):
    named = {"fanlog-depends-on": ",".join(causes)} if causes else {}
    [message_id] = server.publish(topic, message, key=key, **named, **attributes)
    return message_id


def stats(server, subscription):
    hard = server.broker.hard
    [share] = hard.shares_of(hard.catalog.subscription(subscription))
    return share.stats(server.broker.ledger.end(share.partition))


@pytest.fixture
def server(still_server):
    return still_server


@pytest.mark.parametrize("ordering", [False, True])
@pytest.mark.parametrize("key", ["", "k"])
@pytest.mark.parametrize("exactly_once", [False, True])
def test_it_waits_for_the_acknowledgement(server, ordering, key, exactly_once):
    topic = server.topic()
    subscription = server.subscription(
        topic, enable_message_ordering=ordering, enable_exactly_once_delivery=exactly_once
    )
    first = publish(server, topic, b"cause")
    publish(server, topic, b"effect", first, key=key)
    publish(server, topic, b"other")
    received = server.pull(subscription)
    assert data(received) == [b"cause", b"other"]
    server.ack(subscription, received[1:])
    assert take(server, subscription) == []
    assert stats(server, subscription).depending == 1
    server.ack(subscription, received[:1])
    assert take(server, subscription) == [b"effect"]
    assert stats(server, subscription).depending == 0
    server.await_drained(subscription)


def test_each_subscription_for_itself(server):
    topic = server.topic()
    quick, slow = server.subscription(topic), server.subscription(topic)
    publish(server, topic, b"effect", publish(server, topic, b"cause"))
    assert take(server, quick) == [b"cause"]
    assert take(server, quick) == [b"effect"]
    assert data(server.pull(slow)) == [b"cause"]
    assert data(server.pull(slow)) == []


def test_many_causes_and_chains_acknowledged_out_of_order(server):
    topic, subscription = server.topic_and_subscription()
    ids = [publish(server, topic, b"%d" % number) for number in range(3)]
    middle = publish(server, topic, b"middle", ids[2], ids[0], ids[1], ids[0])
    publish(server, topic, b"last", middle, ids[0])
    received = server.pull(subscription)
    assert data(received) == [b"0", b"1", b"2"]
    for one in (received[1], received[0]):
        server.ack(subscription, [one])
        assert take(server, subscription) == []
    server.ack(subscription, received[2:])
    assert take(server, subscription) == [b"middle"]
    assert take(server, subscription) == [b"last"]
    server.await_drained(subscription)


def test_a_key_waits_behind_one_that_depends(server):
    topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
    cause = publish(server, topic, b"cause", key="a")
    publish(server, topic, b"b0", cause, key="b")
    publish(server, topic, b"b1", key="b")
    publish(server, topic, b"a1", key="a")
    received = server.pull(subscription)
    assert data(received) == [b"cause", b"a1"]
    # Acknowledged early: the acknowledgement of the first of its key is the one that counts.
    server.ack(subscription, received[1:])
    assert take(server, subscription) == []
    server.ack(subscription, received[:1])
    assert take(server, subscription) == [b"b0", b"b1"]


def test_a_nack_of_the_cause_holds_it_on(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, b"effect", publish(server, topic, b"cause"))
    server.nack(subscription, server.pull(subscription))
    assert take(server, subscription) == [b"cause"]
    received = server.pull(subscription)
    assert data(received) == [b"effect"]
    server.nack(subscription, received)
    assert take(server, subscription) == [b"effect"]


def test_what_is_left_out_counts_as_acknowledged(server):
    topic = server.topic()
    subscription = server.subscription(topic, filter='attributes.colour = "red"')
    blue = publish(server, topic, b"blue", colour="blue")
    publish(server, topic, b"effect", blue, colour="red")
    assert take(server, subscription) == [b"effect"]


def test_what_was_before_the_subscription_counts_as_acknowledged(server):
    topic = server.topic()
    cause = publish(server, topic, b"cause")
    subscription = server.subscription(topic)
    publish(server, topic, b"effect", cause)
    assert take(server, subscription) == [b"effect"]


def test_a_cause_whose_time_to_live_is_over(server):
    topic, subscription = server.topic_and_subscription()
    cause = publish(server, topic, b"cause", **{"fanlog-ttl": "5"})
    publish(server, topic, b"effect", cause)
    server.advance(6)
    assert take(server, subscription) == [b"effect"]


def test_a_cause_that_is_delayed(server):
    topic, subscription = server.topic_and_subscription()
    cause = publish(server, topic, b"cause", **{"fanlog-delay": "60"})
    publish(server, topic, b"effect", cause)
    assert take(server, subscription) == []
    server.advance(61)
    assert take(server, subscription) == [b"cause"]
    assert take(server, subscription) == [b"effect"]


def test_a_priority_does_not_go_past_a_cause(server):
    topic, subscription = server.topic_and_subscription()
    cause = publish(server, topic, b"cause")
    server.publish(topic, *[b"x"] * 3)
    publish(server, topic, b"effect", cause, **{"fanlog-priority": "9"})
    assert take(server, subscription) == [b"cause", b"x", b"x", b"x"]
    assert take(server, subscription) == [b"effect"]


@pytest.mark.parametrize("ordering", [False, True])
def test_a_wait_that_is_too_long_ends_in_a_delivery(server, ordering):
    topic = server.topic()
    subscription = server.subscription(
        topic,
        enable_message_ordering=ordering,
        ack_deadline_seconds=600,
        labels={"fanlog-dependency-timeout": "20"},
    )
    cause = publish(server, topic, b"cause")
    publish(server, topic, b"effect", cause, key="k")
    held = server.pull(subscription)
    assert data(held) == [b"cause"]
    server.advance(19)
    assert data(server.pull(subscription)) == []
    server.advance(2)
    received = server.pull(subscription)
    assert data(received) == [b"effect"]
    assert server.metric("fanlog_dependency_timeouts_total", subscription) == 1
    # It waits no more when it is delivered again.
    server.nack(subscription, received)
    assert take(server, subscription) == [b"effect"]
    server.ack(subscription, held)
    server.await_drained(subscription)


@pytest.mark.parametrize("ordering", [False, True])
@pytest.mark.parametrize("key", ["", "k"])
def test_a_wait_that_is_too_long_ends_in_a_dead_letter(server, ordering, key):
    dead, topic = server.topic(), server.topic()
    letters = server.subscription(dead)
    subscription = server.subscription(
        topic,
        enable_message_ordering=ordering,
        ack_deadline_seconds=600,
        labels={"fanlog-dependency-timeout": "20", "fanlog-dependency-policy": "dead-letter"},
        dead_letter_policy=DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=5),
    )
    cause = publish(server, topic, b"cause")
    publish(server, topic, b"effect", cause, key=key)
    publish(server, topic, b"next", key=key)
    server.pull(subscription)
    server.advance(21)
    taken = take(server, subscription)
    [letter] = server.await_pull(letters)
    attributes = letter.message.attributes
    assert letter.message.data == b"effect"
    assert attributes["fanlog-dead-letter-reason"] == (
        f"waited too long for message {cause}, which is not acknowledged"
    )
    # Redriven, it would depend on a message of another topic.
    assert "fanlog-depends-on" not in attributes
    if not taken and ordering and key:
        taken = data(server.await_pull(subscription))
    assert b"effect" not in taken


def test_a_dead_letter_is_an_acknowledgement(server):
    dead, topic = server.topic(), server.topic()
    subscription = server.subscription(
        topic,
        dead_letter_policy=DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=5),
    )
    publish(server, topic, b"effect", publish(server, topic, b"cause"))
    for _ in range(5):
        received = server.pull(subscription)
        assert data(received) == [b"cause"]
        server.nack(subscription, received)
    assert data(server.await_pull(subscription)) == [b"effect"]


def test_over_a_restart(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription(ack_deadline_seconds=600)
    publish(server, topic, b"effect", publish(server, topic, b"cause"))
    assert data(server.pull(subscription)) == [b"cause"]
    server.restart()
    assert take(server, subscription) == [b"cause"]
    server.restart()
    assert take(server, subscription) == [b"effect"]
    server.await_drained(subscription)


def test_a_seek_opens_causes_again(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    before = times.parse(times.of_ns(int(server.clock.now() * 1e9)))
    publish(server, topic, b"effect", publish(server, topic, b"cause"))
    for _ in range(2):
        assert take(server, subscription) == [b"cause"]
        assert take(server, subscription) == [b"effect"]
        server.subscriber.seek(request={"subscription": subscription, "time": before})


def test_a_seek_past_causes_lets_go(server):
    topic, subscription = server.topic_and_subscription()
    cause = publish(server, topic, b"cause")
    server.advance(10)
    between = times.parse(times.of_ns(int((server.clock.now() - 5) * 1e9)))
    publish(server, topic, b"effect", cause)
    assert data(server.pull(subscription)) == [b"cause"]
    assert take(server, subscription) == []
    server.subscriber.seek(request={"subscription": subscription, "time": between})
    assert take(server, subscription) == [b"effect"]


def test_retention_ends_a_wait(server):
    topic = server.topic()
    subscription = server.subscription(
        topic,
        message_retention_duration={"seconds": 600},
        labels={"fanlog-dependency-timeout": "86400"},
    )
    cause = publish(server, topic, b"cause", **{"fanlog-delay": "500"})
    server.advance(300)
    publish(server, topic, b"effect", cause)
    assert take(server, subscription) == []
    server.advance(310)
    server.sweep()
    assert take(server, subscription) == [b"effect"]


def test_a_pattern_has_each_topic_for_itself(server):
    first = server.topic()
    second = server.topic()
    prefix = first.rsplit("-", 1)[0]
    name = first.rpartition("/")[2].split("-")[0]
    subscription = server.subscription(f"{prefix.rpartition('/')[0]}/{name}*")
    publish(server, first, b"effect", publish(server, first, b"cause"))
    publish(server, second, b"other effect", publish(server, second, b"other cause"))
    assert sorted(take(server, subscription)) == [b"cause", b"other cause"]
    assert sorted(take(server, subscription)) == [b"effect", b"other effect"]


def test_a_stream_gets_it_as_soon_as_its_cause_is_acknowledged(server):
    topic, subscription = server.topic_and_subscription()
    publish(server, topic, b"effect", publish(server, topic, b"cause"))
    stream = server.open_stream(subscription, stream_ack_deadline_seconds=60)
    try:
        [received] = stream.messages(1)
        assert received.message.data == b"cause"
        stream.send(ack_ids=[received.ack_id])
        [received] = stream.messages(1)
        assert received.message.data == b"effect"
    finally:
        stream.close()


@pytest.mark.parametrize("ordering", [False, True])
def test_streams_with_key_slots(server, ordering):
    topic = server.topic()
    subscription = server.subscription(
        topic, enable_message_ordering=ordering, labels={"fanlog-assignment": "sticky"}
    )
    cause = publish(server, topic, b"cause", key="a")
    publish(server, topic, b"effect", cause, key="b")
    publish(server, topic, b"loose", cause)
    publish(server, topic, b"last", key="b")
    stream = server.open_stream(subscription, stream_ack_deadline_seconds=60)
    try:
        received = stream.messages(1 if ordering else 2)
        got = {one.message.data: one.ack_id for one in received}
        assert got.keys() == ({b"cause"} if ordering else {b"cause", b"last"})
        stream.send(ack_ids=list(got.values()))
        more = {one.message.data for one in stream.messages(3 if ordering else 2)}
        assert more | got.keys() == {b"cause", b"effect", b"loose", b"last"}
    finally:
        stream.close()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "'', which is not an id of this service"),
        ("abc", "'abc', which is not an id"),
        ("1000000000000,", "'', which is not an id"),
        ("99999999000000000000", "is not an id of this service"),
        ("9" * 200, "is not an id of this service"),
        ("77000000000000", "is not a message of topic"),
        (",".join(str(1000000000000 + n) for n in range(17)), "has 17 message ids; at most 16"),
    ],
)
def test_refusals(server, value, says):
    topic, _ = server.topic_and_subscription()
    with pytest.raises(InvalidArgument, match=says):
        server.publish(topic, b"x", **{"fanlog-depends-on": value})


def test_no_message_depends_on_itself_or_on_a_later_one(server):
    topic, _ = server.topic_and_subscription()
    last = publish(server, topic, b"x")
    for ahead in (1, 2):
        with pytest.raises(InvalidArgument, match="is not published yet"):
            publish(server, topic, b"y", str(int(last) + ahead))


def test_a_message_of_another_topic_is_refused(server):
    topic, other = server.topic(), server.topic()
    with pytest.raises(InvalidArgument, match="those of its own topic alone"):
        publish(server, topic, b"y", publish(server, other, b"x"))


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"fanlog-dependency-timeout": "0"}, "whole number of seconds from 1 to 2678400"),
        ({"fanlog-dependency-policy": "drop"}, "'drop' is not one of 'deliver', 'dead-letter'"),
        ({"fanlog-dependency-policy": "dead-letter"}, "needs a dead_letter_policy"),
    ],
)
def test_labels_that_are_refused(server, labels, says):
    with pytest.raises(InvalidArgument, match=says):
        server.subscription(server.topic(), labels=labels)
