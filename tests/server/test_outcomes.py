"""A minute of traffic is told in a message, with exact counts; and nothing is told of nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import orjson
import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.client import Client
from fanlog.client.jobs import JobClient
from fanlog.errors import CommitFailed
from fanlog.model import outcomes
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from server.conftest import RunningServer

NONE = {
    "delivered": 0,
    "acknowledged": 0,
    "redelivered": 0,
    "nacked": 0,
    "expired": 0,
    "dead_lettered": 0,
}


class Told:
    """A server that tells outcomes, and somebody who reads them."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        # As the service would: callers do not attach to its topics.
        name = "projects/test/subscriptions/told"
        spec = SubscriptionSpec(name=name, topic=outcomes.TOPIC)
        if server.broker.hard.catalog.find_topic(outcomes.TOPIC) is None:
            server.run(server.broker.topics.create(TopicSpec(name=outcomes.TOPIC)))
        self.subscription = server.run(server.broker.subscriptions.create(spec)).name

    def pass_minute(self) -> None:
        """Let the minute end, and what it brought be told."""
        seconds = 60 - self.server.clock.now() % 60
        self.server.advance(seconds)
        self.server.run(self._told())

    async def _told(self) -> None:
        # The timer has fired; whoever holds the lock tells.
        for _ in range(10):
            await asyncio.sleep(0)
        async with self.server.broker.outcomes._telling:
            pass

    def messages(self) -> list[dict]:
        received = self.server.pull(self.subscription)
        if received:
            self.server.ack(self.subscription, received)
        return [orjson.loads(one.message.data) for one in received]

    def minute(self) -> dict:
        self.pass_minute()
        [message] = self.messages()
        return message


def of(message: dict, subscription: str) -> dict:
    [row] = [one for one in message["subscriptions"] if one["subscription"] == subscription]
    return row


def counts(row: dict) -> dict:
    return {name: row[name] for name in NONE}


@pytest.fixture
def told(start_server) -> Told:
    return Told(start_server(clock=ManualClock(), outcomes="on"))


