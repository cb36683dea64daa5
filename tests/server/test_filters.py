"""Filters: a subscription gets what matches, and the rest counts as acknowledged for it."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument
from google.protobuf.duration_pb2 import Duration

from fanlog.broker.clock import ManualClock
from server.colours import BACKLOG, BLUE, NOTHING, RED, data, publish_colours, refilter, shown, take
from server.conftest import PATIENCE_S, PROJECT, RunningServer


def bounds(server: RunningServer, topic: str) -> tuple[int, int]:
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    found = server.store.bounds(partition)
    return found.start, found.end


#: Messages, named, for the table below.
MESSAGES: dict[str, dict[str, Any]] = {
    "placed": {"attributes": {"event": "order.placed", "region": "us-east", "n": "7"}},
    "sent": {"attributes": {"event": "order.sent", "region": "eu-west", "n": "12"}},
    "bare": {},
    "gold": {"data": b'{"customer": {"tier": "gold"}, "amount": 1500, "items": [{"sku": "a"}]}'},
    "tin": {"data": b'{"customer": {"tier": "tin"}, "amount": 5, "items": []}'},
    "text": {"data": b"no JSON at all"},
    "keyed": {"ordering_key": "k-1"},
}

#: Filters, and who of the above gets through.
CASES = [
    ('attributes.event = "order.placed"', "placed"),
    ("attributes:event", "placed sent"),
    ("NOT attributes:event", "bare gold tin text keyed"),
    ('hasPrefix(attributes.region, "us")', "placed"),
    ('attributes.region: "eu-"', "sent"),
    ('attributes.event != "order.sent" AND attributes:region', "placed"),
    ("event=order.* AND region=us-*", "placed"),
    ('event = "order.*"', "placed sent"),
    ('region IN ("us-east", "eu-west")', "placed sent"),
    ("n > 10", "sent"),
    ('payload.customer.tier = "gold"', "gold"),
    ("payload.amount >= 1000", "gold"),
    ("payload.amount < 1000", "tin"),
    ("NOT payload.amount < 1000", "placed sent bare gold text keyed"),
    ('payload.items[0].sku = "a"', "gold"),
    ("payload:items", "gold tin"),
    ('ordering_key = "k-1"', "keyed"),
    ('publish_time >= "2000-01-01T00:00:00Z"', " ".join(MESSAGES)),
    ('publish_time < "2000-01-01T00:00:00Z"', ""),
    ("topic = topic-*", " ".join(MESSAGES)),
    ('topic = "other"', ""),
    ('{"payload.amount": {">=": 1000}, "payload.customer.tier": "gold"}', "gold"),
    ('{"any": [{"event": "order.sent"}, {"payload.amount": 5}]}', "sent tin"),
    (
        '{"not": {"event": {"exists": true}}, "payload.amount": {"exists": false}}',
        "bare text keyed",
    ),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_a_filter_lets_through_what_it_says(server, text, expected):
    topic = server.topic()
    filtered, whole = server.subscription(topic, filter=text), server.subscription(topic)
    messages = [
        message | {"attributes": message.get("attributes", {}) | {"name": name}}
        for name, message in MESSAGES.items()
    ]
    server.publisher.publish(request={"topic": topic, "messages": messages})

    names = [one.message.attributes["name"] for one in server.pull(filtered)]

    assert names == expected.split()
    assert len(server.pull(whole)) == len(MESSAGES)
    assert shown(server, filtered) == text


def test_a_message_id_can_be_asked_for(server):
    topic, _ = server.topic_and_subscription()
    first, second = server.publish(topic, b"0", b"1")
    subscription = server.subscription(
        topic, filter=f'message_id = "{second}"', labels={"fanlog-start": "earliest"}
    )
    assert [one.message.message_id for one in server.pull(subscription)] == [second]
    assert first != second


def test_many_filters_on_one_topic_each_get_their_own(server):
    topic = server.topic()
    subscriptions = [server.subscription(topic, filter=f'k = "{n}"') for n in range(30)]
    pairs = server.subscription(topic, filter="k = 1 OR k = 2")
    for number in range(60):
        server.publish(topic, b"%d" % number, k=str(number % 30))
    for number, subscription in enumerate(subscriptions):
        assert take(server, subscription) == [b"%d" % number, b"%d" % (number + 30)]
    assert take(server, pairs) == [b"1", b"2", b"31", b"32"]


# Arriving at once.


def test_a_stream_gets_what_matches_at_once(still_server):
    """No clock moves here: nothing can be waiting for a tick."""
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    stream = still_server.open_stream(subscription)
    still_server.await_waiters(subscription, 1)
    publish_colours(still_server, topic, "blue", "red", "blue", "red")
    assert data(stream.messages(2)) == [b"red-1", b"red-3"]
    publish_colours(still_server, topic, "red")
    assert data(stream.messages(1)) == [b"red-0"]
    assert stream.pending() == []


def test_a_pull_that_waits_gets_what_matches_at_once(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    found: list[bytes] = []
    thread = threading.Thread(
        target=lambda: found.extend(data(still_server.await_pull(subscription)))
    )
    thread.start()
    still_server.await_waiters(subscription, 1)
    publish_colours(still_server, topic, "blue", "blue", "red")
    thread.join(PATIENCE_S)
    assert found == [b"red-2"]


def test_what_does_not_match_wakes_nobody(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    still_server.open_stream(subscription)
    still_server.await_waiters(subscription, 1)
    found, feed = still_server.run(_attached(still_server, subscription))
    before = feed.version
    publish_colours(still_server, topic, *["blue"] * 20)
    publish_colours(still_server, topic, "red")
    still_server.await_metric("fanlog_outstanding_messages", subscription, 1)
    assert feed.version - before <= 2
    still_server.run(_detached(still_server, found, feed))


async def _attached(server: RunningServer, subscription: str) -> Any:
    return server.broker.attach(subscription)


async def _detached(server: RunningServer, found: Any, feed: Any) -> None:
    server.broker.detach(found, feed)


def test_streams_with_and_without_a_filter_side_by_side(still_server):
    topic, red = still_server.topic_and_subscription(filter=RED)
    blue, whole = still_server.subscription(topic, filter=BLUE), still_server.subscription(topic)
    streams = {name: still_server.open_stream(name) for name in (red, blue, whole)}
    for name in streams:
        still_server.await_waiters(name, 1)
    publish_colours(still_server, topic, *["red", "blue", "green"] * 50)
    assert len(streams[whole].messages(150)) == 150
    assert data(streams[red].messages(50)) == [b"red-%d" % n for n in range(0, 150, 3)]
    assert data(streams[blue].messages(50)) == [b"blue-%d" % n for n in range(1, 150, 3)]


def test_callbacks_of_the_official_subscriber(server):
    topic, subscription = server.topic_and_subscription(filter="payload.n >= 90")
    found: list[int] = []
    is_done = threading.Event()

    def received(message: Any) -> None:
        found.append(json.loads(message.data)["n"])
        message.ack()
        if len(found) == 10:
            is_done.set()

    pulling = server.subscribing().subscribe(subscription, callback=received)
    with server.publishing() as publisher:
        futures = [publisher.publish(topic, json.dumps({"n": n}).encode()) for n in range(100)]
        for future in futures:
            future.result(PATIENCE_S)
    assert is_done.wait(PATIENCE_S)
    pulling.cancel()
    pulling.result(PATIENCE_S)
    assert sorted(found) == list(range(90, 100))


# With everything else that subscriptions do.


def test_after_a_restart_it_is_the_same(start_server):
    server = start_server()
    topic, subscription = server.topic_and_subscription(filter=RED)
    publish_colours(server, topic, "red", "blue", "red", "blue")
    server.ack(subscription, server.pull(subscription, max_messages=1))
    server.restart()
    assert shown(server, subscription) == RED
    publish_colours(server, topic, "blue", "red")
    assert take(server, subscription) == [b"red-2", b"red-1"]
    server.await_metric(BACKLOG, subscription, 0)
    server.restart()
    assert take(server, subscription) == []
    server.await_metric(BACKLOG, subscription, 0)


def test_after_a_restart_the_backlog_is_counted_right(start_server):
    """What was passed over is in the cursor and is judged once more; it counts once."""
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription(filter=RED)
    publish_colours(server, topic, "red", *["blue"] * 10, "red", *["blue"] * 5)
    held = server.pull(subscription)
    server.ack(subscription, held[1:])
    server.await_metric(BACKLOG, subscription, 1)
    server.restart()
    assert data(server.pull(subscription)) == [b"red-0"]
    server.await_metric(BACKLOG, subscription, 1)


def test_after_a_restart_what_waits_far_behind_acknowledged_ones_comes(start_server):
    """Much that the filter wants is acknowledged already: that must not look like the end."""
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription(filter=RED)
    for first in range(0, 4_000, 1_000):
        server.publish(topic, *[b"%d" % n for n in range(first, first + 1_000)], colour="red")
        held = server.pull(subscription)
        server.ack(subscription, held[1:-1] if first else held[:-1])
    server.restart()
    stream = server.open_stream(subscription)
    expected = [b"999", b"1000", b"1999", b"2000", b"2999", b"3000", b"3999"]
    assert data(stream.messages(7)) == expected
    server.restart()
    assert data(server.pull(subscription, max_messages=3)) == expected[:3]
    assert data(server.pull(subscription, max_messages=3)) == expected[3:6]


def test_acks_of_before_a_restart_count_before_anything_is_judged(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription(filter=RED)
    publish_colours(server, topic, "red", "blue", "red", "red")
    held = server.pull(subscription)
    server.restart()
    server.ack(subscription, [held[0], held[2]])
    assert data(server.pull(subscription)) == [b"red-2"]
    server.await_metric(BACKLOG, subscription, 1)


def test_a_key_is_not_held_up_by_what_is_left_out(still_server):
    topic, subscription = still_server.topic_and_subscription(
        filter=RED, enable_message_ordering=True
    )
    publish_colours(still_server, topic, "blue", "red", "blue", "red", "blue", "red", key="k")
    assert data(still_server.pull(subscription)) == [b"red-1", b"red-3", b"red-5"]
    still_server.advance(10.1)
    [first] = still_server.pull(subscription, max_messages=1)
    still_server.ack(subscription, [first])
    rest = still_server.pull(subscription)
    assert data(rest) == [b"red-3", b"red-5"]
    # The first one fails: those after it come again, in order, and nothing in between.
    still_server.nack(subscription, rest[:1])
    assert take(still_server, subscription) == [b"red-3", b"red-5"]
    still_server.await_metric(BACKLOG, subscription, 0)


def test_strict_order_goes_on_over_what_is_left_out(still_server):
    topic, subscription = still_server.topic_and_subscription(
        filter=RED, enable_message_ordering=True, labels={"fanlog-ordering": "strict"}
    )
    publish_colours(still_server, topic, *["blue", "red"] * 3, key="k")
    for expected in (b"red-1", b"red-3", b"red-5"):
        assert take(still_server, subscription) == [expected]


def test_exactly_once_with_a_filter(start_server):
    clock = ManualClock()
    server = start_server(clock=clock)
    topic, subscription = server.topic_and_subscription(
        filter=RED, enable_exactly_once_delivery=True, enable_message_ordering=True
    )
    publish_colours(server, topic, *["blue", "red"] * 4, key="k")
    held = server.pull(subscription, max_messages=2)
    server.restart()
    # The leases are still there; so is what the filter says of the rest.
    server.ack(subscription, held)
    assert data(server.pull(subscription)) == [b"red-5", b"red-7"]
    server.advance(10.1)
    again = server.pull(subscription)
    server.ack(subscription, again)
    with pytest.raises(FailedPrecondition):
        server.ack(subscription, again)
    server.restart()
    assert server.pull(subscription) == []
    server.await_metric(BACKLOG, subscription, 0)


def test_retries_and_dead_letters_only_of_what_matches(still_server):
    letters = still_server.topic()
    reader = still_server.subscription(letters)
    topic, subscription = still_server.topic_and_subscription(
        filter=RED,
        retry_policy={
            "minimum_backoff": Duration(seconds=5),
            "maximum_backoff": Duration(seconds=5),
        },
        dead_letter_policy={"dead_letter_topic": letters, "max_delivery_attempts": 5},
    )
    publish_colours(still_server, topic, "blue", "red", "blue")
    for attempt in range(5):
        [held] = still_server.pull(subscription)
        assert (held.message.data, held.delivery_attempt) == (b"red-1", attempt + 1)
        still_server.nack(subscription, [held])
        assert still_server.pull(subscription) == []
        still_server.advance(5.1)
    assert data(still_server.await_pull(reader)) == [b"red-1"]
    still_server.advance(100)
    assert still_server.pull(subscription) == []
    still_server.await_metric(BACKLOG, subscription, 0)


def test_a_filter_on_what_dead_letters_say_of_themselves(still_server):
    letters = still_server.topic()
    reader = still_server.subscription(
        letters, filter='attributes."fanlog-source-topic" = "*" AND colour = "red"'
    )
    topic, subscription = still_server.topic_and_subscription(
        dead_letter_policy={"dead_letter_topic": letters, "max_delivery_attempts": 5}
    )
    publish_colours(still_server, topic, "blue", "red")
    for _ in range(5):
        still_server.nack(subscription, still_server.pull(subscription))
    [letter] = still_server.await_pull(reader)
    assert letter.message.data == b"red-1"
    assert letter.message.attributes["fanlog-source-topic"] == topic


def test_flow_control_counts_only_what_is_delivered(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, *["blue"] * 10, "red", "red", "red")
    stream = still_server.open_stream(subscription, max_outstanding_messages=2)
    first = stream.messages(2)
    assert still_server.outstanding(subscription) == 2
    stream.send(ack_ids=[first[0].ack_id])
    assert data(stream.messages(1)) == [b"red-12"]


def test_the_backlog_does_not_count_what_is_left_out(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, *["blue"] * 9, "red")
    still_server.sweep()
    still_server.await_metric(BACKLOG, subscription, 1)
    assert take(still_server, subscription) == [b"red-9"]
    still_server.await_metric(BACKLOG, subscription, 0)


def test_a_filter_that_matches_nothing_does_not_hold_the_log(lean_server):
    topic, subscription = lean_server.topic_and_subscription(filter=NOTHING)
    publish_colours(lean_server, topic, *["blue"] * 20)
    assert bounds(lean_server, topic) == (0, 20)
    lean_server.sweep()
    assert bounds(lean_server, topic) == (20, 20)
    lean_server.await_metric(BACKLOG, subscription, 0)


def test_what_matches_holds_the_log_and_what_is_left_out_after_it_does_not_come(lean_server):
    topic, subscription = lean_server.topic_and_subscription(filter=RED)
    publish_colours(lean_server, topic, "blue", "blue", "red", "blue")
    lean_server.sweep()
    assert bounds(lean_server, topic) == (2, 4)
    assert take(lean_server, subscription) == [b"red-2"]
    lean_server.sweep()
    assert bounds(lean_server, topic) == (4, 4)


def test_passing_over_costs_no_commit(start_server):
    server = start_server("memory", clock=ManualClock())
    topic, subscription = server.topic_and_subscription(filter=RED)
    publish_colours(server, topic, *["blue"] * 50)
    before = len(server.store.commits)
    assert server.pull(subscription) == []
    assert len(server.store.commits) == before


def test_messages_that_expire_and_a_filter(still_server):
    topic, subscription = still_server.topic_and_subscription(
        filter=RED, message_retention_duration=Duration(seconds=600)
    )
    publish_colours(still_server, topic, "red", "blue")
    still_server.advance(601)
    publish_colours(still_server, topic, "blue", "red")
    still_server.sweep()
    assert take(still_server, subscription) == [b"red-1"]


def test_many_messages_trimmed_before_they_were_judged(lean_server):
    """A log that begins far behind what was judged last loses none of what is left."""
    topic, subscription = lean_server.topic_and_subscription(
        filter=RED, message_retention_duration=Duration(seconds=600)
    )
    lean_server.publish(topic, *[b"old"] * 1_000, colour="red")
    lean_server.publish(topic, *[b"old"] * 1_000, colour="red")
    lean_server.advance(601)
    lean_server.publish(topic, b"new", colour="red")
    lean_server.publish(topic, b"new", colour="blue")
    lean_server.sweep()
    assert bounds(lean_server, topic) == (2_000, 2_002)
    assert take(lean_server, subscription) == [b"new"]


# What is accepted, and what is shown.


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_a_filter_of_nothing_is_none(server, text):
    topic, subscription = server.topic_and_subscription(filter=text)
    assert shown(server, subscription) == ""
    publish_colours(server, topic, "red", "blue")
    assert take(server, subscription) == [b"red-0", b"blue-1"]


def test_the_text_is_shown_as_it_was_given(server):
    texts = [
        '  attributes.colour="red"   AND NOT( attributes:x )',
        '{ "payload.amount" : {">=": 1000},\n "k":"v*" }',
    ]
    made = {server.subscription(server.topic(), filter=text): text for text in texts}
    for name, text in made.items():
        assert shown(server, name) == text
    listed = server.subscriber.list_subscriptions(project=f"projects/{PROJECT}")
    assert made.items() <= {one.name: one.filter for one in listed}.items()


REFUSED = [
    ("attributes.k =", 'filter: expected a value after "=" at column 15, found the end'),
    ("a=1 AND b=2 OR c=3", "filter: OR beside AND at column 13"),
    ('{"k": {"gte": 5}}', 'filter: unknown operator "gte" at "k"'),
    ("k < 1.2.3", "column"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED, ids=[text for text, _ in REFUSED])
def test_a_filter_that_cannot_be_read_changes_nothing(server, text, sentence):
    topic, subscription = server.topic_and_subscription(filter=RED)
    with pytest.raises(InvalidArgument) as refused:
        server.subscription(topic, filter=text)
    assert sentence in refused.value.message
    assert list(server.publisher.list_topic_subscriptions(topic=topic)) == [subscription]

    with pytest.raises(InvalidArgument) as refused:
        refilter(server, subscription, text)
    assert sentence in refused.value.message
    assert shown(server, subscription) == RED
    publish_colours(server, topic, "red", "blue")
    assert take(server, subscription) == [b"red-0"]


def google_filter(size: int) -> str:
    start = 'attributes.k = "'
    return start + "x" * (size - len(start) - 1) + '"'


def our_filter(size: int) -> str:
    start = "k IN ("
    return start + "x" * (size - len(start) - 1) + ")"


def nested(levels: int) -> str:
    return "NOT " * levels + "attributes:k"


LIMITS = [
    ("Google's 256 bytes", google_filter(256), google_filter(257), "256"),
    ("our 4 KiB", our_filter(4096), our_filter(4097), "4096"),
    (
        "100 predicates",
        " OR ".join(["k=1"] * 100),
        " OR ".join(["k=1"] * 101),
        "100",
    ),
    ("32 levels", nested(31) + " AND j=1", nested(40) + " AND j=1", "32"),
]


@pytest.mark.parametrize(
    ("accepted", "refused", "number"), [case[1:] for case in LIMITS], ids=[c[0] for c in LIMITS]
)
def test_the_limits_of_a_filter(server, accepted, refused, number):
    topic = server.topic()
    subscription = server.subscription(topic, filter=accepted)
    assert shown(server, subscription) == accepted
    with pytest.raises(InvalidArgument, match=number):
        server.subscription(topic, filter=refused)
    with pytest.raises(InvalidArgument, match=number):
        refilter(server, subscription, refused)
    assert shown(server, subscription) == accepted
