"""Nacks that say more than "again": later, never, and why; through the official client."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument

POLICY_MAX = 5


def nack(server, subscription, held, **said):
    server.subscriber.modify_ack_deadline(
        subscription=subscription,
        ack_ids=[one.ack_id for one in held],
        ack_deadline_seconds=0,
        metadata=[(f"fanlog-{key.replace('_', '-')}", value) for key, value in said.items()],
    )


@pytest.fixture
def topics(still_server):
    """A topic and its dead letter topic, read by a subscription each."""
    letters = still_server.topic()
    reader = still_server.subscription(letters)
    topic = still_server.topic()
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": POLICY_MAX}
    return topic, still_server.subscription(topic, dead_letter_policy=policy), reader


def test_a_delay_is_kept(still_server):
    topic = still_server.topic()
    subscription = still_server.subscription(topic)
    still_server.publish(topic, b"x")
    nack(still_server, subscription, still_server.pull(subscription), delay_seconds="90")
    still_server.advance(89)
    assert still_server.pull(subscription) == []
    still_server.advance(2)
    assert [one.message.data for one in still_server.pull(subscription)] == [b"x"]


def test_a_delay_goes_before_the_retry_policy(still_server):
    topic = still_server.topic()
    policy = {"minimum_backoff": {"seconds": 600}, "maximum_backoff": {"seconds": 600}}
    subscription = still_server.subscription(topic, retry_policy=policy)
    still_server.publish(topic, b"x")
    nack(still_server, subscription, still_server.pull(subscription), delay_seconds="0")
    assert len(still_server.pull(subscription)) == 1


def test_never_again_is_a_dead_letter_at_once(still_server, topics):
    topic, subscription, reader = topics
    still_server.publish(topic, b"x")
    held = still_server.pull(subscription)
    nack(still_server, subscription, held, requeue="false", reason="no such order")
    [letter] = still_server.await_pull(reader)
    attributes = letter.message.attributes
    assert attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "1"
    assert attributes["fanlog-dead-letter-reason"] == (
        "1 of 5 delivery attempts, nacked for good: no such order"
    )
    assert still_server.pull(subscription) == []


def test_in_order_those_behind_it_go_on(still_server):
    letters = still_server.topic()
    reader = still_server.subscription(letters)
    topic = still_server.topic()
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": POLICY_MAX}
    subscription = still_server.subscription(
        topic, dead_letter_policy=policy, enable_message_ordering=True
    )
    still_server.publish(topic, b"1", b"2", b"3", key="k")
    held = still_server.pull(subscription)
    nack(still_server, subscription, held[:1], requeue="false")
    assert [one.message.data for one in still_server.await_pull(reader)] == [b"1"]
    assert [one.message.data for one in still_server.await_pull(subscription)] == [b"2", b"3"]


def test_a_reason_waits_for_the_letter(still_server, topics):
    topic, subscription, reader = topics
    still_server.publish(topic, b"x")
    for attempt in range(POLICY_MAX):
        said = {"reason": "bad customer"} if attempt == 2 else {}
        nack(still_server, subscription, still_server.pull(subscription), **said)
    [letter] = still_server.await_pull(reader)
    reason = letter.message.attributes["fanlog-dead-letter-reason"]
    assert reason == "5 of 5 delivery attempts, the last one nacked: bad customer"


def test_without_a_policy_there_is_nowhere_to_go(still_server):
    topic = still_server.topic()
    subscription = still_server.subscription(topic)
    still_server.publish(topic, b"x")
    held = still_server.pull(subscription)
    with pytest.raises(FailedPrecondition, match="has no dead letter policy"):
        nack(still_server, subscription, held, requeue="false")
    assert still_server.pull(subscription) == [], "nothing changed"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"requeue": "no"}, "fanlog-requeue: 'no' is not 'true' or 'false'"),
        ({"delay_seconds": "soon"}, "fanlog-delay-seconds: 'soon' is out of range; 0 to 43200"),
        ({"delay_seconds": "nan"}, "fanlog-delay-seconds: 'nan' is out of range"),
        ({"delay_seconds": "43201"}, "fanlog-delay-seconds: '43201' is out of range"),
        ({"requeue": "false", "delay_seconds": "1"}, "not requeued has no next delivery"),
        ({"reason": "x" * 513}, "fanlog-reason: 513 bytes; at most 512 are allowed"),
    ],
)
def test_what_makes_no_sense_is_refused(still_server, topics, said, sentence):
    topic, subscription, _ = topics
    still_server.publish(topic, b"x")
    held = still_server.pull(subscription)
    with pytest.raises(InvalidArgument, match=sentence):
        nack(still_server, subscription, held, **said)
    assert still_server.pull(subscription) == [], "nothing changed"


def test_it_speaks_of_nacks_only(still_server, topics):
    topic, subscription, _ = topics
    still_server.publish(topic, b"x")
    [held] = still_server.pull(subscription)
    with pytest.raises(InvalidArgument, match="speaks of a nack, but ack_deadline_seconds is 20"):
        still_server.subscriber.modify_ack_deadline(
            subscription=subscription,
            ack_ids=[held.ack_id],
            ack_deadline_seconds=20,
            metadata=[("fanlog-reason", "slow")],
        )
