"""Push, set up through every surface: what each takes, shows and refuses is the same."""

from __future__ import annotations

import re

import pytest

from server import grpc_receiver, receiver
from server.conftest import unique
from server.rest.surfaces import Refused, subscription_name, topic_name
from server.rest.test_surfaces import surface, topic

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
