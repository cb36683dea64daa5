"""Dead letters: counted, forwarded in one commit, never dropped."""

from __future__ import annotations

import logging
from datetime import datetime

import pytest
from google.api_core.exceptions import GoogleAPICallError, InvalidArgument, NotFound

from fanlog import limits
from fanlog.broker.clock import ManualClock

GOOGLE = "CloudPubSubDeadLetterSource"


def data(received):
    return [one.message.data for one in received]


def attempts(received):
    return [one.delivery_attempt for one in received]


def policy(topic, maximum=5):
    return {"dead_letter_topic": topic, "max_delivery_attempts": maximum}


class World:
    """A topic, its subscription with a policy, and the dead letter topic with a reader."""

    def __init__(self, server, maximum=5, **fields):
        self.server = server
        self.letters = server.topic()
        self.reader = server.subscription(self.letters)
        self.topic = server.topic()
        self.subscription = server.subscription(
            self.topic, dead_letter_policy=policy(self.letters, maximum), **fields
        )

    def fail(self, times, how="nack"):
        """Pull what is there and let it fail; the attempts seen."""
        seen = []
        for _ in range(times):
            held = self.server.pull(self.subscription)
            seen.append(attempts(held))
            if how == "nack":
                self.server.nack(self.subscription, held)
            else:
                self.server.advance(10.1)
        return seen


@pytest.fixture
def world(still_server):
    return World(still_server)


@pytest.mark.parametrize("how", ["nack", "expiry"])
@pytest.mark.parametrize("maximum", [1, 5, 100])
def test_attempts_count_from_1_and_then_it_is_forwarded(still_server, maximum, how):
    world = World(still_server, maximum)
    [message_id] = still_server.publish(world.topic, b"x", key="k", colour="red")

    assert world.fail(maximum, how) == [[number + 1] for number in range(maximum)]

    [letter] = still_server.await_pull(world.reader)
    assert letter.message.data == b"x"
    assert letter.message.ordering_key == "k"
    assert letter.message.message_id != message_id
    assert letter.message.attributes["colour"] == "red"
    assert still_server.pull(world.subscription) == []
    still_server.advance(1000)
    assert still_server.pull(world.subscription) == []


def test_a_letter_says_where_it_came_from(still_server, world):
    [message_id] = still_server.publish(world.topic, b"x")
    [held] = still_server.pull(world.subscription)
    still_server.nack(world.subscription, [held])
    world.fail(4)

    [letter] = still_server.await_pull(world.reader)

    said = dict(letter.message.attributes)
    _, project, _, name = world.subscription.split("/")
    published = datetime.fromisoformat(said.pop(f"{GOOGLE}TopicPublishTime"))
    assert abs((published - held.message.publish_time).total_seconds()) < 0.001
    assert said == {
        f"{GOOGLE}DeliveryCount": "5",
        f"{GOOGLE}Subscription": name,
        f"{GOOGLE}SubscriptionProject": project,
        "fanlog-dead-letter-reason": "5 of 5 delivery attempts, the last one nacked",
        "fanlog-source-topic": world.topic,
        "fanlog-source-message-id": message_id,
    }


def test_an_expiry_says_so(still_server, world):
    still_server.publish(world.topic, b"x")
    world.fail(5, "expiry")
    [letter] = still_server.await_pull(world.reader)
    reason = letter.message.attributes["fanlog-dead-letter-reason"]
    assert reason == "5 of 5 delivery attempts, the last one expired"


def test_a_message_with_all_the_attributes_it_may_have_is_forwarded(still_server):
    """The forward is above the limit of attributes; nothing may be lost for that."""
    world = World(still_server, 1)
    attributes = {f"key-{number}": "v" for number in range(100)}
    still_server.publish(world.topic, b"x", **attributes)
    world.fail(1)
    [letter] = still_server.await_pull(world.reader)
    assert attributes.items() <= dict(letter.message.attributes).items()
    assert len(letter.message.attributes) == 107


def test_a_message_of_10_MB_is_forwarded(still_server):
    world = World(still_server, 1)
    still_server.publish(world.topic, b"x" * 9_990_000)
    world.fail(1)
    [letter] = still_server.await_pull(world.reader)
    assert len(letter.message.data) == 9_990_000


def test_many_large_ones_are_forwarded_in_parts(start_server):
    """The broker holds a few of them in memory at a time, however many fail at once."""
    server = start_server("memory", clock=ManualClock())
    world = World(server, 1)
    expected = [b"%d" % n * 1_500_000 for n in range(10)]
    for one in expected:
        server.publish(world.topic, one)
    stream = server.open_stream(world.subscription)
    held = stream.messages(10)
    server.store.commits.clear()
    server.nack(world.subscription, held)
    assert data(server.drain(world.reader, 10)) == expected
    sizes = [
        sum(len(body.content) for append in commit.appends for body in append.bodies)
        for commit in server.store.commits
    ]
    assert max(sizes) < 8_000_000


