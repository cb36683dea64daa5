"""Topics with an order of their own: by publisher, in total, or none."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from contextlib import closing

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import InvalidArgument

from commands import invoke
from server import options_page
from server.conftest import unique
from server.receiver import receiving
from server.rest.http import Http
from server.v1 import Message, SinkClient


def made(server, ordering, **fields):
    """A topic with this order, and a subscription that keeps it."""
    topic = new_topic(server, ordering)
    return topic, server.subscription(topic, **{"enable_message_ordering": True} | fields)


def new_topic(server, ordering):
    name = f"projects/test/topics/{unique('order')}"
    labels = {} if ordering.startswith("(") else {"fanlog-ordering": ordering.strip("`")}
    server.publisher.create_topic(request={"name": name, "labels": labels})
    return name


def publish(server, topic, *messages):
    messages = [{"data": b"x"} | one for one in messages]
    return server.publisher.publish(request={"topic": topic, "messages": messages}).message_ids


def of(publisher, data):
    return {"data": data, "attributes": {"fanlog-publisher": publisher}}


def data(received):
    return [one.message.data for one in received]


class TestTotal:
    def test_all_messages_are_in_order_one_run_at_a_time(self, still_server):
        topic, name = made(still_server, "total")
        for number in range(0, 30, 3):
            publish(still_server, topic, *({"data": b"%02d" % (number + n)} for n in range(3)))
        first = still_server.pull(name, 4)
        assert data(first) == [b"00", b"01", b"02", b"03"]
        assert still_server.pull(name) == [], "while some of it is outstanding"
        assert {one.message.ordering_key for one in first} == {"fanlog-total"}
        still_server.subscriber.modify_ack_deadline(
            subscription=name, ack_ids=[first[1].ack_id], ack_deadline_seconds=0
        )
        still_server.subscriber.acknowledge(subscription=name, ack_ids=[first[0].ack_id])
        assert data(still_server.pull(name)) == [b"%02d" % n for n in range(1, 30)]

    def test_strict_is_one_at_a_time(self, still_server):
        topic, name = made(still_server, "total", labels={"fanlog-ordering": "strict"})
        publish(still_server, topic, {"data": b"1"}, {"data": b"2"})
        [one] = still_server.pull(name)
        assert still_server.pull(name) == []
        still_server.subscriber.acknowledge(subscription=name, ack_ids=[one.ack_id])
        assert data(still_server.pull(name)) == [b"2"]

    def test_attributes_and_schemas_stay(self, still_server):
        topic, name = made(still_server, "total")
        publish(still_server, topic, {"attributes": {"a": "1", "b": ""}}, {"data": b"y" * 300})
        one, two = still_server.pull(name)
        assert dict(one.message.attributes) == {"a": "1", "b": ""}
        assert two.message.data == b"y" * 300

    def test_after_a_restart(self, start_server):
        server = start_server()
        topic, name = made(server, "total")
        publish(server, topic, {"data": b"1"}, {"data": b"2"})
        server.pull(name, 1)
        server.restart()
        publish(server, topic, {"data": b"3"})
        assert data(server.pull(name)) == [b"1", b"2", b"3"]

    def test_push_sends_one_after_the_other(self, server):
        with receiving() as endpoint:
            topic, name = made(server, "total", push_config={"push_endpoint": endpoint.url()})
            publish(server, topic, *({"data": b"%d" % n} for n in range(9)))
            server.await_drained(name)
        assert [one.data for one in endpoint.received] == [b"%d" % n for n in range(9)]

    def test_received_messages_can_be_published_again(self, still_server):
        topic, name = made(still_server, "total")
        publish(still_server, topic, {})
        [one] = still_server.pull(name)
        still_server.publisher.publish(topic=topic, messages=[one.message])

    def test_dead_letters_are_copied_back_in_order(self, still_server):
        letters, _ = still_server.topic_and_subscription()
        policy = {"dead_letter_topic": letters, "max_delivery_attempts": 5}
        topic, name = made(still_server, "total", dead_letter_policy=policy)
        publish(still_server, topic, {"data": b"1"}, {"data": b"2"}, {"data": b"3"})
        held = still_server.pull(name)
        still_server.subscriber.modify_ack_deadline(
            subscription=name,
            ack_ids=[held[0].ack_id],
            ack_deadline_seconds=0,
            metadata=[("fanlog-requeue", "false")],
        )
        assert data(still_server.await_pull(name)) == [b"2", b"3"]


class TestPublisher:
    def test_each_publisher_is_in_order_and_they_do_not_wait_for_each_other(self, still_server):
        topic, name = made(still_server, "publisher")
        publish(still_server, topic, *(of("pq"[n % 2], b"%d" % n) for n in range(8)))
        first = still_server.pull(name, 1)
        assert first[0].message.ordering_key == "p"
        rest = still_server.pull(name)
        assert data(rest) == [b"1", b"3", b"5", b"7"]
        still_server.subscriber.acknowledge(subscription=name, ack_ids=[first[0].ack_id])
        assert data(still_server.pull(name)) == [b"2", b"4", b"6"]

    def test_repetitions_keep_the_first_ids(self, still_server):
        topic, name = made(still_server, "publisher")
        message = of("p", b"x")
        message["attributes"]["fanlog-dedup-id"] = "one"
        assert publish(still_server, topic, message) == publish(still_server, topic, message)
        assert len(still_server.pull(name)) == 1

    def test_through_the_sink(self, server):
        topic, name = made(server, "publisher")
        with closing(SinkClient(server, unique("query"))) as sink:
            rows = [Message(**one) for one in (of("p", b"1"), {"data": b"2"}, of("p", b"3"))]
            answer = sink.stage(sink.key(1), (topic, rows))
            [refused] = answer.refused
            assert refused.row == 1
            assert "has no fanlog-publisher" in refused.reason
            sink.commit(1, sink.key(1))
        assert [
            (one.message.data, one.message.ordering_key) for one in server.await_pull(name)
        ] == [
            (b"1", "p"),
            (b"3", "p"),
        ]

    def test_the_command_line_names_the_publisher(self, server):
        environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": None}
        topic = f"projects/test/topics/{unique('order')}"
        words = ["topic", "create", topic, "--ordering", "publisher"]
        assert invoke(words, env=environ).exit_code == 0
        name = server.subscription(topic, enable_message_ordering=True)
        refused = invoke(["publish", topic, "x"], env=environ)
        assert "has no fanlog-publisher" in " ".join(refused.stderr.split())
        words = ["publish", topic, "x", "--publisher", "p"]
        assert invoke(words, env=environ).exit_code == 0
        [one] = server.pull(name)
        assert one.message.ordering_key == "p"


def test_a_subscription_without_order_hears_of_it(server):
    topic = new_topic(server, "total")
    http = Http(server)
    body = {"name": unique("order-sub"), "topic": topic}
    [hint] = http("POST", "/v1/subscriptions", body).json()["hints"]
    assert "the topic is ordered by 'total', and the subscription does not keep that order" in hint
    http.close()


def test_the_short_form_has_a_field(server):
    http = Http(server)
    name = unique("order")
    body = {"name": name, "ordering": "total", "labels": {"team": "a"}}
    found = http("POST", "/v1/topics", body).json()
    assert found["ordering"] == "total"
    assert found["labels"] == {"fanlog-ordering": "total", "team": "a"}
    sentence = http.refused(400, "PATCH", f"/v1/topics/{name}", {"ordering": "key"})
    assert "cannot be changed later" in sentence
    sentence = http.refused(400, "PATCH", f"/v1/topics/{name}", {"labels": {"team": "b"}})
    assert "cannot be changed later" in sentence
    http.close()


def test_a_topic_that_gets_copies_is_not_made_with_an_order(server):
    letters, _ = server.topic_and_subscription()
    policy = {"dead_letter_topic": letters}
    server.subscription(server.topic(), dead_letter_policy=policy)
    server.publisher.delete_topic(topic=letters)
    with pytest.raises(InvalidArgument, match="makes copies to this topic"):
        server.publisher.create_topic(
            request={"name": letters, "labels": {"fanlog-ordering": "total"}}
        )


def test_a_pattern_reads_each_topic_in_its_own_order(still_server):
    prefix = unique("mixed")
    for ordering in ("total", "publisher", "key"):
        still_server.publisher.create_topic(
            request={
                "name": f"projects/test/topics/{prefix}.{ordering}",
                "labels": {"fanlog-ordering": ordering},
            }
        )
    name = still_server.subscription(
        f"projects/test/topics/{prefix}.*", enable_message_ordering=True
    )
    for number in range(6):
        for ordering in ("total", "publisher", "key"):
            topic = f"projects/test/topics/{prefix}.{ordering}"
            publish(still_server, topic, of("pq"[number % 2], b"%d" % number))
    found = defaultdict(list)
    for one in still_server.pull(name):
        attributes = one.message.attributes
        topic = attributes["fanlog-topic"].rpartition(".")[2]
        who = attributes["fanlog-publisher"] if topic == "publisher" else ""
        found[topic, who].append(one.message.data)
    assert found["total", ""] == [b"%d" % n for n in range(6)]
    assert found["publisher", "p"] == [b"0", b"2", b"4"]
    assert found["publisher", "q"] == [b"1", b"3", b"5"]


MESSAGES, ASKED = (options_page.rows("Order of a topic", table) for table in (0, 1))


@pytest.mark.parametrize(("label", "message", "answer"), MESSAGES)
def test_the_reference_is_right_about_messages(still_server, label, message, answer):
    topic = new_topic(still_server, label)
    body = json.loads(message.strip("`"))
    sentence = options_page.sentence(answer)
    http = Http(still_server)
    named = {"orderingKey": body["ordering_key"]} if "ordering_key" in body else {}
    named |= {"attributes": body["attributes"]} if "attributes" in body else {}
    google = {"messages": [{"data": "eA==", **named}]}
    if sentence is None:
        publish(still_server, topic, body)
        assert http("POST", f"/v1/{topic}:publish", google).status_code == 200
    else:
        with pytest.raises(InvalidArgument, match=re.escape(sentence)):
            publish(still_server, topic, body)
        assert sentence in http.refused(400, "POST", f"/v1/{topic}:publish", google)
    http.close()


@pytest.mark.parametrize(("label", "asked", "answer"), ASKED)
def test_the_reference_is_right_about_topics(still_server, label, asked, answer):
    server, sentence = still_server, options_page.sentence(answer)

    def ask():
        topic = new_topic(server, label)
        if asked.startswith("changed to "):
            value = asked.removeprefix("changed to ").strip("`")
            labels = {} if value == "(none)" else {"fanlog-ordering": value}
            changed = gapic.Topic(name=topic, labels=labels)
            server.publisher.update_topic(topic=changed, update_mask={"paths": ["labels"]})
        elif asked == "forwards":
            config = {"push_endpoint": f"topic:{topic}"}
            server.subscription(server.topic(), push_config=config)
        elif asked == "dead letters":
            policy = {"dead_letter_topic": topic}
            server.subscription(server.topic(), dead_letter_policy=policy)

    if sentence is None:
        ask()
    else:
        with pytest.raises(InvalidArgument, match=re.escape(sentence)):
            ask()
