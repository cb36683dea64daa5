"""Fanlog's own client: publish and pull as with Google's, and take an acknowledgement back."""

from datetime import timedelta

import fanlog

TOPIC = "projects/examples/topics/own"
SUBSCRIPTION = "projects/examples/subscriptions/own"

with fanlog.Client() as client:
    hour = timedelta(hours=1)
    client.create_topic(fanlog.types.Topic(name=TOPIC, message_retention_duration=hour))
    client.create_subscription(fanlog.types.Subscription(name=SUBSCRIPTION, topic=TOPIC))
    [message_id] = client.publish(TOPIC, [fanlog.types.PubsubMessage(data=b"two chairs")])

    [received] = client.pull(SUBSCRIPTION, max_messages=1, wait_s=10)
    print("received", received.message.data.decode())
    client.acknowledge(SUBSCRIPTION, [received.ack_id])

    done = fanlog.ReopenClient(client).reopen(SUBSCRIPTION, message_ids=[message_id])
    print("reopened", done.reopened)
    [received] = client.pull(SUBSCRIPTION, max_messages=1, wait_s=10)
    print("received", received.message.data.decode())

    try:
        client.publish(TOPIC + "-none", [fanlog.types.PubsubMessage(data=b"lost")])
    except fanlog.CallFailed as failure:
        print(failure.status)
    client.delete_subscription(SUBSCRIPTION)
    client.delete_topic(TOPIC)
