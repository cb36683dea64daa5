"""Push, set up through every surface: what each takes, shows and refuses is the same."""

from __future__ import annotations

import re

import pytest

from fanlog.broker.clock import ManualClock
from server import grpc_receiver, receiver
from server.rest.surfaces import Refused, subscription_name, topic_name
from server.rest.test_surfaces import surface, topic
from server.unique import unique

__all__ = ["surface", "topic"]

KINDS = ("http", "grpc", "topic")


@pytest.fixture(scope="module")
def engine():
    return "memory"


@pytest.fixture
def endpoints(server, surface):
    """An endpoint of each kind, and how to see what data came to it."""
    target, reader = unique("target"), unique("reader")
    surface.create_topic(target)
    surface.create_subscription(reader, target)
    with receiver.receiving() as web, grpc_receiver.receiving() as caller:
        yield {
            "http": (web.url(), lambda: [one.data for one in web.received]),
            "grpc": (caller.url, lambda: caller.data),
            "topic": (
                f"topic:{target}",
                lambda: [one.message.data for one in server.drain(subscription_name(reader), 1)],
            ),
        }


@pytest.mark.parametrize("kind", KINDS)
def test_created(server, surface, topic, endpoints, kind):
    url, came = endpoints[kind]
    name = unique("push")
    made = surface.create_subscription(name, topic, push_config={"push_endpoint": url})
    assert made["push_config"] == {"push_endpoint": url}
    assert surface.get_subscription(name) == made
    surface.publish(topic, {"data": b"hello"})
    server.await_drained(subscription_name(name))
    assert came() == [b"hello"]


def test_changed_from_kind_to_kind_and_back_to_pull(server, surface, topic, endpoints):
    name = unique("push")
    surface.create_subscription(name, topic)
    for kind in KINDS:
        url, came = endpoints[kind]
        shown = surface.update_subscription(name, push_config={"push_endpoint": url})
        assert shown["push_config"] == {"push_endpoint": url}
        with pytest.raises(Refused) as refused:
            surface.pull(name)
        assert refused.value.status == "FAILED_PRECONDITION"
        surface.publish(topic, {"data": kind.encode()})
        server.await_drained(subscription_name(name))
        assert came() == [kind.encode()]
    assert not surface.update_subscription(name, push_config={}).get("push_config")
    surface.publish(topic, {"data": b"pulled"})
    [got] = surface.pull(name, wait=True)
    assert got.data == b"pulled"


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("ftp://example.com", "not an address of"),
        ("http://10.0.0.1/hook", "--push-allow"),
        ("http://me:secret@example.com/", "password"),
        ("grpc://127.0.0.1", "names no port"),
        ("grpc://127.0.0.1:9/path", "says more than host and port"),
        ("grpcs://192.168.0.1:443", "--push-allow"),
    ],
)
def test_endpoints_that_are_refused(surface, topic, url, word):
    push = {"push_config": {"push_endpoint": url}}
    name = unique("push")
    with pytest.raises(Refused) as refused:
        surface.create_subscription(name, topic, **push)
    assert refused.value.status == "INVALID_ARGUMENT"
    # Google's own client puts the address before the sentence.
    assert re.search(r"(^|: )(push_config\.push_endpoint|delivery_url): ", refused.value.message)
    assert word in refused.value.message
    assert "secret" not in refused.value.message.replace("webhook secret", "")
    surface.create_subscription(name, topic)
    with pytest.raises(Refused) as refused:
        surface.update_subscription(name, **push)
    assert word in refused.value.message
    assert not surface.get_subscription(name).get("push_config")


def test_settings_that_mean_nothing_over_grpc(surface, topic):
    with pytest.raises(Refused) as refused:
        surface.create_subscription(
            unique("push"),
            topic,
            push_config={"push_endpoint": "grpc://127.0.0.1:9"},
            labels={"fanlog-push-body": "plain"},
        )
    assert refused.value.status == "INVALID_ARGUMENT"
    assert "messages, not bodies" in refused.value.message


def test_a_topic_that_is_not_there_and_a_loop(surface, topic):
    with pytest.raises(Refused) as refused:
        surface.create_subscription(
            unique("push"), topic, push_config={"push_endpoint": "topic:nowhere"}
        )
    assert refused.value.status == "NOT_FOUND"
    with pytest.raises(Refused) as refused:
        surface.create_subscription(
            unique("push"), topic, push_config={"push_endpoint": f"topic:{topic_name(topic)}"}
        )
    assert "itself reads" in refused.value.message


def test_labels_that_are_settings(surface, topic):
    """Each can be set when a subscription is made, and changed: with push, and without."""
    name = unique("push")
    given = {"fanlog-retry": "first-immediate", "fanlog-push-timeout": "300"}
    made = surface.create_subscription(name, topic, labels=given)
    assert made["labels"] == given
    changed = given | {"fanlog-push-timeout": "1", "fanlog-push-body": "event"}
    assert surface.update_subscription(name, labels=changed)["labels"] == changed
    assert surface.get_subscription(name)["labels"] == changed
    retry = {"minimum_backoff": "1s"}
    with pytest.raises(Refused) as refused:
        surface.update_subscription(name, retry_policy=retry)
    assert re.search("(label fanlog-retry|retry): asks for another schedule", str(refused.value))
    for label, value in (
        ("fanlog-push-timeout", "601"),
        ("fanlog-push-timeout", "ten"),
        ("fanlog-push-body", "xml"),
        ("fanlog-retry", "at-once"),
    ):
        with pytest.raises(Refused) as refused:
            surface.create_subscription(unique("push"), topic, labels={label: value})
        assert refused.value.status == "INVALID_ARGUMENT"
        assert f"'{value}' is not" in refused.value.message


@pytest.mark.parametrize("body", ["wrapped", "plain", "cloudevents", "event"])
def test_bodies(server, surface, topic, body):
    name = unique("push")
    with receiver.receiving() as web:
        surface.create_subscription(
            name,
            topic,
            push_config={"push_endpoint": web.url()},
            labels={"fanlog-push-body": body},
        )
        [message_id] = surface.publish(topic, {"data": b'{"chairs": 2}'})
        server.await_drained(subscription_name(name))
        [got] = web.received
    assert got.headers["X-Event-Id"] == message_id
    match body:
        case "wrapped":
            assert got.json["subscription"] == subscription_name(name)
        case "plain":
            assert got.json["message"]["id"] == message_id
        case "cloudevents":
            assert got.headers["ce-id"] == message_id
        case "event":
            assert got.json["payload"] == {"chairs": 2}
            assert got.json["event_type"] == topic == got.headers["X-Event-Type"]


def test_pull_that_retries_first_at_once(start_server):
    server = start_server("memory", clock=ManualClock())
    topic, name = server.topic_and_subscription(labels={"fanlog-retry": "first-immediate"})
    server.publish(topic, b"x")
    server.nack(name, server.await_pull(name))
    server.nack(name, server.pull(name))
    assert server.pull(name) == []
    server.advance(1.25)
    server.nack(name, server.await_pull(name))
    server.advance(1.9)
    assert server.pull(name) == []
    server.advance(0.6)
    assert len(server.await_pull(name)) == 1
