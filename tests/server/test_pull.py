"""Pull, Acknowledge and ModifyAckDeadline through Google's own client."""

from __future__ import annotations


def test_a_message_comes_back_as_it_was_published(server):
    topic, subscription = server.topic_and_subscription()
    [message_id] = server.publish(topic, b"hello", colour="red")

    [received] = server.pull(subscription)

    assert received.message.data == b"hello"
    assert received.message.attributes == {"colour": "red"}
    assert received.message.message_id == message_id
    server.ack(subscription, [received])
    assert server.pull(subscription) == []