def test_many_at_once(still_server):
    world = World(still_server, 1)
    for start in range(0, 3000, 1000):
        still_server.publish(world.topic, *[b"%d" % n for n in range(start, start + 1000)])
    world.fail(3)
    letters = still_server.drain(world.reader, 3000)
    assert sorted(data(letters)) == sorted(b"%d" % n for n in range(3000))
    assert still_server.pull(world.subscription) == []


def test_attempts_of_each_message_are_its_own(still_server, world):
    still_server.publish(world.topic, b"0", b"1")
    held = still_server.pull(world.subscription)
    still_server.nack(world.subscription, held[1:])
    assert attempts(still_server.pull(world.subscription)) == [2]
    still_server.nack(world.subscription, held[:1])
    still_server.advance(10.1)
    again = still_server.pull(world.subscription)
    assert {one.message.data: one.delivery_attempt for one in again} == {b"0": 2, b"1": 3}


def test_on_a_stream(still_server, world):
    still_server.publish(world.topic, b"x")
    stream = still_server.open_stream(world.subscription)
    for number in range(1, 6):
        [held] = stream.messages(1)
        assert held.delivery_attempt == number
        stream.send(modify_deadline_ack_ids=[held.ack_id], modify_deadline_seconds=[0])
        still_server.await_outstanding(world.subscription, 0)
        still_server.advance(limits.AVERSION_S)
    assert data(still_server.await_pull(world.reader)) == [b"x"]


def test_an_ack_in_the_last_attempt_is_an_ack(still_server, world):
    still_server.publish(world.topic, b"x")
    world.fail(4)
    still_server.ack(world.subscription, still_server.pull(world.subscription))
    still_server.advance(100)
    assert still_server.pull(world.subscription) == []
    assert still_server.pull(world.reader) == []


def test_without_a_policy_attempts_are_not_told(still_server):
    topic, subscription = still_server.topic_and_subscription()
    still_server.publish(topic, b"x")
    still_server.nack(subscription, still_server.pull(subscription))
    assert attempts(still_server.pull(subscription)) == [0]


def test_in_order_only_the_first_of_a_key_is_forwarded(still_server):
    world = World(still_server, 2, enable_message_ordering=True)
    still_server.publish(world.topic, b"0", b"1", b"2", key="k")
    for _ in range(2):
        still_server.nack(world.subscription, still_server.pull(world.subscription)[:1])
    assert data(still_server.await_pull(world.reader)) == [b"0"]
    rest = still_server.await_pull(world.subscription)
    assert data(rest) == [b"1", b"2"]
    still_server.ack(world.subscription, rest)
    still_server.advance(100)
    assert still_server.pull(world.subscription) == []


def test_with_exactly_once(still_server):
    world = World(still_server, 2, enable_exactly_once_delivery=True)
    still_server.publish(world.topic, b"x")
    assert world.fail(2) == [[1], [2]]
    assert data(still_server.await_pull(world.reader)) == [b"x"]
    assert still_server.pull(world.subscription) == []


def test_with_a_retry_policy(still_server):
    backoff = {"minimum_backoff": {"seconds": 10}, "maximum_backoff": {"seconds": 600}}
    world = World(still_server, 2, retry_policy=backoff)
    still_server.publish(world.topic, b"x")
    world.fail(1)
    assert still_server.pull(world.subscription) == []
    still_server.advance(12.6)
    world.fail(1)
    # No wait before the forward.
    assert data(still_server.await_pull(world.reader)) == [b"x"]


def test_letters_are_counted(still_server):
    world = World(still_server, 1)
    still_server.publish(world.topic, b"0", b"1")
    world.fail(1)
    still_server.drain(world.reader, 2)
    assert still_server.metric("fanlog_dead_letters_total", world.subscription) == 2


class TestRestart:
    def test_counts_survive(self, start_server):
        server = start_server(clock=ManualClock())
        world = World(server)
        server.publish(world.topic, b"x")
        world.fail(3)
        server.restart()
        assert world.fail(2) == [[4], [5]]
        assert data(server.await_pull(world.reader)) == [b"x"]

    def test_a_forwarded_one_is_in_one_place(self, start_server):
        server = start_server(clock=ManualClock())
        world = World(server, 1)
        server.publish(world.topic, b"x")
        world.fail(1)
        held = server.await_pull(world.reader)
        assert data(held) == [b"x"]
        server.restart()
        assert server.pull(world.subscription) == []
        assert data(server.pull(world.reader)) == [b"x"]


