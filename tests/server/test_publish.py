"""Publish: every limit at its edge, through Google's own client."""

from __future__ import annotations

import grpc
import pytest
from google.api_core.exceptions import InvalidArgument, NotFound
from google.cloud import pubsub_v1
from google.pubsub_v1 import PublishRequest

from fanlog import limits
from server.conftest import PATIENCE_S


@pytest.fixture
def topic(server):
    return server.topic()


@pytest.fixture
def subscription(server, topic):
    return server.subscription(topic)


def publish(server, topic, *messages):
    request = {"topic": topic, "messages": list(messages)}
    return list(server.publisher.publish(request=request, retry=None).message_ids)


def attributes(count):
    return {f"key-{number}": "v" for number in range(count)}


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"data": b"x"}, id="data alone"),
        pytest.param({"attributes": {"a": "b"}}, id="an attribute alone"),
        pytest.param({"attributes": {"a": ""}}, id="an empty value"),
        pytest.param({"attributes": attributes(100)}, id="100 attributes"),
        pytest.param({"attributes": {"k" * 256: "v"}}, id="a key of 256 bytes"),
        pytest.param({"attributes": {"é" * 128: "v"}}, id="a key of 128 two-byte letters"),
        pytest.param({"attributes": {"k": "v" * 1024}}, id="a value of 1,024 bytes"),
        pytest.param({"attributes": {"k": "é" * 512}}, id="a value of 512 two-byte letters"),
        pytest.param({"attributes": {"googclient_x": "v"}}, id="what clients themselves set"),
        pytest.param({"attributes": {"goo": "v"}}, id="goo"),
        pytest.param({"data": b"x", "ordering_key": "k" * 1024}, id="an ordering key at its limit"),
        pytest.param({"data": bytes(range(256))}, id="all bytes"),
    ],
)
def test_what_is_at_a_limit_is_taken_and_comes_back(server, topic, subscription, message):
    [message_id] = publish(server, topic, message)

    [received] = server.await_pull(subscription)

    assert received.message.message_id == message_id
    assert received.message.data == message.get("data", b"")
    assert received.message.attributes == message.get("attributes", {})
    assert received.message.ordering_key == message.get("ordering_key", "")


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        pytest.param(
            {}, "messages[1]: a message needs data or at least one attribute", id="nothing in it"
        ),
        pytest.param(
            {"ordering_key": "k"}, "a message needs data or at least one attribute", id="a key only"
        ),
        pytest.param(
            {"attributes": attributes(101)},
            "messages[1].attributes: 101 attributes; at most 100 are allowed",
            id="101 attributes",
        ),
        pytest.param(
            {"attributes": {"k" * 257: "v"}}, "has 257 bytes; at most 256", id="a key too long"
        ),
        pytest.param(
            {"attributes": {"é" * 129: "v"}}, "has 258 bytes; at most 256", id="bytes, not letters"
        ),
        pytest.param(
            {"attributes": {"k": "v" * 1025}}, "has 1025 bytes; at most 1024", id="a value too long"
        ),
        pytest.param({"attributes": {"": "v"}}, "an attribute key is empty", id="an empty key"),
        pytest.param(
            {"attributes": {"google": "v"}}, "begins with 'goog', which is reserved", id="google"
        ),
        pytest.param(
            {"data": b"x", "ordering_key": "k" * 1025},
            "messages[1].ordering_key",
            id="an ordering key too long",
        ),
    ],
)
def test_what_is_above_a_limit_is_refused_and_nothing_is_published(
    server, topic, subscription, message, sentence
):
    with pytest.raises(InvalidArgument) as caught:
        publish(server, topic, {"data": b"good"}, message)

    assert sentence in caught.value.message
    assert server.pull(subscription) == []


@pytest.mark.parametrize("count", [0, 1001])
def test_a_request_has_1_to_1000_messages(server, topic, subscription, count):
    with pytest.raises(InvalidArgument, match=f"has {count}; 1 to 1000 are allowed"):
        publish(server, topic, *[{"data": b"x"}] * count)
    assert server.pull(subscription) == []


