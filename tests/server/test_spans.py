"""Spans of messages, from an official client's publish to the acknowledgement."""

from __future__ import annotations

import queue
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from google.api_core.exceptions import NotFound
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.types import PublisherOptions, SubscriberOptions
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fanlog.broker.clock import ManualClock
from fanlog.model.spans import parse_traceparent
from server.collectors import PATIENCE_S, Receiver, receiving
from server.conftest import RunningServer
from server.receiver import receiving as receiving_pushes

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def serve(start_server, collector: Receiver) -> Callable[..., RunningServer]:
    def start(ratio: float | None = 0.0, **settings) -> RunningServer:
        return start_server(
            memory=True,
            otlp_endpoint=collector.url,
            otlp_interval_s=0.0,
            span_ratio=ratio,
            **settings,
        )

    return start


def spans_of(server: RunningServer, collector: Receiver) -> dict[str, list[Span]]:
    """Every span, by name, once the server has stopped."""
    server.stop()
    found: dict[str, list[Span]] = {}
    for span in collector.spans():
        found.setdefault(span.name, []).append(span)
    return found


def said(span: Span) -> dict[str, str | int]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_one_trace_from_publish_to_acknowledgement(serve, collector):
    server = serve()
    topic, subscription = server.topic_and_subscription()
    [message_id] = server.publish(topic, b"x", googclient_traceparent=SAMPLED)
    [received] = server.pull(subscription)
    # The message is as it was published.
    assert dict(received.message.attributes) == {"googclient_traceparent": SAMPLED}
    server.ack(subscription, [received])
    spans = spans_of(server, collector)
    assert {name: len(some) for name, some in spans.items()} == {
        "publish": 1,
        "commit": 1,
        "deliver": 1,
        "ack": 1,
    }
    [publish], [commit], [deliver], [ack] = (
        spans[name] for name in ("publish", "commit", "deliver", "ack")
    )
    assert {span.trace_id.hex() for some in spans.values() for span in some} == {TRACE}
    assert publish.parent_span_id.hex() == PARENT
    assert commit.parent_span_id == deliver.parent_span_id == publish.span_id
    assert ack.parent_span_id == deliver.span_id
    assert len({span.span_id for some in spans.values() for span in some}) == 4
    assert said(publish)["messaging.destination.name"] == topic
    assert said(publish)["messaging.message.id"] == message_id
    assert said(deliver)["messaging.destination.subscription.name"] == subscription
    assert said(deliver)["fanlog.outcome"] == "acknowledged"
    for span in (publish, commit, deliver, ack):
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert abs(span.end_time_unix_nano - time.time_ns()) < 60e9
        assert span.status.code == Status.STATUS_CODE_UNSET
    assert publish.start_time_unix_nano <= commit.start_time_unix_nano
    assert commit.end_time_unix_nano <= publish.end_time_unix_nano
    assert publish.kind == Span.SPAN_KIND_SERVER
    assert commit.kind == Span.SPAN_KIND_INTERNAL
    assert deliver.kind == Span.SPAN_KIND_PRODUCER