def test_a_minute_of_traffic(told):
    server = told.server
    topic, subscription = server.topic_and_subscription(ack_deadline_seconds=20)
    other = server.subscription(topic)
    server.publish(topic, b"1", b"2", b"3")
    server.publish(topic, b"4")
    before = server.broker.metrics.published_bytes
    received = server.pull(subscription)
    server.advance(2.0)
    server.ack(subscription, received[:2])
    server.nack(subscription, received[2:])
    again = server.pull(subscription)
    assert len(again) == 2
    server.ack(subscription, again[:1])
    began = datetime.fromtimestamp(server.clock.now() // 60 * 60, UTC)
    message = told.minute()
    assert datetime.fromisoformat(message["minute"]) == began
    assert message["version"] == 1
    assert message["topics"] == [{"topic": topic, "messages": 4, "bytes": before}]
    row = of(message, subscription)
    assert counts(row) == NONE | {
        "delivered": 6,
        "acknowledged": 3,
        "redelivered": 2,
        "nacked": 2,
    }
    assert row["backlog"] == 1
    assert row["ack_latency_p50_ms"] == pytest.approx(2_000, rel=0.05)
    assert sum(count for _, count in row["ack_latencies"]) == 3
    # It did nothing, and has more to do.
    assert counts(of(message, other)) == NONE
    assert of(message, other)["backlog"] == 4
    assert of(message, other)["ack_latency_p99_ms"] is None


def test_the_next_minute_begins_at_zero(told):
    server = told.server
    topic, subscription = server.topic_and_subscription(ack_deadline_seconds=30)
    server.publish(topic, b"1", b"2")
    server.pull(subscription, 1)
    first = told.minute()
    server.publish(topic, b"3")
    second = told.minute()
    assert datetime.fromisoformat(second["minute"]).timestamp() == (
        datetime.fromisoformat(first["minute"]).timestamp() + 60
    )
    assert [one["messages"] for one in second["topics"]] == [1]
    # The lease of the first one ran out meanwhile.
    assert counts(of(second, subscription)) == NONE | {"expired": 1}
    assert of(second, subscription)["backlog"] == 3


def test_expiries_and_dead_letters(told):
    server = told.server
    topic, letters = server.topic(), server.topic()
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": 5}
    subscription = server.subscription(topic, ack_deadline_seconds=10, dead_letter_policy=policy)
    told.pass_minute()
    server.publish(topic, b"1")
    for _ in range(5):
        server.advance(0.1)
        assert server.pull(subscription)
        server.advance(10.5)
    server.await_drained(subscription)
    message = told.minute()
    row = of(message, subscription)
    assert counts(row) == NONE | {
        "delivered": 5,
        "redelivered": 4,
        "expired": 5,
        "dead_lettered": 1,
    }
    assert row["backlog"] == 0
    assert {one["topic"]: one["messages"] for one in message["topics"]} == {topic: 1, letters: 1}


def test_nothing_is_told_of_a_minute_without_anything(told):
    told.pass_minute()
    told.pass_minute()
    assert told.messages() == []


def test_reading_outcomes_is_no_outcome(told):
    server = told.server
    topic = server.topic()
    server.publish(topic, b"1")
    message = told.minute()
    assert [one["topic"] for one in message["topics"]] == [topic]
    # That message was published, delivered and acknowledged.
    told.pass_minute()
    assert told.messages() == []


def test_jobs_are_none_either(told):
    server = told.server
    with Client(server.endpoint) as client:
        JobClient(client).create("projects/test", "expire", {})
    told.pass_minute()
    assert told.messages() == []


def test_streams_count_too(told):
    server = told.server
    topic, subscription = server.topic_and_subscription()
    stream = server.open_stream(subscription)
    server.publish(topic, b"1", b"2")
    received = stream.messages(2)
    stream.send(ack_ids=[one.ack_id for one in received])
    server.await_metric("fanlog_acks_total", subscription, 2)
    row = of(told.minute(), subscription)
    assert counts(row) == NONE | {"delivered": 2, "acknowledged": 2}
    assert row["backlog"] == 0


def test_ordered_messages_that_come_back_with_their_key_are_redelivered(told):
    server = told.server
    topic, subscription = server.topic_and_subscription(
        enable_message_ordering=True, ack_deadline_seconds=600
    )
    server.publish(topic, b"1", b"2", b"3", key="k")
    received = server.pull(subscription)
    assert len(received) == 3
    server.nack(subscription, received[:1])
    assert len(server.pull(subscription)) == 3
    row = of(told.minute(), subscription)
    assert counts(row) == NONE | {"delivered": 6, "redelivered": 3, "nacked": 1}


def test_exactly_once(told):
    server = told.server
    topic, subscription = server.topic_and_subscription(enable_exactly_once_delivery=True)
    server.publish(topic, b"1")
    received = server.pull(subscription)
    server.modify(subscription, received, 30)
    server.advance(1.0)
    server.ack(subscription, received)
    row = of(told.minute(), subscription)
    assert counts(row) == NONE | {"delivered": 1, "acknowledged": 1}
    assert row["ack_latency_p99_ms"] == pytest.approx(1_000, rel=0.05)


def test_a_seek_back_is_no_redelivery(told):
    server = told.server
    topic, subscription = server.topic_and_subscription(
        retain_acked_messages=True, ack_deadline_seconds=600
    )
    server.publish(topic, b"1")
    server.ack(subscription, server.pull(subscription))
    server.subscriber.seek(
        request={"subscription": subscription, "time": datetime.fromtimestamp(0, UTC)}
    )
    assert server.pull(subscription)
    row = of(told.minute(), subscription)
    assert counts(row) == NONE | {"delivered": 2, "acknowledged": 1}


def test_a_deleted_subscription_is_told_of_once_more(told):
    server = told.server
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"1")
    server.ack(subscription, server.pull(subscription))
    server.subscriber.delete_subscription(request={"subscription": subscription})
    row = of(told.minute(), subscription)
    assert counts(row) == NONE | {"delivered": 1, "acknowledged": 1}
    told.pass_minute()
    assert told.messages() == []


def test_a_broker_that_stops_tells_what_it_has(told):
    server = told.server
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"1")
    server.restart()
    [message] = told.messages()
    assert [one["messages"] for one in message["topics"]] == [1]
    server.publish(topic, b"2", b"3")
    # The same minute again, of the second life.
    later = told.minute()
    assert later["minute"] == message["minute"]
    assert [one["messages"] for one in later["topics"]] == [2]
    assert of(later, subscription)["backlog"] == 3


def test_a_minute_that_cannot_be_written_is_lost_and_the_next_one_is_not(told):
    server = told.server
    topic = server.topic()
    server.publish(topic, b"1")
    server.store.failures.append(CommitFailed("the disk is gone"))
    told.pass_minute()
    server.publish(topic, b"2", b"3")
    message = told.minute()
    assert [one["messages"] for one in message["topics"]] == [2]


def test_many_subscriptions(told):
    server = told.server
    topic = server.topic()
    names = {server.subscription(topic) for _ in range(210)}
    server.publish(topic, b"1")
    told.pass_minute()
    [message] = told.messages()
    assert {one["subscription"] for one in message["subscriptions"]} == names


