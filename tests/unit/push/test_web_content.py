"""Bodies and headers of push requests, form by form."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from fanlog import times
from fanlog.push.rules.message import PushedMessage, event_type
from fanlog.push.rules.web_content import write_content

MESSAGE = PushedMessage(
    data=b"caf\xc3\xa9",
    attributes={"colour": "blue"},
    ordering_key="k",
    message_id="7000000000001",
    publish_time_ns=1_600_000_000_123_456_789,
    topic="projects/p/topics/orders.eu",
    subscription="projects/p/subscriptions/s",
    ack_id="ack",
    attempt=3,
    is_counted=True,
)


def test_wrapped_is_googles_with_both_spellings():
    request = write_content(MESSAGE, "wrapped")
    assert json.loads(request.body) == {
        "message": {
            "data": base64.b64encode(MESSAGE.data).decode(),
            "attributes": {"colour": "blue"},
            "messageId": "7000000000001",
            "message_id": "7000000000001",
            "publishTime": "2020-09-13T12:26:40.123Z",
            "publish_time": "2020-09-13T12:26:40.123Z",
            "orderingKey": "k",
        },
        "subscription": "projects/p/subscriptions/s",
        "deliveryAttempt": 3,
    }
    assert request.headers == {
        "User-Agent": "fanlog-push",
        "Content-Type": "application/json",
        "X-Event-Id": "7000000000001",
        "X-Event-Type": "orders.eu",
        "X-Delivery-Attempt": "3",
    }


def test_wrapped_leaves_out_what_is_not_there():
    bare = replace(MESSAGE, data=b"", attributes={}, ordering_key="", is_counted=False)
    wrapped = json.loads(write_content(bare, "wrapped").body)
    assert wrapped.keys() == {"message", "subscription"}
    assert wrapped["message"].keys() == {"messageId", "message_id", "publishTime", "publish_time"}


def test_plain_has_the_ack_id():
    assert json.loads(write_content(MESSAGE, "plain").body) == {
        "message": {
            "id": "7000000000001",
            "data": base64.b64encode(MESSAGE.data).decode(),
            "attributes": {"colour": "blue"},
            "ordering_key": "k",
            "publish_time": "2020-09-13T12:26:40.123456Z",
        },
        "ack_id": "ack",
    }


def test_unwrapped_is_the_data():
    request = write_content(MESSAGE, "unwrapped")
    assert request.body == MESSAGE.data
    assert request.headers["Content-Type"] == "application/octet-stream"
    assert not [name for name in request.headers if name.startswith("x-goog") or name == "colour"]


def test_unwrapped_with_metadata():
    headers = write_content(MESSAGE, "unwrapped-metadata").headers
    assert headers["x-goog-pubsub-subscription-name"] == "projects/p/subscriptions/s"
    assert headers["x-goog-pubsub-message-id"] == "7000000000001"
    assert headers["x-goog-pubsub-publish-time"] == "2020-09-13T12:26:40.123Z"
    assert headers["x-goog-pubsub-ordering-key"] == "k"
    assert headers["x-goog-pubsub-delivery-attempt"] == "3"
    assert headers["colour"] == "blue"


@pytest.mark.parametrize(
    "name",
    [
        "Host", "content-length", "Transfer-Encoding", "authorization", "webhook-signature",
        "X-Event-Id", "x-goog-pubsub-message-id", "a b", "a:b", "a\r\nb", "", "é",
    ],
)  # fmt: skip
def test_no_attribute_takes_the_place_of_a_header(name):
    with_it = replace(MESSAGE, attributes={name: "mine"})
    headers = write_content(with_it, "unwrapped-metadata").headers
    plain = write_content(replace(MESSAGE, attributes={}), "unwrapped-metadata").headers
    assert headers == plain


@pytest.mark.parametrize("form", ["unwrapped-metadata", "cloudevents", "wrapped"])
def test_no_value_breaks_out_of_its_line(form):
    evil = "x\r\nInjected: 1\0é%"
    attributes = {"type": evil, "content-type": evil, "colour": evil, "ce-subject": evil}
    request = write_content(replace(MESSAGE, attributes=attributes, ordering_key=evil), form)
    for value in request.headers.values():
        assert value.isascii()
        assert value.isprintable()


def test_cloudevents_binary():
    request = write_content(MESSAGE, "cloudevents")
    assert request.body == MESSAGE.data
    assert {k: v for k, v in request.headers.items() if k.startswith("ce-")} == {
        "ce-specversion": "1.0",
        "ce-id": "7000000000001",
        "ce-source": "//pubsub.googleapis.com/projects/p/topics/orders.eu",
        "ce-type": "google.cloud.pubsub.topic.v1.messagePublished",
        "ce-time": "2020-09-13T12:26:40.123Z",
        "ce-partitionkey": "k",
        "ce-colour": "blue",
    }


def test_an_event_that_came_as_one_leaves_as_the_same():
    attributes = {
        "ce-id": "1",
        "ce-source": "/mine",
        "ce-type": "made",
        "ce-time": "2026-01-01T00:00:00Z",
        "content-type": "application/json",
        "id": "another",
    }
    headers = write_content(replace(MESSAGE, attributes=attributes), "cloudevents").headers
    assert headers["ce-id"] == "1"
    assert headers["ce-source"] == "/mine"
    assert headers["ce-type"] == headers["X-Event-Type"] == "made"
    assert headers["ce-time"] == "2026-01-01T00:00:00Z"
    assert headers["Content-Type"] == "application/json"


def test_cloudevents_values_are_percent_encoded():
    event = replace(MESSAGE, attributes={"ce-subject": 'Euro € 😀 "q" 50%'}, ordering_key="")
    headers = write_content(event, "cloudevents").headers
    assert headers["ce-subject"] == "Euro%20%E2%82%AC%20%F0%9F%98%80%20%22q%22%2050%25"


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({}, "orders.eu"),
        ({"type": "a", "ce-type": "b"}, "b"),
        ({"event_type": "a", "type": ""}, "a"),
        ({"eventType": "a"}, "a"),
    ],
)
def test_event_type(attributes, kind):
    assert event_type(replace(MESSAGE, attributes=attributes)) == kind


def test_event():
    request = write_content(MESSAGE, "event")
    assert json.loads(request.body) == {
        "event_id": "7000000000001",
        "event_type": "orders.eu",
        "source_service": "p",
        "schema_version": None,
        "payload": "café",
        "published_at": "2020-09-13T12:26:40.123456Z",
    }
    assert request.headers == {
        "User-Agent": "fanlog-push",
        "Content-Type": "application/json",
        "X-Event-Id": "7000000000001",
        "X-Event-Type": "orders.eu",
        "X-Event-Encoding": "text",
        "X-Delivery-Attempt": "3",
    }


@pytest.mark.parametrize(
    ("attributes", "source", "version"),
    [
        ({"source": "a"}, "a", None),
        ({"source": "a", "source_service": "b"}, "b", None),
        ({"source_service": "b", "ce-source": "/c"}, "/c", None),
        ({"source": "", "schema_version": "2"}, "p", "2"),
        ({"schemaVersion": "3"}, "p", "3"),
        ({"schema_version": "2", "googclient_schemarevisionid": "0a1b2c3d"}, "p", "0a1b2c3d"),
    ],
)
def test_event_from_attributes(attributes, source, version):
    request = write_content(replace(MESSAGE, attributes={"ce-type": "made"} | attributes), "event")
    body = json.loads(request.body)
    assert (body["source_service"], body["schema_version"]) == (source, version)
    assert body["event_type"] == request.headers["X-Event-Type"] == "made"


@pytest.mark.parametrize(
    ("data", "payload", "encoding"),
    [
        (b'{"a": [1, 2]}', b'{"a": [1, 2]}', "json"),
        # Not a digit of it is lost, though no float has so many.
        (b"12345678901234567890123", b"12345678901234567890123", "json"),
        (b'"text"', b'"text"', "json"),
        (b" null\n", b" null\n", "json"),
        (b"", b"null", "json"),
        (b"two chairs", b'"two chairs"', "text"),
        (b'{"a": NaN}', b'"{\\"a\\": NaN}"', "text"),
        (b"[" * 5_000 + b"]" * 5_000, b'"' + b"[" * 5_000 + b"]" * 5_000 + b'"', "text"),
        (b"\x00\xff", b'"AP8="', "base64"),
    ],
)
def test_payloads(data, payload, encoding):
    request = write_content(replace(MESSAGE, data=data), "event")
    assert b'"payload":' + payload + b"," in request.body
    assert request.headers["X-Event-Encoding"] == encoding


def test_whole_seconds_have_no_fraction():
    assert times.of_ns(0) == times.of_us(0) == "1970-01-01T00:00:00Z"


def test_fractions_have_three_digits_or_six():
    assert times.of_us(1_500_000_000) == "1970-01-01T00:00:01.500Z"
    assert times.of_us(1_000_001_999) == "1970-01-01T00:00:01.000001Z"
