"""Backlogs with limits, as clients see them: on every surface, and in what a server tells."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.api_core.exceptions import ResourceExhausted
from google.pubsub_v1.types import PublishRequest, PublishResponse
from google.rpc.error_details_pb2 import RetryInfo

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.client import Client
from fanlog.client.inspection import InspectionClient
from server.conftest import PROJECT
from server.unique import unique
from server.v1 import SinkClient

LIMITED = {"fanlog-backlog-policy": "drop-oldest", "fanlog-backlog-messages": "10"}
CRITICAL = {
    "fanlog-backlog-policy": "push-back",
    "fanlog-backlog-messages": "10",
    "fanlog-backlog-critical": "true",
}


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture
def looking(server):
    client = Client(server.endpoint)
    yield InspectionClient(client)
    client.close()


def data(received):
    return [int(one.message.data) for one in received]


def publish(server, topic, first, end, **fields):
    return [
        server.publish(topic, str(number).encode(), **fields)[0] for number in range(first, end)
    ]


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("key", ["", "k"])
def test_the_last_ones_stay(server, exactly_once, key):
    topic = server.topic()
    subscription = server.subscription(
        topic,
        labels=LIMITED,
        enable_exactly_once_delivery=exactly_once,
        enable_message_ordering=bool(key),
    )
    publish(server, topic, 0, 25, key=key)
    received = server.pull(subscription)
    assert data(received) == list(range(15, 25))
    server.ack(subscription, received)
    server.await_drained(subscription)


def test_push_back_is_an_answer_that_says_when_to_come_again(server):
    topic = server.topic()
    subscription = server.subscription(topic, labels=CRITICAL)
    publish(server, topic, 0, 9)
    with pytest.raises(ResourceExhausted) as refused:
        server.publish(topic, b"9")
    assert "pushes back" in refused.value.message
    details = [one for one in refused.value.details if isinstance(one, RetryInfo)]
    assert details[0].retry_delay.ToNanoseconds() > 0
    received = server.pull(subscription)
    server.ack(subscription, received[:4])
    server.publish(topic, b"9")


def test_what_a_server_tells(server, looking):
    topic = server.topic()
    subscription = server.subscription(topic, labels=LIMITED)
    ids = publish(server, topic, 0, 25)
    backlog = looking.backlog(subscription)
    assert backlog.messages == 10
    assert backlog.pressure == 1.0
    assert dict(backlog.dropped) == {"limit": 15}
    [span] = backlog.dropped_spans
    assert (span.first_message_id, span.last_message_id) == (ids[0], ids[14])
    assert (span.topic, span.reason, span.messages) == (topic, "limit", 15)
    traced = looking.trace(ids[3], subscription=subscription)
    [one] = traced.subscriptions
    assert one.state == "ACKNOWLEDGED"
    [event] = [event for event in one.events if event.what == "dropped"]
    assert event.reason == "drop-oldest: the backlog was full"
    page = server.metrics()
    name = f'{{subscription="{subscription}"'
    assert f'fanlog_dropped_total{{reason="limit",{name[1:]}}} 15.0' in page
    assert f"fanlog_backlog_high_total{name}}} 1.0" in page
    assert f"fanlog_pressure{name}}} 1.0" in page
    assert f'fanlog_topic_pressure{{topic="{topic}"}} 1.0' in page


def test_a_publish_answer_says_the_pressure(server):
    topic = server.topic()
    server.subscription(topic, labels={"fanlog-backlog-messages": "10"})
    call = server.channel().unary_unary(
        "/google.pubsub.v1.Publisher/Publish",
        request_serializer=PublishRequest.serialize,
        response_deserializer=PublishResponse.deserialize,
    )
    said = []
    for _ in range(8):
        request = PublishRequest(topic=topic, messages=[{"data": b"x"}])
        _, done = call.with_call(request)
        found = dict(done.trailing_metadata())
        said.append(found.get("fanlog-pressure"))
    assert said == [None] * 5 + ["0.600", "0.700", "0.800"]


@pytest.mark.parametrize(
    ("labels", "pushes_back"),
    [
        # Without a word of its own, pressure travels to where messages come from.
        ({}, True),
        ({"fanlog-backlog-messages": "1000"}, True),
        (CRITICAL | {"fanlog-backlog-messages": "1000"}, True),
        ({"fanlog-backlog-policy": "keep", "fanlog-backlog-messages": "1000"}, False),
        ({"fanlog-backlog-policy": "drop-oldest", "fanlog-backlog-messages": "1000"}, False),
        (
            {
                "fanlog-backlog-policy": "push-back",
                "fanlog-backlog-fallback": "drop-newest",
                "fanlog-backlog-messages": "1000",
            },
            False,
        ),
    ],
)
def test_a_forward_waits_for_its_target(server, labels, pushes_back):
    target = server.topic()
    reader = server.subscription(target, labels=CRITICAL)
    source, letters = server.topic(), server.topic()
    name = server.subscription(
        source,
        labels=labels,
        push_config={"push_endpoint": f"topic:{target}"},
        dead_letter_policy={"dead_letter_topic": letters, "max_delivery_attempts": 5},
    )
    publish(server, target, 0, 9)
    if pushes_back:
        with pytest.raises(ResourceExhausted):
            server.publish(source, b"9")
    else:
        server.publish(source, b"9")
        server.await_metric("fanlog_forward_failures_total", name, 1)
        [share] = server.broker.hard.shares_of(server.broker.hard.catalog.subscription(name))
        assert share.attempts_of(0) == 0, "nothing is wrong with the message"
    server.ack(reader, server.pull(reader))
    if pushes_back:
        server.publish(source, b"9")
    server.advance(limits.DEAD_LETTER_RETRY_S + 1)
    [one] = server.await_pull(reader)
    assert one.message.data == b"9"
    server.await_drained(name)


def forward(server, source, target, **fields):
    return server.subscription(source, push_config={"push_endpoint": f"topic:{target}"}, **fields)


def test_pressure_travels_over_several_forwards_and_names_who_pushes_back(start_server):
    server = start_server("embedded", clock=ManualClock())
    first, second, third = server.topic(), server.topic(), server.topic()
    reader = server.subscription(third, labels=CRITICAL)
    forward(server, first, second)
    # A pattern, which a topic joins later.
    name = unique("joins")
    forward(server, f"projects/{PROJECT}/topics/{name}.*", second)
    joined = server.topic(name=f"projects/{PROJECT}/topics/{name}.one")
    last = forward(server, second, third)
    aside = server.topic()
    publish(server, third, 0, 9)

    def pushed_back(*topics):
        for topic in topics:
            with pytest.raises(ResourceExhausted) as refused:
                server.publisher.publish(
                    request={"topic": topic, "messages": [{"data": b"x"}]}, retry=None
                )
            sentence = f"it is forwarded, and there subscription '{reader}' is behind"
            assert sentence in refused.value.message
            assert RetryInfo in [type(one) for one in refused.value.details]

    pushed_back(first, second, joined)
    server.publish(aside, b"nobody forwards it")
    server.restart()
    pushed_back(first, second, joined)
    # Its owner says otherwise: what comes waits there.
    labels = {"fanlog-backlog-policy": "keep", "fanlog-backlog-messages": "1000"}
    server.subscriber.update_subscription(
        subscription={"name": last, "labels": labels}, update_mask={"paths": ["labels"]}
    )
    server.publish(first, b"9")
    server.subscriber.update_subscription(
        subscription={"name": last, "labels": {}}, update_mask={"paths": ["labels"]}
    )
    pushed_back(first)
    server.subscriber.delete_subscription(subscription=last)
    server.publish(first, b"10")
    server.publish(joined, b"11")


def test_a_publish_waits_for_room_behind_a_forward(server):
    source, target = server.topic(), server.topic()
    reader = server.subscription(target, labels=CRITICAL | {"fanlog-backlog-block": "20"})
    forward(server, source, target)
    publish(server, target, 0, 9)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(server.publish, source, b"9")
        server.await_metric("fanlog_publishes_blocked_total", reader, 1)
        server.ack(reader, server.pull(reader))
        server.advance(1)
        assert waiting.result(30)


def test_the_sink_waits_for_a_topic_that_is_pushed_back_on(server):
    topic = server.topic()
    reader = server.subscription(topic, labels=CRITICAL)
    publish(server, topic, 0, 9)
    sink = SinkClient(server, unique("query"))
    stage = sink.key(1)
    sink.stage(stage, (topic, [b"9"]))
    with pytest.raises(grpc.RpcError) as refused:
        sink.commit(1, stage)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    server.ack(reader, server.pull(reader))
    sink.commit(1, stage)
    assert data(server.pull(reader)) == [9]
    sink.close()