def cross(server: RunningServer) -> str:
    """A backlog with limits crosses both of its marks."""
    labels = {"fanlog-backlog-policy": "drop-oldest", "fanlog-backlog-messages": "10"}
    topic, subscription = server.topic_and_subscription(labels=labels)
    server.publish(topic, *[b"x"] * 9)
    server.ack(subscription, server.pull(subscription))
    server.run(server.broker.relief.look())
    return subscription


def marks(message: dict, subscription: str) -> list[tuple[str, float]]:
    rows = [one for one in message["crossings"] if one["subscription"] == subscription]
    return [(one["mark"], one["fill"]) for one in rows]


def test_crossings_are_told_beside_deliveries(told):
    subscription = cross(told.server)
    message = told.minute()
    assert marks(message, subscription) == [("high", 0.9), ("low", 0.0)]
    assert of(message, subscription)["acknowledged"] == 9


def test_without_a_lake_crossings_are_told_and_nothing_else(start_server):
    told = Told(start_server(clock=ManualClock()))
    began = datetime.fromtimestamp(told.server.clock.now() // 60 * 60, UTC)
    subscription = cross(told.server)
    message = told.minute()
    assert marks(message, subscription) == [("high", 0.9), ("low", 0.0)]
    assert (message["topics"], message["subscriptions"]) == ([], [])
    assert datetime.fromisoformat(message["minute"]) == began
    told.server.publish(told.server.topic(), b"1")
    told.server.subscriber.delete_subscription(request={"subscription": subscription})
    told.pass_minute()
    assert told.messages() == []
    assert told.server.broker.metrics.published_to is None
    assert told.server.broker.metrics.latencies is None


def test_without_a_lake_the_topic_is_made_with_the_first_crossing(start_server):
    server = start_server(clock=ManualClock())
    server.run(server.broker.outcomes.tell())
    assert server.broker.hard.catalog.find_topic(outcomes.TOPIC) is None
    cross(server)
    server.run(server.broker.outcomes.tell())
    topic = server.broker.hard.catalog.topic(outcomes.TOPIC)
    assert topic.message_retention_s == limits.OUTCOME_RETENTION_S
    [partition] = topic.partitions
    assert server.broker.ledger.end(partition) == 1


def test_crossings_are_told_when_the_broker_stops(start_server):
    told = Told(start_server(clock=ManualClock()))
    subscription = cross(told.server)
    told.server.restart()
    [message] = told.messages()
    assert marks(message, subscription) == [("high", 0.9), ("low", 0.0)]


def test_more_crossings_than_are_remembered_are_counted(start_server, monkeypatch):
    monkeypatch.setattr(limits, "OUTCOME_CROSSINGS_MAX", 3)
    told = Told(start_server(clock=ManualClock()))
    first, second = cross(told.server), cross(told.server)
    cross(told.server)
    message = told.minute()
    assert marks(message, first) == [("high", 0.9), ("low", 0.0)]
    assert marks(message, second) == [("high", 0.9)]
    assert message["crossings_left_out"] == 3
    again = outcomes.Outcomes.from_message(orjson.dumps(message))
    assert again.crossings_left_out == 3
    cross(told.server)
    assert "crossings_left_out" not in told.minute()


def test_switched_off_no_crossings_are_told(start_server):
    server = start_server(engine="memory", clock=ManualClock(), outcomes="off")
    cross(server)
    server.advance(120.0)
    assert server.broker.hard.catalog.find_topic(outcomes.TOPIC) is None
    assert server.broker.metrics.crossings is None


@pytest.mark.parametrize("setting", ["auto", "off"])
def test_without_a_lake_deliveries_are_not_told_unless_asked_for(start_server, setting):
    server = start_server(engine="memory", clock=ManualClock(), outcomes=setting)
    server.publish(server.topic(), b"1")
    server.advance(120.0)
    assert server.broker.hard.catalog.find_topic(outcomes.TOPIC) is None
    assert server.broker.metrics.published_to is None
    assert server.broker.metrics.latencies is None


def test_with_a_lake_it_is_told(start_server, tmp_path):
    server = start_server(clock=ManualClock(), lake=str(tmp_path / "lake"))
    assert server.broker.hard.catalog.find_topic(outcomes.TOPIC) is not None


def test_with_a_lake_it_can_be_switched_off(start_server, tmp_path):
    server = start_server(clock=ManualClock(), lake=str(tmp_path / "lake"), outcomes="off")
    assert server.broker.hard.catalog.find_topic(outcomes.TOPIC) is None
