"""The window of a subscription: exact, over all consumers, and shared by them."""

from __future__ import annotations

import json
import random
import re

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import InvalidArgument

from server import options_page
from server.conftest import PROJECT
from server.rest.http import Http
from server.unique import unique


def window(messages=0, size_bytes=0):
    return {
        "fanlog-max-outstanding-messages": str(messages),
        "fanlog-max-outstanding-bytes": str(size_bytes),
    }


@pytest.fixture
def server(still_server):
    return still_server


def change(server, subscription, **labels):
    request = {
        "subscription": gapic.Subscription(name=subscription, labels=labels),
        "update_mask": {"paths": [f"labels.{name}" for name in labels]},
    }
    server.subscriber.update_subscription(request=request)


def outstanding(server, subscription):
    found = server.broker.hard.catalog.subscription(subscription)
    return server.run(server.broker.backlogs.measure(found)).outstanding


def test_pulls_together_get_no_more(server):
    topic, subscription = server.topic_and_subscription(labels=window(5))
    server.publish(topic, *[b"x"] * 20)
    first = server.pull(subscription, 3)
    second = server.pull(subscription, 100)
    assert (len(first), len(second)) == (3, 2)
    assert server.pull(subscription) == []
    server.ack(subscription, first[:1])
    third = server.pull(subscription)
    assert len(third) == 1
    server.nack(subscription, third)
    assert len(server.pull(subscription)) == 1


def test_a_pull_waits_for_room_and_an_expired_lease_gives_some(server):
    topic, subscription = server.topic_and_subscription(labels=window(2), ack_deadline_seconds=10)
    server.publish(topic, *[b"x"] * 5)
    held = server.pull(subscription)
    stream = server.open_stream(subscription)
    server.await_waiters(subscription, 1)
    assert stream.pending() == []
    server.ack(subscription, held[:1])
    assert len(stream.messages(1)) == 1
    server.advance(11)
    assert len(stream.messages(2)) == 2
    assert server.metric("fanlog_window_full_total", subscription) >= 1


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_random_consumers_never_pass_it(server, exactly_once, ordered):
    rng = random.Random(7)
    topic, subscription = server.topic_and_subscription(
        labels=window(7),
        enable_exactly_once_delivery=exactly_once,
        enable_message_ordering=ordered,
    )
    held, seen = [], 0
    for step in range(120):
        if step % 10 == 0:
            for _ in range(10):
                server.publish(topic, b"x", key=rng.choice("abc") if ordered else "")
        match rng.randrange(5):
            case 0 | 1:
                held += server.pull(subscription, rng.randrange(1, 9))
            case 2 if held:
                server.ack(subscription, [held.pop(0)])
            case 3 if held:
                server.nack(subscription, held)
                held = []
            case 4 if rng.random() < 0.2:
                server.advance(11)
                held = []
        now = outstanding(server, subscription)
        assert now <= 7
        seen = max(seen, now)
    assert seen == 7


def test_streams_share_it(server):
    topic, subscription = server.topic_and_subscription(labels=window(10))
    greedy = server.open_stream(subscription)
    server.publish(topic, *[b"x"] * 100)
    held = greedy.messages(10)
    other = server.open_stream(subscription)
    server.await_waiters(subscription, 2)
    for _ in range(4):
        server.ack(subscription, [held.pop()])
        assert len(other.messages(1)) == 1
    assert greedy.pending() == []
    # When the other has gone, all is for the one that is left.
    other.close()
    server.advance(11)
    assert len(greedy.messages(10)) == 10


def test_streams_without_a_window_are_served_in_turn(server):
    """One that takes whatever comes, and acknowledges nothing, does not take all."""
    topic, subscription = server.topic_and_subscription()
    greedy, other = (server.open_stream(subscription) for _ in range(2))
    server.await_waiters(subscription, 2)
    for _ in range(20):
        server.publish(topic, b"x")
        server.await_waiters(subscription, 2)
    counts = [0, 0]
    while sum(counts) < 20:
        # The last answers may still be on their way to their readers.
        for index, stream in enumerate((greedy, other)):
            counts[index] += len(stream.pending())
    assert sum(counts) == 20
    assert min(counts) >= 5


def test_bytes_are_counted_and_a_large_message_goes_alone(server):
    topic, subscription = server.topic_and_subscription(labels=window(0, 1_000))
    server.publish(topic, b"a" * 400, b"b" * 400, b"c" * 400, b"d" * 2_000, b"e")
    first = server.pull(subscription)
    assert [one.message.data[:1] for one in first] == [b"a", b"b"]
    assert server.pull(subscription) == []
    server.ack(subscription, first)
    second = server.pull(subscription)
    assert [one.message.data[:1] for one in second] == [b"c"]
    server.ack(subscription, second)
    third = server.pull(subscription)
    assert [one.message.data[:1] for one in third] == [b"d"]
    assert server.pull(subscription) == []
    server.ack(subscription, third)
    assert [one.message.data for one in server.pull(subscription)] == [b"e"]


