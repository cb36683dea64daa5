"""Subscriptions that ask for a revision: on every way out, in every type and encoding."""

from __future__ import annotations

import base64
import json
import queue
from typing import Any

import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.wire import contents
from server.conftest import PATIENCE_S, StartServer
from server.receiver import receiving
from server.registry import AVRO, BINARY, JSON, ONE, PROTO, record
from server.rest.http import Http
from server.revised import (
    BACKWARDS,
    CASES,
    LABEL,
    REASON,
    REVISION,
    WHY,
    WRITTEN,
    Case,
    World,
)
from server.unique import unique

pytestmark = pytest.mark.filterwarnings("ignore:Unrecognized Type enum value")


@pytest.fixture(params=CASES)
def world(server, request):
    return World(server, CASES[request.param])


@pytest.fixture
def orders(server):
    return World(server)


# Every way out. Each gives the data and attributes of the one message that comes.


def by_pull(world):
    name = world.subscription()
    world.publish(colour="red")
    [one] = world.server.await_pull(name)
    return one.message.data, one.message.attributes


def by_stream(world):
    stream = world.server.open_stream(world.subscription())
    world.publish(colour="red")
    [one] = stream.messages(1)
    stream.close()
    return one.message.data, one.message.attributes


def by_callback(world):
    """The official client, as programs use it."""
    came: queue.SimpleQueue[Any] = queue.SimpleQueue()
    client = world.server.subscribing()
    future = client.subscribe(world.subscription(), callback=lambda one: (came.put(one), one.ack()))
    world.publish(colour="red")
    message = came.get(timeout=PATIENCE_S)
    future.cancel()
    future.result(timeout=PATIENCE_S)
    return message.data, message.attributes


def by_broker(world):
    """In process."""
    name, server = world.subscription(), world.server
    world.publish(colour="red")
    _, [delivery] = server.run(server.broker.pull(name, max_messages=1, wait_s=PATIENCE_S))
    [(batch, first, end)] = delivery.runs
    assert end == first + 1
    [(data, attributes, _)] = contents.stored(batch, first, end)
    return data, {**attributes, **batch.attributes}


def by_rest(verb):
    def pulled(world):
        call = Http(world.server)
        name = world.subscription()
        world.publish(colour="red")
        path = verb(name)
        [one] = call("POST", path, {"maxMessages": 10}).json()["receivedMessages"]
        call.close()
        return base64.b64decode(one["message"]["data"]), one["message"]["attributes"]

    return pulled


def by_short_form(world):
    call = Http(world.server)
    name = unique("revised")
    body = {"name": name, "topic": world.topic.rpartition("/")[2], "labels": {LABEL: world.new}}
    assert call("POST", "/v1/subscriptions", body).status_code == 201
    world.publish(colour="red")
    found = call("POST", f"/v1/subscriptions/{name}:pull", {}).json()
    call.close()
    [one] = found["received_messages"]
    return base64.b64decode(one["message"]["data"]), one["message"]["attributes"]


def by_push(form):
    labels = {} if form == "wrapped" else {"fanlog-push-body": form}

    def pushed(world):
        with receiving() as receiver:
            push = {"push_endpoint": receiver.url()}
            world.subscription(push_config=push, labels=labels)
            world.publish(colour="red")
            [got] = receiver.wait(1)
        return got.data, got.json["message"]["attributes"]

    return pushed


def by_unwrapped_push(world):
    with receiving() as receiver:
        push = {"push_endpoint": receiver.url(), "no_wrapper": {"write_metadata": True}}
        world.subscription(push_config=push)
        world.publish(colour="red")
        [got] = receiver.wait(1)
    return got.body, got.headers


def by_cloud_event(world):
    with receiving() as receiver:
        push = {"push_endpoint": receiver.url()}
        world.subscription(push_config=push, labels={"fanlog-push-body": "cloudevents"})
        world.publish(colour="red")
        [got] = receiver.wait(1)
    return got.body, None


def by_forwarding(world):
    target, reader = world.server.topic_and_subscription()
    world.subscription(push_config={"push_endpoint": f"topic:{target}"})
    world.publish(colour="red")
    [one] = world.server.await_pull(reader)
    return one.message.data, one.message.attributes


