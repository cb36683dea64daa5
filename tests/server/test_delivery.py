"""How a subscription delivers: consumers, the health of endpoints; and dead letters counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.client import Client
from fanlog.client.inspection import InspectionClient
from fanlog.client.reopening import ReopenClient
from server.conftest import RunningServer
from server.receiver import receiving
from server.test_dead_letters import World
from server.test_push import push_to


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


@pytest.fixture
def looking(server: RunningServer) -> Iterator[InspectionClient]:
    client = Client(server.endpoint)
    yield InspectionClient(client)
    client.close()


def test_nobody_consumes(server, looking):
    _, name = server.topic_and_subscription()
    found = looking.delivery(name)
    assert (found.subscription, found.mode) == (name, "pull")
    assert list(found.consumers) == []
    assert not found.HasField("push")
    assert not found.HasField("last_acknowledged")


def test_streams_with_what_they_hold(server, looking):
    topic, name = server.topic_and_subscription()
    first = server.open_stream(name, client_id="one", max_outstanding_messages=2)
    server.await_waiters(name, 1)
    server.publish(topic, b"0", b"1")
    held = first.messages(2)
    second = server.open_stream(name, client_id="two")
    server.await_waiters(name, 2)
    found = looking.delivery(name)
    assert [one.client_id for one in found.consumers] == ["one", "two"]
    assert [one.outstanding for one in found.consumers] == [2, 0]
    assert [one.max_outstanding for one in found.consumers] == [2, 0]
    assert found.consumers[0].address
    assert found.consumers[0].connected_at.ToSeconds() == int(server.clock.now())
    assert (found.outstanding, found.waiting_pulls) == (2, 0)
    assert found.counts.delivered == 2
    server.advance(5)
    server.ack(name, held)
    first.close()
    server.await_that(lambda: len(server.broker.feeds.find(_of(server, name)).staying) == 1)
    found = looking.delivery(name)
    assert [one.client_id for one in found.consumers] == ["two"]
    assert found.counts.acknowledged == 2
    assert found.last_acknowledged.ToSeconds() == int(server.clock.now())
    assert found.last_delivered.ToSeconds() == int(server.clock.now()) - 5
    second.close()


def _of(server, name):
    return server.broker.hard.catalog.subscription(name)


def test_more_streams_than_are_shown(server, looking, monkeypatch):
    monkeypatch.setattr(limits, "CONSUMERS_SHOWN_MAX", 1)
    _, name = server.topic_and_subscription()
    streams = [server.open_stream(name) for _ in range(3)]
    server.await_waiters(name, 3)
    found = looking.delivery(name)
    assert (len(found.consumers), found.consumers_left_off) == (1, 2)
    for one in streams:
        one.close()


def test_what_a_filter_left_out_is_counted(server, looking):
    topic = server.topic()
    name = server.subscription(topic, filter="attributes:a")
    server.publish(topic, b"0", a="1")
    server.publish(topic, b"1", b"2")
    assert len(server.pull(name)) == 1
    assert looking.delivery(name).counts.filtered_out == 2


def test_the_health_of_an_endpoint_with_its_last_failures(start_server, monkeypatch):
    monkeypatch.setattr(limits, "PUSH_BREAKER_FAILURES", 2)
    answers = iter([204, 500, (503, {}, b"<script>alert(1)</script>")])
    with receiving(lambda _: next(answers, 500)) as receiver:
        server = start_server("memory", clock=ManualClock())
        client = Client(server.endpoint)
        looking = InspectionClient(client)
        topic, name = server.topic_and_subscription(**push_to(receiver.url("/hook?key=secret")))
        [first] = server.publish(topic, b"0")
        receiver.wait(1)
        server.await_drained(name)
        well = looking.delivery(name)
        assert (well.mode, well.push.breaker, well.push.trouble) == ("push", "closed", "")
        assert dict(well.push.outcomes) == {"2xx": 1}
        assert list(well.push.failures) == []
        assert well.push.endpoint == receiver.url("/hook")
        assert list(well.consumers) == []
        assert well.waiting_pulls == 0
        [second] = server.publish(topic, b"1")
        server.await_metric("fanlog_nacks_total", name, 2)
        found = looking.delivery(name).push
        assert (found.breaker, found.attempts) == ("open", 3)
        assert dict(found.outcomes) == {"2xx": 1, "5xx": 2}
        # What an endpoint says is text, and nothing else.
        reasons = [one.reason for one in found.failures]
        assert reasons == ["HTTP 503: <script>alert(1)</script>", "HTTP 500"]
        assert {one.message_id for one in found.failures} == {second} - {first}
        assert found.trouble.startswith("push waits, its circuit breaker is open")
        assert found.next_try.ToSeconds() >= int(server.clock.now())
        client.close()


def test_push_that_is_off(server, looking):
    with receiving(lambda _: 410) as receiver:
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"0")
        server.await_that(lambda: bool(_of(server, name).push_off))
        found = looking.delivery(name).push
        assert found.breaker == "off"
        assert "HTTP 410" in found.trouble


def test_a_forward_that_fails(server, looking):
    target = server.topic()
    endpoint = f"topic:{target.rpartition('/')[2]}"
    topic, name = server.topic_and_subscription(push_config={"push_endpoint": endpoint})
    server.publisher.delete_topic(topic=target)
    server.publish(topic, b"0", b"1")
    server.await_that(lambda: bool(server.broker.movers.trouble(_of(server, name))))
    found = looking.delivery(name)
    assert (found.mode, found.push.endpoint) == ("forward", endpoint)
    [failure] = found.push.failures
    assert (failure.messages, "does not exist" in failure.reason) == (2, True)


class TestLetters:
    def test_by_where_and_why(self, server):
        client = Client(server.endpoint)
        world = World(server, 1)
        server.publish(world.topic, b"0", b"1", b"2")
        world.fail(1)
        server.await_metric("fanlog_dead_letters_total", world.subscription, 3)
        server.advance(60)
        server.publish(world.letters, b"not a letter")
        groups = ReopenClient(client).count_letters(world.reader)
        assert [(one.source_subscription, one.letters) for one in groups] == [
            (world.subscription, 3),
            ("", 1),
        ]
        assert "1 of 1 delivery attempts" in groups[0].reason
        assert groups[0].message_id
        assert groups[0].last_time.ToSeconds() <= groups[1].last_time.ToSeconds() - 60
        # Nothing is leased by it.
        assert len(server.pull(world.reader)) == 4
        client.close()

    def test_pages_add_up(self, server, monkeypatch):
        monkeypatch.setattr(limits, "LETTERS_SEEN_MAX", 10)
        client = Client(server.endpoint)
        world = World(server, 1)
        for _ in range(5):
            server.publish(world.topic, *[b"x"] * 10)
            world.fail(1)
        server.await_metric("fanlog_dead_letters_total", world.subscription, 50)
        server.run(server.broker.ledger.sync())
        [group] = ReopenClient(client).count_letters(world.reader)
        assert group.letters == 50
        client.close()

    def test_groups_that_are_too_many_are_counted_together(self, server, monkeypatch):
        monkeypatch.setattr(limits, "LETTER_GROUPS_MAX", 2)
        monkeypatch.setattr(limits, "LETTER_GROUPS_COUNTED_MAX", 3)
        client = Client(server.endpoint)
        letters = server.topic()
        reader = server.subscription(letters)
        for number in range(5):
            topic = server.topic()
            policy = {"dead_letter_topic": letters, "max_delivery_attempts": 1}
            name = server.subscription(topic, dead_letter_policy=policy)
            server.publish(topic, *[b"x"] * (number + 1))
            server.nack(name, server.pull(name))
            server.await_metric("fanlog_dead_letters_total", name, number + 1)
        server.run(server.broker.ledger.sync())
        groups = ReopenClient(client).count_letters(reader)
        # The first three are told apart: 1, 2 and 3 letters; of these two are shown.
        assert [one.letters for one in groups] == [10, 3, 2]
        assert groups[0].source_subscription == ""
        client.close()