def test_a_pattern_has_one_window(server):
    prefix = unique("windowed")
    topics = [server.topic(name=f"projects/{PROJECT}/topics/{prefix}.{n}") for n in range(3)]
    pattern = f"projects/{PROJECT}/topics/{prefix}.#"
    subscription = server.subscription(pattern, labels=window(4))
    for topic in topics:
        server.publish(topic, b"x", b"x", b"x")
    held = server.pull(subscription)
    assert len(held) == 4
    late = server.topic(name=f"projects/{PROJECT}/topics/{prefix}.late")
    server.publish(late, b"x")
    assert server.pull(subscription) == []
    server.ack(subscription, held)
    assert len(server.pull(subscription)) == 4


def test_it_can_be_changed_while_streams_are_open(server):
    topic, subscription = server.topic_and_subscription()
    stream = server.open_stream(subscription)
    server.publish(topic, *[b"x"] * 4)
    held = stream.messages(4)
    change(server, subscription, **{"fanlog-max-outstanding-messages": "3"})
    server.publish(topic, *[b"x"] * 10)
    server.await_waiters(subscription, 1)
    assert stream.pending() == []
    server.ack(subscription, held[:2])
    assert len(stream.messages(1)) == 1
    change(server, subscription, **{"fanlog-max-outstanding-messages": "0"})
    assert len(stream.messages(9)) == 9


def test_leases_of_before_a_restart_count(start_server):
    server = start_server("embedded")
    topic, subscription = server.topic_and_subscription(
        labels=window(3), enable_exactly_once_delivery=True, ack_deadline_seconds=600
    )
    server.publish(topic, *[b"x"] * 5)
    held = server.pull(subscription, 2)
    server.restart()
    assert len(server.pull(subscription)) == 1
    server.ack(subscription, held)
    assert len(server.pull(subscription)) == 2


def test_forwards_go_on_within_it(server):
    target, source = server.topic(), server.topic()
    reader = server.subscription(target)
    config = {"push_endpoint": f"topic:{target}"}
    server.subscription(source, push_config=config, labels=window(2))
    server.publish(source, *[b"x"] * 30)
    assert len(server.drain(reader, 30)) == 30


class TestShortForm:
    @pytest.fixture
    def http(self, server):
        speaker = Http(server)
        yield speaker
        speaker.close()

    @pytest.fixture
    def topic(self, http):
        name = unique("windowed")
        http("POST", "/v1/topics", {"name": name})
        return name

    def make(self, http, topic, **fields):
        name = unique("windowed")
        made = http("POST", "/v1/subscriptions", {"name": name, "topic": topic, **fields})
        assert made.status_code == 201, made.text
        return f"/v1/subscriptions/{name}", made.json()

    def test_a_thousand_by_default(self, http, topic):
        path, made = self.make(http, topic)
        assert made["max_outstanding_messages"] == 1_000
        changed = http("PATCH", path, {"max_outstanding_messages": 0, "max_outstanding_bytes": 5})
        assert changed.json()["max_outstanding_messages"] == 0
        assert changed.json()["max_outstanding_bytes"] == 5
        assert (
            self.make(http, topic, max_outstanding_messages=7)[1]["max_outstanding_messages"] == 7
        )

    def test_none_where_none_is_possible(self, http, topic):
        _, made = self.make(http, topic, delivery="at-most-once")
        assert "max_outstanding_messages" not in made
        path, _ = self.make(http, topic)
        changed = http("PATCH", path, {"delivery": "at-most-once"})
        assert changed.status_code == 200
        assert "max_outstanding_messages" not in changed.json()
        path, _ = self.make(http, topic, max_outstanding_messages=5)
        text = http.refused(400, "PATCH", path, {"delivery": "at-most-once"})
        assert "none is outstanding" in text


ROWS = [
    row
    for section in ("The window of a subscription", "Turns of tenants", "The pace of push")
    for row in options_page.rows(section)
]


@pytest.mark.parametrize(("fields", "answer"), ROWS, ids=[row[0] for row in ROWS])
def test_the_reference_is_right(server, fields, answer):
    asked = {"name": f"projects/{PROJECT}/subscriptions/{unique('window')}"}
    asked["topic"] = server.topic()
    asked |= json.loads(fields.strip("`").replace("TOPIC", server.topic()))
    request = gapic.Subscription.from_json(json.dumps(asked))
    sentence = options_page.sentence(answer)
    if sentence is None:
        server.subscriber.create_subscription(request=request)
        return
    with pytest.raises(InvalidArgument, match=re.escape(sentence)):
        server.subscriber.create_subscription(request=request)