WAYS = {
    "pull": by_pull,
    "stream": by_stream,
    "callback": by_callback,
    "broker": by_broker,
    "google-json": by_rest(lambda name: f"/v1/{name}:pull"),
    "path-form": by_rest(lambda name: f"/v1/{name}/pull"),
    "short-form": by_short_form,
    "push-wrapped": by_push("wrapped"),
    "push-plain": by_push("plain"),
    "push-unwrapped": by_unwrapped_push,
    "push-cloudevents": by_cloud_event,
    "forwarded": by_forwarding,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_out(world, way):
    data, attributes = WAYS[way](world)
    assert data == world.case.after
    if attributes is not None:
        assert attributes[REVISION] == world.new
        assert attributes[WRITTEN] == world.old
        assert attributes["googclient_schemaname"] == world.schema
        assert attributes["colour"] == "red"
        assert REASON not in attributes


# What is written in the revision, and what is not.


def test_what_is_in_the_revision_leaves_as_it_is(orders):
    name, plain = orders.subscription(orders.old), orders.server.subscription(orders.topic)
    spaced = b'{ "id": "a",  "note": "n" }'
    orders.publish(spaced, colour="red")
    [asked], [plainly] = orders.server.pull(name), orders.server.pull(plain)
    assert asked.message == plainly.message
    assert asked.message.data == spaced
    assert WRITTEN not in asked.message.attributes
    assert orders.server.metric("fanlog_schema_transformed_total", name) == 0


def test_one_request_in_several_revisions(orders):
    name = orders.subscription()
    new = b'{"key": "b", "count": 1}'
    before, after = orders.case.before, orders.case.after
    orders.publish(new, before, before, new, key="k")
    received = [one.message for one in orders.server.pull(name)]
    assert [one.data for one in received] == [new, after, after, new]
    assert {one.attributes[REVISION] for one in received} == {orders.new}
    assert [one.attributes.get(WRITTEN) for one in received] == [None, orders.old, orders.old, None]
    assert {one.ordering_key for one in received} == {"k"}
    assert len({one.message_id for one in received}) == 4
    assert orders.server.metric("fanlog_schema_transformed_total", name) == 2
    assert orders.server.metric("fanlog_deliveries_total", name) == 4


def test_the_label_holds_for_what_is_delivered_from_then_on(orders):
    server = orders.server
    name = server.subscription(orders.topic)
    orders.publish()
    [one] = server.pull(name)
    assert one.message.data == orders.case.before
    orders.relabel(name, {LABEL: orders.new})
    server.nack(name, [one])
    [one] = server.await_pull(name)
    assert one.message.data == orders.case.after
    orders.relabel(name, {})
    server.nack(name, [one])
    [one] = server.await_pull(name)
    assert one.message.data == orders.case.before


def test_it_holds_after_a_restart(start_server: StartServer):
    server = start_server()
    orders = World(server)
    name = orders.subscription()
    orders.publish()
    server.restart()
    [one] = server.pull(name)
    assert (one.message.data, one.message.attributes[WRITTEN]) == (orders.case.after, orders.old)
    assert server.subscriber.get_subscription(subscription=name).labels == {LABEL: orders.new}


LONG = "x" * 50_000
GROWN = Case(
    AVRO,
    JSON,
    ONE,
    record(("id", "string"), ("text", "string"), text=LONG),
    b'{"id":"a"}',
    json.dumps({"id": "a", "text": LONG}).encode(),
)
IN_ORDER = {"enable_message_ordering": True}


@pytest.mark.parametrize(
    "fields", [{}, IN_ORDER, IN_ORDER | {"enable_exactly_once_delivery": True}]
)
def test_what_grew_too_large_for_an_answer_comes_in_the_next(server, fields):
    """Two hundred small messages with a large default each are no longer one answer."""
    orders = World(server, GROWN)
    policy = {"dead_letter_topic": server.topic(), "max_delivery_attempts": 5}
    name = orders.subscription(dead_letter_policy=policy, **fields)
    sent = [b'{"id":"%d"}' % n for n in range(200)]
    orders.publish(*sent, key="k" if fields else "")
    came: list[Any] = []
    answers = 0
    while len(came) < len(sent):
        some = server.await_pull(name)
        assert sum(len(one.message.data) for one in some) <= limits.ANSWER_BYTES_MAX
        # What waited for the next answer was not delivered yet.
        assert {one.delivery_attempt for one in some} == {1}
        server.ack(name, some)
        came += some
        answers += 1
    assert answers > 2
    assert [json.loads(one.message.data) for one in came] == [
        json.loads(one) | {"text": LONG} for one in sent
    ]


def test_a_stream_gets_what_grew_as_well(server):
    orders = World(server, GROWN)
    stream = server.open_stream(orders.subscription(**IN_ORDER))
    orders.publish(*[b'{"id":"%d"}' % n for n in range(100)], key="k")
    came = stream.messages(100)
    assert [json.loads(one.message.data)["id"] for one in came] == [str(n) for n in range(100)]
    stream.close()


# When it is impossible.


def with_letters(orders, **fields):
    letters, reader = orders.server.topic_and_subscription()
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": 5}
    return orders.subscription(orders.old, dead_letter_policy=policy, **fields), reader


def test_it_is_a_dead_letter_that_says_why(orders, caplog):
    name, reader = with_letters(orders)
    _, good = orders.publish(BACKWARDS, orders.case.before)
    received = orders.server.pull(name)
    assert [one.message.data for one in received] == [orders.case.before]
    assert received[0].message.message_id == good
    [letter] = orders.server.await_pull(reader)
    # As it was written.
    assert letter.message.data == BACKWARDS
    attributes = letter.message.attributes
    assert attributes[REVISION] == orders.new
    assert attributes["fanlog-dead-letter-reason"] == (
        "1 of 5 delivery attempts, nacked for good: "
        f"written in {orders.new}, wanted in {orders.old}: {WHY}"
    )
    orders.server.ack(name, received)
    orders.server.await_drained(name)
    assert orders.server.metric("fanlog_schema_untransformed_total", name) == 1
    [said] = [one for one in caplog.messages if "not_transformed" in one]
    assert said == (f"action=not_transformed subscription={name} revision={orders.old} messages=1")


def test_whoever_waits_is_not_answered_with_nothing(orders):
    """A pull passes over what becomes a dead letter, however much that is."""
    name, reader = with_letters(orders)
    orders.publish(*[BACKWARDS] * 50)
    orders.publish()
    found = orders.server.pull(name, max_messages=3)
    assert [one.message.data for one in found] == [orders.case.before]
    assert len(orders.server.drain(reader, 50)) == 50


@pytest.mark.parametrize("exactly_once", [False, True])
def test_order_holds_around_a_dead_letter(orders, exactly_once):
    name, reader = with_letters(
        orders, enable_message_ordering=True, enable_exactly_once_delivery=exactly_once
    )
    first, last = b'{"id":"1","note":""}', b'{"id":"3","note":""}'
    orders.publish(first, BACKWARDS, last, key="k")
    orders.publish(b'{"id":"4","note":""}', key="other")
    came = orders.server.pull(name)
    # What is behind the dead letter waits for it, and is not handed out twice.
    assert [json.loads(one.message.data)["id"] for one in came] == ["1", "4"]
    orders.server.ack(name, came)
    [letter] = orders.server.await_pull(reader)
    assert letter.message.data == BACKWARDS
    [behind] = orders.server.await_pull(name)
    assert behind.message.data == last
    assert behind.delivery_attempt == 1
    orders.server.ack(name, [behind])
    orders.server.await_drained(name)


def test_without_a_policy_it_leaves_as_it_was_written(orders):
    name = orders.subscription(orders.old)
    orders.publish(BACKWARDS)
    [one] = orders.server.pull(name)
    assert one.message.data == BACKWARDS
    attributes = one.message.attributes
    assert attributes[REVISION] == orders.new
    assert attributes[REASON] == f"written in {orders.new}, wanted in {orders.old}: {WHY}"
    assert WRITTEN not in attributes
    orders.server.ack(name, [one])
    orders.server.await_drained(name)


def test_pushed_and_forwarded_it_is_a_dead_letter_too(orders):
    target, copies = orders.server.topic_and_subscription()
    with receiving() as receiver:
        for endpoint in (receiver.url(), f"topic:{target}"):
            name, reader = with_letters(orders, push_config={"push_endpoint": endpoint})
            orders.publish(BACKWARDS)
            [letter] = orders.server.await_pull(reader)
            assert WHY in letter.message.attributes["fanlog-dead-letter-reason"]
            orders.server.await_drained(name)
            orders.server.subscriber.delete_subscription(subscription=name)
    assert receiver.received == []
    assert orders.server.pull(copies) == []


def test_a_dead_letter_topic_that_is_gone_keeps_them(start_server: StartServer):
    server = start_server("memory", ManualClock())
    orders = World(server)
    name, _ = with_letters(orders)
    found = server.subscriber.get_subscription(subscription=name)
    letters = found.dead_letter_policy.dead_letter_topic
    server.publisher.delete_topic(topic=letters)
    orders.publish(BACKWARDS)
    assert server.pull(name) == []
    server.await_metric("fanlog_dead_letter_failures_total", name, 1)
    server.publisher.create_topic(name=letters)
    reader = server.subscription(letters)
    server.advance(limits.DEAD_LETTER_RETRY_S + 1)
    assert server.pull(name) == []
    [letter] = server.await_pull(reader)
    assert letter.message.data == BACKWARDS


def test_protobuf_fields_that_changed_their_type(server):
    old, new = (f'syntax = "proto3"; message M {{ {kind} x = 1; }}' for kind in ("string", "int32"))
    world = World(server, Case(PROTO, BINARY, old, new, b"\x0a\x01a", b""))
    name = world.subscription()
    world.publish()
    [one] = server.pull(name)
    assert one.message.data == b"\x0a\x01a"
    assert "x" in one.message.attributes[REASON]


def test_what_was_published_before_there_was_a_schema(server):
    world = World(server)
    topic, bare = server.topic(), b"anything"
    forged = {REVISION: world.old, "googclient_schemaname": world.schema}
    forged["googclient_schemaencoding"] = "JSON"
    plain = server.subscription(topic)
    server.publish(topic, bare)
    server.publish(topic, bare, **forged)
    settings = {"schema": world.schema, "encoding": JSON}
    server.publisher.update_topic(
        request={
            "topic": {"name": topic, "schema_settings": settings},
            "update_mask": {"paths": ["schema_settings"]},
        }
    )
    world.relabel(plain, {LABEL: world.new})
    received = server.pull(plain)
    not_json = "unexpected character, expected a JSON value at position 0"
    assert [one.message.data for one in received] == [bare, bare]
    assert [one.message.attributes[REASON] for one in received] == [
        f"wanted in {world.new}: it was published without a schema",
        f"written in {world.old}, wanted in {world.new}: $: expected JSON: {not_json}",
    ]
