"""Reopened messages of a push subscription are pushed again: the same ones, and to nobody else."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from server import grpc_receiver, receiver
from server.replaying import face_of, numbered, partition_of


@pytest.fixture
def replay(server):
    found = face_of(server, "grpc")
    yield found
    found.close()


class Http:
    """An endpoint, in the words that both kinds share."""

    receiving = staticmethod(receiver.receiving)

    @staticmethod
    def push_to(endpoint):
        return {"push_config": {"push_endpoint": endpoint.url()}}

    @staticmethod
    def seen(endpoint):
        """Ids and data of what came, in its order."""
        return [(one.json["message"]["messageId"], one.data) for one in endpoint.received]


class Grpc:
    receiving = staticmethod(grpc_receiver.receiving)

    @staticmethod
    def push_to(endpoint):
        return {"push_config": {"push_endpoint": endpoint.url}}

    @staticmethod
    def seen(endpoint):
        return [(one.message.message_id, one.message.data) for one in endpoint.received]


@pytest.fixture(params=[Http, Grpc])
def kind(request):
    return request.param


def retained(server):
    return server.topic(message_retention_duration=timedelta(days=7))


def test_the_same_messages_and_nobody_else(server, replay, kind):
    with kind.receiving() as mine, kind.receiving() as others:
        topic = retained(server)
        name = server.subscription(topic, **kind.push_to(mine))
        other = server.subscription(topic, **kind.push_to(others))
        ids = server.publish(topic, *numbered(20))
        for one in (name, other):
            server.await_drained(one)
        published = list(zip(ids, numbered(20), strict=True))
        assert Counter(kind.seen(mine)) == Counter(kind.seen(others)) == Counter(published)
        window = {"partition": partition_of(ids[0]), "start": 5, "end": 15}
        assert replay.reopen(name, offsets=[window])["reopened"] == 10
        server.await_drained(name)
        # What is published afterwards comes beside it, once.
        [last] = server.publish(topic, b"last")
        for one in (name, other):
            server.await_drained(one)
        published.append((last, b"last"))
        assert Counter(kind.seen(others)) == Counter(published)
        assert Counter(kind.seen(mine)) == Counter(published + published[5:15])
    # Nothing of it is left for a puller.
    server.subscriber.modify_push_config(subscription=name, push_config={})
    assert server.pull(name) == []


def test_in_the_order_of_their_keys(server, replay, kind):
    with kind.receiving() as endpoint:
        topic = retained(server)
        name = server.subscription(topic, enable_message_ordering=True, **kind.push_to(endpoint))
        ids = []
        for number in range(12):
            ids += server.publish(topic, b"%d" % number, key="ab"[number % 2])
        server.await_drained(name)
        assert replay.reopen(name, message_ids=ids)["reopened"] == 12
        server.await_drained(name)
        seen = kind.seen(endpoint)
    assert Counter(seen) == Counter({(ids[n], b"%d" % n): 2 for n in range(12)})
    for first in (0, 1):
        one_key = [int(data) for _, data in seen if int(data) % 2 == first]
        assert one_key == [*range(first, 12, 2), *range(first, 12, 2)]


def test_an_endpoint_that_is_down_gets_them_when_it_is_back(server, replay):
    """Refused while reopened: they stay open, and come until they are taken."""
    refused = set()

    def answer(got):
        message_id = got.json["message"]["messageId"]
        came = [one for one in list(endpoint.received) if message_id in one.body.decode()]
        if len(came) == 2:
            refused.add(message_id)
            return 503
        return 204

    with receiver.receiving(answer) as endpoint:
        topic = retained(server)
        name = server.subscription(topic, **Http.push_to(endpoint))
        ids = server.publish(topic, *numbered(3))
        server.await_drained(name)
        assert replay.reopen(name, message_ids=ids[:2])["reopened"] == 2
        server.await_drained(name)
        counts = Counter(message_id for message_id, _ in Http.seen(endpoint))
    assert refused == {*ids[:2]}
    assert counts == {ids[0]: 3, ids[1]: 3, ids[2]: 1}
