"""Traces: where one message stands on every subscription, and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from fanlog.broker.clock import ManualClock
from fanlog.client import CallFailed, Client
from fanlog.client.inspection import InspectionClient
from server.conftest import PROJECT, RunningServer, unique
from server.test_dead_letters import World
from server.tiered import DAY, Tiered, keeping

#: Every message is of the sample.
SETTINGS = {"trace_sample": 1}


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


@pytest.fixture
def looking(server: RunningServer) -> Iterator[InspectionClient]:
    client = Client(server.endpoint)
    yield InspectionClient(client)
    client.close()


def on(looking: InspectionClient, message_id: str, name: str) -> Any:
    """The trace on one subscription; asked for alone and among all it is the same."""
    [alone] = looking.trace(message_id, subscription=name).subscriptions
    [among] = [s for s in looking.trace(message_id).subscriptions if s.subscription == name]
    assert alone == among
    return alone


def told(trace: Any) -> list[tuple[str, str]]:
    return [(event.what, event.reason) for event in trace.events]


def not_traced(looking: InspectionClient, message_id: str, **fields: Any) -> tuple[str, str]:
    with pytest.raises(CallFailed) as caught:
        looking.trace(message_id, **fields)
    return caught.value.status, caught.value.message


def nack(server: RunningServer, name: str, received: Any, reason: str) -> None:
    server.subscriber.modify_ack_deadline(
        request={
            "subscription": name,
            "ack_ids": [one.ack_id for one in received],
            "ack_deadline_seconds": 0,
        },
        metadata=[("fanlog-reason", reason)],
        retry=None,
    )


def test_the_message_itself(server, looking):
    topic, name = server.topic_and_subscription()
    [_, message_id] = server.publish(topic, b"a", b"hello", key="k", colour="red")
    plain = looking.trace(message_id)
    assert (plain.message_id, plain.topic, plain.offset) == (message_id, topic, 1)
    assert plain.publish_time.ToMicroseconds() == pytest.approx(server.clock.now() * 1e6, abs=1e6)
    assert (plain.tier, plain.hint, plain.sampled) == ("hot", "", True)
    assert plain.size_bytes > len(b"hello")
    assert (plain.ordering_key, dict(plain.attributes)) == ("", {})
    full = looking.trace(message_id, attributes=True)
    assert (full.ordering_key, dict(full.attributes)) == ("k", {"colour": "red"})
    assert [one.subscription for one in full.subscriptions] == [name]


def test_attempt_by_attempt(server, looking):
    topic = server.topic()
    name = server.subscription(
        topic,
        retry_policy={"minimum_backoff": {"seconds": 20}, "maximum_backoff": {"seconds": 20}},
    )
    [message_id] = server.publish(topic, b"x")
    assert on(looking, message_id, name).state == "BACKLOG"
    assert "now" in on(looking, message_id, name).next_delivery
    nack(server, name, server.pull(name), "boom")
    waits = on(looking, message_id, name)
    assert (waits.state, waits.failed_deliveries) == ("DELAYED", 1)
    assert waits.until.ToMicroseconds() / 1e6 >= server.clock.now() + 20
    server.advance(26)
    server.pull(name)
    held = on(looking, message_id, name)
    assert held.state == "OUTSTANDING"
    assert held.until.ToMicroseconds() / 1e6 == pytest.approx(server.clock.now() + 10)
    assert held.delivered_at.ToMicroseconds() / 1e6 == pytest.approx(server.clock.now())
    server.advance(11)
    server.advance(26)
    server.ack(name, server.pull(name))
    done = on(looking, message_id, name)
    assert (done.state, done.next_delivery) == ("ACKNOWLEDGED", "")
    assert told(done) == [
        ("delivered", ""),
        ("nacked", "boom"),
        ("delivered", ""),
        ("expired", ""),
        ("delivered", ""),
        ("acknowledged", ""),
    ]


def test_a_stream_that_holds_it_is_named(server, looking):
    topic, name = server.topic_and_subscription()
    stream = server.open_stream(name, client_id="worker-7", stream_ack_deadline_seconds=60)
    [message_id] = server.publish(topic, b"x")
    stream.messages(1)
    assert on(looking, message_id, name).client_id == "worker-7"


def test_why_it_does_not_come(server, looking):
    topic = server.topic()
    filtered = server.subscription(topic, filter='attributes.a = "1"')
    ordered = server.subscription(topic, enable_message_ordering=True)
    purged = server.subscription(topic)
    ids = server.publish(topic, b"0", b"1", key="k")
    server.pull(ordered, 1)
    looking.purge(purged)
    left_out = on(looking, ids[1], filtered)
    assert (left_out.state, left_out.next_delivery) == ("FILTERED_OUT", "")
    behind = on(looking, ids[1], ordered)
    assert (behind.state, behind.behind_message_id) == ("BACKLOG", ids[0])
    assert "ordering key" in behind.next_delivery
    gone = on(looking, ids[1], purged)
    assert gone.state == "ACKNOWLEDGED"
    assert [what for what, _ in told(gone)] == ["purged"]


class TestLetters:
    def test_a_letter_and_its_original_name_each_other(self, server, looking):
        world = World(server, maximum=5)
        [original] = server.publish(world.topic, b"x")
        world.fail(5)
        server.await_drained(world.subscription)
        [letter] = [one.message.message_id for one in server.pull(world.reader)]
        here = on(looking, original, world.subscription)
        assert (here.state, here.letter_message_id) == ("DEAD_LETTERED", letter)
        assert here.events[-1].what == "dead-lettered"
        assert here.events[-1].message_id == letter
        there = looking.trace(letter)
        assert there.letter_of_message_id == original
        assert there.letter_of_topic == world.topic
        assert there.letter_of_subscription == world.subscription
        assert "5 of 5" in there.letter_reason
        server.advance(11)
        self.redrive(server, world)
        again = on(looking, original, world.subscription)
        assert (again.state, again.letter_message_id) == ("BACKLOG", "")
        assert (again.events[-1].what, again.events[-1].message_id) == ("redriven", letter)

    @staticmethod
    def redrive(server, world, **options):
        from fanlog.client.reopening import ReopenClient

        with Client(server.endpoint) as client:
            return list(ReopenClient(client).redrive_all(world.reader, **options))

    def test_a_copy_names_the_message_it_was_made_of(self, server, looking):
        world = World(server, maximum=5)
        other = server.subscription(world.topic)
        [original] = server.publish(world.topic, b"x")
        world.fail(5)
        server.await_drained(world.subscription)
        server.ack(other, server.pull(other))
        server.publisher.update_topic(
            topic={"name": world.topic, "message_retention_duration": timedelta(minutes=10)},
            update_mask={"paths": ["message_retention_duration"]},
        )
        server.advance(660)
        server.sweep()
        [answer] = self.redrive(server, world, copies=True)
        assert answer.copied == 1
        gone = looking.trace(original)
        assert gone.tier == "gone"
        assert "nothing before" in gone.hint
        [here] = [s for s in gone.subscriptions if s.subscription == world.subscription]
        assert here.events[-1].what == "copied"
        copy = looking.trace(here.events[-1].message_id)
        assert copy.copy_of_message_id == original
        assert copy.addressee == world.subscription
        states = {s.subscription: s.state for s in copy.subscriptions}
        assert states == {world.subscription: "BACKLOG", other: "ADDRESSED_ELSEWHERE"}

    def test_a_publisher_cannot_make_believe_that_it_is_one(self, server, looking):
        topic, name = server.topic_and_subscription()
        [message_id] = server.publish(
            topic,
            b"x",
            **{
                "fanlog-source-message-id": "1000000000000",
                "fanlog-original-message-id": "1000000000000",
            },
        )
        found = looking.trace(message_id)
        assert (found.letter_of_message_id, found.copy_of_message_id) == ("", "")
        assert on(looking, message_id, name).state == "BACKLOG"


def test_after_a_restart_the_letter_is_looked_for(start_server, tmp_path):
    server = start_server(clock=ManualClock(), data_dir=tmp_path / "d", memory=False)
    world = World(server, maximum=5)
    [original, other] = server.publish(world.topic, b"x", b"y")
    server.ack(world.subscription, server.pull(world.subscription)[1:])
    server.advance(11)
    world.fail(4)
    server.await_drained(world.subscription)
    [letter] = [one.message.message_id for one in server.pull(world.reader)]
    server.restart()
    with Client(server.endpoint) as client:
        looking = InspectionClient(client)
        here = on(looking, original, world.subscription)
        assert (here.state, here.letter_message_id) == ("DEAD_LETTERED", letter)
        assert not here.events
        assert on(looking, other, world.subscription).state == "ACKNOWLEDGED"


def test_what_is_in_the_lake(tiered: Tiered) -> None:
    server = tiered.server
    topic = server.topic(**keeping())
    name = server.subscription(topic)
    ids = server.publish(topic, b"0", b"1")
    tiered.archive()
    tiered.pass_time(2 * DAY)
    assert tiered.tiers(topic)[1] == 2, "all of it is cold"
    with Client(server.endpoint) as client:
        looking = InspectionClient(client)
        found = looking.trace(ids[1])
        assert (found.tier, found.hint) == ("lake", "")
        assert found.subscriptions[0].state == "BACKLOG"
        assert [one.message.data for one in looking.peek(name)] == [b"0", b"1"]
        behind = looking.backlog(name)
        assert (behind.messages, behind.bytes) == (2, 10)
        assert looking.purge(name, message_id=ids[1]).purged == 1
        assert [one.message.data for one in looking.peek(name)] == [b"1"]


class TestIds:
    @pytest.mark.parametrize(
        "bad", ["", "x", "-1", "1", "0000000000001", "9" * 60, "1\n2", "é" * 13]
    )
    def test_what_is_no_id(self, looking, bad):
        assert not_traced(looking, bad)[0] == "INVALID_ARGUMENT"

    def test_of_no_topic(self, looking):
        status, sentence = not_traced(looking, "4000000000000000000001")
        assert (status, "no topic" in sentence) == ("NOT_FOUND", True)

    def test_not_published_yet(self, server, looking):
        topic, _ = server.topic_and_subscription()
        [message_id] = server.publish(topic, b"x")
        status, sentence = not_traced(looking, str(int(message_id) + 1))
        assert (status, "not published yet" in sentence) == ("NOT_FOUND", True)

    def test_of_another_topic(self, server, looking):
        _, name = server.topic_and_subscription()
        other, _ = server.topic_and_subscription()
        [message_id] = server.publish(other, b"x")
        status, sentence = not_traced(looking, message_id, subscription=name)
        assert (status, "does not read" in sentence) == ("INVALID_ARGUMENT", True)
        nobody = f"projects/{PROJECT}/subscriptions/{unique('nobody')}"
        assert not_traced(looking, message_id, subscription=nobody)[0] == "NOT_FOUND"


def test_a_message_that_is_to_be_delivered_later(server, looking):
    topic, name = server.topic_and_subscription()
    [message_id] = server.publish(topic, b"late", **{"fanlog-delay": "60"})
    trace = on(looking, message_id, name)
    assert trace.state == "PENDING"
    assert trace.next_delivery.startswith("at 1970-01-1")
    assert trace.next_delivery.endswith("as its publisher asked")
    server.advance(61)
    assert on(looking, message_id, name).state == "BACKLOG"
