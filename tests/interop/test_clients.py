"""Official clients publish, stream, acknowledge and seek; their REST transports; reflection."""

from __future__ import annotations

import time

from interop.cases import LANGUAGES, tries
from interop.looks import await_backlog
from interop.puppet import Puppet

DATA = [f"message {number}" for number in range(50)]


@tries("publish, stream, ack", *LANGUAGES)
def test_publish_stream_ack(server, puppet: Puppet, names):
    puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=False)
    ids = puppet.do("publish", topic=names.topic, data=DATA)["ids"]
    assert len(set(ids)) == len(DATA)
    received = puppet.do("receive", subscription=names.subscription, count=len(DATA))["received"]
    assert sorted(received) == sorted(DATA)
    await_backlog(server, names.subscription, 0)


@tries("confirmed acks", *LANGUAGES)
def test_confirmed_acks(server, puppet: Puppet, names):
    """Exactly-once: an ack is confirmed, and then the message is acknowledged."""
    puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=True)
    puppet.do("publish", topic=names.topic, data=DATA)
    received = puppet.do("receive", subscription=names.subscription, count=len(DATA))["received"]
    assert sorted(received) == sorted(DATA)
    await_backlog(server, names.subscription, 0)


@tries("seek", *LANGUAGES)
def test_seek(server, puppet: Puppet, names):
    puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=False)
    began = time.time()
    puppet.do("publish", topic=names.topic, data=DATA)
    puppet.do("receive", subscription=names.subscription, count=len(DATA))
    await_backlog(server, names.subscription, 0)
    puppet.do("seek", subscription=names.subscription, time_s=began - 1)
    again = puppet.do("receive", subscription=names.subscription, count=len(DATA))["received"]
    assert sorted(again) == sorted(DATA)
    puppet.do("publish", topic=names.topic, data=["left out"])
    puppet.do("seek", subscription=names.subscription, time_s=time.time() + 3600)
    await_backlog(server, names.subscription, 0)


@tries("REST on the same port", *LANGUAGES)
def test_rest_on_the_same_port(server, puppet: Puppet, names):
    assert server.http == server.endpoint
    answer = puppet.do("rest", topic=names.topic, subscription=names.subscription, data="over REST")
    assert answer["received"] == ["over REST"]
    await_backlog(server, names.subscription, 0)


@tries("reflection", "Python", "Go")
def test_reflection(puppet: Puppet, client, names):
    """As grpcurl does it: a call by a program that knows no more than what reflection says."""
    puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=False)
    found = puppet.do(
        "reflect",
        service="google.pubsub.v1.Subscriber",
        method="GetSubscription",
        request={"subscription": names.subscription},
    )
    # The Python package has the older version only.
    for version in {"v1", "v1alpha"} if client == "Go" else {"v1alpha"}:
        told = found[version]
        assert {"google.pubsub.v1.Publisher", "grpc.health.v1.Health"} <= set(told["services"])
        assert {"StreamingPull", "Acknowledge", "Seek"} <= set(told["methods"])
        assert told["answer"]["name"] == names.subscription
        assert told["answer"]["topic"] == names.topic