def test_the_trace_of_an_official_client_goes_through(serve, collector):
    """Its own spans and ours are of one trace, and ours are below its own."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    server = serve()
    topic, subscription = server.topic_and_subscription()
    options = PublisherOptions(enable_open_telemetry_tracing=True)
    publisher = server.publishing(publisher_options=options)
    publisher.publish(topic, b"x").result(PATIENCE_S)
    transport = server.subscriber.transport
    subscriber = pubsub_v1.SubscriberClient(
        transport=type(transport)(channel=server.channel()),
        subscriber_options=SubscriberOptions(enable_open_telemetry_tracing=True),
    )
    came: queue.SimpleQueue[pubsub_v1.subscriber.message.Message] = queue.SimpleQueue()
    pulling = subscriber.subscribe(subscription, callback=came.put)
    came.get(timeout=PATIENCE_S).ack()
    late_s = time.monotonic() + PATIENCE_S
    while server.metric("fanlog_backlog_messages", subscription):
        assert time.monotonic() < late_s
    pulling.cancel()
    pulling.result(PATIENCE_S)
    publisher.stop()
    subscriber.close()
    spans = spans_of(server, collector)
    own = {span.name.rpartition(" ")[2]: span for span in exporter.get_finished_spans()}
    assert {"create", "subscribe"} <= own.keys()
    trace_ids = {span.trace_id.hex() for some in spans.values() for span in some}
    assert trace_ids == {f"{own['create'].context.trace_id:032x}"}
    assert f"{own['subscribe'].context.trace_id:032x}" in trace_ids
    [publish] = spans["publish"]
    assert publish.parent_span_id.hex() == f"{own['create'].context.span_id:016x}"
    assert {name: len(some) for name, some in spans.items()} == {
        "publish": 1,
        "commit": 1,
        "deliver": 1,
        "ack": 1,
    }


def test_messages_without_a_context_go_on_under_that_of_their_request(serve, collector):
    server = serve()
    topic, subscription = server.topic_and_subscription()
    request = {"topic": topic, "messages": [{"data": b"0"}, {"data": b"1"}]}
    server.publisher.publish(request=request, metadata=(("traceparent", SAMPLED),))
    server.ack(subscription, server.pull(subscription))
    spans = spans_of(server, collector)
    assert {name: len(some) for name, some in spans.items()} == {
        "publish": 1,
        "commit": 1,
        "deliver": 2,
        "ack": 2,
    }
    [publish] = spans["publish"]
    assert publish.parent_span_id.hex() == PARENT
    assert said(publish)["messaging.batch.message_count"] == 2
    assert {span.parent_span_id for span in spans["deliver"]} == {publish.span_id}


def test_a_header_of_rest_says_the_same(serve, collector):
    server = serve()
    topic = server.topic()
    request = urllib.request.Request(
        server.http(f"/v1/{topic}:publish"),
        data=b'{"messages": [{"data": "eA=="}]}',
        headers={"content-type": "application/json", "traceparent": SAMPLED},
    )
    urllib.request.urlopen(request, timeout=PATIENCE_S).close()
    [publish] = spans_of(server, collector)["publish"]
    assert (publish.trace_id.hex(), publish.parent_span_id.hex()) == (TRACE, PARENT)


@pytest.mark.parametrize(
    ("ratio", "head", "count"),
    [
        (0.0, None, 0),
        (1.0, None, 1),
        (1.0, UNSAMPLED, 0),
        (0.0, UNSAMPLED, 0),
        (0.0, SAMPLED, 1),
        (0.0, "00-rubbish-01", 0),
    ],
)
def test_a_trace_is_sampled_as_its_parent_is_or_by_chance(serve, collector, ratio, head, count):
    server = serve(ratio)
    topic = server.topic()
    metadata = () if head is None else (("traceparent", head),)
    server.publisher.publish(
        request={"topic": topic, "messages": [{"data": b"x"}]}, metadata=metadata
    )
    spans = spans_of(server, collector)
    assert len(spans.get("publish", [])) == count
    if head is None and count:
        assert spans["publish"][0].parent_span_id == b""


def test_messages_that_are_not_sampled_have_no_spans(serve, collector):
    server = serve()
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"x", googclient_traceparent=UNSAMPLED)
    server.ack(subscription, server.pull(subscription))
    assert spans_of(server, collector) == {}


def test_of_a_request_each_sampled_message_has_its_own_trace(serve, collector):
    server = serve()
    topic, subscription = server.topic_and_subscription()
    other = SAMPLED.replace(TRACE, TRACE[::-1])
    messages = [
        {"data": b"0", "attributes": {"googclient_traceparent": SAMPLED}},
        {"data": b"1"},
        {"data": b"2", "attributes": {"googclient_traceparent": other}},
    ]
    server.publisher.publish(request={"topic": topic, "messages": messages})
    received = server.pull(subscription)
    server.ack(subscription, received)
    spans = spans_of(server, collector)
    wanted = {
        TRACE: received[0].message.message_id,
        TRACE[::-1]: received[2].message.message_id,
    }
    for name in ("publish", "deliver"):
        found = {span.trace_id.hex(): said(span)["messaging.message.id"] for span in spans[name]}
        assert found == wanted, name


def test_a_publish_that_fails_says_why(serve, collector):
    server = serve()
    request = {"topic": "projects/test/topics/nowhere", "messages": [{"data": b"x"}]}
    with pytest.raises(NotFound):
        server.publisher.publish(request=request, metadata=(("traceparent", SAMPLED),))
    spans = spans_of(server, collector)
    [publish] = spans.pop("publish")
    assert spans == {}
    assert publish.status.code == Status.STATUS_CODE_ERROR
    assert "TopicNotFound" in publish.status.message


def test_nacks_and_expiries_end_a_delivery(serve, collector):
    server = serve(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"x", googclient_traceparent=SAMPLED)
    server.nack(subscription, server.pull(subscription))
    server.pull(subscription)
    server.advance(11)
    server.ack(subscription, server.pull(subscription))
    spans = spans_of(server, collector)
    outcomes = [said(span)["fanlog.outcome"] for span in spans["deliver"]]
    assert outcomes == ["nacked", "expired", "acknowledged"]
    failed = [span.status.code == Status.STATUS_CODE_ERROR for span in spans["deliver"]]
    assert failed == [True, True, False]
    assert len({span.parent_span_id for span in spans["deliver"]}) == 1
    assert len(spans["ack"]) == 1


def test_a_dead_letter_goes_on_in_its_trace(serve, collector):
    server = serve()
    letters = server.topic()
    reader = server.subscription(letters)
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": 1}
    topic, subscription = server.topic_and_subscription(dead_letter_policy=policy)
    server.publish(topic, b"x", googclient_traceparent=SAMPLED)
    server.nack(subscription, server.pull(subscription))
    [letter] = server.await_pull(reader)
    server.ack(reader, [letter])
    spans = spans_of(server, collector)
    [publish], [dead] = spans["publish"], spans["dead-letter"]
    assert dead.parent_span_id == publish.span_id
    assert said(dead)["messaging.destination.name"] == letters
    assert said(dead)["messaging.message.id"] == letter.message.message_id
    assert [said(one)["fanlog.outcome"] for one in spans["deliver"]] == ["nacked", "acknowledged"]
    assert {one.trace_id.hex() for some in spans.values() for one in some} == {TRACE}


def test_push_requests_carry_the_trace_on(serve, collector):
    server = serve()
    with receiving_pushes() as endpoint:
        topic, subscription = server.topic_and_subscription(
            push_config={"push_endpoint": endpoint.url("/hook")}
        )
        server.publish(topic, b"x", googclient_traceparent=SAMPLED)
        server.publish(topic, b"y")
        got = endpoint.wait(2)
        server.await_drained(subscription)
    by_data = {one.data: one.headers for one in got}
    assert "traceparent" not in by_data[b"y"]
    carried = parse_traceparent(by_data[b"x"]["traceparent"])
    spans = spans_of(server, collector)
    [push], [deliver] = spans["push"], spans["deliver"]
    assert carried is not None
    assert carried.is_sampled
    assert (carried.trace_id.hex(), carried.span_id) == (TRACE, push.span_id)
    assert push.parent_span_id == deliver.span_id
    assert push.kind == Span.SPAN_KIND_CLIENT
    assert said(push)["url.full"].endswith("/hook")
    assert len(spans["ack"]) == 1


def test_a_push_that_fails_says_why(serve, collector):
    server = serve()
    with receiving_pushes(lambda _: 500) as endpoint:
        topic, _ = server.topic_and_subscription(push_config={"push_endpoint": endpoint.url()})
        server.publish(topic, b"x", googclient_traceparent=SAMPLED)
        endpoint.wait(1)
        late_s = time.monotonic() + PATIENCE_S
        while not any(span.name == "push" for span in collector.spans()):
            assert time.monotonic() < late_s
            time.sleep(0.02)
    push = spans_of(server, collector)["push"][0]
    assert push.status.code == Status.STATUS_CODE_ERROR
    assert "500" in push.status.message


def test_after_a_restart_a_message_goes_on_under_its_own_context(start_server, collector):
    server = start_server(otlp_endpoint=collector.url, otlp_interval_s=0.0, span_ratio=0.0)
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"x", googclient_traceparent=SAMPLED)
    server.restart()
    server.ack(subscription, server.pull(subscription))
    [deliver] = spans_of(server, collector)["deliver"]
    assert (deliver.trace_id.hex(), deliver.parent_span_id.hex()) == (TRACE, PARENT)


def test_what_is_remembered_is_bounded(serve, collector, monkeypatch):
    monkeypatch.setattr("fanlog.broker.tracing.HELD_MAX", 10)
    monkeypatch.setattr("fanlog.server.otlp.spans_export.WAITING_MAX", 20)
    monkeypatch.setattr("fanlog.broker.tracing.REQUEST_MAX", 5)
    server = serve(1.0)
    topic, subscription = server.topic_and_subscription()
    for _ in range(30):
        server.publish(topic, *[b"x"] * 20)
    server.pull(subscription)
    tracing = server.broker.tracing
    assert len(tracing._published) == 10
    assert len(tracing._outstanding) <= 10
    assert server.metric("fanlog_spans_dropped_total") > 0


def test_off_nothing_of_it_is_called(start_server):
    """No call for a message or a request, as a profile of the loop counts them."""
    server = start_server(memory=True)
    assert server.broker.tracing is None
    topic, subscription = server.topic_and_subscription()
    calls: Counter[str] = Counter()

    def count(frame, event, _) -> None:
        if event == "call":
            calls[frame.f_code.co_filename] += 1

    server._loop.call(sys.setprofile, count)
    try:
        server.publish(topic, *[b"x"] * 100, googclient_traceparent=SAMPLED)
        server.ack(subscription, server.pull(subscription))
    finally:
        server._loop.call(sys.setprofile, None)
    assert sum(calls.values()) > 100, "the profile counts"
    assert [name for name in calls if "tracing" in name or "spans" in name] == []
