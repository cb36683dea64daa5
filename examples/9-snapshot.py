"""A snapshot before a risky change, and back to it: what was processed since comes again."""

from google.cloud import pubsub_v1

publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
topic = publisher.topic_path("examples", "replay-clicks")
subscription = subscriber.subscription_path("examples", "replay-counter")
snapshot = subscriber.snapshot_path("examples", "before-deploy")


def drain() -> list[str]:
    answer = subscriber.pull(
        subscription=subscription, max_messages=100, return_immediately=True
    ).received_messages
    if answer:
        subscriber.acknowledge(
            subscription=subscription, ack_ids=[received.ack_id for received in answer]
        )
    return [received.message.data.decode() for received in answer]


publisher.create_topic(name=topic)
subscriber.create_subscription(name=subscription, topic=topic)

publisher.publish(topic, b"before").result()
print("processed", drain())

subscriber.create_snapshot(name=snapshot, subscription=subscription)
for number in range(3):
    publisher.publish(topic, f"after {number}".encode()).result()
print("processed", drain())

subscriber.seek(request={"subscription": subscription, "snapshot": snapshot})
print("again    ", drain())