class TestMissingTopic:
    def test_it_must_be_there_at_creation(self, still_server):
        topic = still_server.topic()
        with pytest.raises(NotFound, match=r"dead_letter_topic: topic .*nowhere.* does not exist"):
            still_server.subscription(
                topic, dead_letter_policy=policy("projects/test/topics/nowhere")
            )

    def test_deleted_later_the_message_is_kept_and_it_is_said(self, still_server, caplog):
        world = World(still_server, 2)
        still_server.publisher.delete_topic(topic=world.letters)
        still_server.publish(world.topic, b"x")
        with caplog.at_level(logging.WARNING, "fanlog.dead_letters"):
            world.fail(2)
            still_server.await_metric("fanlog_dead_letter_failures_total", world.subscription, 1)
        assert f"topic={world.letters}" in caplog.text
        assert "the messages stay in the subscription" in caplog.text

        still_server.advance(10.1)
        again = still_server.pull(world.subscription)
        assert data(again) == [b"x"]
        assert attempts(again) == [3]

    def test_made_again_the_message_is_forwarded(self, still_server):
        world = World(still_server, 1)
        still_server.publisher.delete_topic(topic=world.letters)
        still_server.publish(world.topic, b"x")
        world.fail(1)
        still_server.await_metric("fanlog_dead_letter_failures_total", world.subscription, 1)
        still_server.topic(name=world.letters)
        reader = still_server.subscription(world.letters)
        still_server.advance(10.1)
        world.fail(1)
        assert data(still_server.await_pull(reader)) == [b"x"]
        assert still_server.pull(world.subscription) == []


class TestPolicies:
    @pytest.mark.parametrize("maximum", [-1, 101])
    def test_out_of_range(self, still_server, maximum):
        with pytest.raises(GoogleAPICallError) as caught:
            World(still_server, maximum)
        assert caught.value.grpc_status_code.name in ("INVALID_ARGUMENT", "OUT_OF_RANGE")
        assert "max_delivery_attempts" in caught.value.message

    def test_zero_is_the_default_of_5(self, still_server):
        world = World(still_server, 0)
        found = still_server.subscriber.get_subscription(subscription=world.subscription)
        assert found.dead_letter_policy.max_delivery_attempts == 5

    def test_the_topic_itself_is_refused(self, still_server):
        topic = still_server.topic()
        with pytest.raises(InvalidArgument, match="dead letters would come back to it"):
            still_server.subscription(topic, dead_letter_policy=policy(topic))

    def test_a_topic_that_keeps_nothing_is_warned_about(self, lean_server, caplog):
        unread = lean_server.topic()
        with caplog.at_level(logging.WARNING, "fanlog.grpc"):
            lean_server.subscription(lean_server.topic(), dead_letter_policy=policy(unread))
        assert f"dead letter topic {unread!r} has no subscription and no retention" in caplog.text

    def test_one_that_is_read_is_not(self, lean_server, caplog):
        with caplog.at_level(logging.WARNING, "fanlog.grpc"):
            World(lean_server)
        assert "action=hint" not in caplog.text

    def test_added_later(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        letters = still_server.topic()
        reader = still_server.subscription(letters)
        still_server.publish(topic, b"x")
        still_server.nack(subscription, still_server.pull(subscription))
        still_server.subscriber.update_subscription(
            request={
                "subscription": {"name": subscription, "dead_letter_policy": policy(letters, 1)},
                "update_mask": {"paths": ["dead_letter_policy"]},
            }
        )
        still_server.nack(subscription, still_server.pull(subscription))
        assert data(still_server.await_pull(reader)) == [b"x"]

    def test_removed_nothing_is_forwarded(self, still_server):
        world = World(still_server, 2)
        still_server.publish(world.topic, b"x")
        world.fail(1)
        still_server.subscriber.update_subscription(
            request={
                "subscription": {"name": world.subscription},
                "update_mask": {"paths": ["dead_letter_policy"]},
            }
        )
        assert world.fail(3) == [[0], [0], [0]]
        assert still_server.pull(world.reader) == []


class TestAuto:
    def test_a_topic_with_a_reader_is_made(self, still_server, caplog):
        topic = still_server.topic()
        with caplog.at_level(logging.WARNING, "fanlog.grpc"):
            subscription = still_server.subscription(topic, labels={"fanlog-dead-letter": "auto"})
        assert "action=hint" not in caplog.text
        name = subscription.rsplit("/", 1)[1]
        found = still_server.subscriber.get_subscription(subscription=subscription)
        letters = f"projects/test/topics/{name}.dead-letters"
        assert found.dead_letter_policy.dead_letter_topic == letters
        readers = list(still_server.publisher.list_topic_subscriptions(topic=letters))
        assert len(readers) == 1

        still_server.publish(topic, b"x")
        for _ in range(found.dead_letter_policy.max_delivery_attempts):
            still_server.nack(subscription, still_server.pull(subscription))
        assert data(still_server.await_pull(readers[0])) == [b"x"]

    def test_with_attempts_of_its_own(self, still_server):
        topic = still_server.topic()
        subscription = still_server.subscription(
            topic,
            labels={"fanlog-dead-letter": "auto"},
            dead_letter_policy={"max_delivery_attempts": 1},
        )
        still_server.publish(topic, b"x")
        still_server.nack(subscription, still_server.pull(subscription))
        name = subscription.rsplit("/", 1)[1]
        reader = f"projects/test/subscriptions/{name}.dead-letters"
        assert data(still_server.await_pull(reader)) == [b"x"]

    def test_it_survives_a_restart(self, start_server):
        server = start_server()
        topic = server.topic()
        subscription = server.subscription(topic, labels={"fanlog-dead-letter": "auto"})
        server.restart()
        name = subscription.rsplit("/", 1)[1]
        assert server.pull(f"projects/test/subscriptions/{name}.dead-letters") == []