def test_1000_messages_are_one_request(server, topic, subscription):
    ids = publish(server, topic, *[{"data": b"%d" % n} for n in range(1000)])

    received = server.await_pull(subscription)

    assert len(set(ids)) == 1000
    assert [one.message.message_id for one in received] == ids
    assert [one.message.data for one in received] == [b"%d" % n for n in range(1000)]


def request_of(topic, size_bytes):
    """A publish request of exactly so many bytes, with one message."""
    request = PublishRequest(topic=topic, messages=[{"data": b""}])
    room = size_bytes - PublishRequest.pb(request).ByteSize()
    request.messages[0].data = b"x" * (room - 16)
    short = size_bytes - PublishRequest.pb(request).ByteSize()
    request.messages[0].data = b"x" * (room - 16 + short)
    assert PublishRequest.pb(request).ByteSize() == size_bytes
    return request


def test_a_request_of_10_MB_is_taken_and_read_back(server, topic, subscription):
    request = request_of(topic, limits.PUBLISH_BYTES_MAX)
    server.publisher.publish(request=request, retry=None)

    [received] = server.await_pull(subscription)

    assert received.message.data == request.messages[0].data


def test_a_request_above_10_MB_is_refused(server, topic, subscription):
    with pytest.raises(InvalidArgument) as caught:
        server.publisher.publish(
            request=request_of(topic, limits.PUBLISH_BYTES_MAX + 1), retry=None
        )

    assert "10000001 bytes; at most 10000000 are allowed" in caught.value.message
    assert server.pull(subscription) == []


def test_a_topic_that_does_not_exist(server):
    with pytest.raises(NotFound, match="topic 'projects/test/topics/nowhere' does not exist"):
        server.publish("projects/test/topics/nowhere", b"x")


@pytest.mark.parametrize("name", ["", "topic", "projects/test/topics/1x", "projects/test/topics/"])
def test_a_topic_name_that_is_none(server, name):
    call = server.raw("Publisher/Publish")
    request = PublishRequest(topic=name, messages=[{"data": b"x"}])
    with pytest.raises(grpc.RpcError) as caught:
        call(PublishRequest.serialize(request))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "topic" in caught.value.details()


def test_bytes_that_are_no_request(server):
    with pytest.raises(grpc.RpcError) as caught:
        server.raw("Publisher/Publish")(b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_what_the_sender_says_of_id_and_time_does_not_count(server, topic, subscription):
    message = {"data": b"x", "message_id": "forged", "publish_time": {"seconds": 1}}
    [message_id] = publish(server, topic, message)

    [received] = server.await_pull(subscription)

    assert received.message.message_id == message_id != "forged"
    assert received.message.publish_time.timestamp() > 1_000_000


def test_times_and_ids_grow(server, topic, subscription):
    ids = [server.publish(topic, b"x")[0] for _ in range(20)]

    messages = [one.message for one in server.drain(subscription, 20)]

    assert [message.message_id for message in messages] == ids
    assert ids == sorted(ids)
    times = [message.publish_time for message in messages]
    assert times == sorted(times)


def test_the_batching_publisher(server, topic, subscription):
    batching = pubsub_v1.types.BatchSettings(max_messages=50, max_latency=0.01)
    publisher = server.publishing(batch_settings=batching)

    futures = [publisher.publish(topic, b"%d" % n, n=str(n)) for n in range(500)]
    ids = [future.result(PATIENCE_S) for future in futures]

    received = server.drain(subscription, 500)
    by_id = {one.message.message_id: one.message for one in received}
    assert [by_id[message_id].data for message_id in ids] == [b"%d" % n for n in range(500)]
    assert [by_id[message_id].attributes["n"] for message_id in ids] == [str(n) for n in range(500)]
    publisher.stop()


def test_the_batching_publisher_hears_of_a_refusal(server, topic):
    publisher = server.publishing()
    future = publisher.publish(topic, b"x", google="reserved")
    with pytest.raises(InvalidArgument, match="reserved"):
        future.result(PATIENCE_S)
    publisher.stop()
