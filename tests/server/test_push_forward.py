"""Forwarding to a topic: once each, in order, and never round in circles."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress

import pytest
from google.api_core.exceptions import InvalidArgument, NotFound, ServiceUnavailable
from google.pubsub_v1.types import Subscription

from fanlog import errors, limits
from fanlog.broker.clock import ManualClock
from fanlog.broker.retention.room import Room
from fanlog.errors import CommitFailed
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import PushConfig
from fanlog.model.specs import SubscriptionSpec
from fanlog.model.updates import SubscriptionUpdate
from server.conftest import PROJECT
from server.unique import unique


def forward_to(topic):
    return {"push_config": {"push_endpoint": f"topic:{topic}"}}


def test_messages_are_copied_and_acknowledged(server):
    target, reader = server.topic_and_subscription()
    topic, name = server.topic_and_subscription(**forward_to(target.rpartition("/")[2]))
    [message_id] = server.publish(topic, b"hello", key="k", colour="blue")
    [got] = server.await_pull(reader)
    server.await_drained(name)
    assert got.message.data == b"hello"
    assert got.message.ordering_key == "k"
    assert dict(got.message.attributes) == {
        "colour": "blue",
        "fanlog-source-topic": topic,
        "fanlog-source-message-id": message_id,
    }


def test_what_was_acknowledged_meanwhile_is_not_copied(start_server, monkeypatch):
    """A purge comes between the lease of some messages and their copies."""
    server = start_server(clock=ManualClock())
    target, reader = server.topic_and_subscription()
    topic, held = server.topic_and_subscription()
    ids = server.publish(topic, *(b"%d" % n for n in range(10)))
    make = Room.make
    purged = []

    async def purge_and_make(room, size_bytes):
        if size_bytes > 100 and not purged:
            purged.append(await server.broker.purges.to_message(name, *parse_message_id(ids[6])))
        return await make(room, size_bytes)

    monkeypatch.setattr(Room, "make", purge_and_make)
    name = f"projects/{PROJECT}/subscriptions/{unique('forward')}"
    spec = SubscriptionSpec(
        name=name,
        topic=topic,
        push=PushConfig(endpoint=f"topic:{target}"),
        labels={"fanlog-start": "earliest"},
    )
    server.run(server.broker.subscriptions.create(spec))
    server.await_drained(name)
    got = server.drain(reader, 4)
    assert purged[0].purged == 6
    assert [one.message.data for one in got] == [b"6", b"7", b"8", b"9"]
    assert server.pull(reader) == []
    assert len(server.drain(held, 10)) == 10


def test_copy_and_acknowledgement_are_one_commit(start_server):
    server = start_server()
    target, reader = server.topic_and_subscription()
    topic, name = server.topic_and_subscription(**forward_to(target))
    published = []
    for n in range(30):
        # What a failed commit was to publish is published by nobody.
        with suppress(ServiceUnavailable):
            server.publish(topic, b"%d" % n)
            published.append(n)
        if n % 5 == 0:
            server.store.failures.append(CommitFailed("no"))
    server.store.failures.clear()
    server.await_drained(name)
    server.restart()
    found = server.drain(reader, len(published))
    assert [int(one.message.data) for one in found] == published
    assert server.pull(reader) == []


def test_many_in_order(server):
    target, reader = server.topic_and_subscription(enable_message_ordering=True)
    topic, name = server.topic_and_subscription(**forward_to(target), enable_message_ordering=True)
    for n in range(50):
        server.publish(topic, b"a%d" % n, key="a")
        server.publish(topic, b"b%d" % n, key="b")
    server.await_drained(name)
    found = [one.message.data.decode() for one in server.drain(reader, 100)]
    for key in "ab":
        assert [one for one in found if one[0] == key] == [f"{key}{n}" for n in range(50)]


def test_a_chain_and_its_loops(server):
    first, second, third = server.topic(), server.topic(), server.topic()
    server.subscription(first, **forward_to(second))
    server.subscription(second, **forward_to(third))
    with pytest.raises(InvalidArgument, match="makes a loop"):
        server.subscription(third, **forward_to(first))
    with pytest.raises(InvalidArgument, match="itself reads"):
        server.subscription(third, **forward_to(third))
    name = server.subscription(third)
    with pytest.raises(InvalidArgument, match="makes a loop"):
        server.subscriber.modify_push_config(
            subscription=name, push_config=forward_to(second)["push_config"]
        )
    reader = server.subscription(third)
    server.publish(first, b"x")
    [got] = server.await_pull(reader)
    assert got.message.attributes["fanlog-source-topic"] == second


async def _while_one_waits(server, waiting, other):
    """Have `other` done while `waiting` asks where to begin: after its endpoint was looked at."""
    verbs, go_on = server.broker.subscriptions, asyncio.Event()

    async def held(*args):
        await go_on.wait()
        return await start_offset(*args)

    start_offset, verbs._start_offset = verbs._start_offset, held
    first = asyncio.create_task(waiting)
    await asyncio.sleep(0)
    verbs._start_offset = start_offset
    second = asyncio.create_task(other)
    await asyncio.wait((second,))
    go_on.set()
    return await asyncio.gather(first, second, return_exceptions=True)


@pytest.mark.parametrize("how", ["create", "update"])
def test_two_at_the_same_time_close_no_loop(server, how):
    one, two = server.topic(), server.topic()

    def spec(topic, target):
        name = f"projects/{PROJECT}/subscriptions/{unique('loop')}"
        push = PushConfig(endpoint=f"topic:{target}")
        return SubscriptionSpec(name=name, topic=topic, push=push)

    broker = server.broker
    other = broker.subscriptions.create(spec(two, one))
    if how == "update":
        changes = {"push": PushConfig(endpoint=f"topic:{one}")}
        update = SubscriptionUpdate(name=server.subscription(two), changes=changes)
        other.close()
        other = broker.subscriptions.update(update)
    waiting = broker.subscriptions.create(spec(one, two))
    first, second = server.run(_while_one_waits(server, waiting, other))
    assert second.push.endpoint == f"topic:{one}"
    assert isinstance(first, errors.InvalidArgument)
    assert "makes a loop" in first.message


def test_a_pattern_that_would_read_a_later_topic(server):
    prefix = unique("loop")
    back = f"projects/{PROJECT}/topics/{prefix}.back"
    server.publisher.create_topic(name=back)
    away = server.topic()
    server.subscription(f"projects/{PROJECT}/topics/{prefix}.*", **forward_to(away))
    with pytest.raises(InvalidArgument, match="makes a loop"):
        server.subscription(away, **forward_to(back))


def test_a_topic_that_is_not_there(server):
    with pytest.raises(NotFound, match="push_endpoint: topic"):
        server.topic_and_subscription(**forward_to("nowhere"))


def test_a_topic_that_goes_and_comes_back(start_server):
    server = start_server(clock=ManualClock())
    target = server.topic()
    topic, name = server.topic_and_subscription(**forward_to(target))
    server.publisher.delete_topic(topic=target)
    server.publish(topic, b"x")
    server.await_metric("fanlog_nacks_total", name, 1)
    shown = server.subscriber.get_subscription(subscription=name)
    assert shown.state == Subscription.State.RESOURCE_ERROR
    server.publisher.create_topic(name=target)
    reader = server.subscription(target)
    server.advance(limits.DEAD_LETTER_RETRY_S + 1)
    server.await_drained(name)
    [got] = server.await_pull(reader)
    assert got.message.data == b"x"


def test_what_means_nothing_there_is_refused(server):
    target = server.topic()
    for fields in ({"no_wrapper": {}}, {"oidc_token": {"service_account_email": "a@b.c"}}):
        with pytest.raises(InvalidArgument, match="forwarding to a topic makes no request"):
            server.topic_and_subscription(push_config={"push_endpoint": f"topic:{target}"} | fields)


def test_a_loop_through_dead_letters(server):
    """A dead-letters to B, and B forwards to A: whichever is made last is refused."""
    first, second = server.topic(), server.topic()
    policy = {"dead_letter_topic": second, "max_delivery_attempts": 5}
    server.subscription(first, dead_letter_policy=policy)
    with pytest.raises(InvalidArgument, match=r"push_config.*makes a loop"):
        server.subscription(second, **forward_to(first))
    third, fourth = server.topic(), server.topic()
    server.subscription(fourth, **forward_to(third))
    policy = {"dead_letter_topic": fourth, "max_delivery_attempts": 5}
    with pytest.raises(InvalidArgument, match=r"dead_letter_policy.*makes a loop"):
        server.subscription(third, dead_letter_policy=policy)
    name = server.subscription(third)
    with pytest.raises(InvalidArgument, match=r"dead_letter_policy.*makes a loop"):
        server.subscriber.update_subscription(
            request={
                "subscription": {"name": name, "dead_letter_policy": policy},
                "update_mask": {"paths": ["dead_letter_policy"]},
            }
        )


def test_a_loop_that_a_default_would_make_leaves_nothing_behind(server):
    """The dead letter topic that a label makes: it is not there when the rest is refused."""
    topic = server.topic()
    name = f"projects/{PROJECT}/subscriptions/{unique('looping')}"
    letters = name.replace("/subscriptions/", "/topics/") + ".dead-letters"
    server.topic(name=letters)
    server.subscription(letters, **forward_to(topic))
    with pytest.raises(InvalidArgument, match="makes a loop"):
        server.subscription(topic, name=name, labels={"fanlog-dead-letter": "auto"})
    readers = server.publisher.list_topic_subscriptions(topic=letters)
    assert len(list(readers)) == 1


def test_dead_letters_alone_may_go_round(server):
    first, second = server.topic(), server.topic()
    for topic, letters in ((first, second), (second, first)):
        policy = {"dead_letter_topic": letters, "max_delivery_attempts": 5}
        server.subscription(topic, dead_letter_policy=policy)


def test_a_tree_of_forwards_ends(start_server):
    """Ten times ten times ten times ten: the copies of one message are bounded."""
    server = start_server("memory")
    levels = [[server.topic()]] + [[server.topic() for _ in range(10)] for _ in range(4)]
    forwards = []
    for above, below in itertools.pairwise(levels):
        # Every topic of a level forwards to all of the next one.
        for topic in above[:1]:
            forwards += [server.subscription(topic, **forward_to(target)) for target in below]
    for above, below in itertools.pairwise(levels[1:]):
        for topic in above[1:]:
            forwards += [server.subscription(topic, **forward_to(target)) for target in below]
    server.publish(levels[0][0], b"x" * 1_000)
    for name in forwards:
        server.await_drained(name)
    published = server.broker.metrics.published
    assert 1 + 10 + 100 <= published <= 1 + 2 * limits.FORWARD_COPIES_MAX
    stopped = sum(one.forward_stopped for one in server.broker.metrics.subscriptions.values())
    assert stopped > 0
    assert "fanlog_forwards_stopped_total" in server.metrics()


def test_a_long_chain_ends_in_dead_letters(start_server):
    server = start_server("memory")
    topics = [server.topic() for _ in range(limits.FORWARD_HOPS_MAX + 2)]
    letters, graveyard = server.topic_and_subscription()
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": 5}
    for here, there in itertools.pairwise(topics):
        server.subscription(here, dead_letter_policy=policy, **forward_to(there))
    last = server.subscription(topics[-1])
    server.publish(topics[0], b"far")
    [letter] = server.await_pull(graveyard)
    reason = letter.message.attributes["fanlog-dead-letter-reason"]
    assert f"more than {limits.FORWARD_HOPS_MAX} forwards" in reason
    assert letter.message.attributes["fanlog-source-topic"] == topics[-2]
    assert server.pull(last) == []
